/* SPDX-License-Identifier: Apache-2.0
 *
 * Layers on weights that are on the device already: stacked, head-interleaved, strided and 16-bit views. */
#include "support/layer_case.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { B = 2, T = 5, S = 7, E = 24, H = 4, G = 2, D = 6, DV = 3, EK = 10, EV = 9, EO = 11 };

/* How the views lie in memory. */
typedef enum view_form {
  ROWS,       /* [rows, columns] and [rows] */
  WIDE_ROWS,  /* the same with a gap behind each row */
  HEADS,      /* [heads, size, columns] and [heads, size] that follow each other */
  INTERLEAVED /* the same with two more heads' rows between two heads, as in [H,3,D,E] */
} view_form;

typedef struct shape_of {
  size_t heads, size, columns; /* columns 0: a bias */
} shape_of;

static const shape_of shapes[CLATTN_PARAMETER_COUNT] = {{H, D, E}, {G, D, EK}, {G, DV, EV}, {1, EO, H *DV}, {H, D, 0},
                                                        {G, D, 0}, {G, DV, 0}, {1, EO, 0},  {G, D, 0},      {G, DV, 0}};

static test_guarded make_view(clattn_context *context, int which, view_form form, clattn_type type,
                              const double *values) {
  const shape_of *p = &shapes[which];
  const int bias = p->columns == 0, apart = form == HEADS || form == INTERLEAVED;
  test_shape shape = {.rank = (apart ? 2 : 1) + !bias};
  test_layout layout = {.offset = 5};
  shape.extent[0] = apart ? p->heads : p->heads * p->size;
  shape.extent[apart] = apart ? p->size : shape.extent[0];
  if (!bias) shape.extent[shape.rank - 1] = p->columns;
  if (form == WIDE_ROWS) layout.pad[0] = bias ? 1 : 3;
  if (form == INTERLEAVED) layout.pad[0] = 2 * p->size * (bias ? 1 : p->columns);
  return guarded_create(context, type, &shape, &layout, values);
}

/* types: of weights and of biases. */
static void expect_views(clattn_context *context, view_form form, clattn_type weights, clattn_type biases) {
  double *values[CLATTN_PARAMETER_COUNT];
  test_guarded views[CLATTN_PARAMETER_COUNT];
  const clattn_tensor *tensors[CLATTN_PARAMETER_COUNT];
  test_rng rng = {(uint64_t)form * 64 + (uint64_t)weights * 8 + (uint64_t)biases};
  test_line line = {{0}};
  layer_case c = {.batch = B,
                  .q_len = T,
                  .kv_len = S,
                  .config = {.embed_dim = E,
                             .heads = H,
                             .kv_heads = G,
                             .head_dim = D,
                             .value_head_dim = DV,
                             .kdim = EK,
                             .vdim = EV,
                             .out_dim = EO,
                             .bias_kv = 1}};
  double *inputs[3];
  const size_t counts[3] = {B * T * E, B * S * EK, B * S * EV};
  for (int i = 0; i < 3; i++) {
    inputs[i] = test_alloc(counts[i], sizeof(double));
    for (size_t n = 0; n < counts[i]; n++) inputs[i][n] = type_round(CLATTN_FLOAT32, rng_normal(&rng));
  }
  c.query = inputs[0];
  c.key = inputs[1];
  c.value = inputs[2];
  for (int p = 0; p < CLATTN_PARAMETER_COUNT; p++) {
    const clattn_type type = shapes[p].columns ? weights : biases;
    const size_t count = shapes[p].heads * shapes[p].size * (shapes[p].columns ? shapes[p].columns : 1);
    values[p] = test_alloc(count, sizeof(double));
    for (size_t n = 0; n < count; n++) values[p][n] = type_round(type, 0.3 * rng_normal(&rng));
    c.parameter[p] = values[p];
    views[p] = make_view(context, p, form, type, values[p]);
    tensors[p] = &views[p].view;
  }
  ref_layer_result want = layer_case_reference(context, &c);

  clattn_mha_config config = c.config;
  clattn_mha_config_init(&config);
  const size_t struct_size = config.struct_size;
  config = c.config;
  config.struct_size = struct_size;
  config.bias = 1;
  clattn_mha *mha = NULL;
  EXPECT_SUCCESS(context, clattn_mha_create_from_tensors(context, &config, CLATTN_FLOAT32, tensors, &mha));
  const test_shape x[3] = {{3, {B, T, E}}, {3, {B, S, EK}}, {3, {B, S, EV}}}, y = {3, {B, T, EO}};
  test_guarded device[3], output = guarded_create(context, CLATTN_FLOAT32, &y, &(test_layout){0}, NULL);
  for (int i = 0; i < 3; i++) device[i] = guarded_create(context, CLATTN_FLOAT32, &x[i], &(test_layout){0}, inputs[i]);
  double got[B * T * EO];
  EXPECT_SUCCESS(context,
                 clattn_mha_forward(mha, &device[0].view, &device[1].view, &device[2].view, &output.view, NULL));
  guarded_read(&output, got, NULL);
  cr_expect(compare_arrays("output", got, &y, &want.output, &y, &line), "form %d, weights %s, biases %s: %s", (int)form,
            clattn_type_name(weights), clattn_type_name(biases), line.text);
  cr_expect(guarded_check(&output, "output", 0, &line), "%s", line.text);
  for (int p = 0; p < CLATTN_PARAMETER_COUNT; p++)
    cr_expect(guarded_check(&views[p], "a weight", 1, &line), "%s", line.text);

  clattn_mha_destroy(&mha);
  ref_layer_result_release(&want);
  guarded_release(&output);
  for (int i = 0; i < 3; i++) {
    guarded_release(&device[i]);
    free(inputs[i]);
  }
  for (int p = 0; p < CLATTN_PARAMETER_COUNT; p++) {
    guarded_release(&views[p]);
    free(values[p]);
  }
}

Test(layer_views, every_form_and_type) {
  static const clattn_type types[] = {CLATTN_FLOAT32, CLATTN_FLOAT16, CLATTN_BFLOAT16};
  clattn_context *context = test_context();
  for (int form = ROWS; form <= INTERLEAVED; form++)
    for (int w = 0; w < 3; w++) expect_views(context, (view_form)form, types[w], types[(w + form) % 3]);
  clattn_context_destroy(&context);
}

/* One [3*E,E] buffer as three weights, changed on the device between two calls: the layer sees the change, and holds
 * the buffer when its owner lets go. */
Test(layer_views, a_stacked_buffer_is_used_where_it_is) {
  enum { W = 6 };
  clattn_context *context = test_context();
  const size_t stacked[2] = {3 * W, W}, square[2] = {W, W}, input[3] = {1, 1, W};
  float weights[3 * W * W] = {0}, identity[W * W] = {0}, x[W] = {1, 2, 3, 4, 5, 6}, y[W];
  for (int e = 0; e < W; e++) identity[e * W + e] = weights[2 * W * W + e * W + e] = 1;
  clattn_tensor stack, out, in, result;
  EXPECT_SUCCESS(context, clattn_tensor_create(context, CLATTN_FLOAT32, 2, stacked, weights, &stack));
  EXPECT_SUCCESS(context, clattn_tensor_create(context, CLATTN_FLOAT32, 2, square, identity, &out));
  EXPECT_SUCCESS(context, clattn_tensor_create(context, CLATTN_FLOAT32, 3, input, x, &in));
  EXPECT_SUCCESS(context, clattn_tensor_create(context, CLATTN_FLOAT32, 3, input, NULL, &result));
  clattn_tensor views[4];
  const clattn_tensor *tensors[CLATTN_PARAMETER_COUNT] = {NULL};
  for (size_t p = 0; p < 3; p++) views[p] = clattn_tensor_view(stack.buffer, p * W * W, CLATTN_FLOAT32, 2, square);
  views[3] = out;
  for (int p = 0; p < 4; p++) tensors[p] = &views[p];
  clattn_mha_config config;
  clattn_mha_config_init(&config);
  config.embed_dim = W;
  config.heads = 2;
  config.bias = 0;
  clattn_mha *mha = NULL;
  EXPECT_SUCCESS(context, clattn_mha_create_from_tensors(context, &config, CLATTN_FLOAT32, tensors, &mha));
  EXPECT_SUCCESS(context, clattn_mha_forward(mha, &in, NULL, NULL, &result, NULL));
  EXPECT_SUCCESS(context, clattn_tensor_read(context, &result, y));
  for (int e = 0; e < W; e++) cr_expect_eq(y[e], x[e], "one key: the value itself, %g", (double)y[e]);
  for (int e = 0; e < W; e++) weights[2 * W * W + e * W + e] = 2;
  EXPECT_SUCCESS(context, clattn_tensor_write(context, &stack, weights));
  clattn_tensor_release(&stack);
  clattn_tensor_release(&out);
  EXPECT_SUCCESS(context, clattn_mha_forward(mha, &in, NULL, NULL, &result, NULL));
  EXPECT_SUCCESS(context, clattn_tensor_read(context, &result, y));
  for (int e = 0; e < W; e++) cr_expect_eq(y[e], 2 * x[e], "%g", (double)y[e]);
  clattn_mha_destroy(&mha);
  clattn_tensor_release(&in);
  clattn_tensor_release(&result);
  clattn_context_destroy(&context);
}

Test(layer_views, wrong_views_are_refused) {
  clattn_context *context = test_context();
  const size_t square[2] = {6, 6}, wrong[2] = {6, 5}, row[1] = {6};
  clattn_tensor weight, narrow, bias, integers;
  EXPECT_SUCCESS(context, clattn_tensor_create(context, CLATTN_FLOAT32, 2, square, NULL, &weight));
  EXPECT_SUCCESS(context, clattn_tensor_create(context, CLATTN_FLOAT32, 2, wrong, NULL, &narrow));
  EXPECT_SUCCESS(context, clattn_tensor_create(context, CLATTN_FLOAT32, 1, row, NULL, &bias));
  EXPECT_SUCCESS(context, clattn_tensor_create(context, CLATTN_INT32, 2, square, NULL, &integers));
  clattn_mha_config config;
  clattn_mha_config_init(&config);
  config.embed_dim = 6;
  config.heads = 2;
  clattn_mha *mha = (clattn_mha *)&config; /* becomes NULL whenever a call fails */
  const clattn_tensor *good[CLATTN_PARAMETER_COUNT] = {&weight, &weight, &weight, &weight, &bias, &bias, &bias, &bias};
  const clattn_tensor *t[CLATTN_PARAMETER_COUNT];
  const struct {
    int which;
    const clattn_tensor *tensor;
    clattn_status status;
    const char *says;
  } cases[] = {{CLATTN_WK, &narrow, CLATTN_INVALID_SHAPE, "WK has shape [6,5], not [6,6]"},
               {CLATTN_WV, &integers, CLATTN_INVALID_TYPE, "WV is int32"},
               {CLATTN_BO, NULL, CLATTN_INVALID_ARGUMENT, "tensors[CLATTN_BO] is NULL"},
               {CLATTN_BIAS_K, &bias, CLATTN_INVALID_ARGUMENT, "tensors[CLATTN_BIAS_K] is given"},
               {CLATTN_BQ, &weight, CLATTN_INVALID_SHAPE, "BQ has shape [6,6], not [6]"}};
  for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
    memcpy(t, good, sizeof t);
    t[cases[n].which] = cases[n].tensor;
    mha = (clattn_mha *)&config;
    EXPECT_STATUS(context, cases[n].status, clattn_mha_create_from_tensors(context, &config, CLATTN_FLOAT32, t, &mha));
    cr_expect_null(mha);
    cr_expect_not_null(strstr(clattn_context_message(context), cases[n].says), "%s", clattn_context_message(context));
  }
  EXPECT_STATUS(context, CLATTN_INVALID_TYPE,
                clattn_mha_create_from_tensors(context, &config, CLATTN_FLOAT16, good, &mha));
  EXPECT_STATUS(context, CLATTN_INVALID_ARGUMENT,
                clattn_mha_create_from_tensors(context, &config, CLATTN_FLOAT32, NULL, &mha));
  EXPECT_STATUS(context, CLATTN_INVALID_ARGUMENT,
                clattn_mha_create_from_tensors(context, &config, CLATTN_FLOAT32, good, NULL));
  if (test_has_fp64(context))
    EXPECT_STATUS(context, CLATTN_INVALID_TYPE,
                  clattn_mha_create_from_tensors(context, &config, CLATTN_FLOAT64, good, &mha));
  clattn_tensor_release(&weight);
  clattn_tensor_release(&narrow);
  clattn_tensor_release(&bias);
  clattn_tensor_release(&integers);
  clattn_context_destroy(&context);
}
