/* SPDX-License-Identifier: Apache-2.0
 *
 * 16-bit floating-point values as float. Both conversions are exact; a NaN keeps its sign and payload.
 */
#ifndef CLATTN_IO_HALF_H
#define CLATTN_IO_HALF_H

#include <stdint.h>
#include <string.h>

static inline float io_float_of_bits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

/* bfloat16 is the upper half of a float. */
static inline float io_bfloat16_to_float(uint16_t bits) {
  return io_float_of_bits((uint32_t)bits << 16);
}

/* IEEE 754 binary16: 1 sign bit, 5 exponent bits with bias 15, 10 fraction bits; binary32 has 1, 8 with bias 127,
 * and 23. */
static inline float io_half_to_float(uint16_t bits) {
  uint32_t sign = (uint32_t)(bits & 0x8000u) << 16;
  uint32_t exponent = (bits >> 10) & 0x1fu, fraction = bits & 0x3ffu;
  if (exponent == 0x1f) return io_float_of_bits(sign | 0x7f800000u | fraction << 13);
  if (exponent > 0) return io_float_of_bits(sign | (exponent + 127 - 15) << 23 | fraction << 13);
  if (fraction == 0) return io_float_of_bits(sign);
  /* A subnormal, fraction * 2^-24, is a normal float: shift its leading one to where it is implied. */
  exponent = 127 - 14;
  while ((fraction & 0x400u) == 0) {
    fraction <<= 1;
    exponent--;
  }
  return io_float_of_bits(sign | exponent << 23 | (fraction & 0x3ffu) << 13);
}

#endif
