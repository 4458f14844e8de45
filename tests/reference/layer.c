/* SPDX-License-Identifier: Apache-2.0
 *
 * The whole layer: projections, heads split, attention, heads merged, out-projection. */
#include "reference.h"

/* y[r,o] = sum_i x[r,i] * w[o,i] + b[o]: a product and in - 1 additions, and one for the bias, in any order. */
ref_array ref_project(const ref_array *x, const ref_array *weight, const ref_array *bias, size_t rows, size_t in,
                      size_t out, double unit) {
  ref_array y = ref_array_create(rows * out);
  const double gamma = ref_gamma((double)in + 1, unit);
  for (size_t r = 0; r < rows; r++) {
    for (size_t o = 0; o < out; o++) {
      double sum = bias->count ? bias->value[o] : 0;
      double propagated = bias->count ? bias->bound[o] : 0, magnitude = fabs(sum) + propagated;
      for (size_t i = 0; i < in; i++) {
        const double a = x->value[r * in + i], b = weight->value[o * in + i];
        const double da = x->bound[r * in + i], db = weight->bound[o * in + i];
        sum += a * b;
        magnitude += (fabs(a) + da) * (fabs(b) + db);
        propagated += da * fabs(b) + fabs(a) * db + da * db;
      }
      y.value[r * out + o] = sum;
      y.bound[r * out + o] = gamma * magnitude + propagated;
    }
  }
  return y;
}

static ref_array exchange(const ref_array *x, size_t batch, size_t outer, size_t inner, size_t dim) {
  ref_array y = ref_array_create(x->count);
  for (size_t b = 0; b < batch; b++)
    for (size_t m = 0; m < outer; m++)
      for (size_t n = 0; n < inner; n++)
        for (size_t d = 0; d < dim; d++) {
          const size_t from = ((b * outer + m) * inner + n) * dim + d, to = ((b * inner + n) * outer + m) * dim + d;
          y.value[to] = x->value[from];
          y.bound[to] = x->bound[from];
        }
  return y;
}

ref_array ref_split_heads(const ref_array *x, size_t batch, size_t heads, size_t len, size_t dim) {
  return exchange(x, batch, len, heads, dim);
}

ref_array ref_merge_heads(const ref_array *x, size_t batch, size_t heads, size_t len, size_t dim) {
  return exchange(x, batch, heads, len, dim);
}

static ref_array project_and_split(const ref_layer *l, const ref_array *x, clattn_parameter weight,
                                   clattn_parameter bias, size_t len, size_t in, size_t heads, size_t dim) {
  ref_array flat =
      ref_project(x, &l->parameter[weight], &l->parameter[bias], l->batch * len, in, heads * dim, l->arithmetic.unit);
  ref_array split = ref_split_heads(&flat, l->batch, heads, len, dim);
  ref_array_release(&flat);
  return split;
}

/* The extra keys or values [G,X,width]: the bias, if there is one, then the zero. */
static ref_array extra_rows(const ref_layer *l, const ref_array *bias, size_t extra, size_t width) {
  ref_array rows = ref_array_create(l->kv_heads * extra * width);
  for (size_t g = 0; g < l->kv_heads && bias->count; g++)
    for (size_t d = 0; d < width; d++) {
      rows.value[g * extra * width + d] = bias->value[g * width + d];
      rows.bound[g * extra * width + d] = bias->bound[g * width + d];
    }
  return rows;
}

/* Rows past the query length are 0; dropout falls on the others. */
static void finish_output(const ref_layer *l, ref_array *output) {
  for (size_t b = 0; b < l->batch; b++)
    for (size_t t = 0; t < l->q_len; t++) {
      const int counts = !l->rules.q_lengths || (int64_t)t < l->rules.q_lengths[b];
      for (size_t d = 0; d < l->out_dim; d++) {
        const size_t at = (b * l->q_len + t) * l->out_dim + d;
        if (!counts) output->value[at] = output->bound[at] = 0;
        ref_drop(&l->rules.output_dropout, &l->arithmetic, (uint32_t)b + (UINT32_C(1) << 31), t, d, &output->value[at],
                 &output->bound[at]);
      }
    }
}

ref_layer_result ref_layer_run(const ref_layer *l) {
  const size_t extra = (size_t)(l->parameter[CLATTN_BIAS_K].count > 0) + (size_t)(l->zero_key != 0);
  ref_attention attention = {.batch = l->batch,
                             .heads = l->heads,
                             .kv_heads = l->kv_heads,
                             .q_len = l->q_len,
                             .kv_len = l->kv_len,
                             .head_dim = l->head_dim,
                             .value_head_dim = l->value_head_dim,
                             .extra_keys = extra,
                             .extra_key = extra_rows(l, &l->parameter[CLATTN_BIAS_K], extra, l->head_dim),
                             .extra_value = extra_rows(l, &l->parameter[CLATTN_BIAS_V], extra, l->value_head_dim),
                             .scale = l->scale,
                             .rules = l->rules,
                             .arithmetic = l->arithmetic};
  attention.query =
      project_and_split(l, &l->query, CLATTN_WQ, CLATTN_BQ, l->q_len, l->embed_dim, l->heads, l->head_dim);
  attention.key = project_and_split(l, &l->key, CLATTN_WK, CLATTN_BK, l->kv_len, l->kdim, l->kv_heads, l->head_dim);
  attention.value =
      project_and_split(l, &l->value, CLATTN_WV, CLATTN_BV, l->kv_len, l->vdim, l->kv_heads, l->value_head_dim);

  ref_layer_result result = {.attention = ref_attention_run(&attention)};
  ref_array merged = ref_merge_heads(&result.attention.output, l->batch, l->heads, l->q_len, l->value_head_dim);
  result.output = ref_project(&merged, &l->parameter[CLATTN_WO], &l->parameter[CLATTN_BO], l->batch * l->q_len,
                              l->heads * l->value_head_dim, l->out_dim, l->arithmetic.unit);
  finish_output(l, &result.output);
  ref_array_release(&merged);
  ref_array_release(&attention.extra_key);
  ref_array_release(&attention.extra_value);
  ref_array_release(&attention.query);
  ref_array_release(&attention.key);
  ref_array_release(&attention.value);
  return result;
}

void ref_layer_result_release(ref_layer_result *result) {
  ref_attention_result_release(&result->attention);
  ref_array_release(&result->output);
}
