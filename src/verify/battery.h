/* SPDX-License-Identifier: Apache-2.0
 *
 * The checks, a row each: a small call with odd extents, the features that it covers, and how its results are known. */
#ifndef CLATTN_VERIFY_BATTERY_H
#define CLATTN_VERIFY_BATTERY_H

#include "core/trust.h"

enum { CHECK_MASKS = 6 };

/* Dimensions of [B,H,T,S] that a mask has; along the others it repeats. */
enum { AXIS_B = 8, AXIS_H = 4, AXIS_T = 2, AXIS_S = 1, AXES_ALL = 15 };

typedef struct check_mask {
  clattn_mask_kind kind; /* 0: none, and none behind it */
  unsigned axes;
  clattn_type type; /* of added values; 0: that of the arithmetic */
} check_mask;

typedef enum check_layout {
  LAYOUT_DENSE,
  LAYOUT_ROWS,          /* [B,T,H,D] memory with gaps and an odd offset, as views of packed projections are */
  LAYOUT_SEQUENCE_FIRST /* [T,B,E] memory of a layer's inputs and output */
} check_layout;

struct check_case;

/* Fields at 0 ask for the plain thing, extents at 0 take the value in brackets. */
typedef struct check_row {
  const char *names[2]; /* in float32 and in float64 arithmetic */
  unsigned features;    /* of trust_feature: the row must pass before a call that uses all of them */
  int extra;            /* 1: no call waits for it, it is for clattn_verify */
  int single;           /* 1: in float32 arithmetic only */

  size_t batch, heads, kv_heads, q_len, kv_len, head_dim, value_dim; /* [2, 3, heads, 5, 131, 33, head_dim] */
  clattn_type types[4]; /* of query, key, value and output; 0: that of the arithmetic */
  check_layout layout;
  check_mask masks[CHECK_MASKS];
  clattn_causal causal;
  int64_t causal_offset;
  int window; /* 1: window_left and window_right count */
  int64_t window_left, window_right;
  double scale; /* 0: 1 / sqrt(D) */
  double soft_cap, dropout, output_dropout;
  uint64_t dropout_seed;
  uint32_t dropout_call;
  clattn_type slopes; /* 0: none */
  int slopes_per_entry;
  clattn_type kv_lengths, q_lengths;  /* 0: none */
  int zero_key, weights, log_sum_exp; /* weights: 4 per head, 3 averaged */
  uint64_t scratch_limit;             /* for float32; the call must need several slices */
  int lent_scratch;

  size_t embed, kdim, vdim, out_dim; /* of a layer [embed]; embed 0: attention alone */
  int bias_kv;

  void (*fill)(
      struct check_case *check); /* makes inputs with results in closed form; NULL: random ones, and the reference */
} check_row;

extern const check_row battery[];
extern const size_t battery_count;

/* 1 if the row exists in an arithmetic; if a call with these features waits for it. */
int battery_has(const check_row *row, clattn_type compute);
int battery_is_needed(const check_row *row, clattn_type compute, unsigned features);

/* The row's name in an arithmetic. */
const char *battery_name(const check_row *row, clattn_type compute);

#endif
