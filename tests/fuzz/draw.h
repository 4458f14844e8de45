/* SPDX-License-Identifier: Apache-2.0
 *
 * Random attention calls and layers from a seed and a number. Eight cases in a row are of one family: they want the
 * same kernels and differ in all that kernels take as arguments, since building kernels is what costs time. */
#ifndef CLATTN_TESTS_DRAW_H
#define CLATTN_TESTS_DRAW_H

#include "support/attention_case.h"
#include "support/layer_case.h"

enum { DRAW_FAMILY = 8, DRAW_MAX_BATCH = 4, DRAW_MAX_HEADS = 8 };

typedef struct draw_limits {
  size_t length; /* largest number of queries and keys */
  int fp64;      /* 1: the device has float64 */
} draw_limits;

typedef struct drawn_case {
  int is_layer;
  attention_case attention; /* unless is_layer */
  layer_case layer;         /* if is_layer */
  test_request *request;    /* of the one that counts */
  int is_sliced;            /* the call is to get less scratch memory than it would like: draw_scratch_limit */
  int64_t kv_lengths[DRAW_MAX_BATCH], q_lengths[DRAW_MAX_BATCH];
} drawn_case;

/* The case's pointers lead into `drawn` and to constants. */
void draw_case(uint64_t seed, uint64_t number, draw_limits limits, drawn_case *drawn);

/* A limit below what the call would take, and not below the least that it can do with; 0 if there is none such. */
uint64_t draw_scratch_limit(clattn_context *context, drawn_case *drawn);

#endif
