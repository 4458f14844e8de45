/* SPDX-License-Identifier: Apache-2.0
 *
 * The layer around attention: projections, heads split and merged, out-projection. */
#include "verify/reference.h"

#include <math.h>

#include "verify/reference_parts.h"

/* y[r,o] = sum_i x[r,i] w[o,i] + b[o]: in + 1 roundings of each term. */
static int project(const numbers *x, const numbers *w, const numbers *b, size_t rows, size_t in, size_t out,
                   double unit, numbers *y) {
  const double gamma = reference_gamma((double)in + 1, unit);
  if (!numbers_create(y, rows * out)) return 0;
  for (size_t r = 0; r < rows; r++)
    for (size_t o = 0; o < out; o++) {
      double sum = b->count > 0 ? b->value[o] : 0, absolute = fabs(sum), carried = 0;
      for (size_t i = 0; i < in; i++) {
        const double a = x->value[r * in + i], c = w->value[o * in + i];
        const double largest = (fabs(a) + x->error[r * in + i]) * (fabs(c) + w->error[o * in + i]);
        sum += a * c;
        absolute += largest;
        carried += largest - fabs(a * c);
      }
      y->value[r * out + o] = sum;
      y->error[r * out + o] = gamma * absolute + carried;
    }
  return 1;
}

/* [B,outer,inner,width] -> [B,inner,outer,width]: rows into heads, and heads into rows. */
static int exchange(const numbers *from, size_t batch, size_t outer, size_t inner, size_t width, numbers *to) {
  if (!numbers_create(to, from->count)) return 0;
  for (size_t at = 0; at < batch * outer * inner * width; at++) {
    const size_t d = at % width, n = at / width % inner, m = at / width / inner % outer, b = at / width / inner / outer;
    const size_t there = ((b * inner + n) * outer + m) * width + d;
    to->value[there] = from->value[at];
    to->error[there] = from->error[at];
  }
  return 1;
}

static int make_heads(const reference_layer *layer, int which, size_t length, size_t in, size_t heads, size_t width,
                      numbers *out) {
  numbers rows = {0};
  const size_t batch = layer->call.batch;
  const double unit = reference_unit(layer->call.compute);
  const int good = project(&layer->input[which], &layer->parameter[CLATTN_WQ + which],
                           &layer->parameter[CLATTN_BQ + which], batch * length, in, heads * width, unit, &rows) &&
                   exchange(&rows, batch, length, heads, width, out);
  numbers_free(&rows);
  return good;
}

/* Queries past their entry's count give 0; dropout falls on the rest. */
static void finish_output(const reference_layer *layer, numbers *output) {
  const reference_call *call = &layer->call;
  const size_t width = layer->config.out_dim;
  const double unit = reference_unit(call->compute);
  for (size_t at = 0; at < output->count; at++) {
    const size_t d = at % width, t = at / width % call->q_len, b = at / width / call->q_len;
    if (call->q_lengths != NULL && (double)t >= call->q_lengths[b]) output->value[at] = output->error[at] = 0;
    reference_drop(call->options->output_dropout, call->options, unit, (uint32_t)b + UINT32_C(0x80000000), t, d,
                   &output->value[at], &output->error[at]);
  }
}

int reference_forward(const reference_layer *layer, reference_result *result) {
  const clattn_mha_config *c = &layer->config;
  reference_call call = layer->call;
  numbers merged = {0}, output = {0};
  *result = (reference_result){0};
  call.query = call.key = call.value = (numbers){0};
  call.bias_key = layer->parameter[CLATTN_BIAS_K];
  call.bias_value = layer->parameter[CLATTN_BIAS_V];
  int good = make_heads(layer, 0, call.q_len, c->embed_dim, c->heads, c->head_dim, &call.query) &&
             make_heads(layer, 1, call.kv_len, c->kdim, c->kv_heads, c->head_dim, &call.key) &&
             make_heads(layer, 2, call.kv_len, c->vdim, c->kv_heads, c->value_head_dim, &call.value) &&
             reference_attend(&call, result);
  good = good && exchange(&result->output, call.batch, c->heads, call.q_len, c->value_head_dim, &merged) &&
         project(&merged, &layer->parameter[CLATTN_WO], &layer->parameter[CLATTN_BO], call.batch * call.q_len,
                 c->heads * c->value_head_dim, c->out_dim, reference_unit(call.compute), &output);
  if (good) {
    finish_output(layer, &output);
    numbers_free(&result->output);
    result->output = output;
  } else {
    numbers_free(&output);
    reference_result_free(result);
  }
  numbers_free(&call.query);
  numbers_free(&call.key);
  numbers_free(&call.value);
  numbers_free(&merged);
  return good;
}
