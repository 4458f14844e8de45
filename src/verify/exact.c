/* SPDX-License-Identifier: Apache-2.0 */
#include "verify/exact.h"

#include <float.h>
#include <math.h>

#include "verify/check_case.h"
#include "verify/reference_parts.h"

/* Where a row of scores is. */
typedef struct row_at {
  size_t b, h, i;
} row_at;

/* The weight that must come out, before the roundings of a device. */
typedef double (*weight_rule)(const check_case *check, row_at at, size_t j);
typedef double (*lse_rule)(const check_case *check, row_at at);

static size_t key_head(const check_row *row, row_at at) {
  return at.h / (row->heads / row->kv_heads);
}

static void fill(check_case *check, int place, double value) {
  numbers *data = &check->arrays[place].data;
  for (size_t i = 0; i < data->count; i++) data->value[i] = value;
}

/* Results from weights. A weight is off by a difference of scores, an exponential, a sum of equal terms and a quotient,
 * 16 u in all; those that may be flushed to 0 by the smallest normal number. A weight of 0 is exactly 0. */
static void expect_row(check_case *check, row_at at, weight_rule weight, lse_rule lse) {
  const check_row *r = &check->row;
  const double u = reference_unit(check->compute), tiny = check->compute == CLATTN_FLOAT64 ? DBL_MIN : (double)FLT_MIN;
  const double gamma = reference_gamma((double)r->kv_len + 17, u);
  const size_t row = (at.b * r->heads + at.h) * r->q_len + at.i, dv = r->value_dim;
  const double *values = check->arrays[AT_VALUE].data.value + (at.b * r->kv_heads + key_head(r, at)) * r->kv_len * dv;
  numbers *output = &check->arrays[AT_OUTPUT].data, *weights = &check->arrays[AT_WEIGHTS].data;
  for (size_t j = 0; j < r->kv_len; j++) {
    const double w = weight(check, at, j);
    if (weights->count > 0) {
      weights->value[row * r->kv_len + j] = w;
      weights->error[row * r->kv_len + j] = w > 0 ? 16 * u * w + tiny : 0;
    }
    for (size_t d = 0; d < dv && w != 0; d++) {
      output->value[row * dv + d] += w * values[j * dv + d];
      output->error[row * dv + d] += gamma * w * fabs(values[j * dv + d]) + 2 * tiny;
    }
  }
  numbers *sums = &check->arrays[AT_LOG_SUM_EXP].data;
  if (sums->count == 0) return;
  const double sum = lse(check, at);
  sums->value[row] = sum;
  sums->error[row] = isinf(sum) ? 0 : 16 * u * (1 + fabs(sum));
}

static void expect(check_case *check, weight_rule weight, lse_rule lse) {
  const check_row *r = &check->row;
  for (size_t b = 0; b < r->batch; b++)
    for (size_t h = 0; h < r->heads; h++)
      for (size_t i = 0; i < r->q_len; i++) expect_row(check, (row_at){b, h, i}, weight, lse);
}

/* ------------------------------------------------------------------------------------------------------------ means */

static int mask_blocks(const check_case *check, row_at at, size_t j) {
  const size_t index[4] = {at.b, at.h, at.i, j};
  for (size_t m = 0; m < check->options.mask_count; m++) {
    const check_array *mask = &check->arrays[AT_MASKS + m];
    size_t element = 0;
    for (int d = 0; d < 4; d++) element = element * mask->view.shape[d] + index[d] % mask->view.shape[d];
    const double value = mask->data.value[element];
    const clattn_mask_kind kind = check->row.masks[m].kind;
    if (kind == CLATTN_MASK_BLOCK ? value != 0 : kind == CLATTN_MASK_KEEP ? value == 0 : isinf(value)) return 1;
  }
  return 0;
}

static int is_allowed(const check_case *check, row_at at, size_t j) {
  const check_row *r = &check->row;
  const size_t bottom = r->causal == CLATTN_CAUSAL_BOTTOM_RIGHT ? r->kv_len : r->q_len;
  if (r->causal != CLATTN_CAUSAL_NONE && j + r->q_len > at.i + bottom) return 0;
  if (r->window && j + (size_t)r->window_left < at.i) return 0;
  if (r->window && j > at.i + (size_t)r->window_right) return 0;
  return !mask_blocks(check, at, j);
}

static size_t count_allowed(const check_case *check, row_at at) {
  size_t count = 0;
  for (size_t j = 0; j < check->row.kv_len; j++) count += (size_t)is_allowed(check, at, j);
  return count;
}

static double mean_weight(const check_case *check, row_at at, size_t j) {
  return is_allowed(check, at, j) ? 1 / (double)count_allowed(check, at) : 0;
}

static double mean_lse(const check_case *check, row_at at) {
  const size_t count = count_allowed(check, at);
  return count > 0 ? log((double)count) : -HUGE_VAL;
}

void fill_means(check_case *check) {
  fill(check, AT_QUERY, 0);
  expect(check, mean_weight, mean_lse);
}

void fill_blocks(check_case *check) {
  numbers *mask = &check->arrays[AT_MASKS].data;
  const size_t s = check->row.kv_len;
  for (size_t j = 0; j < s; j++) {
    mask->value[j] = j < 512 ? -HUGE_VAL : 0;
    mask->value[s + j] = j < s - 512 ? 0 : -HUGE_VAL;
  }
  fill_means(check);
}

/* --------------------------------------------------------------------------------------------------- single weights */

enum { CHOSEN = 3 };

static double huge_weight(const check_case *check, row_at at, size_t j) {
  if (at.i == 0) return j == CHOSEN ? 1 : 0;
  return j == CHOSEN ? 0 : 1 / (double)(check->row.kv_len - 1);
}

/* Scores of 1e30 for the chosen key and -1e30 for the others, and for the second query the other way round. */
void fill_huge(check_case *check) {
  numbers *query = &check->arrays[AT_QUERY].data, *key = &check->arrays[AT_KEY].data;
  const double size = number_nearest(CLATTN_FLOAT32, 1e15);
  for (size_t i = 0; i < query->count; i++) query->value[i] = i % 2 == 0 ? size : -size;
  for (size_t j = 0; j < key->count; j++) key->value[j] = j % check->row.kv_len == CHOSEN ? size : -size;
  expect(check, huge_weight, NULL);
}

static double finite_weight(const check_case *check, row_at at, size_t j) {
  if (at.i == 0) return 1 / (double)check->row.kv_len;
  return j == CHOSEN ? 1 : 0;
}

/* The sum of such a mask and a score is the mask, in both arithmetics. */
void fill_finite_mask(check_case *check) {
  fill(check, AT_MASKS, number_nearest(CLATTN_FLOAT32, -3.4e38));
  check->arrays[AT_MASKS].data.value[check->row.kv_len + CHOSEN] = 0;
  expect(check, finite_weight, NULL);
}

static double last_weight(const check_case *check, row_at at, size_t j) {
  (void)at;
  return j + 1 == check->row.kv_len ? 1 : 0;
}

/* A score of 100 for the last key, in its last feature, against 0: the others weigh exp(-100), which no bound sees. */
void fill_needle(check_case *check) {
  const check_row *r = &check->row;
  numbers *query = &check->arrays[AT_QUERY].data, *key = &check->arrays[AT_KEY].data;
  const double high = number_nearest(CLATTN_FLOAT32, 100 * sqrt((double)r->head_dim));
  for (size_t i = 0; i < query->count; i++) query->value[i] = (i + 1) % r->head_dim == 0 ? 1 : 0;
  for (size_t i = 0; i < key->count; i++) key->value[i] = (i + 1) % (r->head_dim * r->kv_len) == 0 ? high : 0;
  expect(check, last_weight, NULL);
}

/* Deep enough that exp() of it is subnormal in the arithmetic. */
static double depth(const check_case *check) {
  return check->compute == CLATTN_FLOAT64 ? -740 : -95;
}

static double subnormal_weight(const check_case *check, row_at at, size_t j) {
  return at.i == j ? 1 : exp(depth(check));
}

static double subnormal_lse(const check_case *check, row_at at) {
  return at.i == 0 ? 0 : -depth(check);
}

/* Scores 0 and -95, then 0 and 95. */
void fill_subnormal(check_case *check) {
  numbers *query = &check->arrays[AT_QUERY].data, *key = &check->arrays[AT_KEY].data;
  for (size_t i = 0; i < query->count; i++) query->value[i] = i % 2 == 0 ? 1 : -1;
  for (size_t j = 0; j < key->count; j++) key->value[j] = j % 2 == 0 ? 0 : depth(check);
  expect(check, subnormal_weight, subnormal_lse);
}

/* ---------------------------------------------------------------------------------------------------------- dropout */

/* Bit j: key j is kept, for (b,h,i) row by row, with p = 1/2, seed 0x0123456789abcdef and call 7. From a program of its
 * own after the paper: counter (j/4, i, b*3 + h, 7), key (0x89abcdef, 0x01234567), word j % 4 at least 2^31. */
static double pattern_weight(const check_case *check, row_at at, size_t j) {
  static const unsigned char kept[12] = {0x9d, 0x98, 0x8c, 0x89, 0x91, 0x09, 0x9c, 0xb9, 0x42, 0x69, 0xf4, 0xae};
  const size_t row = (at.b * check->row.heads + at.h) * check->row.q_len + at.i;
  return kept[row] >> j & 1 ? 2.0 / 8 : 0;
}

void fill_pattern(check_case *check) {
  fill(check, AT_QUERY, 0);
  expect(check, pattern_weight, NULL);
}

/* Words 0x6627e8d5 e169c58d bc57ac4c 9b00dbd8 for counter and key 0 (Random123's kat_vectors); 0.65 * 2^32 is
 * 0xa6666666. */
static double known_weight(const check_case *check, row_at at, size_t j) {
  (void)check;
  (void)at;
  return j == 1 || j == 2 ? 0.25 / (1 - 0.65) : 0;
}

void fill_known_answer(check_case *check) {
  fill(check, AT_QUERY, 0);
  expect(check, known_weight, NULL);
}

/* ------------------------------------------------------------------------------------------------------------ large */

static size_t chosen_feature(const check_row *row, size_t i) {
  return i * 7 % row->head_dim;
}

static double feature_weight(const check_case *check, row_at at, size_t j) {
  const size_t d = check->row.head_dim, f = chosen_feature(&check->row, at.i);
  const size_t keys = check->row.kv_len / d + (f < check->row.kv_len % d);
  return j % d == f ? 1 / (double)keys : 0;
}

/* Key j has feature j % D, query i looks for one: scores of 100 and 0. */
void fill_large(check_case *check) {
  const check_row *r = &check->row;
  fill(check, AT_QUERY, 0);
  fill(check, AT_KEY, 0);
  for (size_t i = 0; i < r->heads * r->q_len; i++)
    check->arrays[AT_QUERY].data.value[i * r->head_dim + chosen_feature(r, i % r->q_len)] = 10;
  for (size_t j = 0; j < r->kv_heads * r->kv_len; j++)
    check->arrays[AT_KEY].data.value[j * r->head_dim + j % r->kv_len % r->head_dim] = 10;
  expect(check, feature_weight, NULL);
}

static size_t permuted(size_t i, size_t step, size_t count) {
  return i * step % count; /* a permutation: the steps have no factor in common with the count */
}

/* Scores are equal, since queries and keys are their biases. Value feature n is input feature permuted(n, 11), output o
 * is value feature permuted(o, 13): Y[t,o] = mean over s of X[s,...], plus biases. */
void fill_large_layer(check_case *check) {
  const check_row *r = &check->row;
  const size_t width = r->embed;
  const double *bv = check->arrays[AT_PARAMETERS + CLATTN_BV].data.value,
               *bo = check->arrays[AT_PARAMETERS + CLATTN_BO].data.value, *x = check->arrays[AT_VALUE].data.value;
  numbers *output = &check->arrays[AT_OUTPUT].data;
  for (int which = CLATTN_WQ; which <= CLATTN_WO; which++) fill(check, AT_PARAMETERS + which, 0);
  for (size_t n = 0; n < width; n++) {
    check->arrays[AT_PARAMETERS + CLATTN_WV].data.value[n * width + permuted(n, 11, width)] = 1;
    check->arrays[AT_PARAMETERS + CLATTN_WO].data.value[n * width + permuted(n, 13, width)] = 1;
  }
  const double gamma = reference_gamma((double)(r->kv_len + 32), reference_unit(check->compute));
  for (size_t o = 0; o < width; o++) {
    const size_t n = permuted(o, 13, width), e = permuted(n, 11, width);
    double sum = 0, absolute = 0;
    for (size_t s = 0; s < r->kv_len; s++) {
      sum += x[s * width + e];
      absolute += fabs(x[s * width + e]);
    }
    for (size_t t = 0; t < r->q_len; t++) {
      output->value[t * width + o] = sum / (double)r->kv_len + bv[n] + bo[o];
      output->error[t * width + o] = gamma * (absolute / (double)r->kv_len + fabs(bv[n]) + fabs(bo[o]));
    }
  }
}

/* ----------------------------------------------------------------------------------------------------------- others */

/* Without a key the heads are 0, and the output is its bias, bit for bit. */
void fill_blocked_layer(check_case *check) {
  numbers *output = &check->arrays[AT_OUTPUT].data;
  const numbers *bias = &check->arrays[AT_PARAMETERS + CLATTN_BO].data;
  fill(check, AT_MASKS, 0);
  for (size_t i = 0; i < output->count; i++) output->value[i] = bias->value[i % bias->count];
}

/* Value and what is stored of it. The one key has weight 1, so the output is the value. */
void fill_rounding(check_case *check) {
  static const double half[ROUNDING_VALUES][2] = {
      {65504, 65504},
      {65519, 65504},
      {65520, HUGE_VAL}, /* a tie between the largest number and what would be next */
      {-65520, -HUGE_VAL},
      {1e30, HUGE_VAL},
      {2049, 2048}, /* ties go to the even neighbour */
      {2051, 2052},
      {2051.5, 2052},
      {-2050.5, -2050},
      {0x1p-24, 0x1p-24},        /* the smallest subnormal */
      {0x1p-25, 0},              /* a tie between it and 0 */
      {0x1.000002p-25, 0x1p-24}, /* just above */
      {0x1.8p-24, 0x1p-23},
      {0x1.ffcp-15, 0x1p-14}, /* a tie at the smallest normal number */
  };
  static const double bfloat[ROUNDING_VALUES][2] = {
      {0x1.fep127, 0x1.fep127},
      {0x1.fefffep127, 0x1.fep127},
      {0x1.ffp127, HUGE_VAL},
      {-0x1.fffffep127, -HUGE_VAL},
      {0x1.01p0, 1},
      {0x1.03p0, 0x1.04p0},
      {0x1.010002p0, 0x1.02p0},
      {0x1.00fffep0, 1},
      {-0x1.03p0, -0x1.04p0},
      {-0x1.05p10, -0x1.04p10},
      {0x1.feffp-3, 0x1.fep-3},
      {0x1.ffp-3, 0x1p-2},
      {0x1p-126, 0x1p-126},
      {0x1.01p-120, 0x1p-120},
  };
  const double(*table)[2] = check->row.types[3] == CLATTN_FLOAT16 ? half : bfloat;
  for (size_t d = 0; d < ROUNDING_VALUES; d++) {
    check->arrays[AT_VALUE].data.value[d] = table[d][0];
    check->arrays[AT_OUTPUT].data.value[d] = table[d][1];
  }
}
