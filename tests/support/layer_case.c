/* SPDX-License-Identifier: Apache-2.0 */
#include "layer_case.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The description with its defaults filled in, its inputs and parameters, and the call. */
typedef struct run_state {
  layer_case c;
  double *query, *key, *value, *parameter[CLATTN_PARAMETER_COUNT];
  size_t parameter_size[CLATTN_PARAMETER_COUNT];
  test_guarded device_query, device_key, device_value;
  clattn_mha *mha;
  test_call call;
} run_state;

static void fill_defaults(layer_case *c) {
  clattn_mha_config *f = &c->config;
  size_t *extents[] = {&c->batch, &c->q_len, &c->kv_len, &f->embed_dim, &f->heads};
  for (int i = 0; i < 5; i++)
    if (*extents[i] == 0 && !(c->empty && i < 3)) *extents[i] = 1;
  if (c->inputs == TEST_SELF) c->kv_len = c->q_len;
  if (!f->kv_heads) f->kv_heads = f->heads;
  if (!f->head_dim) f->head_dim = f->embed_dim / f->heads;
  if (!f->value_head_dim) f->value_head_dim = f->head_dim;
  if (!f->kdim) f->kdim = f->embed_dim;
  if (!f->vdim) f->vdim = f->embed_dim;
  if (!f->out_dim) f->out_dim = f->embed_dim;
  if (!c->type) c->type = CLATTN_FLOAT32;
  if (!c->key_type || c->inputs == TEST_SELF) c->key_type = c->type;
  if (!c->value_type || c->inputs != TEST_APART) c->value_type = c->key_type;
  if (!c->output_type) c->output_type = c->type;
  if (!c->parameter_type) c->parameter_type = c->type;
}

static clattn_type arithmetic(const layer_case *c) {
  if (c->compute) return c->compute;
  return c->parameter_type == CLATTN_FLOAT64 ? CLATTN_FLOAT64 : CLATTN_FLOAT32;
}

/* Keys and values behind the S. */
static size_t extra_keys(const layer_case *c) {
  return (size_t)(c->config.bias_kv != 0) + (size_t)(c->request.zero_key != 0);
}

static double *draw(clattn_type type, const double *given, size_t count, double spread, test_rng *rng) {
  double *values = test_alloc(count, sizeof *values);
  for (size_t i = 0; i < count; i++) values[i] = given ? given[i] : type_round(type, spread * rng_normal(rng));
  return values;
}

/* Weights of a spread that keeps projected numbers near that of the inputs. */
static void draw_parameters(run_state *s, test_rng *rng) {
  const clattn_mha_config *f = &s->c.config;
  const size_t rows[4] = {f->heads * f->head_dim, f->kv_heads * f->head_dim, f->kv_heads * f->value_head_dim,
                          f->out_dim};
  const size_t columns[4] = {f->embed_dim, f->kdim, f->vdim, f->heads * f->value_head_dim};
  for (int p = 0; p < 4; p++) {
    s->parameter_size[CLATTN_WQ + p] = rows[p] * columns[p];
    s->parameter_size[CLATTN_BQ + p] = s->c.no_bias ? 0 : rows[p];
  }
  s->parameter_size[CLATTN_BIAS_K] = f->bias_kv ? rows[CLATTN_WK] : 0;
  s->parameter_size[CLATTN_BIAS_V] = f->bias_kv ? rows[CLATTN_WV] : 0;
  for (int p = 0; p < CLATTN_PARAMETER_COUNT; p++) {
    const double spread = p < CLATTN_BQ ? 1 / sqrt((double)columns[p]) : 0.5;
    if (s->parameter_size[p])
      s->parameter[p] = draw(s->c.parameter_type, s->c.parameter[p], s->parameter_size[p], spread, rng);
  }
}

static void create_layer(run_state *s, clattn_context *context) {
  clattn_mha_config config;
  clattn_mha_config_init(&config);
  const size_t size = config.struct_size;
  config = s->c.config;
  config.struct_size = size;
  config.bias = !s->c.no_bias;
  void *arrays[CLATTN_PARAMETER_COUNT] = {NULL};
  for (int p = 0; p < CLATTN_PARAMETER_COUNT; p++) {
    if (!s->parameter_size[p]) continue;
    const size_t element = type_bytes(s->c.parameter_type);
    unsigned char *array = arrays[p] = test_alloc(s->parameter_size[p], element);
    for (size_t i = 0; i < s->parameter_size[p]; i++)
      type_store(s->c.parameter_type, s->parameter[p][i], array + i * element);
  }
  char message[512];
  clattn_parameters *parameters = NULL;
  const clattn_status status = clattn_parameters_create(&config, s->c.parameter_type, (const void *const *)arrays,
                                                        &parameters, message, sizeof message);
  cr_assert(status == CLATTN_SUCCESS, "parameters: %s: %s", clattn_status_name(status), message);
  EXPECT_SUCCESS(context, clattn_mha_create(context, parameters, s->c.compute, &s->mha));
  clattn_parameters_destroy(&parameters);
  for (int p = 0; p < CLATTN_PARAMETER_COUNT; p++) free(arrays[p]);
}

static test_guarded create_input(const run_state *s, clattn_context *context, clattn_type type, const double *values,
                                 size_t len, size_t width, test_layout layout) {
  const test_shape shape = {3, {s->c.batch, len, width}};
  if (s->c.sequence_first) layout.order = "102";
  return guarded_create(context, type, &shape, &layout, values);
}

/* Rows [B,len,width] past an entry's length: NaN there must not show. */
static void poison(const int64_t *lengths, size_t batch, size_t len, size_t width, double *values) {
  for (size_t r = 0; lengths && r < batch * len; r++)
    for (size_t e = 0; e < width && (int64_t)(r % len) >= lengths[r / len]; e++) values[r * width + e] = (double)NAN;
}

/* Parameters and inputs in host memory. */
static void state_prepare(run_state *s, const layer_case *description, test_rng *rng) {
  *s = (run_state){.c = *description};
  layer_case *c = &s->c;
  fill_defaults(c);
  const clattn_mha_config *f = &c->config;
  const double spread = c->spread > 0 ? c->spread : 1;
  *rng = (test_rng){c->seed};
  draw_parameters(s, rng);
  const test_shape query = {3, {c->batch, c->q_len, f->embed_dim}}, keys = {3, {c->batch, c->kv_len, f->kdim}};
  const test_shape values = {3, {c->batch, c->kv_len, f->vdim}};
  s->query = draw(c->type, c->query, c->batch * c->q_len * f->embed_dim, spread, rng);
  layout_repeat(&c->query_layout, &query, s->query);
  const double *key = c->inputs == TEST_SELF ? s->query : c->key;
  s->key = draw(c->key_type, key, c->batch * c->kv_len * f->kdim, spread, rng);
  if (c->inputs != TEST_SELF) layout_repeat(&c->key_layout, &keys, s->key);
  const double *value = c->inputs == TEST_APART ? c->value : s->key;
  s->value = draw(c->value_type, value, c->batch * c->kv_len * f->vdim, spread, rng);
  if (c->inputs == TEST_APART) layout_repeat(&c->value_layout, &values, s->value);
  if (c->inputs == TEST_SELF) return;
  poison(c->request.q_lengths, c->batch, c->q_len, f->embed_dim, s->query);
  poison(c->request.kv_lengths, c->batch, c->kv_len, f->kdim, s->key);
  poison(c->request.kv_lengths, c->batch, c->kv_len, f->vdim, s->value);
}

static void state_build(run_state *s, clattn_context *context, const layer_case *description) {
  test_rng rng;
  state_prepare(s, description, &rng);
  layer_case *c = &s->c;
  if (c->sequence_first) c->request.output_layout.order = "102";
  const clattn_mha_config *f = &c->config;
  s->device_query = create_input(s, context, c->type, s->query, c->q_len, f->embed_dim, c->query_layout);
  if (c->inputs != TEST_SELF)
    s->device_key = create_input(s, context, c->key_type, s->key, c->kv_len, f->kdim, c->key_layout);
  if (c->inputs == TEST_APART)
    s->device_value = create_input(s, context, c->value_type, s->value, c->kv_len, f->vdim, c->value_layout);
  create_layer(s, context);
  const size_t extent[5] = {c->batch, f->heads, c->q_len, c->kv_len, c->kv_len + extra_keys(c)};
  const test_shape output = {3, {c->batch, c->q_len, f->out_dim}};
  call_build(&s->call, context, &c->request, extent, arithmetic(c), c->output_type, &output, &rng);
}

static void state_release(run_state *s) {
  call_release(&s->call);
  clattn_mha_destroy(&s->mha);
  guarded_release(&s->device_query);
  guarded_release(&s->device_key);
  guarded_release(&s->device_value);
  free(s->query);
  free(s->key);
  free(s->value);
  for (int p = 0; p < CLATTN_PARAMETER_COUNT; p++) free(s->parameter[p]);
}

static const clattn_tensor *view_of(const test_guarded *guarded) {
  return guarded->view.buffer ? &guarded->view : NULL;
}

static clattn_status enqueue(const void *user, const clattn_tensor *output, const clattn_options *options) {
  const run_state *s = user;
  return clattn_mha_forward(s->mha, view_of(&s->device_query), view_of(&s->device_key), view_of(&s->device_value),
                            output, options);
}

static clattn_status state_plan(const run_state *s, clattn_plan *plan) {
  const clattn_options options = call_options(&s->call);
  return clattn_mha_plan(s->mha, view_of(&s->device_query), view_of(&s->device_key), view_of(&s->device_value),
                         call_output(&s->call), &options, plan);
}

static int state_run(run_state *s, test_results *results, test_line *line) {
  clattn_plan plan;
  if (s->c.request.lends && state_plan(s, &plan) == CLATTN_SUCCESS) call_lend(&s->call, &plan);
  return call_run(&s->call, enqueue, s, results, line) && guarded_check(&s->device_query, "query", 1, line) &&
         (!s->device_key.view.buffer || guarded_check(&s->device_key, "key", 1, line)) &&
         (!s->device_value.view.buffer || guarded_check(&s->device_value, "value", 1, line));
}

static ref_layer_result state_reference(const run_state *s) {
  const layer_case *c = &s->c;
  const clattn_mha_config *f = &c->config;
  const double input_error = call_input_error(&s->call, c->type);
  ref_layer layer = {.batch = c->batch,
                     .q_len = c->q_len,
                     .kv_len = c->kv_len,
                     .heads = f->heads,
                     .kv_heads = f->kv_heads,
                     .head_dim = f->head_dim,
                     .value_head_dim = f->value_head_dim,
                     .embed_dim = f->embed_dim,
                     .kdim = f->kdim,
                     .vdim = f->vdim,
                     .out_dim = f->out_dim,
                     .query = ref_array_from(s->query, c->batch * c->q_len * f->embed_dim, input_error),
                     .key = ref_array_from(s->key, c->batch * c->kv_len * f->kdim, input_error),
                     .value = ref_array_from(s->value, c->batch * c->kv_len * f->vdim, input_error),
                     .zero_key = c->request.zero_key,
                     .scale = call_scale(&s->call),
                     .rules = call_reference_rules(&s->call),
                     .arithmetic = call_arithmetic(&s->call)};
  const double parameter_error = call_input_error(&s->call, c->parameter_type);
  for (int p = 0; p < CLATTN_PARAMETER_COUNT; p++)
    layer.parameter[p] = ref_array_from(s->parameter[p], s->parameter_size[p], parameter_error);
  const ref_layer_result result = ref_layer_run(&layer);
  ref_array_release(&layer.query);
  ref_array_release(&layer.key);
  ref_array_release(&layer.value);
  for (int p = 0; p < CLATTN_PARAMETER_COUNT; p++) ref_array_release(&layer.parameter[p]);
  return result;
}

static int explain(const layer_case *c, test_line *line) {
  const test_line wrong = *line;
  const clattn_mha_config *f = &c->config;
  char request[384];
  request_text(&c->request, request, sizeof request);
  return test_fail(line,
                   "layer B=%zu T=%zu S=%zu E=%zu Ek=%zu Ev=%zu H=%zu G=%zu D=%zu Dv=%zu Eo=%zu bias=%d bias_kv=%d "
                   "%s,%s,%s,%s parameters=%s inputs=%d seed=%llu %s: %.400s",
                   c->batch, c->q_len, c->kv_len, f->embed_dim, f->kdim, f->vdim, f->heads, f->kv_heads, f->head_dim,
                   f->value_head_dim, f->out_dim, !c->no_bias, f->bias_kv, clattn_type_name(c->type),
                   clattn_type_name(c->key_type), clattn_type_name(c->value_type), clattn_type_name(c->output_type),
                   clattn_type_name(c->parameter_type), (int)c->inputs, (unsigned long long)c->seed, request,
                   wrong.text);
}

int layer_case_run(clattn_context *context, const layer_case *description, test_results *results, test_line *line) {
  run_state s;
  state_build(&s, context, description);
  const int good = state_run(&s, results, line);
  if (!good) results_release(results);
  if (!good) explain(&s.c, line);
  state_release(&s);
  return good;
}

int layer_case_check(clattn_context *context, const layer_case *description, test_line *line) {
  run_state s;
  test_results results = {0};
  state_build(&s, context, description);
  int good = state_run(&s, &results, line);
  if (good) {
    ref_layer_result reference = state_reference(&s);
    good = call_compare(&s.call, &results, &reference.attention, &reference.output, line);
    ref_layer_result_release(&reference);
  }
  if (!good) explain(&s.c, line);
  results_release(&results);
  state_release(&s);
  return good;
}

int layer_case_expect(clattn_context *context, const layer_case *description, const double *output, double bound,
                      test_line *line) {
  test_results results;
  if (!layer_case_run(context, description, &results, line)) return 0;
  const int good = compare_numbers("output", results.output, output, results.output_count, bound, line);
  layer_case c = *description;
  fill_defaults(&c);
  if (!good) explain(&c, line);
  results_release(&results);
  return good;
}

clattn_status layer_case_plan(clattn_context *context, const layer_case *description, clattn_plan *plan) {
  run_state s;
  state_build(&s, context, description);
  const clattn_status status = state_plan(&s, plan);
  state_release(&s);
  return status;
}

ref_layer_result layer_case_reference(clattn_context *context, const layer_case *description) {
  run_state s;
  state_build(&s, context, description);
  const ref_layer_result result = state_reference(&s);
  state_release(&s);
  return result;
}
