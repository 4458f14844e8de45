/* SPDX-License-Identifier: Apache-2.0
 *
 * Bugs that others reported about options of attention, as small inputs with answers in closed form: test_field_cases.c
 * goes on here. A number is right when |got - want| <= 1e-5 + 1e-5 |want|. */
#include "support/attention_case.h"
#include "support/layer_case.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static const double zeros[4096]; /* Q and K of most cases */

static void expect_output(clattn_context *context, const attention_case *c, const double *want) {
  test_results results;
  test_line line = {{0}};
  cr_assert(attention_case_run(context, c, &results, &line), "%s", line.text);
  for (size_t n = 0; n < results.output_count; n++)
    cr_expect(is_near(results.output[n], want[n], 1e-5 + 1e-5 * fabs(want[n])), "output[%zu] = %.9g, want %.9g", n,
              results.output[n], want[n]);
  results_release(&results);
}

/* pytorch/pytorch#136816, mlverse/torch#1208: a float padding mask is read as a boolean on one path and added on
 * another. Here a float mask can only be added. */
Test(field_options, a7_float_padding_is_added) {
  static const double padding[2] = {0, 1}, values[2] = {0, 1}, want[1] = {0.73105858};
  clattn_context *context = test_context();
  attention_case c = {.kv_len = 2, .query = zeros, .key = zeros, .value = values};
  c.request.masks[0] = (test_mask){.kind = CLATTN_MASK_ADD, .axes = "bs", .values = padding};
  expect_output(context, &c, want);
  /* The same numbers under a kind that wants booleans are refused, not reinterpreted. */
  const size_t one[4] = {1, 1, 1, 1}, two[4] = {1, 1, 2, 1}, row[4] = {1, 1, 1, 2};
  const float numbers[2] = {0, 1};
  clattn_tensor query, key, output, mask_values;
  EXPECT_SUCCESS(context, clattn_tensor_create(context, CLATTN_FLOAT32, 4, one, numbers, &query));
  EXPECT_SUCCESS(context, clattn_tensor_create(context, CLATTN_FLOAT32, 4, two, numbers, &key));
  EXPECT_SUCCESS(context, clattn_tensor_create(context, CLATTN_FLOAT32, 4, one, numbers, &output));
  EXPECT_SUCCESS(context, clattn_tensor_create(context, CLATTN_FLOAT32, 4, row, numbers, &mask_values));
  clattn_mask mask = {CLATTN_MASK_BLOCK, mask_values};
  clattn_options options;
  clattn_options_init(&options);
  options.masks = &mask;
  options.mask_count = 1;
  EXPECT_STATUS(context, CLATTN_INVALID_TYPE, clattn_sdpa(context, &query, &key, &key, &output, &options));
  clattn_tensor_release(&query);
  clattn_tensor_release(&key);
  clattn_tensor_release(&output);
  clattn_tensor_release(&mask_values);
  clattn_context_destroy(&context);
}

/* onnx/onnx#7865, microsoft/onnxruntime#28370, #28379: a soft cap behind the mask makes minus infinity a number, and
 * masked keys leak. However many terms there are. */
Test(field_options, a9_soft_cap_comes_before_masks) {
  static const double mask[2] = {0, -INFINITY}, none[2] = {0, 0}, values[2] = {1, 100}, want[1] = {1};
  clattn_context *context = test_context();
  attention_case c = {.kv_len = 2, .query = zeros, .key = zeros, .value = values, .request = {.soft_cap = 0.5}};
  for (int terms = 1; terms <= 6; terms++) {
    for (int m = 0; m < terms; m++)
      c.request.masks[m] = (test_mask){.kind = CLATTN_MASK_ADD, .axes = "ts", .values = m == terms - 1 ? mask : none};
    expect_output(context, &c, want);
  }
  clattn_context_destroy(&context);
}

/* onnx/onnx#7274, apple/axlearn#842: with fewer key heads than query heads, heads are tiled (0,1,0,1) instead of
 * repeated (0,0,1,1). */
Test(field_options, a15_grouped_heads_repeat) {
  static const double values[2] = {1, 2}, four[4] = {1, 1, 2, 2}, six[6] = {1, 1, 1, 2, 2, 2}, ones[4] = {1, 1, 1, 1};
  clattn_context *context = test_context();
  expect_output(context, &(attention_case){.heads = 4, .kv_heads = 2, .query = zeros, .key = zeros, .value = values},
                four);
  expect_output(context, &(attention_case){.heads = 6, .kv_heads = 2, .query = zeros, .key = zeros, .value = values},
                six);
  expect_output(context, &(attention_case){.heads = 4, .kv_heads = 1, .query = zeros, .key = zeros, .value = values},
                ones);
  clattn_plan plan;
  const attention_case uneven = {.heads = 4, .kv_heads = 3, .query = zeros, .key = zeros};
  cr_expect_eq(attention_case_plan(context, &uneven, &plan), CLATTN_INVALID_SHAPE);
  cr_expect_not_null(strstr(clattn_context_message(context), "3 heads"), "%s", clattn_context_message(context));
  clattn_context_destroy(&context);
}

/* pytorch/pytorch#42929, #33360, #90842, NVIDIA/apex#816: dropout that is not scaled, that is on in inference, that
 * differs from call to call. One key: its weight is 0 or 1.25, and a share of 0.2 of them is 0 within four standard
 * deviations. */
Test(field_options, a25_dropout_drops_and_scales) {
  enum { N = 4096 };
  static const double values[N] = {0};
  double ones[N];
  clattn_context *context = test_context();
  for (int n = 0; n < N; n++) ones[n] = 1;
  test_line line = {{0}};
  test_results plain, again, other;
  attention_case c = {.q_len = N,
                      .query = values,
                      .key = zeros,
                      .value = ones,
                      .request = {.dropout = 0.2, .dropout_seed = 7, .weights = TEST_PER_HEAD}};
  cr_assert(attention_case_run(context, &c, &plain, &line), "%s", line.text);
  size_t dropped = 0;
  for (size_t n = 0; n < N; n++) {
    dropped += plain.weights[n] == 0;
    cr_expect(plain.weights[n] == 0 || is_near(plain.weights[n], 1.25, 1.25e-6), "weight %g", plain.weights[n]);
    cr_expect(is_near(plain.output[n], plain.weights[n], 1e-6), "output %g", plain.output[n]);
  }
  const double share = (double)dropped / N;
  cr_expect(fabs(share - 0.2) <= 4 * sqrt(0.2 * 0.8 / N), "share of zeros %g", share);
  cr_assert(attention_case_run(context, &c, &again, &line), "%s", line.text);
  cr_expect(compare_bits("weights", plain.weights, again.weights, sizeof(double) * N, &line), "%s", line.text);
  c.request.dropout_call = 1;
  cr_assert(attention_case_run(context, &c, &other, &line), "%s", line.text);
  cr_expect(memcmp(plain.weights, other.weights, sizeof(double) * N) != 0, "another call drops the same numbers");
  results_release(&again);
  results_release(&other);
  results_release(&plain);

  /* Off in inference and with p = 0: the bits of no dropout. p = 1 would leave nothing and is refused. */
  attention_case off = {.q_len = 33, .kv_len = 17, .head_dim = 5, .seed = 3};
  cr_assert(attention_case_run(context, &off, &plain, &line), "%s", line.text);
  for (int way = 0; way < 2; way++) {
    off.request.dropout = way ? 0.5 : 0;
    off.request.inference = way;
    cr_assert(attention_case_run(context, &off, &again, &line), "%s", line.text);
    cr_expect(compare_bits("output", plain.output, again.output, sizeof(double) * plain.output_count, &line), "%s",
              line.text);
    results_release(&again);
  }
  results_release(&plain);
  clattn_plan plan;
  off.request.dropout = 1;
  cr_expect_eq(attention_case_plan(context, &off, &plan), CLATTN_INVALID_ARGUMENT);
  clattn_context_destroy(&context);
}
