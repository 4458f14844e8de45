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
  if (!c->type) c->type = CLATTN_FLOAT32;
}

static double *draw(const attention_case *c, const double *given, size_t count, test_rng *rng) {
  double *values = test_alloc(count, sizeof *values);
  const double spread = c->spread > 0 ? c->spread : 1;
  for (size_t i = 0; i < count; i++) values[i] = given ? given[i] : type_round(c->type, spread * rng_normal(rng));
  return values;
}

/* Keys past an entry's length are never read: NaN there must not show. */
static void poison(const attention_case *c, double *values, size_t dim) {
  if (!c->request.kv_lengths) return;
  for (size_t b = 0; b < c->batch; b++)
    for (size_t h = 0; h < c->heads; h++)
      for (size_t j = 0; j < c->kv_len; j++)
        for (size_t d = 0; d < dim && (int64_t)j >= c->request.kv_lengths[b]; d++)
          values[((b * c->heads + h) * c->kv_len + j) * dim + d] = (double)NAN;
}

static void state_build(run_state *s, clattn_context *context, const attention_case *description) {
  *s = (run_state){.c = *description};
  attention_case *c = &s->c;
  fill_defaults(c);
  test_rng rng = {c->seed};
  const size_t rows = c->batch * c->heads;
  s->query = draw(c, c->query, rows * c->q_len * c->head_dim, &rng);
  s->key = draw(c, c->key, rows * c->kv_len * c->head_dim, &rng);
  s->value = draw(c, c->value, rows * c->kv_len * c->value_head_dim, &rng);
  poison(c, s->key, c->head_dim);
  poison(c, s->value, c->value_head_dim);
  const test_shape query = {4, {c->batch, c->heads, c->q_len, c->head_dim}};
  const test_shape key = {4, {c->batch, c->heads, c->kv_len, c->head_dim}};
  const test_shape value = {4, {c->batch, c->heads, c->kv_len, c->value_head_dim}};
  const test_shape output = {4, {c->batch, c->heads, c->q_len, c->value_head_dim}};
  s->device_query = guarded_create(context, c->type, &query, &c->query_layout, s->query);
  s->device_key = guarded_create(context, c->type, &key, &c->key_layout, s->key);
  s->device_value = guarded_create(context, c->type, &value, &c->value_layout, s->value);
  const size_t extent[4] = {c->batch, c->heads, c->q_len, c->kv_len};
  call_build(&s->call, context, &c->request, extent, c->request.compute ? c->request.compute : c->type, c->type,
             &output, &rng);
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
  return call_run(&s->call, enqueue, s, results, line) && guarded_check(&s->device_query, "query", 1, line) &&
         guarded_check(&s->device_key, "key", 1, line) && guarded_check(&s->device_value, "value", 1, line);
}

static ref_attention_result state_reference(const run_state *s) {
  const attention_case *c = &s->c;
  const double input_error = call_input_error(&s->call, c->type);
  const size_t rows = c->batch * c->heads;
  ref_attention problem = {.batch = c->batch,
                           .heads = c->heads,
                           .kv_heads = c->heads,
                           .q_len = c->q_len,
                           .kv_len = c->kv_len,
                           .head_dim = c->head_dim,
                           .value_head_dim = c->value_head_dim,
                           .query = ref_array_from(s->query, rows * c->q_len * c->head_dim, input_error),
                           .key = ref_array_from(s->key, rows * c->kv_len * c->head_dim, input_error),
                           .value = ref_array_from(s->value, rows * c->kv_len * c->value_head_dim, input_error),
                           .scale = call_scale(&s->call),
                           .rules = call_reference_rules(&s->call),
                           .arithmetic = call_arithmetic(&s->call)};
  const ref_attention_result result = ref_attention_run(&problem);
  ref_array_release(&problem.query);
  ref_array_release(&problem.key);
  ref_array_release(&problem.value);
  return result;
}

/* Puts the case in front of what went wrong. */
static int explain(const attention_case *c, test_line *line) {
  const test_line wrong = *line;
  char request[512];
  request_text(&c->request, request, sizeof request);
  return test_fail(line, "B=%zu H=%zu T=%zu S=%zu D=%zu Dv=%zu %s seed=%llu %s: %.400s", c->batch, c->heads, c->q_len,
                   c->kv_len, c->head_dim, c->value_head_dim, clattn_type_name(c->type), (unsigned long long)c->seed,
                   request, wrong.text);
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
  const clattn_options options = call_options(&s.call);
  const clattn_status status = clattn_sdpa_plan(context, &s.device_query.view, &s.device_key.view, &s.device_value.view,
                                                call_output(&s.call), &options, plan);
  state_release(&s);
  return status;
}
