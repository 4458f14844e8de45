/* SPDX-License-Identifier: Apache-2.0
 *
 * A plain scalar reference for attention and for the whole layer, in double, written from the formulas alone.
 *
 * Every number comes with a bound on how far a correct implementation may be from it. Nothing in a bound is tuned: it
 * counts the roundings that any reasonable implementation needs, whatever the order of its sums, whether it uses fused
 * multiply-adds, and whether it scales the queries, the keys or the products. Notation used in the comments:
 *
 *     u          unit roundoff: 2^-24 for float32, 2^-53 for float64. The reference itself rounds in float64, so u
 * stands for the sum of both: |got - want| <= error of got + error of want gamma(n)   n*u / (1 - n*u): relative error
 * of n successive roundings (Higham, "Accuracy and Stability of Numerical Algorithms", 2nd ed., 2002, lemma 3.1). A sum
 * of n products of any order errs by at most gamma(n) * sum |a_i| |b_i| ulp        at most 2u relative. OpenCL 1.2,
 * section 7.4, allows exp, exp2, log and log2 3 ulp, division 2.5 ulp, tanh 5 ulp tiny       the smallest normal
 * number: devices may flush what is smaller to 0
 *
 * A score that is blocked has probability exactly 0, with a bound of exactly 0. */
#ifndef CLATTN_TESTS_REFERENCE_H
#define CLATTN_TESTS_REFERENCE_H

#include <clattn/clattn.h>

#include <stddef.h>
#include <stdint.h>

/* Numbers with the largest allowed distance from each. */
typedef struct ref_array {
  size_t count;
  double *value, *bound;
} ref_array;

/* The arithmetic whose error is to be bounded. */
typedef struct ref_arithmetic {
  double unit; /* u, the reference's own rounding included */
  double tiny;
  int single; /* 1: mask sums overflow as in float32 */
} ref_arithmetic;

ref_arithmetic ref_float32(void);
ref_arithmetic ref_float64(void);

/* n*u / (1 - n*u); infinity where n*u reaches 1. */
double ref_gamma(double n, double unit);

/* One mask term; `shape` lines up with [B,H,T,S], an extent of 1 repeats. In block and keep terms 0 is false. */
typedef struct ref_mask {
  clattn_mask_kind kind;
  size_t shape[4];
  const double *values;
} ref_mask;

/* Probability 0: none. */
typedef struct ref_dropout {
  double probability;
  uint64_t seed;
  uint32_t call;
} ref_dropout;

/* What happens to the scores, which of them take part, and what is dropped. */
typedef struct ref_rules {
  double soft_cap;            /* 0: none */
  const double *alibi_slopes; /* [B,H], or NULL */
  const ref_mask *masks;
  size_t mask_count;
  clattn_causal causal;
  int64_t causal_offset, window_left, window_right; /* windows below 0: none */
  const int64_t *kv_lengths, *q_lengths;            /* [B], or NULL */
  ref_dropout dropout, output_dropout;
} ref_rules;

typedef struct ref_attention {
  size_t batch, heads, kv_heads, q_len, kv_len, head_dim, value_head_dim;
  ref_array query, key, value;      /* [B,H,T,D], [B,G,S,D], [B,G,S,Dv] with the errors they come with */
  size_t extra_keys;                /* X: keys behind the S that no rule but a query length speaks of */
  ref_array extra_key, extra_value; /* [G,X,D], [G,X,Dv] */
  double scale;                     /* CLATTN_SCALE_AUTO: 1/sqrt(D) */
  ref_rules rules;
  ref_arithmetic arithmetic;
} ref_attention;

typedef struct ref_attention_result {
  ref_array weights;      /* [B,H,T,S+X], after dropout */
  ref_array mean_weights; /* [B,T,S+X] */
  ref_array output;       /* [B,H,T,Dv] */
  ref_array log_sum_exp;  /* [B,H,T] */
} ref_attention_result;

typedef struct ref_layer {
  size_t batch, q_len, kv_len, heads, kv_heads, head_dim, value_head_dim;
  size_t embed_dim, kdim, vdim, out_dim;
  ref_array query, key, value;                 /* [B,T,E], [B,S,Ek], [B,S,Ev] */
  ref_array parameter[CLATTN_PARAMETER_COUNT]; /* as in clattn_parameters_create; count 0 where there is none */
  int zero_key;
  double scale;
  ref_rules rules;
  ref_arithmetic arithmetic;
} ref_layer;

typedef struct ref_layer_result {
  ref_attention_result attention;
  ref_array output; /* [B,T,Eo] */
} ref_layer_result;

/* These end the process with a message if the host is out of memory: a test cannot go on then. */
ref_array ref_array_create(size_t count);
/* A copy of `values`, each off by at most `relative` times itself: 0 for exact inputs, u where they are rounded on
 * reading. */
ref_array ref_array_from(const double *values, size_t count, double relative);
void ref_array_release(ref_array *array);
/* What the numbers are once they are stored in `type`, rounded to nearest even; floats smaller than FLT_MIN may be
 * flushed. */
void ref_array_store(ref_array *array, clattn_type type);
/* The number of a type that is nearest to `value`, ties to even; infinity where it is too large. */
double ref_round(clattn_type type, double value);

ref_attention_result ref_attention_run(const ref_attention *problem);
void ref_attention_result_release(ref_attention_result *result);

/* Four words of Philox4x32-10 for a counter and a key. */
void ref_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t words[4]);
/* 1 if the number in `row` and `column` of a stream is dropped. Streams: b*H + h for probabilities, b + 2^31 for a
 * layer's output. */
int ref_is_dropped(const ref_dropout *dropout, uint32_t stream, size_t row, size_t column);
/* A number after dropout, with its bound. */
void ref_drop(const ref_dropout *dropout, const ref_arithmetic *arithmetic, uint32_t stream, size_t row, size_t column,
              double *value, double *bound);

ref_layer_result ref_layer_run(const ref_layer *layer);
void ref_layer_result_release(ref_layer_result *result);

/* The stages of the layer, alone. x [rows,in], weight [out,in], bias [out] or count 0 -> [rows,out]. */
ref_array ref_project(const ref_array *x, const ref_array *weight, const ref_array *bias, size_t rows, size_t in,
                      size_t out, double unit);
/* [B,T,H*D] -> [B,H,T,D] and back. */
ref_array ref_split_heads(const ref_array *x, size_t batch, size_t heads, size_t len, size_t dim);
ref_array ref_merge_heads(const ref_array *x, size_t batch, size_t heads, size_t len, size_t dim);

#endif
