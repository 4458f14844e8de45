/* SPDX-License-Identifier: Apache-2.0
 *
 * The whole layer: widths, biases, inputs of one or three tensors, sequence-first data, masks, weights, types; against
 * the scalar reference and against PyTorch. */
#include "support/layer_case.h"
#include "support/torch_case.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --------------------------------------------------------------------------------------------------------- widths */

Test(mha, plain_sizes) {
  static const size_t sizes[][4] = {/* B, T, E, H */
                                    {1, 1, 1, 1},   {1, 1, 8, 2},   {2, 3, 12, 3},  {3, 2, 7, 1},    {2, 17, 32, 4},
                                    {1, 33, 64, 8}, {2, 5, 65, 13}, {1, 65, 17, 1}, {5, 3, 129, 43}, {1, 31, 257, 1},
                                    {4, 9, 48, 16}, {1, 1, 130, 5}, {2, 63, 24, 2}, {17, 2, 10, 5},  {1, 129, 16, 2}};
  clattn_context *context = test_context();
  for (size_t n = 0; n < (test_is_small() ? 6 : sizeof sizes / sizeof *sizes); n++)
    for (int no_bias = 0; no_bias < 2; no_bias++)
      EXPECT_LAYER(context, .batch = sizes[n][0], .q_len = sizes[n][1], .inputs = TEST_SELF, .no_bias = no_bias,
                   .config = {.embed_dim = sizes[n][2], .heads = sizes[n][3]}, .seed = n,
                   .request = {.weights = (test_weights)(n % 3), .log_sum_exp = (int)n & 1});
  clattn_context_destroy(&context);
}

/* Every width of its own: head size times heads need not be the input's width, values and output may be narrower or
 * wider. */
Test(mha, every_width_of_its_own) {
  static const clattn_mha_config configs[] = {
      {.embed_dim = 12, .heads = 3, .kdim = 5, .vdim = 7},
      {.embed_dim = 12, .heads = 3, .head_dim = 9},
      {.embed_dim = 12, .heads = 2, .head_dim = 1, .value_head_dim = 17},
      {.embed_dim = 5, .heads = 3, .head_dim = 4, .value_head_dim = 2, .kdim = 3, .vdim = 6, .out_dim = 11},
      {.embed_dim = 1, .heads = 2, .head_dim = 33, .value_head_dim = 3, .kdim = 1, .vdim = 1, .out_dim = 1},
      {.embed_dim = 65, .heads = 1, .head_dim = 257, .value_head_dim = 129, .kdim = 31, .vdim = 127, .out_dim = 3},
      {.embed_dim = 7, .heads = 17, .head_dim = 3, .value_head_dim = 5, .kdim = 9, .vdim = 2, .out_dim = 63},
  };
  clattn_context *context = test_context();
  for (size_t n = 0; n < sizeof configs / sizeof *configs; n++)
    for (int no_bias = 0; no_bias < 2; no_bias++) {
      EXPECT_LAYER(context, .batch = 2, .q_len = 5, .kv_len = 8, .config = configs[n], .no_bias = no_bias, .seed = n,
                   .request = {.weights = TEST_PER_HEAD, .log_sum_exp = 1});
      EXPECT_LAYER(context, .batch = 3, .q_len = 4, .kv_len = 1, .config = configs[n], .no_bias = no_bias, .seed = n,
                   .sequence_first = 1);
    }
  clattn_context_destroy(&context);
}

/* --------------------------------------------------------------------------------------------------------- inputs */

Test(mha, self_cross_and_shared_inputs) {
  clattn_context *context = test_context();
  for (int sequence_first = 0; sequence_first < 2; sequence_first++)
    for (size_t B = 1; B <= 4; B++) {
      EXPECT_LAYER(context, .batch = B, .q_len = 4, .inputs = TEST_SELF, .sequence_first = sequence_first,
                   .config = {.embed_dim = 12, .heads = 3}, .seed = B, .request = {.weights = TEST_PER_HEAD});
      EXPECT_LAYER(context, .batch = B, .q_len = 4, .kv_len = 7, .inputs = TEST_KEY_IS_VALUE,
                   .sequence_first = sequence_first, .config = {.embed_dim = 12, .heads = 3, .kdim = 5, .vdim = 5},
                   .seed = B, .request = {.weights = TEST_MEAN});
      EXPECT_LAYER(context, .batch = B, .q_len = 4, .kv_len = 4, .sequence_first = sequence_first,
                   .config = {.embed_dim = 12, .heads = 3}, .seed = B);
    }
  clattn_context_destroy(&context);
}

Test(mha, layouts_of_inputs_and_output) {
  static const test_layout layouts[] = {{.offset = 0},
                                        {.offset = 61},
                                        {.order = "102", .offset = 1},       /* [T,B,E] */
                                        {.order = "021"},                    /* [B,E,T] */
                                        {.order = "210", .offset = 3},       /* [E,T,B] */
                                        {.pad = {0, 5, 0}},                  /* rows with gaps */
                                        {.pad = {3, 0, 0}},                  /* batches with gaps */
                                        {.pad = {0, 0, 1}},                  /* every other element */
                                        {.order = "102", .pad = {7, 0, 0}}}; /* rows of [T,B,E] with gaps */
  const size_t count = sizeof layouts / sizeof *layouts;
  clattn_context *context = test_context();
  for (size_t n = 0; n < count; n++)
    for (int which = 0; which < 4; which++) {
      layer_case c = {.batch = 3, .q_len = 4, .kv_len = 5, .config = {.embed_dim = 6, .heads = 2}, .seed = n};
      test_layout *places[] = {&c.query_layout, &c.key_layout, &c.value_layout, &c.request.output_layout};
      *places[which] = layouts[n];
      *places[(which + 1) % 4] = layouts[(n + 3) % count];
      test_line line = {{0}};
      cr_expect(layer_case_check(context, &c, &line), "layout %zu for argument %d: %s", n, which, line.text);
    }
  clattn_context_destroy(&context);
}

/* ---------------------------------------------------------------------------------------------------------- types */

Test(mha, types) {
  clattn_context *context = test_context();
  static const clattn_type types[] = {CLATTN_FLOAT32, CLATTN_FLOAT64};
  const clattn_mha_config config = {.embed_dim = 12, .heads = 3, .kdim = 5, .vdim = 7};
  const int kinds = test_has_fp64(context) ? 2 : 1;
  /* Inputs, parameters and arithmetic each of either type. */
  for (int type = 0; type < kinds; type++)
    for (int parameters = 0; parameters < kinds; parameters++)
      for (int compute = -1; compute < kinds; compute++)
        EXPECT_LAYER(context, .batch = 2, .q_len = 5, .kv_len = 6, .config = config, .type = types[type],
                     .parameter_type = types[parameters], .compute = compute < 0 ? (clattn_type)0 : types[compute],
                     .request = {.weights = TEST_PER_HEAD, .log_sum_exp = 1});
  /* A float32 layer may be made from float64 parameters on any device. */
  EXPECT_LAYER(context, .batch = 2, .q_len = 5, .kv_len = 6, .config = config, .parameter_type = CLATTN_FLOAT64,
               .compute = CLATTN_FLOAT32);
  clattn_context_destroy(&context);
}

/* --------------------------------------------------------------------------------------------------- masks, rules */

Test(mha, masks_and_rules) {
  clattn_context *context = test_context();
  const clattn_mha_config config = {.embed_dim = 12, .heads = 3};
  const int64_t lengths[3] = {7, 0, 4};
  const test_request requests[] = {
      {.masks = {{.kind = CLATTN_MASK_BLOCK, .axes = "bs", .share = 0.4}}},
      {.masks = {{.kind = CLATTN_MASK_KEEP, .axes = "bhts", .share = 0.3}}},
      {.masks = {{.kind = CLATTN_MASK_ADD, .axes = "hts", .share = 0.2},
                 {.kind = CLATTN_MASK_KEEP, .axes = "bs", .share = 0.3}}},
      {.causal = CLATTN_CAUSAL_TOP_LEFT},
      {.causal = CLATTN_CAUSAL_BOTTOM_RIGHT},
      {.causal = CLATTN_CAUSAL_OFFSET, .causal_offset = -2, .window = {1, 2, CLATTN_WINDOW_NONE}},
      {.kv_lengths = lengths},
      {.kv_lengths = lengths, .causal = CLATTN_CAUSAL_BOTTOM_RIGHT},
      {.scale = {1, 0.7}},
      {.scale = {1, -1.5}},
  };
  for (size_t n = 0; n < sizeof requests / sizeof *requests; n++)
    for (int weights = 0; weights < 3; weights++) {
      test_request request = requests[n];
      request.weights = (test_weights)weights;
      request.log_sum_exp = 1;
      EXPECT_LAYER(context, .batch = 3, .q_len = 5, .kv_len = 7, .config = config, .seed = n, .request = request);
      EXPECT_LAYER(context, .batch = 3, .q_len = 7, .kv_len = 7, .inputs = TEST_SELF, .sequence_first = 1,
                   .config = config, .seed = n, .request = request);
    }
  clattn_context_destroy(&context);
}

/* A row without keys gives the out-projection's bias, to the bit; without a bias 0. */
Test(mha, rows_without_keys_give_the_bias) {
  enum { B = 2, T = 5, E = 6 };
  const double blocked[1] = {1};
  const int64_t lengths[B] = {0, 0};
  double bias[E];
  for (int e = 0; e < E; e++) bias[e] = type_round(CLATTN_FLOAT32, 0.1 + e);
  clattn_context *context = test_context();
  for (int way = 0; way < 3; way++)
    for (int no_bias = 0; no_bias < 2; no_bias++)
      for (int weights = 0; weights < 3; weights++) {
        layer_case c = {.batch = B, .q_len = T, .kv_len = way == 2 ? 0 : 4, .empty = 1, .no_bias = no_bias};
        c.config.embed_dim = E;
        c.config.heads = 2;
        c.parameter[CLATTN_BO] = bias;
        if (way == 0) c.request.masks[0] = (test_mask){.kind = CLATTN_MASK_BLOCK, .axes = "", .values = blocked};
        if (way == 1) c.request.kv_lengths = lengths;
        c.request.weights = (test_weights)weights;
        double want[B * T * E];
        for (size_t n = 0; n < B * T * E; n++) want[n] = no_bias ? 0 : bias[n % E];
        test_line line = {{0}};
        cr_expect(layer_case_expect(context, &c, want, 0, &line), "way %d: %s", way, line.text);
      }
  clattn_context_destroy(&context);
}

Test(mha, empty_extents) {
  clattn_context *context = test_context();
  const clattn_mha_config config = {.embed_dim = 6, .heads = 2};
  for (int weights = 0; weights < 3; weights++) {
    const test_request request = {.weights = (test_weights)weights, .log_sum_exp = 1};
    EXPECT_LAYER(context, .empty = 1, .batch = 0, .q_len = 3, .kv_len = 4, .config = config, .request = request);
    EXPECT_LAYER(context, .empty = 1, .batch = 2, .q_len = 0, .kv_len = 4, .config = config, .request = request);
    EXPECT_LAYER(context, .empty = 1, .batch = 2, .q_len = 3, .kv_len = 0, .config = config, .request = request);
    EXPECT_LAYER(context, .empty = 1, .batch = 2, .q_len = 0, .inputs = TEST_SELF, .config = config,
                 .request = request);
  }
  clattn_context_destroy(&context);
}

/* Results without an output: nothing is projected out. */
Test(mha, weights_alone) {
  clattn_context *context = test_context();
  const clattn_mha_config config = {.embed_dim = 12, .heads = 3};
  for (int weights = 0; weights < 3; weights++)
    for (int lse = weights == 0; lse < 2; lse++)
      EXPECT_LAYER(context, .batch = 2, .q_len = 5, .kv_len = 7, .config = config,
                   .request = {.weights = (test_weights)weights, .log_sum_exp = lse, .no_output = 1});
  clattn_context_destroy(&context);
}

/* -------------------------------------------------------------------------------------------------------- PyTorch */

static void copy_axes(char axes[5], const size_t shape[4], const torch_case *c) {
  const size_t extent[4] = {c->batch, c->heads, c->q_len, c->kv_len};
  size_t length = 0;
  for (int d = 0; d < 4; d++)
    if (shape[d] == extent[d] && shape[d] > 1) axes[length++] = "bhts"[d];
  axes[length] = '\0';
}

/* Masks of a case as a request. Where an extent is 1 it repeats, which is the same. */
static test_request request_of(const torch_case *c, char axes[2][5]) {
  test_request request = {.causal = c->name->causal ? CLATTN_CAUSAL_TOP_LEFT : CLATTN_CAUSAL_NONE};
  for (size_t m = 0; m < c->mask_count; m++) {
    copy_axes(axes[m], c->masks[m].shape, c);
    request.masks[m] =
        (test_mask){.kind = c->masks[m].kind, .axes = axes[m], .values = c->masks[m].values, .type = CLATTN_FLOAT32};
  }
  return request;
}

/* The library against what PyTorch computed in float64; the reference gives the bounds, and agrees with PyTorch itself
 * far within them (test_reference.c). Float inputs were rounded to float32 before PyTorch saw them. */
static void expect_torch(clattn_context *context, const torch_name *name, clattn_type type) {
  torch_case t;
  char axes[2][5];
  torch_case_load(name, &t);
  layer_case c = {.batch = t.batch, .q_len = t.q_len, .kv_len = t.kv_len, .type = type};
  c.inputs = t.self ? TEST_SELF : TEST_APART;
  c.config = (clattn_mha_config){.embed_dim = t.embed_dim, .heads = t.heads, .kdim = t.kdim, .vdim = t.vdim};
  c.no_bias = t.parameter[CLATTN_BQ].count == 0;
  c.query = t.query.values;
  c.key = t.key.values;
  c.value = t.value.values;
  for (int p = 0; p < CLATTN_PARAMETER_COUNT; p++) c.parameter[p] = t.parameter[p].values;
  c.request = request_of(&t, axes);
  const test_dump *weights[] = {NULL, &t.weights, &t.mean_weights};
  for (int w = 0; w < 3; w++) {
    c.request.weights = (test_weights)w;
    test_line line = {{0}};
    test_results results;
    /* Against the reference, whose bounds are derived; and against the dump within a bound that both have to keep. */
    cr_expect(layer_case_check(context, &c, &line), "%s: %s", name->folder, line.text);
    cr_assert(layer_case_run(context, &c, &results, &line), "%s: %s", name->folder, line.text);
    ref_array out = ref_array_from(t.out.values, t.out.count, 0), attended = {0};
    ref_layer_result reference = layer_case_reference(context, &c);
    for (size_t n = 0; n < out.count; n++) out.bound[n] = reference.output.bound[n];
    cr_expect(compare_arrays("output", results.output, &t.out.shape, &out, &t.out.shape, &line), "%s: %s", name->folder,
              line.text);
    if (weights[w]) {
      const ref_array *bounds = w == 1 ? &reference.attention.weights : &reference.attention.mean_weights;
      attended = ref_array_from(weights[w]->values, weights[w]->count, 0);
      for (size_t n = 0; n < attended.count; n++) attended.bound[n] = bounds->bound[n];
      cr_expect(compare_arrays("weights", results.weights, &weights[w]->shape, &attended, &weights[w]->shape, &line),
                "%s: %s", name->folder, line.text);
    }
    ref_layer_result_release(&reference);
    ref_array_release(&out);
    ref_array_release(&attended);
    results_release(&results);
  }
  torch_case_release(&t);
}

Test(mha, agrees_with_torch) {
  clattn_context *context = test_context();
  for (const torch_name *name = torch_layers; name->folder; name++) {
    expect_torch(context, name, CLATTN_FLOAT32);
    if (test_has_fp64(context)) expect_torch(context, name, CLATTN_FLOAT64);
  }
  clattn_context_destroy(&context);
}

/* ---------------------------------------------------------------------------------------------------------- layer */

/* Layers of different width on one context take turns and do not disturb each other. */
Test(mha, layers_take_turns) {
  clattn_context *context = test_context();
  for (int n = 0; n < 4; n++) {
    EXPECT_LAYER(context, .batch = 2, .q_len = 9, .kv_len = 17, .config = {.embed_dim = 24, .heads = 4}, .seed = 1,
                 .request = {.weights = TEST_MEAN});
    EXPECT_LAYER(context, .batch = 1, .q_len = 3, .inputs = TEST_SELF, .config = {.embed_dim = 5, .heads = 1},
                 .seed = 2);
    EXPECT_LAYER(context, .batch = 2, .q_len = 2, .kv_len = 3,
                 .config = {.embed_dim = 6, .heads = 2, .kdim = 40, .vdim = 41, .out_dim = 42}, .seed = 3);
  }
  clattn_context_destroy(&context);
}

/* A layer of ones and zeros in which the output is easy to see, made from host arrays. */
static clattn_mha *create_plain_layer(clattn_context *context, size_t E, size_t H, int bias) {
  float *identity = test_alloc(E * E, sizeof *identity), *zeros = test_alloc(E, sizeof *zeros);
  for (size_t e = 0; e < E; e++) identity[e * E + e] = 1;
  const void *const arrays[CLATTN_PARAMETER_COUNT] = {
      identity,           identity, identity, identity, bias ? zeros : NULL, bias ? zeros : NULL, bias ? zeros : NULL,
      bias ? zeros : NULL};
  clattn_mha_config config;
  clattn_mha_config_init(&config);
  config.embed_dim = E;
  config.heads = H;
  config.bias = bias;
  clattn_parameters *parameters = NULL;
  char message[256];
  const clattn_status status =
      clattn_parameters_create(&config, CLATTN_FLOAT32, arrays, &parameters, message, sizeof message);
  cr_assert_eq(status, CLATTN_SUCCESS, "%s", message);
  clattn_mha *mha = NULL;
  EXPECT_SUCCESS(context, clattn_mha_create(context, parameters, (clattn_type)0, &mha));
  clattn_parameters_destroy(&parameters);
  free(identity);
  free(zeros);
  return mha;
}

/* clattn_mha_parameter is the layer's own copy: shapes as documented, and what is written there counts. */
Test(mha, parameters_on_the_device) {
  enum { E = 4 };
  clattn_context *context = test_context();
  clattn_mha *mha = create_plain_layer(context, E, 2, 1);
  for (int p = 0; p < CLATTN_PARAMETER_COUNT; p++) {
    const clattn_tensor view = clattn_mha_parameter(mha, (clattn_parameter)p);
    if (p >= CLATTN_BIAS_K) {
      cr_expect_null(view.buffer, "the layer has no bias_k and bias_v");
      continue;
    }
    cr_assert_not_null(view.buffer);
    cr_expect_eq(view.rank, p < CLATTN_BQ ? 2 : 1);
    cr_expect_eq(view.shape[0], E);
    cr_expect_eq(view.type, CLATTN_FLOAT32);
  }
  const float x[E] = {1, 2, 3, 4}, bias[E] = {10, 20, 30, 40};
  const size_t shape[3] = {1, 1, E};
  clattn_tensor in, out;
  float got[E];
  EXPECT_SUCCESS(context, clattn_tensor_create(context, CLATTN_FLOAT32, 3, shape, x, &in));
  EXPECT_SUCCESS(context, clattn_tensor_create(context, CLATTN_FLOAT32, 3, shape, NULL, &out));
  EXPECT_SUCCESS(context, clattn_mha_forward(mha, &in, NULL, NULL, &out, NULL));
  EXPECT_SUCCESS(context, clattn_tensor_read(context, &out, got));
  for (int e = 0; e < E; e++) cr_expect_eq(got[e], x[e]); /* one key, weight 1: exact */
  const clattn_tensor bo = clattn_mha_parameter(mha, CLATTN_BO);
  EXPECT_SUCCESS(context, clattn_tensor_write(context, &bo, bias));
  EXPECT_SUCCESS(context, clattn_mha_forward(mha, &in, NULL, NULL, &out, NULL));
  EXPECT_SUCCESS(context, clattn_tensor_read(context, &out, got));
  for (int e = 0; e < E; e++) cr_expect_eq(got[e], x[e] + bias[e]);
  clattn_mha_destroy(&mha);
  cr_expect_null(mha);
  mha = create_plain_layer(context, E, 2, 0);
  for (int p = CLATTN_BQ; p < CLATTN_PARAMETER_COUNT; p++)
    cr_expect_null(clattn_mha_parameter(mha, (clattn_parameter)p).buffer);
  clattn_mha_destroy(&mha);
  clattn_mha_destroy(&mha);
  clattn_mha_destroy(NULL);
  clattn_tensor_release(&in);
  clattn_tensor_release(&out);
  clattn_context_destroy(&context);
}
