/* SPDX-License-Identifier: Apache-2.0 */
#include "rng.h"

uint64_t rng_next(test_rng *rng) {
  uint64_t z = rng->state += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

size_t rng_below(test_rng *rng, size_t count) {
  return (size_t)(rng_next(rng) % count);
}

double rng_uniform(test_rng *rng) {
  return (double)(rng_next(rng) >> 11) * 0x1p-53;
}

double rng_normal(test_rng *rng) {
  double sum = -6;
  for (int i = 0; i < 12; i++) sum += rng_uniform(rng);
  return sum;
}
