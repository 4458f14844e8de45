/* SPDX-License-Identifier: Apache-2.0
 *
 * Random numbers from a seed, the same on every machine: SplitMix64 (Steele, Lea, Flood, 2014). */
#ifndef CLATTN_TESTS_RNG_H
#define CLATTN_TESTS_RNG_H

#include <stddef.h>
#include <stdint.h>

typedef struct test_rng {
  uint64_t state;
} test_rng;

uint64_t rng_next(test_rng *rng);
/* In [0, count). */
size_t rng_below(test_rng *rng, size_t count);
/* In [0, 1). */
double rng_uniform(test_rng *rng);
/* Mean 0, variance 1, never beyond 6: the sum of twelve uniform numbers. */
double rng_normal(test_rng *rng);

#endif
