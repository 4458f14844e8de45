/* SPDX-License-Identifier: Apache-2.0
 *
 * Results beyond the output: weights per head, averaged over heads, and the log-sum-exp; alone and together, in any
 * layout. */
#include "support/attention_case.h"

#include <criterion/criterion.h>
#include <stdlib.h>

/* Every combination of results that can be asked for. */
Test(weights, combinations) {
  clattn_context *context = test_context();
  for (int type = 0; type < 2; type++) {
    if (type == 1 && !test_has_fp64(context)) break;
    for (int weights = 0; weights < 3; weights++)
      for (int lse = 0; lse < 2; lse++)
        for (int no_output = 0; no_output < 2; no_output++) {
          if (no_output && !weights && !lse) continue;
          EXPECT_CASE(context, .batch = 2, .heads = 3, .q_len = 9, .kv_len = 17, .head_dim = 5, .value_head_dim = 4,
                      .type = type ? CLATTN_FLOAT64 : CLATTN_FLOAT32, .seed = 8,
                      .request = {.weights = (test_weights)weights, .log_sum_exp = lse, .no_output = no_output});
        }
  }
  clattn_context_destroy(&context);
}

Test(weights, mean_over_heads) {
  static const size_t heads[] = {1, 2, 3, 4, 7, 8, 12, 17, 33};
  clattn_context *context = test_context();
  for (size_t n = 0; n < sizeof heads / sizeof *heads; n++) {
    EXPECT_CASE(context, .batch = 3, .heads = heads[n], .q_len = 5, .kv_len = 33, .head_dim = 3, .seed = n,
                .request = {.weights = TEST_MEAN});
    EXPECT_CASE(context, .batch = 2, .heads = heads[n], .q_len = 3, .kv_len = 9, .head_dim = 3, .seed = n,
                .request = {.weights = TEST_MEAN,
                            .masks = {{.kind = CLATTN_MASK_BLOCK, .axes = "hts", .share = 0.5}},
                            .causal = CLATTN_CAUSAL_BOTTOM_RIGHT});
  }
  clattn_context_destroy(&context);
}

Test(weights, layouts) {
  static const test_layout per_head[] = {{.order = "0213"},
                                         {.order = "3210"},
                                         {.order = "2013", .offset = 1},
                                         {.pad = {9, 7, 5, 1}},
                                         {.pad = {0, 0, 1, 0}}};
  static const test_layout mean[] = {
      {.order = "102"}, {.order = "210"}, {.order = "021", .offset = 3}, {.pad = {9, 5, 1}}, {.pad = {0, 1, 0}}};
  clattn_context *context = test_context();
  for (size_t n = 0; n < sizeof mean / sizeof *mean; n++) {
    EXPECT_CASE(
        context, .batch = 2, .heads = 3, .q_len = 5, .kv_len = 9, .head_dim = 4, .seed = n,
        .request = {
            .weights = TEST_PER_HEAD, .weights_layout = per_head[n], .log_sum_exp = 1, .log_sum_exp_layout = mean[n]});
    EXPECT_CASE(context, .batch = 2, .heads = 3, .q_len = 5, .kv_len = 9, .head_dim = 4, .seed = n,
                .request = {.weights = TEST_MEAN,
                            .weights_layout = mean[n],
                            .log_sum_exp = 1,
                            .log_sum_exp_layout = mean[(n + 2) % 5]});
    EXPECT_CASE(context, .batch = 2, .heads = 3, .q_len = 5, .kv_len = 9, .head_dim = 4, .seed = n,
                .request = {.weights = TEST_PER_HEAD, .weights_layout = per_head[n], .no_output = 1});
  }
  clattn_context_destroy(&context);
}

/* Probabilities are none of them negative, and a row sums to 1 as far as its own bounds say: a property beside the
 * reference. */
Test(weights, rows_sum_to_one) {
  enum { B = 2, H = 2, T = 17, S = 65 };
  clattn_context *context = test_context();
  attention_case c = {.batch = B, .heads = H, .q_len = T, .kv_len = S, .head_dim = 9, .spread = 2, .seed = 4};
  c.request.weights = TEST_PER_HEAD;
  test_results results;
  test_line line = {{0}};
  cr_assert(attention_case_run(context, &c, &results, &line), "%s", line.text);
  for (size_t r = 0; r < B * H * T; r++) {
    double sum = 0;
    for (size_t j = 0; j < S; j++) {
      const double weight = results.weights[r * S + j];
      cr_assert(weight >= 0 && weight <= 1 + 6 * 0x1p-24, "row %zu: %g", r, weight);
      sum += weight;
    }
    /* Whatever the exponentials are, dividing them by their own sum leaves the sum's rounding (S u) and the quotient's
     * (6u). */
    cr_expect(is_near(sum, 1, (S + 6) * 0x1p-24), "row %zu: %g", r, sum);
  }
  results_release(&results);
  clattn_context_destroy(&context);
}
