/* SPDX-License-Identifier: Apache-2.0 */
#include "layer/philox.h"

#include <string.h>

/* Multipliers and key increments of the paper's table for 4x32; the increments are the golden ratio and sqrt(3) - 1. */
#define PHILOX_M0 UINT32_C(0xD2511F53)
#define PHILOX_M1 UINT32_C(0xCD9E8D57)
#define PHILOX_W0 UINT32_C(0x9E3779B9)
#define PHILOX_W1 UINT32_C(0xBB67AE85)

void philox4x32_10(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]) {
  uint32_t c[4], k0 = key[0], k1 = key[1];
  memcpy(c, counter, sizeof c);
  for (int round = 0; round < 10; round++) {
    uint64_t p0 = (uint64_t)PHILOX_M0 * c[0], p1 = (uint64_t)PHILOX_M1 * c[2];
    uint32_t next[4] = {(uint32_t)(p1 >> 32) ^ c[1] ^ k0, (uint32_t)p1, (uint32_t)(p0 >> 32) ^ c[3] ^ k1, (uint32_t)p0};
    memcpy(c, next, sizeof c);
    k0 += PHILOX_W0;
    k1 += PHILOX_W1;
  }
  memcpy(out, c, sizeof c);
}
