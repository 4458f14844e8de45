/* SPDX-License-Identifier: Apache-2.0
 *
 * Work in slices: limits on memory give the same answers, are kept, and what the plan says of memory is true. Memory is
 * measured where buffers are made (support/device_memory.h), so CLBlast's temporary buffers count. */
#include "support/attention_case.h"
#include "support/device_memory.h"
#include "support/layer_case.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

/* --------------------------------------------------------------------------------------------------- same answers */

/* Runs a case under ever smaller limits until the library says that one row does not fit. Returns the number of
 * limits. */
static int run_under_limits(clattn_context *context, attention_case c) {
  clattn_plan whole, plan;
  test_line line = {{0}};
  int limits = 0;
  c.request.scratch_limit = 0;
  EXPECT_SUCCESS(context, attention_case_plan(context, &c, &whole));
  cr_assert_eq(whole.slices, 1, "%s", whole.text);
  for (uint64_t limit = whole.scratch_bytes; limit > 0; limit = limit * 2 / 3) {
    c.request.scratch_limit = limit;
    const clattn_status status = attention_case_plan(context, &c, &plan);
    if (status == CLATTN_OUT_OF_DEVICE_MEMORY) break;
    EXPECT_SUCCESS(context, status);
    cr_expect_leq(plan.scratch_bytes, limit, "%s", plan.text);
    if (limit < whole.scratch_bytes) cr_expect_gt(plan.slices, 1, "%s", plan.text);
    cr_expect(attention_case_check(context, &c, &line), "%s", line.text);
    limits++;
  }
  return limits;
}

Test(slices, every_limit_gives_the_same_answers) {
  clattn_context *context = test_context();
  const int64_t lengths[3] = {31, 0, 17};
  for (int weights = 0; weights < 3; weights++) {
    attention_case c = {.batch = 3, .heads = 4, .q_len = 19, .kv_len = 31, .head_dim = 5, .value_head_dim = 7};
    c.request.weights = (test_weights)weights;
    c.request.log_sum_exp = 1;
    cr_expect_gt(run_under_limits(context, c), 4);
    c.request.masks[0] = (test_mask){.kind = CLATTN_MASK_BLOCK, .axes = "bhts", .share = 0.3};
    c.request.masks[1] = (test_mask){.kind = CLATTN_MASK_ADD, .axes = "hts", .share = 0.1};
    c.request.causal = CLATTN_CAUSAL_BOTTOM_RIGHT;
    c.request.kv_lengths = lengths;
    cr_expect_gt(run_under_limits(context, c), 4);
    c.query_layout.order = c.key_layout.order = c.value_layout.order = c.request.output_layout.order = "0213";
    for (int m = 2; m < 7; m++) c.request.masks[m] = (test_mask){.kind = CLATTN_MASK_KEEP, .axes = "ts", .share = 0.05};
    cr_expect_gt(run_under_limits(context, c), 4);
  }
  clattn_context_destroy(&context);
}

Test(slices, shapes_that_cut_one_way) {
  clattn_context *context = test_context();
  const attention_case cases[] = {
      {.batch = 1, .heads = 1, .q_len = 100, .kv_len = 40, .head_dim = 3},                       /* rows only */
      {.batch = 20, .heads = 1, .q_len = 1, .kv_len = 40, .head_dim = 3},                        /* batch only */
      {.batch = 1, .heads = 23, .q_len = 1, .kv_len = 40, .head_dim = 3},                        /* heads only */
      {.batch = 7, .heads = 3, .q_len = 5, .kv_len = 300, .head_dim = 1},                        /* scores dominate */
      {.batch = 2, .heads = 3, .q_len = 5, .kv_len = 7, .head_dim = 129, .value_head_dim = 257}, /* heads dominate */
  };
  for (size_t n = 0; n < sizeof cases / sizeof *cases; n++)
    for (int weights = 0; weights < 3; weights++) {
      attention_case c = cases[n];
      c.request.weights = (test_weights)weights;
      c.seed = n;
      cr_expect_gt(run_under_limits(context, c), 1, "case %zu", n);
    }
  clattn_context_destroy(&context);
}

Test(slices, float64) {
  clattn_context *context = test_context();
  attention_case c = {.batch = 2, .heads = 3, .q_len = 17, .kv_len = 23, .head_dim = 5, .type = CLATTN_FLOAT64};
  c.request.weights = TEST_MEAN;
  if (test_has_fp64(context)) cr_expect_gt(run_under_limits(context, c), 4);
  clattn_context_destroy(&context);
}

/* The layer cuts its projections, too; its smallest cut is one batch entry. */
Test(slices, layers) {
  clattn_context *context = test_context();
  for (int form = 0; form < 4; form++) {
    layer_case c = {.batch = 5, .q_len = 9, .kv_len = 13, .config = {.embed_dim = 12, .heads = 3}, .seed = 3};
    c.sequence_first = form & 1;
    c.request.weights = form & 2 ? TEST_MEAN : TEST_PER_HEAD;
    c.request.log_sum_exp = 1;
    clattn_plan whole, plan;
    test_line line = {{0}};
    EXPECT_SUCCESS(context, layer_case_plan(context, &c, &whole));
    cr_assert_eq(whole.slices, 1, "%s", whole.text);
    int limits = 0;
    for (uint64_t limit = whole.scratch_bytes; limit > 0; limit = limit * 3 / 4) {
      c.request.scratch_limit = limit;
      const clattn_status status = layer_case_plan(context, &c, &plan);
      if (status == CLATTN_OUT_OF_DEVICE_MEMORY) break;
      EXPECT_SUCCESS(context, status);
      cr_expect_leq(plan.scratch_bytes, limit, "%s", plan.text);
      cr_expect(layer_case_check(context, &c, &line), "%s", line.text);
      limits++;
    }
    cr_expect_gt(limits, 3);
  }
  clattn_context_destroy(&context);
}

/* A limit that holds not even a row is refused, with both numbers, and nothing is written. */
Test(slices, a_limit_that_holds_no_row) {
  clattn_context *context = test_context();
  attention_case c = {.heads = 2, .q_len = 3, .kv_len = 1000, .head_dim = 4};
  c.request.scratch_limit = 100;
  test_results results;
  test_line line = {{0}};
  cr_expect_not(attention_case_run(context, &c, &results, &line));
  cr_expect(strstr(line.text, "CLATTN_OUT_OF_DEVICE_MEMORY") && strstr(line.text, "100"), "%s", line.text);
  c.request.scratch_limit = 0;
  cr_expect(attention_case_check(context, &c, &line), "after a refusal: %s", line.text);
  clattn_context_destroy(&context);
}

/* The context's own limit holds where the call sets none, and the call's where it sets one. */
Test(slices, limit_of_the_context) {
  clattn_context_options options;
  clattn_context_options_init(&options);
  options.scratch_limit = 20000;
  clattn_context *context = test_context_with(&options);
  attention_case c = {.batch = 2, .heads = 4, .q_len = 33, .kv_len = 65, .head_dim = 5};
  clattn_plan plan;
  test_line line = {{0}};
  EXPECT_SUCCESS(context, attention_case_plan(context, &c, &plan));
  cr_expect(plan.slices > 1 && plan.scratch_bytes <= 20000, "%s", plan.text);
  cr_expect(attention_case_check(context, &c, &line), "%s", line.text);
  c.request.scratch_limit = 1 << 20;
  EXPECT_SUCCESS(context, attention_case_plan(context, &c, &plan));
  cr_expect_eq(plan.slices, 1, "%s", plan.text);
  clattn_context_destroy(&context);
}

/* --------------------------------------------------------------------------------------------------------- memory */

/* Runs a case on a context of its own and returns the most memory that it took beyond its inputs and outputs. */
static size_t measure(const attention_case *c, clattn_plan *plan) {
  clattn_context *context = test_context();
  EXPECT_SUCCESS(context, attention_case_plan(context, c, plan));
  const size_t B = c->batch, H = c->heads, T = c->q_len, S = c->kv_len, D = c->head_dim;
  const test_shape shapes[3] = {{4, {B, H, T, D}}, {4, {B, H, S, D}}, {4, {B, H, T, S}}};
  double *zeros = test_alloc(B * H * (T > S ? T : S) * D, sizeof *zeros);
  test_guarded query = guarded_create(context, CLATTN_FLOAT32, &shapes[0], &c->query_layout, zeros);
  test_guarded key = guarded_create(context, CLATTN_FLOAT32, &shapes[1], &c->key_layout, zeros);
  test_guarded value = guarded_create(context, CLATTN_FLOAT32, &shapes[1], &c->value_layout, zeros);
  test_guarded output = guarded_create(context, CLATTN_FLOAT32, &shapes[0], &c->request.output_layout, NULL);
  clattn_options options;
  clattn_options_init(&options);
  options.scratch_limit = c->request.scratch_limit;
  EXPECT_SUCCESS(context, clattn_finish(context));
  const size_t before = device_memory_now();
  device_memory_reset();
  EXPECT_SUCCESS(context, clattn_sdpa(context, &query.view, &key.view, &value.view, &output.view, &options));
  EXPECT_SUCCESS(context, clattn_finish(context));
  const size_t peak = device_memory_peak() - before;
  guarded_release(&query);
  guarded_release(&key);
  guarded_release(&value);
  guarded_release(&output);
  free(zeros);
  clattn_context_destroy(&context);
  return peak;
}

/* The plan's two numbers together are an upper bound of what a call takes, and the first alone is taken. */
Test(memory, the_plan_tells_the_truth) {
  static const test_layout heads_last = {.order = "0213"};
  const attention_case cases[] = {
      {.batch = 2, .heads = 3, .q_len = 17, .kv_len = 33, .head_dim = 5},
      {.batch = 2, .heads = 8, .q_len = 128, .kv_len = 128, .head_dim = 64},
      {.batch = 1, .heads = 2, .q_len = 300, .kv_len = 301, .head_dim = 65},
      {.batch = 1, .heads = 1, .q_len = 512, .kv_len = 512, .head_dim = 128},
      {.batch = 3,
       .heads = 4,
       .q_len = 65,
       .kv_len = 129,
       .head_dim = 32,
       .query_layout = heads_last,
       .key_layout = heads_last,
       .value_layout = heads_last,
       .request = {.output_layout = heads_last}},
      {.batch = 2, .heads = 4, .q_len = 257, .kv_len = 255, .head_dim = 17, .request = {.scratch_limit = 1 << 19}},
      {.batch = 1, .heads = 2, .q_len = 600, .kv_len = 600, .head_dim = 40, .request = {.scratch_limit = 1 << 20}},
  };
  for (size_t n = 0; n < (test_is_small() ? 1 : sizeof cases / sizeof *cases); n++) {
    clattn_plan plan;
    const size_t peak = measure(&cases[n], &plan);
    cr_expect_leq(peak, plan.scratch_bytes + plan.library_bytes, "case %zu: %s", n, plan.text);
    cr_expect_geq(peak, plan.scratch_bytes, "case %zu: %s", n, plan.text);
  }
}

/* Without weights, memory under a limit does not grow with T*S. */
Test(memory, does_not_grow_with_the_score_matrix) {
  const uint64_t limit = 1 << 20;
  clattn_plan plan;
  for (size_t T = 64; T <= test_size(2048, 128); T *= 2) {
    const attention_case c = {
        .batch = 1, .heads = 2, .q_len = T, .kv_len = T, .head_dim = 8, .request = {.scratch_limit = limit}};
    const size_t peak = measure(&c, &plan);
    cr_expect_leq(peak, limit + plan.library_bytes, "T = S = %zu: %s", T, plan.text);
    /* CLBlast pads what it copies: to tiles of at most 256, a few operands at a time. */
    cr_expect_leq(plan.library_bytes, 4 * limit, "T = S = %zu: %s", T, plan.text);
  }
}

/* Runs that follow use the pool's memory again: none makes new buffers of its own, but for CLBlast's, which are gone
 * after. */
Test(memory, does_not_grow_from_call_to_call) {
  clattn_context *context = test_context();
  const attention_case c = {.batch = 2, .heads = 3, .q_len = 33, .kv_len = 65, .head_dim = 17};
  test_line line = {{0}};
  cr_assert(attention_case_check(context, &c, &line), "%s", line.text);
  const size_t once = device_memory_now();
  for (int n = 0; n < 20; n++) cr_assert(attention_case_check(context, &c, &line), "%s", line.text);
  cr_expect_leq(device_memory_settled(once), once);
  clattn_context_destroy(&context);
  cr_expect_eq(device_memory_settled(0), 0, "bytes that outlive the context");
}

/* ---------------------------------------------------------------------------------------------- the large example */

/* Rows of a head as the reference has them, from the same numbers. */
static void check_rows(const float *query, const float *key, const float *value, const float *output, size_t T,
                       size_t S, size_t D, const size_t *rows, size_t count) {
  for (size_t n = 0; n < count; n++) {
    ref_attention problem = {.batch = 1,
                             .heads = 1,
                             .kv_heads = 1,
                             .q_len = 1,
                             .kv_len = S,
                             .head_dim = D,
                             .value_head_dim = D,
                             .query = ref_array_create(D),
                             .key = ref_array_create(S * D),
                             .value = ref_array_create(S * D),
                             .scale = CLATTN_SCALE_AUTO,
                             .rules = {.window_left = -1, .window_right = -1},
                             .arithmetic = ref_float32()};
    cr_assert_lt(rows[n], T);
    for (size_t d = 0; d < D; d++) problem.query.value[d] = (double)query[rows[n] * D + d];
    for (size_t i = 0; i < S * D; i++) problem.key.value[i] = (double)key[i];
    for (size_t i = 0; i < S * D; i++) problem.value.value[i] = (double)value[i];
    ref_attention_result want = ref_attention_run(&problem);
    for (size_t d = 0; d < D; d++)
      cr_expect(is_near((double)output[rows[n] * D + d], want.output.value[d], want.output.bound[d]),
                "row %zu, %zu: %g instead of %g", rows[n], d, (double)output[rows[n] * D + d], want.output.value[d]);
    ref_attention_result_release(&want);
    ref_array_release(&problem.query);
    ref_array_release(&problem.key);
    ref_array_release(&problem.value);
  }
}

/* B = 1, H = 8, T = S = 16384: 8 GiB of scores, within 1 GiB of device memory by default. Rows at the ends and between
 * of every head are compared, and the whole output is finite. */
Test(memory, sixteen_thousand_keys_in_one_gibibyte) {
  const size_t H = test_size(8, 2), T = test_size(16384, 256), D = 8, count = H * T * D;
  const size_t shape[4] = {1, H, T, D};
  clattn_context *context = test_context();
  float *host[3], *got = test_alloc(count, sizeof *got);
  clattn_tensor input[3], output;
  test_rng rng = {2024};
  for (int i = 0; i < 3; i++) {
    host[i] = test_alloc(count, sizeof(float));
    for (size_t n = 0; n < count; n++) host[i][n] = (float)(rng_uniform(&rng) * 2 - 1);
    EXPECT_SUCCESS(context, clattn_tensor_create(context, CLATTN_FLOAT32, 4, shape, host[i], &input[i]));
  }
  for (size_t n = 0; n < count; n++) got[n] = NAN;
  EXPECT_SUCCESS(context, clattn_tensor_create(context, CLATTN_FLOAT32, 4, shape, got, &output));
  const size_t before = device_memory_now();
  device_memory_reset();
  EXPECT_SUCCESS(context, clattn_sdpa(context, &input[0], &input[1], &input[2], &output, NULL));
  EXPECT_SUCCESS(context, clattn_tensor_read(context, &output, got));
  cr_expect_leq(device_memory_peak() - before, (size_t)1 << 30);
  for (size_t n = 0; n < count; n++) cr_assert(isfinite(got[n]), "element %zu", n);
  const size_t rows[] = {0, 1, T / 2 - 1, T / 2, T - 2, T - 1};
  for (size_t h = 0; h < H; h++) {
    const size_t at = h * T * D;
    check_rows(host[0] + at, host[1] + at, host[2] + at, got + at, T, T, D, rows, sizeof rows / sizeof *rows);
  }
  for (int i = 0; i < 3; i++) {
    clattn_tensor_release(&input[i]);
    free(host[i]);
  }
  clattn_tensor_release(&output);
  free(got);
  clattn_context_destroy(&context);
}
