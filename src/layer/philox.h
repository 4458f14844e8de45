/* SPDX-License-Identifier: Apache-2.0
 *
 * Philox4x32-10, a counter-based generator: four random words for a counter and a key, without state. Salmon, Moraes,
 * Dror, Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011. */
#ifndef CLATTN_LAYER_PHILOX_H
#define CLATTN_LAYER_PHILOX_H

#include <stdint.h>

void philox4x32_10(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

#endif
