/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of every length, from 1 key to 100,000: against the reference, and where its bounds grow with the length against
 * closed forms that do not. */
#include "support/attention_case.h"

#include <criterion/criterion.h>
#include <stdlib.h>

static const size_t row_lengths[] = {1,    2,    3,    4,     5,     7,     8,     9,     15,    16,   17,
                                     31,   32,   33,   63,    64,    65,    127,   128,   129,   255,  256,
                                     257,  511,  512,  513,   1023,  1024,  1025,  2047,  2048,  2049, 4095,
                                     4096, 4097, 8193, 10007, 16385, 32769, 65537, 99999, 100000};
enum { ROW_LENGTHS = sizeof row_lengths / sizeof *row_lengths };

static int skip_length(size_t length) {
  return length > test_size(100000, 4097);
}

Test(softmax, row_lengths_against_the_reference) {
  clattn_context *context = test_context();
  for (int n = 0; n < ROW_LENGTHS && !skip_length(row_lengths[n]); n++)
    EXPECT_CASE(context, .heads = 2, .q_len = 3, .kv_len = row_lengths[n], .head_dim = 3, .value_head_dim = 2,
                .seed = (uint64_t)n, .request = {.weights = TEST_PER_HEAD, .log_sum_exp = 1});
  clattn_context_destroy(&context);
}

/* A few lengths around vectors and work-groups, for devices and checkers that are slow. */
Test(softmax, short_row_lengths) {
  static const size_t lengths[] = {1, 15, 16, 17, 257};
  clattn_context *context = test_context();
  for (int n = 0; n < 5; n++)
    EXPECT_CASE(context, .heads = 2, .q_len = 2, .kv_len = lengths[n], .head_dim = 3, .request = {.log_sum_exp = 1});
  clattn_context_destroy(&context);
}

/* Q = K = 0: the exponentials are 1 and their sum is exact, so only a quotient (6u) and ln S (8u) round. */
Test(softmax, equal_scores_of_every_length) {
  clattn_context *context = test_context();
  for (int n = 0; n < ROW_LENGTHS && !skip_length(row_lengths[n]); n++) {
    const size_t S = row_lengths[n];
    double *zeros = test_alloc(S, sizeof *zeros), *weights = test_alloc(S, sizeof *weights);
    for (size_t j = 0; j < S; j++) weights[j] = 1 / (double)S;
    attention_case c = {.kv_len = S, .head_dim = 1, .query = zeros, .key = zeros};
    c.request = (test_request){.weights = TEST_PER_HEAD, .log_sum_exp = 1, .no_output = 1};
    test_results results;
    test_line line = {{0}};
    cr_assert(attention_case_run(context, &c, &results, &line), "%s", line.text);
    cr_expect(compare_numbers("weights", results.weights, weights, S, 6 * 0x1p-24 / (double)S, &line), "S=%zu: %s", S,
              line.text);
    cr_expect(is_near(results.log_sum_exp[0], log((double)S), 8 * 0x1p-24 * log((double)S)), "S=%zu: %.9g", S,
              results.log_sum_exp[0]);
    results_release(&results);
    free(zeros);
    free(weights);
  }
  clattn_context_destroy(&context);
}

/* One key weighs as much as all others together, wherever it lies: 1/2, and 1/2 for V of 1 there and 0 elsewhere.
 *
 * The score ln(S-1) is rounded to float (u ln S) and goes through two products (2u ln S); the difference from the
 * maximum makes the other exponentials err by that (u ln S) and by 3 ulp (6u), as the needle's own does; their sum
 * rounds S times at most, the quotient takes 6u, and the scale that is 1 may be split and rounded: 6u. The weight is
 * half of that, twice. */
Test(softmax, needle_at_every_place) {
  clattn_context *context = test_context();
  for (int n = 1; n < ROW_LENGTHS && !skip_length(row_lengths[n]); n++) {
    const size_t S = row_lengths[n], places[] = {0, S / 2, S - 1};
    for (int p = 0; p < 3; p++) {
      double *keys = test_alloc(S, sizeof *keys), *values = test_alloc(S, sizeof *values);
      const double one = 1, half = 0.5;
      keys[places[p]] = log((double)(S - 1));
      values[places[p]] = 1;
      const attention_case c = {.kv_len = S, .head_dim = 1, .query = &one, .key = keys, .value = values};
      const double bound = (4 * log((double)S) + 24 + (double)S) * 0x1p-24;
      test_line line = {{0}};
      cr_expect(attention_case_expect(context, &c, &half, NULL, bound, &line), "place %zu: %s", places[p], line.text);
      free(keys);
      free(values);
    }
  }
  clattn_context_destroy(&context);
}

/* Live ranges that begin and end anywhere: windows move them along the row, lengths and causal rules cut them. */
Test(softmax, live_ranges_of_every_alignment) {
  clattn_context *context = test_context();
  const size_t S = test_size(600, 150), lengths[] = {1, 2, 7, 15, 16, 17, 31, 64, 100, 257};
  for (size_t n = 0; n < sizeof lengths / sizeof *lengths; n++) {
    const int64_t own[2] = {(int64_t)S, (int64_t)(S - lengths[n] / 2)};
    const int64_t window = (int64_t)lengths[n];
    EXPECT_CASE(context, .batch = 2, .q_len = 40, .kv_len = S, .head_dim = 2, .seed = n,
                .request = {.causal = CLATTN_CAUSAL_OFFSET,
                            .causal_offset = (int64_t)n * 13,
                            .window = {1, window, CLATTN_WINDOW_NONE},
                            .kv_lengths = own,
                            .weights = TEST_PER_HEAD,
                            .log_sum_exp = 1});
    EXPECT_CASE(context, .batch = 2, .q_len = 20, .kv_len = S, .head_dim = 2, .seed = n,
                .request = {.causal = CLATTN_CAUSAL_BOTTOM_RIGHT,
                            .window = {1, window, CLATTN_WINDOW_NONE},
                            .masks = {{.kind = CLATTN_MASK_ADD, .axes = "s", .share = 0.2}},
                            .kv_lengths = own,
                            .weights = TEST_MEAN});
  }
  clattn_context_destroy(&context);
}

/* Long rows with lengths and masks of all kinds. */
Test(softmax, long_rows_with_masks) {
  clattn_context *context = test_context();
  const size_t S = test_size(100000, 3001);
  const int64_t lengths[2] = {(int64_t)S - 12345 % (int64_t)S, 1};
  EXPECT_CASE(context, .batch = 2, .q_len = 2, .kv_len = S, .head_dim = 2, .seed = 1,
              .request = {.masks = {{.kind = CLATTN_MASK_BLOCK, .axes = "s", .share = 0.5},
                                    {.kind = CLATTN_MASK_KEEP, .axes = "bs", .share = 0.5},
                                    {.kind = CLATTN_MASK_ADD, .axes = "ts", .share = 0.2}},
                          .kv_lengths = lengths,
                          .weights = TEST_PER_HEAD,
                          .log_sum_exp = 1});
  EXPECT_CASE(context, .q_len = 3, .kv_len = S, .head_dim = 2, .seed = 2,
              .request = {.causal = CLATTN_CAUSAL_BOTTOM_RIGHT, .window = {1, 1000, CLATTN_WINDOW_NONE}});
  if (test_has_fp64(context))
    EXPECT_CASE(context, .q_len = 2, .kv_len = S, .head_dim = 2, .type = CLATTN_FLOAT64, .seed = 3,
                .request = {.weights = TEST_PER_HEAD, .log_sum_exp = 1});
  clattn_context_destroy(&context);
}

/* Scores that span hundreds of orders of magnitude: small weights underflow to 0, large ones stay right. */
Test(softmax, wide_scores) {
  clattn_context *context = test_context();
  for (uint64_t seed = 0; seed < 6; seed++)
    EXPECT_CASE(context, .heads = 2, .q_len = 5, .kv_len = 70, .head_dim = 2, .spread = 4 + (double)seed, .seed = seed,
                .request = {.scale = {1, 3}, .weights = TEST_PER_HEAD, .log_sum_exp = 1});
  clattn_context_destroy(&context);
}
