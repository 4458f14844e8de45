/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention a row at a time: scores, cap and slopes, masks and rules, soft max, dropout, values. */
#include "verify/reference.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "layer/philox.h"
#include "verify/reference_parts.h"

double reference_unit(clattn_type compute) {
  return ldexp(1, compute == CLATTN_FLOAT64 ? -53 : -24) + ldexp(1, -53);
}

double reference_gamma(double n, double unit) {
  return n * unit < 1 ? n * unit / (1 - n * unit) : HUGE_VAL;
}

/* The row of a call that is being computed; columns are the S keys and the extra ones. */
typedef struct score_row {
  const reference_call *call;
  size_t b, h, i, columns;
  double unit, tiny;
  double *score, *error; /* [columns]; minus infinity: blocked */
  double *term;          /* [columns] exp(score - maximum) */
} score_row;

static size_t extra_keys(const reference_call *call) {
  return (size_t)(call->bias_key.count > 0) + (size_t)(call->options->add_zero_key != 0);
}

static double clamped(double length, size_t limit) {
  return length < 0 ? 0 : length > (double)limit ? (double)limit : length;
}

/* Where an element of key or value of column j lies: in the array, in the bias, or nowhere (the zero key). */
typedef struct column_view {
  const double *value, *error; /* NULL: zeros */
} column_view;

static column_view find_column(const reference_call *call, const numbers *keys, const numbers *bias, size_t width,
                               size_t b, size_t g, size_t j) {
  const size_t at = j < call->kv_len ? ((b * call->kv_heads + g) * call->kv_len + j) * width : g * width;
  const numbers *from = j < call->kv_len ? keys : bias;
  const int exists = j < call->kv_len || (j == call->kv_len && bias->count > 0);
  return exists ? (column_view){from->value + at, from->error + at} : (column_view){NULL, NULL};
}

/* score = scale * sum_d q[d] * k[d]: D roundings of each term; 4 more for a scale that is split over both factors. What
 * the inputs err by multiplies in. */
static void compute_score(score_row *row, size_t g, size_t j) {
  const reference_call *call = row->call;
  const size_t d_count = call->head_dim, at = ((row->b * call->heads + row->h) * call->q_len + row->i) * d_count;
  const double *q = call->query.value + at, *dq = call->query.error + at;
  const double given = call->options->scale, scale = isinf(given) ? 1 / sqrt((double)d_count) : given;
  const column_view k = find_column(call, &call->key, &call->bias_key, d_count, row->b, g, j);
  double sum = 0, absolute = 0, carried = 0;
  for (size_t d = 0; d < d_count && k.value != NULL; d++) {
    const double largest = (fabs(q[d]) + dq[d]) * (fabs(k.value[d]) + k.error[d]);
    sum += q[d] * k.value[d];
    absolute += largest;
    carried += largest - fabs(q[d]) * fabs(k.value[d]);
  }
  row->score[j] = scale * sum;
  row->error[j] = fabs(scale) * (reference_gamma((double)d_count + 4, row->unit) * absolute + carried);
}

/* cap * tanh(score / cap). What the score errs by counts with the largest derivative near it, 1 - tanh^2; the quotient,
 * the rounded cap, tanh and the product: 20 u. */
static void apply_cap(score_row *row, size_t j) {
  const double cap = row->call->options->soft_cap, score = row->score[j], error = row->error[j];
  if (!(cap > 0)) return;
  const double nearest = tanh(fabs(score) > error ? (fabs(score) - error) / cap : 0);
  row->score[j] = cap * tanh(score / cap);
  row->error[j] = error * (1 - nearest * nearest) + 20 * row->unit * fabs(row->score[j]) + row->tiny;
}

static double mask_value(const score_row *row, const reference_mask *mask, size_t j) {
  const size_t index[4] = {row->b, row->h, row->i, j};
  size_t at = 0;
  for (int d = 0; d < 4; d++) at = at * mask->shape[d] + (mask->shape[d] == 1 ? 0 : index[d]);
  return mask->values[at];
}

/* Slope and masks, in the order of the call. `narrow` is the sum in the call's own arithmetic: where that is minus
 * infinity the score is blocked, though a double would still hold it. */
static void apply_terms(score_row *row, double position, size_t j) {
  const reference_call *call = row->call;
  const int single = call->compute != CLATTN_FLOAT64;
  double sum = row->score[j], absolute = fabs(sum), narrow = single ? (double)(float)sum : sum;
  size_t terms = 0;
  for (size_t m = 0; m <= call->options->mask_count; m++) {
    double value = 0;
    if (m == 0) {
      if (call->slopes == NULL) continue;
      const size_t at = call->slopes_per_entry ? row->b * call->heads + row->h : row->h;
      value = -call->slopes[at] * fabs(position - (double)j);
      terms++; /* the product */
    } else {
      const reference_mask *mask = &call->masks[m - 1];
      value = mask_value(row, mask, j);
      if (mask->kind != CLATTN_MASK_ADD) {
        if ((value != 0) == (mask->kind == CLATTN_MASK_BLOCK)) narrow = -HUGE_VAL;
        continue;
      }
    }
    sum += value;
    absolute += fabs(value);
    narrow = single ? (double)((float)narrow + (float)value) : narrow + value;
    terms++;
  }
  row->error[j] += reference_gamma((double)terms + 1, row->unit) * (absolute + row->error[j]) * (terms > 0);
  row->score[j] = narrow == -HUGE_VAL ? -HUGE_VAL : sum;
}

static int is_in_reach(const clattn_options *options, double position, double j) {
  if (options->causal != CLATTN_CAUSAL_NONE && j > position) return 0;
  if (options->window_left != CLATTN_WINDOW_NONE && j < position - (double)options->window_left) return 0;
  return options->window_right == CLATTN_WINDOW_NONE || j <= position + (double)options->window_right;
}

static void compute_scores(score_row *row) {
  const reference_call *call = row->call;
  const clattn_options *options = call->options;
  const size_t g = row->h / (call->heads / call->kv_heads);
  const double length =
      call->kv_lengths != NULL ? clamped(call->kv_lengths[row->b], call->kv_len) : (double)call->kv_len;
  double position = (double)row->i;
  if (options->causal == CLATTN_CAUSAL_BOTTOM_RIGHT) position += length - (double)call->q_len;
  if (options->causal == CLATTN_CAUSAL_OFFSET) position += (double)options->causal_offset;
  const int counts = call->q_lengths == NULL || (double)row->i < clamped(call->q_lengths[row->b], call->q_len);
  for (size_t j = 0; j < row->columns; j++) {
    const int extra = j >= call->kv_len;
    row->score[j] = -HUGE_VAL;
    row->error[j] = 0;
    if (!counts || (!extra && ((double)j >= length || !is_in_reach(options, position, (double)j)))) continue;
    compute_score(row, g, j);
    apply_cap(row, j);
    if (!extra) apply_terms(row, position, j);
  }
}

/* Error of exp(x), where x is at most 0 and errs by `error`, by the rounding of the difference that it is, and by a
 * change to base 2: 3 u |x|; the function itself by 3 ulp. */
static double term_error(const score_row *row, double x, double error) {
  const double shift = error + 3 * row->unit * (fabs(x) + error);
  if (x + shift < -746) return row->tiny; /* 0 in every arithmetic */
  return exp(x) * (expm1(shift) + 6 * row->unit * exp(shift)) + row->tiny;
}

/* p = exp(score - maximum) / sum. That a device's maximum is off shifts all exponents alike, and cancels. One bound for
 * the sum serves the whole row: the errors of its terms, and a rounding for each addition. */
static void soft_max(score_row *row, double *weight, double *weight_error, double *lse, double *lse_error) {
  double maximum = -HUGE_VAL, sum = 0, error = 0;
  size_t live = 0;
  for (size_t j = 0; j < row->columns; j++)
    if (row->score[j] > maximum) maximum = row->score[j];
  for (size_t j = 0; j < row->columns; j++) {
    row->term[j] = row->score[j] == -HUGE_VAL ? 0 : exp(row->score[j] - maximum);
    if (row->score[j] == -HUGE_VAL) continue;
    live++;
    sum += row->term[j];
    error += term_error(row, row->score[j] - maximum, row->error[j]);
  }
  *lse = -HUGE_VAL;
  *lse_error = 0;
  if (live == 0) return; /* weights are 0, exactly */
  const double relative = error / sum + reference_gamma((double)live, row->unit) * (1 + error / sum);
  const double lost = relative < 1 ? (relative + 6 * row->unit) / (1 - relative) : HUGE_VAL;
  for (size_t j = 0; j < row->columns; j++) {
    if (row->score[j] == -HUGE_VAL) continue;
    weight[j] = row->term[j] / sum;
    weight_error[j] =
        weight[j] * lost + term_error(row, row->score[j] - maximum, row->error[j]) / sum * (1 + lost) + row->tiny;
  }
  *lse = maximum + log(sum);
  *lse_error = relative < 1 ? -log1p(-relative) : HUGE_VAL;
  *lse_error += row->unit * (9 * log(sum) + 3 * fabs(maximum));
}

int reference_drops(double probability, const clattn_options *options, uint32_t stream, size_t row, size_t column) {
  const uint32_t counter[4] = {(uint32_t)(column / 4), (uint32_t)row, stream, options->dropout_call};
  const uint32_t key[2] = {(uint32_t)options->dropout_seed, (uint32_t)(options->dropout_seed >> 32)};
  uint32_t words[4];
  philox4x32_10(counter, key, words);
  const double threshold = floor(probability * 4294967296.0 + 0.5);
  return (double)words[column % 4] < (threshold < 4294967295.0 ? threshold : 4294967295.0);
}

void reference_drop(double probability, const clattn_options *options, double unit, uint32_t stream, size_t row,
                    size_t column, double *value, double *error) {
  if (!(probability > 0) || options->inference) return;
  const double factor = 1 / (1 - probability); /* a rounded reciprocal and a product */
  const int dropped = reference_drops(probability, options, stream, row, column);
  *error = dropped ? 0 : factor * (*error + 4 * unit * (fabs(*value) + *error));
  *value = dropped ? 0 : factor * *value;
}

/* out[d] = sum_j p[j] v[j,d]: live products and additions, one more where rows are divided at the end. */
static void sum_values(const score_row *row, const double *weight, const double *weight_error, double *output,
                       double *output_error) {
  const reference_call *call = row->call;
  const size_t g = row->h / (call->heads / call->kv_heads), width = call->value_dim;
  const double gamma = reference_gamma((double)row->columns + 1, row->unit);
  for (size_t j = 0; j < row->columns; j++) {
    const column_view v = find_column(call, &call->value, &call->bias_value, width, row->b, g, j);
    if (v.value == NULL || (weight[j] == 0 && weight_error[j] == 0)) continue;
    for (size_t d = 0; d < width; d++) {
      const double largest = (weight[j] + weight_error[j]) * (fabs(v.value[d]) + v.error[d]);
      output[d] += weight[j] * v.value[d];
      output_error[d] += (1 + gamma) * largest - weight[j] * fabs(v.value[d]) + row->tiny;
    }
  }
}

static void run_row(score_row *row, reference_result *result) {
  const reference_call *call = row->call;
  const uint32_t stream = (uint32_t)(row->b * call->heads + row->h);
  const size_t at = (row->b * call->heads + row->h) * call->q_len + row->i;
  double *weight = result->weights.value + at * row->columns, *weight_error = result->weights.error + at * row->columns;
  compute_scores(row);
  soft_max(row, weight, weight_error, &result->log_sum_exp.value[at], &result->log_sum_exp.error[at]);
  for (size_t j = 0; j < row->columns; j++)
    reference_drop(call->options->dropout, call->options, row->unit, stream, row->i, j, &weight[j], &weight_error[j]);
  sum_values(row, weight, weight_error, result->output.value + at * call->value_dim,
             result->output.error + at * call->value_dim);
}

/* mean[b,i,j] = sum_h p[b,h,i,j] / H: H - 1 additions and a quotient. */
static void average(const reference_call *call, double unit, const numbers *weights, numbers *mean) {
  const size_t plane = mean->count / (call->batch > 0 ? call->batch : 1);
  const double heads = (double)call->heads, gamma = reference_gamma(heads + 5, unit);
  for (size_t b = 0; b < call->batch; b++)
    for (size_t h = 0; h < call->heads; h++)
      for (size_t e = 0; e < plane; e++) {
        const size_t at = (b * call->heads + h) * plane + e;
        mean->value[b * plane + e] += weights->value[at] / heads;
        mean->error[b * plane + e] += ((1 + gamma) * weights->error[at] + gamma * weights->value[at]) / heads;
      }
}

void reference_result_free(reference_result *result) {
  numbers_free(&result->output);
  numbers_free(&result->weights);
  numbers_free(&result->mean);
  numbers_free(&result->log_sum_exp);
}

int reference_attend(const reference_call *call, reference_result *result) {
  const size_t columns = call->kv_len + extra_keys(call), rows = call->batch * call->heads * call->q_len;
  numbers scratch = {0}, terms = {0};
  *result = (reference_result){0};
  int good =
      numbers_create(&scratch, columns) && numbers_create(&terms, columns) &&
      numbers_create(&result->output, rows * call->value_dim) && numbers_create(&result->weights, rows * columns) &&
      numbers_create(&result->mean, call->batch * call->q_len * columns) && numbers_create(&result->log_sum_exp, rows);
  score_row row = {.call = call,
                   .columns = columns,
                   .unit = reference_unit(call->compute),
                   .tiny = call->compute == CLATTN_FLOAT64 ? DBL_MIN : (double)FLT_MIN,
                   .score = scratch.value,
                   .error = scratch.error,
                   .term = terms.value};
  for (size_t at = 0; good && at < rows; at++) {
    row.i = at % call->q_len;
    row.h = at / call->q_len % call->heads;
    row.b = at / call->q_len / call->heads;
    run_row(&row, result);
  }
  if (good) average(call, row.unit, &result->weights, &result->mean);
  if (!good) reference_result_free(result);
  numbers_free(&scratch);
  numbers_free(&terms);
  return good;
}
