/* SPDX-License-Identifier: Apache-2.0
 *
 * Faults below the layer: made, run, planned, destroyed. */
#include "support/fault_subject.h"
#include "support/layer_case.h"

#include <criterion/criterion.h>
#include <string.h>

TestSuite(faults_layer, .init = fault_sweep_begin, .timeout = 120);

static clattn_parameters *make_parameters(const clattn_mha_config *widths, int bias) {
  clattn_mha_config config;
  clattn_mha_config_init(&config);
  const size_t size = config.struct_size;
  clattn_parameters *parameters = NULL;
  char message[512];
  config = *widths;
  config.struct_size = size;
  config.bias = bias;
  cr_assert_eq(clattn_parameters_random(&config, NULL, 5, &parameters, message, sizeof message), CLATTN_SUCCESS, "%s",
               message);
  return parameters;
}

static void expect_nothing_held(void) {
  for (int kind = HELD_CONTEXT; kind < HELD_MEMORY; kind++) cr_expect_eq(faults_held().held[kind], 0);
}

/* ---------------------------------------------------------------------------------------------------------- forward */

typedef struct layer_inputs {
  clattn_mha *mha;
  test_guarded query, key, value; /* buffer NULL: not given */
} layer_inputs;

static const clattn_tensor *view_of(const test_guarded *guarded) {
  return guarded->view.buffer != NULL ? &guarded->view : NULL;
}

static clattn_status forward(void *user, const fault_arguments *arguments) {
  const layer_inputs *in = user;
  const clattn_tensor *query = view_of(&in->query), *key = view_of(&in->key), *value = view_of(&in->value);
  if (arguments->plan != NULL)
    return clattn_mha_plan(in->mha, query, key, value, arguments->output, arguments->options, arguments->plan);
  return clattn_mha_forward(in->mha, query, key, value, arguments->output, arguments->options);
}

static test_guarded draw_rows(clattn_context *context, const layer_case *c, clattn_type type, size_t length,
                              size_t width, test_layout layout, test_rng *rng) {
  const test_shape shape = {3, {c->batch, length, width}};
  if (c->sequence_first) layout.order = "102";
  return fault_draw(context, type, &shape, &layout, rng);
}

/* Sweeps the case, and compares it with the reference in the same context before and after. The case names all of its
 * extents and types; its inputs are apart or one. */
static void sweep(const char *name, const layer_case *given, int with_events) {
  clattn_context *context = test_context();
  layer_case copy = *given, *c = &copy;
  const clattn_mha_config *f = &c->config;
  test_rng rng = {7};
  test_line line = {{0}};
  cr_expect(layer_case_check(context, c, &line), "%s", line.text);
  if (c->sequence_first) c->request.output_layout.order = "102";
  clattn_parameters *parameters = make_parameters(f, !c->no_bias);
  layer_inputs in = {.query = draw_rows(context, c, c->type, c->q_len, f->embed_dim, c->query_layout, &rng)};
  if (c->inputs == TEST_APART) {
    in.key = draw_rows(context, c, c->key_type, c->kv_len, f->kdim, c->key_layout, &rng);
    in.value = draw_rows(context, c, c->value_type, c->kv_len, f->vdim, c->value_layout, &rng);
  }
  EXPECT_SUCCESS(context, clattn_mha_create(context, parameters, c->compute, &in.mha));
  const size_t extra = (size_t)(f->bias_kv != 0) + (size_t)(c->request.zero_key != 0);
  const size_t extent[5] = {c->batch, f->heads, c->q_len, c->kv_len, c->kv_len + extra};
  const test_shape output = {3, {c->batch, c->q_len, f->out_dim}};
  fault_subject subject = {.run = forward, .user = &in, .with_events = with_events};
  call_build(&subject.call, context, &c->request, extent, c->compute, c->output_type, &output, &rng);
  fault_subject_sweep(&subject, name);
  call_release(&subject.call);
  clattn_mha_destroy(&in.mha);
  cr_expect(layer_case_check(context, given, &line), "%s", line.text);
  guarded_release(&in.query);
  guarded_release(&in.key);
  guarded_release(&in.value);
  clattn_parameters_destroy(&parameters);
  clattn_context_destroy(&context);
  expect_nothing_held();
}

#define SWEEP(name, with_events, ...)                                                                                  \
  do {                                                                                                                 \
    const layer_case case_ = {__VA_ARGS__};                                                                            \
    sweep(name, &case_, with_events);                                                                                  \
  } while (0)

#define FLOAT32_CASE                                                                                                   \
  .type = CLATTN_FLOAT32, .key_type = CLATTN_FLOAT32, .value_type = CLATTN_FLOAT32, .output_type = CLATTN_FLOAT32,     \
  .compute = CLATTN_FLOAT32
#define PLAIN_WIDTHS                                                                                                   \
  { .embed_dim = 6, .heads = 2, .kv_heads = 2, .head_dim = 3, .value_head_dim = 3, .kdim = 6, .vdim = 6, .out_dim = 6 }

Test(faults_layer, self_attention) {
  SWEEP("layer", 0, FLOAT32_CASE, .batch = 2, .q_len = 3, .kv_len = 3, .config = PLAIN_WIDTHS, .inputs = TEST_SELF);
}

/* What the options and widths add to a call, most of it at once. */
Test(faults_layer, with_all_options) {
  static const int64_t kv_lengths[2] = {4, 2}, q_lengths[2] = {3, 1};
  SWEEP("layer with all options", 1, FLOAT32_CASE, .batch = 2, .q_len = 3, .kv_len = 4,
        .config = {.embed_dim = 6,
                   .heads = 4,
                   .kv_heads = 2,
                   .head_dim = 3,
                   .value_head_dim = 2,
                   .kdim = 5,
                   .vdim = 7,
                   .out_dim = 3,
                   .bias_kv = 1},
        .query_layout = {.pad = {0, 1}},
        .request = {.masks = {{CLATTN_MASK_BLOCK, .share = 0.1},
                              {CLATTN_MASK_KEEP, .axes = "bs", .share = 0.1},
                              {CLATTN_MASK_ADD, .axes = "hts"},
                              {CLATTN_MASK_ADD, .axes = "ts"},
                              {CLATTN_MASK_BLOCK, .axes = "t", .share = 0.1}},
                    .causal = CLATTN_CAUSAL_TOP_LEFT,
                    .kv_lengths = kv_lengths,
                    .q_lengths = q_lengths,
                    .soft_cap = 3,
                    .slopes = TEST_SLOPES_PER_HEAD,
                    .zero_key = 1,
                    .dropout = 0.25,
                    .output_dropout = 0.125,
                    .dropout_seed = 11,
                    .weights = TEST_PER_HEAD,
                    .log_sum_exp = 1});
}

/* 16-bit storage, sequence first, without bias, averaged weights; so little scratch memory that batch entries come one
 * by one. */
Test(faults_layer, in_chunks) {
  SWEEP("layer in chunks", 0, .type = CLATTN_FLOAT16, .key_type = CLATTN_FLOAT16, .value_type = CLATTN_FLOAT16,
        .output_type = CLATTN_BFLOAT16, .parameter_type = CLATTN_FLOAT32, .compute = CLATTN_FLOAT32, .batch = 2,
        .q_len = 3, .kv_len = 3, .no_bias = 1, .config = PLAIN_WIDTHS, .inputs = TEST_SELF, .sequence_first = 1,
        .request = {.weights = TEST_MEAN, .scratch_limit = 2500});
}

Test(faults_layer, in_lent_memory) {
  SWEEP("layer in lent memory", 1, FLOAT32_CASE, .batch = 1, .q_len = 2, .kv_len = 2, .config = PLAIN_WIDTHS,
        .inputs = TEST_SELF, .request = {.lends = 1});
}

Test(faults_layer, in_float64) {
  clattn_context *context = test_context();
  const int has_it = test_has_fp64(context);
  clattn_context_destroy(&context);
  if (!has_it) cr_skip_test("the device has no float64");
  SWEEP("layer in float64", 0, .type = CLATTN_FLOAT64, .key_type = CLATTN_FLOAT64, .value_type = CLATTN_FLOAT64,
        .output_type = CLATTN_FLOAT64, .compute = CLATTN_FLOAT64, .batch = 2, .q_len = 3, .kv_len = 3,
        .config = PLAIN_WIDTHS, .inputs = TEST_SELF);
}

/* --------------------------------------------------------------------------------------------------------- creation */

typedef struct making {
  clattn_context *context;
  const clattn_parameters *parameters;
  clattn_type compute;
  clattn_mha *mha;
} making;

static void before_making(void *user) {
  ((making *)user)->mha = (clattn_mha *)user; /* must become NULL */
}

static clattn_status make(void *user) {
  making *m = user;
  return clattn_mha_create(m->context, m->parameters, m->compute, &m->mha);
}

static const char *making_message(const void *user) {
  return clattn_context_message(((const making *)user)->context);
}

static int layer_is_null(void *user, test_line *line) {
  return ((making *)user)->mha == NULL || test_fail(line, "*mha is not NULL");
}

static int layer_right(void *user, test_line *line) {
  making *m = user;
  for (int which = 0; which < CLATTN_PARAMETER_COUNT; which++) {
    const clattn_tensor tensor = clattn_mha_parameter(m->mha, (clattn_parameter)which);
    const float *want = clattn_parameters_data(m->parameters, (clattn_parameter)which);
    double got[64];
    float narrow[64];
    const size_t count = tensor.buffer != NULL ? tensor.shape[0] * (tensor.rank == 2 ? tensor.shape[1] : 1) : 0;
    if ((want != NULL) != (count > 0) || count > 64)
      return test_fail(line, "parameter %d has %zu values", which, count);
    if (count == 0) continue;
    EXPECT_SUCCESS(m->context,
                   clattn_tensor_read(m->context, &tensor, m->compute == CLATTN_FLOAT64 ? (void *)got : narrow));
    for (size_t i = 0; i < count; i++)
      if ((m->compute == CLATTN_FLOAT64 ? got[i] : (double)narrow[i]) != (double)want[i])
        return test_fail(line, "parameter %d is wrong at %zu", which, i);
  }
  return 1;
}

static void destroy(void *user) {
  clattn_mha_destroy(&((making *)user)->mha);
}

static void sweep_making(clattn_type compute, unsigned kinds) {
  const clattn_mha_config widths = PLAIN_WIDTHS;
  clattn_parameters *parameters = make_parameters(&widths, 1);
  making m = {.context = test_context(), .parameters = parameters, .compute = compute};
  const fault_operation operation = {.name = "create a layer",
                                     .user = &m,
                                     .prepare = before_making,
                                     .run = make,
                                     .message = making_message,
                                     .untouched = layer_is_null,
                                     .right = layer_right,
                                     .release = destroy};
  if (compute == CLATTN_FLOAT32 || test_has_fp64(m.context)) EXPECT_SWEEP(&operation, kinds);
  clattn_context_destroy(&m.context);
  clattn_parameters_destroy(&parameters);
  expect_nothing_held();
}

Test(faults_layer, creating) {
  sweep_making(CLATTN_FLOAT32, FAULT_OPENCL | FAULT_MEMORY);
}

/* The conversion takes memory. */
Test(faults_layer, creating_in_another_type) {
  sweep_making(CLATTN_FLOAT64, FAULT_OPENCL | FAULT_MEMORY);
}

/* ------------------------------------------------------------------------------------------------------ destruction */

static void before_destroying(void *user) {
  making *m = user;
  m->context = test_context();
  EXPECT_SUCCESS(m->context, make(m));
}

static void before_destroying_last(void *user) {
  before_destroying(user);
  clattn_context_destroy(&((making *)user)->context);
}

static clattn_status destroy_layer(void *user) {
  destroy(user);
  return CLATTN_SUCCESS;
}

static void destroy_context(void *user) {
  clattn_context_destroy(&((making *)user)->context);
}

/* A layer ends while its context lives on, and as the last who holds it. */
Test(faults_layer, destroying) {
  const clattn_mha_config widths = PLAIN_WIDTHS;
  clattn_parameters *parameters = make_parameters(&widths, 1);
  making m = {.parameters = parameters, .compute = CLATTN_FLOAT32};
  fault_operation operation = {.name = "destroy a layer",
                               .user = &m,
                               .prepare = before_destroying,
                               .run = destroy_layer,
                               .right = layer_is_null,
                               .release = destroy_context};
  EXPECT_SWEEP(&operation, FAULT_OPENCL);
  operation.prepare = before_destroying_last;
  EXPECT_SWEEP(&operation, FAULT_OPENCL);
  clattn_parameters_destroy(&parameters);
  expect_nothing_held();
}
