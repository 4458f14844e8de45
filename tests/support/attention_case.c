/* SPDX-License-Identifier: Apache-2.0 */
#include "attention_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The description with its defaults filled in, its inputs, and the call. */
typedef struct run_state {
  attention_case c;
  double *query, *key, *value;
  test_guarded device_query, device_key, device_value;
  test_call call;
} run_state;

static void fill_defaults(attention_case *c) {
  size_t *extents[] = {&c->batch, &c->heads, &c->q_len, &c->kv_len, &c->head_dim, &c->value_head_dim};
  if (c->value_head_dim == 0) c->value_head_dim = c->head_dim;
  for (int i = 0; i < 6; i++)
    if (*extents[i] == 0 && !(c->empty && i < 4)) *extents[i] = 1;
  if (!c->kv_heads) c->kv_heads = c->heads;
  if (!c->type) c->type = CLATTN_FLOAT32;
  if (!c->key_type) c->key_type = c->type;
  if (!c->value_type) c->value_type = c->type;
  if (!c->output_type) c->output_type = c->type;
}

static clattn_type arithmetic(const attention_case *c) {
  if (c->request.compute) return c->request.compute;
  return c->type == CLATTN_FLOAT64 ? CLATTN_FLOAT64 : CLATTN_FLOAT32;
}

static double *draw(const attention_case *c, clattn_type type, const double *given, const test_shape *shape,
                    const test_layout *layout, test_rng *rng) {
  const size_t count = test_shape_count(shape);
  double *values = test_alloc(count, sizeof *values);
  const double spread = c->spread > 0 ? c->spread : 1;
  for (size_t i = 0; i < count; i++) values[i] = given ? given[i] : type_round(type, spread * rng_normal(rng));
  layout_repeat(layout, shape, values);
  return values;
}

/* Rows [B,heads,len,dim] past an entry's length: NaN there must not show. */
static void poison(const test_shape *shape, const int64_t *lengths, double *values) {
  if (!lengths) return;
  const size_t *e = shape->extent;
  for (size_t b = 0; b < e[0]; b++)
    for (size_t row = 0; row < e[1] * e[2]; row++)
      for (size_t d = 0; d < e[3] && (int64_t)(row % e[2]) >= lengths[b]; d++)
        values[(b * e[1] * e[2] + row) * e[3] + d] = (double)NAN;
}

static void state_build(run_state *s, clattn_context *context, const attention_case *description) {
  *s = (run_state){.c = *description};
  attention_case *c = &s->c;
  fill_defaults(c);
  test_rng rng = {c->seed};
  const test_shape query = {4, {c->batch, c->heads, c->q_len, c->head_dim}};
  const test_shape key = {4, {c->batch, c->kv_heads, c->kv_len, c->head_dim}};
  const test_shape value = {4, {c->batch, c->kv_heads, c->kv_len, c->value_head_dim}};
  const test_shape output = {4, {c->batch, c->heads, c->q_len, c->value_head_dim}};
  s->query = draw(c, c->type, c->query, &query, &c->query_layout, &rng);
  s->key = draw(c, c->key_type, c->key, &key, &c->key_layout, &rng);
  s->value = draw(c, c->value_type, c->value, &value, &c->value_layout, &rng);
  poison(&query, c->request.q_lengths, s->query);
  poison(&key, c->request.kv_lengths, s->key);
  poison(&value, c->request.kv_lengths, s->value);
  s->device_query = guarded_create(context, c->type, &query, &c->query_layout, s->query);
  s->device_key = guarded_create(context, c->key_type, &key, &c->key_layout, s->key);
  s->device_value = guarded_create(context, c->value_type, &value, &c->value_layout, s->value);
  const size_t columns = c->kv_len + (c->request.zero_key != 0);
  const size_t extent[5] = {c->batch, c->heads, c->q_len, c->kv_len, columns};
  call_build(&s->call, context, &c->request, extent, arithmetic(c), c->output_type, &output, &rng);
}

static clattn_status state_plan(run_state *s, clattn_plan *plan) {
  const clattn_options options = call_options(&s->call);
  return clattn_sdpa_plan(s->call.context, &s->device_query.view, &s->device_key.view, &s->device_value.view,
                          call_output(&s->call), &options, plan);
}

static void state_release(run_state *s) {
  call_release(&s->call);
  guarded_release(&s->device_query);
  guarded_release(&s->device_key);
  guarded_release(&s->device_value);
  free(s->query);
  free(s->key);
  free(s->value);
}

static clattn_status enqueue(const void *user, const clattn_tensor *output, const clattn_options *options) {
  const run_state *s = user;
  return clattn_sdpa(s->call.context, &s->device_query.view, &s->device_key.view, &s->device_value.view, output,
                     options);
}

static int state_run(run_state *s, test_results *results, test_line *line) {
  clattn_plan plan;
  if (s->c.request.lends && state_plan(s, &plan) == CLATTN_SUCCESS) call_lend(&s->call, &plan);
  return call_run(&s->call, enqueue, s, results, line) && guarded_check(&s->device_query, "query", 1, line) &&
         guarded_check(&s->device_key, "key", 1, line) && guarded_check(&s->device_value, "value", 1, line);
}

static ref_attention_result state_reference(const run_state *s) {
  const attention_case *c = &s->c;
  const double input_error = call_input_error(&s->call, c->type);
  const size_t rows = c->batch * c->heads, kv_rows = c->batch * c->kv_heads * c->kv_len;
  const size_t extra = c->request.zero_key != 0;
  ref_attention problem = {.batch = c->batch,
                           .heads = c->heads,
                           .kv_heads = c->kv_heads,
                           .q_len = c->q_len,
                           .kv_len = c->kv_len,
                           .head_dim = c->head_dim,
                           .value_head_dim = c->value_head_dim,
                           .query = ref_array_from(s->query, rows * c->q_len * c->head_dim, input_error),
                           .key = ref_array_from(s->key, kv_rows * c->head_dim, input_error),
                           .value = ref_array_from(s->value, kv_rows * c->value_head_dim, input_error),
                           .extra_keys = extra,
                           .extra_key = ref_array_create(c->kv_heads * extra * c->head_dim),
                           .extra_value = ref_array_create(c->kv_heads * extra * c->value_head_dim),
                           .scale = call_scale(&s->call),
                           .rules = call_reference_rules(&s->call),
                           .arithmetic = call_arithmetic(&s->call)};
  const ref_attention_result result = ref_attention_run(&problem);
  ref_array_release(&problem.query);
  ref_array_release(&problem.key);
  ref_array_release(&problem.value);
  ref_array_release(&problem.extra_key);
  ref_array_release(&problem.extra_value);
  return result;
}

/* Puts the case in front of what went wrong. */
static int explain(const attention_case *c, test_line *line) {
  const test_line wrong = *line;
  char request[512];
  request_text(&c->request, request, sizeof request);
  return test_fail(line, "B=%zu H=%zu G=%zu T=%zu S=%zu D=%zu Dv=%zu %s,%s,%s,%s seed=%llu %s: %.400s", c->batch,
                   c->heads, c->kv_heads, c->q_len, c->kv_len, c->head_dim, c->value_head_dim,
                   clattn_type_name(c->type), clattn_type_name(c->key_type), clattn_type_name(c->value_type),
                   clattn_type_name(c->output_type), (unsigned long long)c->seed, request, wrong.text);
}

int attention_case_run(clattn_context *context, const attention_case *description, test_results *results,
                       test_line *line) {
  run_state s;
  state_build(&s, context, description);
  int good = state_run(&s, results, line);
  if (!good) results_release(results);
  if (!good) explain(&s.c, line);
  state_release(&s);
  return good;
}

int attention_case_check(clattn_context *context, const attention_case *description, test_line *line) {
  run_state s;
  test_results results = {0};
  state_build(&s, context, description);
  int good = state_run(&s, &results, line);
  if (good) {
    ref_attention_result reference = state_reference(&s);
    good = call_compare(&s.call, &results, &reference, &reference.output, line);
    ref_attention_result_release(&reference);
  }
  if (!good) explain(&s.c, line);
  results_release(&results);
  state_release(&s);
  return good;
}

int attention_case_expect(clattn_context *context, const attention_case *description, const double *output,
                          const double *weights, double bound, test_line *line) {
  test_results results;
  if (!attention_case_run(context, description, &results, line)) return 0;
  int good = 1;
  if (output) good = compare_numbers("output", results.output, output, results.output_count, bound, line);
  if (good && weights) good = compare_numbers("weights", results.weights, weights, results.weights_count, bound, line);
  if (!good) {
    attention_case c = *description;
    fill_defaults(&c);
    explain(&c, line);
  }
  results_release(&results);
  return good;
}

clattn_status attention_case_plan(clattn_context *context, const attention_case *description, clattn_plan *plan) {
  run_state s;
  state_build(&s, context, description);
  const clattn_status status = state_plan(&s, plan);
  state_release(&s);
  return status;
}
