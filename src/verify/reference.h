/* SPDX-License-Identifier: Apache-2.0
 *
 * A plain scalar reference of attention and of the layer, in double: what the self check compares devices with.
 *
 * Every value comes with a bound of the distance that a right implementation may have from it, whatever the order of
 * its sums: gamma(n) = n u / (1 - n u) times the sum of absolute terms for n roundings (Higham, "Accuracy and Stability
 * of Numerical Algorithms", 2nd ed., 2002, lemma 3.1), with u = 2^-24 or 2^-53 of the arithmetic plus 2^-53 of the
 * reference itself. Functions err by what OpenCL 1.2, section 7.4, allows: exp and log 3 ulp, tanh 5 ulp, division 2.5
 * ulp; an ulp is 2 u at most. Results below the smallest normal number may be flushed to 0. */
#ifndef CLATTN_VERIFY_REFERENCE_H
#define CLATTN_VERIFY_REFERENCE_H

#include "verify/numbers.h"

/* `values` lies row-major over `shape`, which lines up with [B,H,T,S]; an extent of 1 repeats. */
typedef struct reference_mask {
  clattn_mask_kind kind;
  size_t shape[4];
  const double *values;
} reference_mask;

/* One call. Of `options`, what is no array counts: scale, rules, soft cap, zero key, dropout, mask_count. */
typedef struct reference_call {
  size_t batch, heads, kv_heads, q_len, kv_len, head_dim, value_dim;
  clattn_type compute;
  const clattn_options *options;
  const reference_mask *masks; /* [options->mask_count] */
  const double *slopes;        /* [H], or [B,H] with slopes_per_entry; NULL: none */
  int slopes_per_entry;
  const double *kv_lengths, *q_lengths; /* [B], NULL: none */
  numbers query, key, value;            /* [B,H,T,D], [B,G,S,D], [B,G,S,Dv] */
  numbers bias_key, bias_value;         /* [G*D], [G*Dv]; count 0: none */
} reference_call;

/* C = S and the extra keys. */
typedef struct reference_result {
  numbers output;      /* [B,H,T,Dv]; of a layer [B,T,Eo] */
  numbers weights;     /* [B,H,T,C] */
  numbers mean;        /* [B,T,C] */
  numbers log_sum_exp; /* [B,H,T] */
} reference_result;

/* 0 if the host has no memory for it; nothing to be freed then. */
int reference_attend(const reference_call *call, reference_result *result);

/* A layer: `call` without query, key, value and bias, which come from inputs and parameters. */
typedef struct reference_layer {
  reference_call call;
  clattn_mha_config config;                  /* every field filled in */
  numbers input[3];                          /* [B,T,E], [B,S,Ek], [B,S,Ev] */
  numbers parameter[CLATTN_PARAMETER_COUNT]; /* count 0: none */
} reference_layer;

int reference_forward(const reference_layer *layer, reference_result *result);

void reference_result_free(reference_result *result);

#endif
