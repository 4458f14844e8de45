/* SPDX-License-Identifier: Apache-2.0
 *
 * Dropout from the description of its counter in the header and of its generator in the paper: Philox4x32-10, Salmon,
 * Moraes, Dror, Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011, section 3.3. */
#include "reference.h"

/* One round: two products of 64 bits; their high halves are mixed with the other words and the key, the words change
 * places. */
static void philox_round(uint32_t c[4], uint32_t key0, uint32_t key1) {
  const uint64_t p = UINT64_C(0xD2511F53) * c[0], q = UINT64_C(0xCD9E8D57) * c[2];
  c[0] = (uint32_t)(q >> 32) ^ c[1] ^ key0;
  c[1] = (uint32_t)q;
  c[2] = (uint32_t)(p >> 32) ^ c[3] ^ key1;
  c[3] = (uint32_t)p;
}

void ref_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t words[4]) {
  const uint32_t weyl[2] = {0x9E3779B9, 0xBB67AE85}; /* the golden ratio and sqrt(3) - 1, times 2^32 */
  for (int i = 0; i < 4; i++) words[i] = counter[i];
  for (uint32_t round = 0; round < 10; round++) philox_round(words, key[0] + round * weyl[0], key[1] + round * weyl[1]);
}

/* A word below p * 2^32, to the nearest integer, drops. */
int ref_is_dropped(const ref_dropout *dropout, uint32_t stream, size_t row, size_t column) {
  const uint32_t counter[4] = {(uint32_t)(column / 4), (uint32_t)row, stream, dropout->call};
  const uint32_t key[2] = {(uint32_t)(dropout->seed & UINT32_MAX), (uint32_t)(dropout->seed >> 32)};
  uint32_t words[4];
  ref_philox(counter, key, words);
  return (double)words[column % 4] < floor(ldexp(dropout->probability, 32) + 0.5);
}

/* A kept number over 1 - p: a quotient (2.5 ulp) whose divisor is rounded, or a product with a rounded reciprocal: 6u.
 */
void ref_drop(const ref_dropout *dropout, const ref_arithmetic *arithmetic, uint32_t stream, size_t row, size_t column,
              double *value, double *bound) {
  const double kept = 1 - dropout->probability, quotient = 6 * arithmetic->unit;
  if (dropout->probability == 0) return;
  if (ref_is_dropped(dropout, stream, row, column)) {
    *value = *bound = 0;
    return;
  }
  if (*value == 0 && *bound == 0) return; /* blocked: exactly 0 */
  *bound = (*bound * (1 + quotient) + quotient * fabs(*value)) / kept + arithmetic->tiny;
  *value /= kept;
}
