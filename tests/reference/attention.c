/* SPDX-License-Identifier: Apache-2.0
 *
 * Scaled dot-product attention a row at a time: scores, masks and rules, softmax, values. */
#include "reference.h"

#include <stdlib.h>

/* One row of scores while it goes through the stages: [S + X] each. */
typedef struct score_row {
  size_t count;
  double *score, *error; /* scaled and masked scores, and the bound of each one's error */
  int *blocked;
  double maximum, sum; /* of the scores that take part; sum of e[j] = exp(score[j] - maximum) */
  double sum_error;    /* relative bound of the error of `sum` */
  size_t live;         /* how many take part */
} score_row;

typedef struct row_index {
  size_t b, h, i;
} row_index;

static size_t columns_of(const ref_attention *p) {
  return p->kv_len + p->extra_keys;
}

/* A key or value, [width], with its errors. */
typedef struct ref_vector {
  const double *value, *bound;
} ref_vector;

static ref_vector vector_of(const ref_attention *p, const ref_array *own, const ref_array *extra, row_index row,
                            size_t j, size_t width) {
  const size_t g = row.h / (p->heads / p->kv_heads);
  const ref_array *from = j < p->kv_len ? own : extra;
  const size_t at =
      j < p->kv_len ? ((row.b * p->kv_heads + g) * p->kv_len + j) * width : (g * p->extra_keys + j - p->kv_len) * width;
  return (ref_vector){from->value + at, from->bound + at};
}

/* score[j] = scale * sum_d q[d] * k[j][d]
 *
 * Rounding: a product and D - 1 additions, so D roundings on every term; the scale may be split over both factors, each
 * rounded to the type and multiplied in: 4 more. Error of the inputs: |q+dq||k+dk| - |q||k| to all orders. */
static void compute_scores(const ref_attention *p, row_index row, score_row *out) {
  const size_t D = p->head_dim, q0 = ((row.b * p->heads + row.h) * p->q_len + row.i) * D;
  const double scale = p->scale == CLATTN_SCALE_AUTO ? 1 / sqrt((double)D) : p->scale;
  const double gamma = ref_gamma((double)D + 4, p->arithmetic.unit);
  for (size_t j = 0; j < columns_of(p); j++) {
    const ref_vector key = vector_of(p, &p->key, &p->extra_key, row, j, D);
    double sum = 0, magnitude = 0, propagated = 0;
    for (size_t d = 0; d < D; d++) {
      const double q = p->query.value[q0 + d], k = key.value[d];
      const double dq = p->query.bound[q0 + d], dk = key.bound[d];
      sum += q * k;
      magnitude += (fabs(q) + dq) * (fabs(k) + dk);
      propagated += dq * fabs(k) + fabs(q) * dk + dq * dk;
    }
    out->score[j] = scale * sum;
    out->error[j] = fabs(scale) * (gamma * magnitude + propagated);
  }
}

/* score = cap * tanh(score / cap), for extra keys, too.
 *
 * The slope is at most 1, so an error of the score stays at most as large; far out it is squeezed, and the ends of its
 * interval tell by how much. Rounding: cap rounded to the type where it divides and where it multiplies, a quotient
 * (2.5 ulp), tanh (5 ulp) and a product. A relative error of tanh's argument is no larger in its value: the ratio of
 * the two is 2x / sinh(2x). A quotient that is flushed to 0 loses cap * tiny. */
static void apply_soft_cap(const ref_attention *p, score_row *out) {
  const double cap = p->rules.soft_cap, gamma = ref_gamma(1 + 5 + 10 + 1 + 1, p->arithmetic.unit);
  if (cap == 0) return;
  for (size_t j = 0; j < columns_of(p); j++) {
    const double capped = cap * tanh(out->score[j] / cap);
    const double above = cap * tanh((out->score[j] + out->error[j]) / cap);
    const double below = cap * tanh((out->score[j] - out->error[j]) / cap);
    const double moved = fmax(above - capped, capped - below);
    out->score[j] = capped;
    out->error[j] = moved + gamma * (fabs(capped) + moved) + (cap + 1) * p->arithmetic.tiny;
  }
}

static int64_t key_count(const ref_attention *p, size_t b) {
  const int64_t all = (int64_t)p->kv_len;
  if (!p->rules.kv_lengths) return all;
  const int64_t own = p->rules.kv_lengths[b];
  return own < 0 ? 0 : own < all ? own : all;
}

/* Of the query among the keys: i, moved by the causal rule in force. */
static int64_t position_of(const ref_attention *p, row_index row) {
  int64_t offset = 0;
  if (p->rules.causal == CLATTN_CAUSAL_BOTTOM_RIGHT) offset = key_count(p, row.b) - (int64_t)p->q_len;
  if (p->rules.causal == CLATTN_CAUSAL_OFFSET) offset = p->rules.causal_offset;
  return (int64_t)row.i + offset;
}

static double mask_value(const ref_mask *mask, row_index row, size_t j) {
  const size_t index[4] = {row.b, row.h, row.i, j};
  size_t at = 0;
  for (int d = 0; d < 4; d++) at = at * mask->shape[d] + (mask->shape[d] == 1 ? 0 : index[d]);
  return mask->values[at];
}

static double slope_of(const ref_attention *p, row_index row) {
  return p->rules.alibi_slopes ? p->rules.alibi_slopes[row.b * p->heads + row.h] : 0;
}

static double distance_of(const ref_attention *p, row_index row, size_t j) {
  return fabs((double)(position_of(p, row) - (int64_t)j));
}

/* A sum that passes the largest number of the arithmetic is minus infinity there, and blocks; in float64 it would not.
 */
static int sum_is_minus_infinity(const ref_attention *p, double score, row_index row, size_t j) {
  const double slope = slope_of(p, row), distance = distance_of(p, row, j);
  double wide = score - slope * distance;
  float narrow = (float)score - (float)slope * (float)distance;
  for (size_t m = 0; m < p->rules.mask_count; m++) {
    if (p->rules.masks[m].kind != CLATTN_MASK_ADD) continue;
    const double value = mask_value(&p->rules.masks[m], row, j);
    wide += value;
    narrow = narrow + (float)value;
  }
  return p->arithmetic.single ? narrow == -HUGE_VALF : wide == -HUGE_VAL;
}

/* Slope and masks. Adding n terms in any order: each may be rounded to the type first and goes through at most n
 * additions. The slope's term is a product of two numbers that may be rounded: 2 more. */
static void apply_masks(const ref_attention *p, row_index row, score_row *out) {
  const ref_rules *rules = &p->rules;
  const double slope = slope_of(p, row);
  for (size_t j = 0; j < p->kv_len; j++) {
    const double penalty = slope * distance_of(p, row, j);
    double sum = out->score[j] - penalty, magnitude = fabs(out->score[j]) + fabs(penalty);
    double roundings = rules->alibi_slopes ? 3 : 0;
    for (size_t m = 0; m < rules->mask_count; m++) {
      const double value = mask_value(&rules->masks[m], row, j);
      if (rules->masks[m].kind == CLATTN_MASK_BLOCK && value != 0) out->blocked[j] = 1;
      if (rules->masks[m].kind == CLATTN_MASK_KEEP && value == 0) out->blocked[j] = 1;
      if (rules->masks[m].kind != CLATTN_MASK_ADD) continue;
      sum += value;
      magnitude += fabs(value);
      roundings++;
    }
    if (roundings == 0) continue;
    if (sum_is_minus_infinity(p, out->score[j], row, j)) out->blocked[j] = 1;
    out->score[j] = sum;
    out->error[j] += ref_gamma(roundings + 1, p->arithmetic.unit) * (magnitude + out->error[j]);
  }
}

/* Causal rules, windows and lengths are integer arithmetic: they have no error. Only a query's own length blocks extra
 * keys. */
static void apply_rules(const ref_attention *p, row_index row, score_row *out) {
  const ref_rules *rules = &p->rules;
  const int64_t length = key_count(p, row.b), position = position_of(p, row);
  for (int64_t j = 0; j < (int64_t)p->kv_len; j++) {
    const int64_t distance = j - position; /* of the key, behind the query's position */
    int blocked = j >= length;
    blocked |= rules->causal != CLATTN_CAUSAL_NONE && distance > 0;
    blocked |= rules->window_left >= 0 && distance < -rules->window_left;
    blocked |= rules->window_right >= 0 && distance > rules->window_right;
    out->blocked[j] |= blocked;
  }
  if (!rules->q_lengths || (int64_t)row.i < rules->q_lengths[row.b]) return;
  for (size_t j = 0; j < columns_of(p); j++) out->blocked[j] = 1;
}

/* e[j] = exp(score[j] - maximum), and the bound of its absolute error.
 *
 * The exponent errs by the score's own error, by the rounding of the difference, and by the change to base 2 (a rounded
 * constant and a product): 3u of the distance. The function itself errs by 3 ulp. That the computed maximum differs
 * from the true one does no harm: it shifts all exponents alike, and cancels in the quotient. */
static double exponential(const ref_attention *p, const score_row *row, size_t j, double *error) {
  const double u = p->arithmetic.unit, below_subnormal = -746; /* exp(-746) rounds to 0 in float64 */
  const double exponent = row->score[j] - row->maximum;
  const double shift = row->error[j] + 3 * u * (row->error[j] - exponent);
  const double term = exp(exponent);
  *error = p->arithmetic.tiny;
  if (exponent + shift <= below_subnormal) return term;
  *error += shift < 1 ? term * (expm1(shift) + 6 * u * exp(shift)) : exp(exponent + shift) * (1 + 6 * u);
  return term;
}

/* sum = sum_j e[j]: the errors of the terms, and one rounding per addition in any order. */
static void sum_exponentials(const ref_attention *p, score_row *row) {
  row->maximum = -HUGE_VAL;
  row->sum = row->sum_error = 0;
  row->live = 0;
  for (size_t j = 0; j < row->count; j++) {
    if (row->blocked[j]) continue;
    row->live++;
    if (row->score[j] > row->maximum) row->maximum = row->score[j];
  }
  if (row->live == 0) return;
  double error = 0;
  for (size_t j = 0; j < row->count; j++) {
    if (row->blocked[j]) continue;
    double term_error;
    row->sum += exponential(p, row, j, &term_error);
    error += term_error;
  }
  row->sum_error = error / row->sum + ref_gamma((double)row->live, p->arithmetic.unit) * (1 + error / row->sum);
}

/* p[j] = e[j] / sum; with the quotient at 2.5 ulp, or a reciprocal (2.5 ulp) and a product: 6u. It may be flushed to 0.
 * Dropout comes last. */
static void softmax_row(const ref_attention *p, row_index index, const score_row *row, double *weight, double *bound) {
  const double quotient = 6 * p->arithmetic.unit;
  const uint32_t stream = (uint32_t)(index.b * p->heads + index.h);
  for (size_t j = 0; j < row->count; j++) {
    weight[j] = bound[j] = 0;
    if (row->blocked[j]) continue;
    double error;
    weight[j] = exponential(p, row, j, &error) / row->sum;
    bound[j] = HUGE_VAL; /* if the sum may be off by all of itself, nothing can be said */
    if (!(row->sum_error < 1)) continue;
    const double grown = (quotient + row->sum_error) / (1 - row->sum_error);
    bound[j] = weight[j] * grown + error / row->sum * (1 + grown) + p->arithmetic.tiny;
    ref_drop(&p->rules.dropout, &p->arithmetic, stream, index.i, j, &weight[j], &bound[j]);
  }
}

/* log_sum_exp = maximum + ln(sum); the log at 3 ulp, both parts possibly brought from base 2 (2 roundings), one
 * addition. */
static void log_sum_exp_row(const ref_attention *p, const score_row *row, double *value, double *bound) {
  const double u = p->arithmetic.unit;
  *value = -HUGE_VAL;
  *bound = 0;
  if (row->live == 0) return;
  *value = row->maximum + log(row->sum);
  *bound = row->sum_error < 1 ? -log1p(-row->sum_error) : HUGE_VAL;
  *bound += 8 * u * log(row->sum) + 2 * u * fabs(row->maximum) + u * (fabs(row->maximum) + log(row->sum));
}

/* out[d] = sum_j p[j] * v[j][d]: a product and live - 1 additions; one more where the rows are divided at the end. */
static void output_row(const ref_attention *p, row_index index, const score_row *row, const double *weight,
                       const double *weight_bound, double *output, double *bound) {
  const size_t Dv = p->value_head_dim;
  const double gamma = ref_gamma((double)row->live + 1, p->arithmetic.unit);
  for (size_t d = 0; d < Dv; d++) {
    double sum = 0, magnitude = 0, propagated = 0;
    for (size_t j = 0; j < columns_of(p); j++) {
      if (row->blocked[j]) continue;
      const ref_vector value = vector_of(p, &p->value, &p->extra_value, index, j, Dv);
      const double v = value.value[d], dv = value.bound[d];
      sum += weight[j] * v;
      magnitude += (weight[j] + weight_bound[j]) * (fabs(v) + dv);
      propagated += weight_bound[j] * (fabs(v) + dv) + weight[j] * dv;
    }
    output[d] = sum;
    bound[d] = gamma * magnitude + propagated + (double)row->live * p->arithmetic.tiny;
  }
}

/* mean[b,i,j] = sum_h p[b,h,i,j] / H: H - 1 additions, and a division (2.5 ulp) or a product with a rounded 1/H. */
static void average_heads(const ref_attention *p, const ref_array *weights, ref_array *mean) {
  const size_t plane = p->q_len * columns_of(p);
  const double gamma = ref_gamma((double)p->heads + 4, p->arithmetic.unit);
  for (size_t b = 0; b < p->batch; b++) {
    for (size_t e = 0; e < plane; e++) {
      double sum = 0, error = 0;
      for (size_t h = 0; h < p->heads; h++) {
        sum += weights->value[(b * p->heads + h) * plane + e];
        error += weights->bound[(b * p->heads + h) * plane + e];
      }
      const double inexact = sum > 0 || error > 0 ? p->arithmetic.tiny : 0;
      mean->value[b * plane + e] = sum / (double)p->heads;
      mean->bound[b * plane + e] = (error + gamma * (sum + error)) / (double)p->heads + inexact;
    }
  }
}

static void run_row(const ref_attention *p, row_index index, score_row *row, ref_attention_result *result) {
  const size_t r = (index.b * p->heads + index.h) * p->q_len + index.i, S = columns_of(p);
  const size_t Dv = p->value_head_dim;
  for (size_t j = 0; j < S; j++) row->blocked[j] = 0;
  compute_scores(p, index, row);
  apply_soft_cap(p, row);
  apply_masks(p, index, row);
  apply_rules(p, index, row);
  sum_exponentials(p, row);
  double *weight = result->weights.value + r * S, *weight_bound = result->weights.bound + r * S;
  softmax_row(p, index, row, weight, weight_bound);
  log_sum_exp_row(p, row, result->log_sum_exp.value + r, result->log_sum_exp.bound + r);
  output_row(p, index, row, weight, weight_bound, result->output.value + r * Dv, result->output.bound + r * Dv);
}

ref_attention_result ref_attention_run(const ref_attention *p) {
  const size_t rows = p->batch * p->heads * p->q_len, columns = columns_of(p);
  ref_attention_result result = {.weights = ref_array_create(rows * columns),
                                 .mean_weights = ref_array_create(p->batch * p->q_len * columns),
                                 .output = ref_array_create(rows * p->value_head_dim),
                                 .log_sum_exp = ref_array_create(rows)};
  ref_array scratch = ref_array_create(columns);
  score_row row = {.count = columns, .score = scratch.value, .error = scratch.bound};
  row.blocked = calloc(columns + 1, sizeof *row.blocked);
  if (!row.blocked) abort();
  for (size_t b = 0; b < p->batch; b++)
    for (size_t h = 0; h < p->heads; h++)
      for (size_t i = 0; i < p->q_len; i++) run_row(p, (row_index){b, h, i}, &row, &result);
  average_heads(p, &result.weights, &result.mean_weights);
  free(row.blocked);
  ref_array_release(&scratch);
  return result;
}

void ref_attention_result_release(ref_attention_result *result) {
  ref_array_release(&result->weights);
  ref_array_release(&result->mean_weights);
  ref_array_release(&result->output);
  ref_array_release(&result->log_sum_exp);
}
