/* SPDX-License-Identifier: Apache-2.0
 *
 * Masks and rules: kinds, broadcasts, many terms at once, key lengths, causal rules, windows, rows without keys. */
#include "support/attention_case.h"

#include <criterion/criterion.h>
#include <float.h>
#include <stdlib.h>
#include <string.h>

static const clattn_mask_kind all_kinds[] = {CLATTN_MASK_BLOCK, CLATTN_MASK_KEEP, CLATTN_MASK_ADD};
static const char *const all_axes[] = {"bhts", "hts", "ts", "s",   "bs", "bts", "hs",
                                       "bhs",  "t",   "bt", "bht", "b",  "h",   ""};
enum { AXES = sizeof all_axes / sizeof *all_axes };

/* Every kind over every set of axes, in every form that a broadcast may take. */
Test(masks, kinds_and_broadcasts) {
  clattn_context *context = test_context();
  uint64_t seed = 0;
  for (int k = 0; k < 3; k++)
    for (int a = 0; a < AXES; a++)
      for (int form = 0; form < 3; form++) {
        test_mask mask = {.kind = all_kinds[k], .axes = all_axes[a], .share = 0.3};
        mask.form = form == 0 ? TEST_SHORT : form == 1 ? TEST_FULL_RANK : TEST_STRIDE_0;
        EXPECT_CASE(context, .batch = 2, .heads = 3, .q_len = 5, .kv_len = 9, .head_dim = 4, .seed = seed++,
                    .request = {.masks = {mask}, .weights = TEST_PER_HEAD, .log_sum_exp = 1});
      }
  clattn_context_destroy(&context);
}

Test(masks, layouts_of_masks) {
  static const test_layout layouts[] = {{.offset = 1},
                                        {.order = "3210"},
                                        {.order = "0132", .offset = 3},
                                        {.order = "2013", .pad = {0, 0, 0, 2}},
                                        {.pad = {7, 5, 3, 1}, .offset = 2}};
  clattn_context *context = test_context();
  for (int k = 0; k < 3; k++)
    for (size_t n = 0; n < sizeof layouts / sizeof *layouts; n++)
      EXPECT_CASE(
          context, .batch = 2, .heads = 3, .q_len = 6, .kv_len = 7, .head_dim = 3, .seed = n,
          .request = {.masks = {{.kind = all_kinds[k], .share = 0.3, .layout = layouts[n]}}, .weights = TEST_PER_HEAD});
  clattn_context_destroy(&context);
}

/* 0 to 12 terms over drawn axes; blocks that nearly fill rows, so that some stay without keys. The kinds go round, so
 * that few different kernels are needed: building them takes longer than running them. */
Test(masks, many_terms_together) {
  clattn_context *context = test_context();
  test_rng rng = {7};
  const int cases = test_is_small() ? 13 : 39;
  for (int n = 0; n < cases; n++) {
    attention_case c = {.batch = 1 + rng_below(&rng, 3), .heads = 1 + rng_below(&rng, 3)};
    c.q_len = 1 + rng_below(&rng, 17);
    c.kv_len = 1 + rng_below(&rng, 33);
    c.head_dim = 1 + rng_below(&rng, 9);
    c.seed = rng_next(&rng);
    const int terms = n % (TEST_MAX_MASKS + 1);
    for (int m = 0; m < terms; m++) {
      test_mask *mask = &c.request.masks[m];
      mask->kind = all_kinds[(terms - m) % 3];
      mask->axes = all_axes[rng_below(&rng, AXES)];
      mask->share = 0.8 / (terms + 1);
      mask->form = rng_below(&rng, 2) ? TEST_STRIDE_0 : TEST_SHORT;
    }
    c.request.weights = (test_weights)rng_below(&rng, 3);
    c.request.log_sum_exp = 1;
    test_line line = {{0}};
    cr_expect(attention_case_check(context, &c, &line), "%s", line.text);
  }
  clattn_context_destroy(&context);
}

/* Terms that add behind terms that block, in as many terms as reach kernels of their own: scores that are blocked
 * already lie between ones that are not, so work-items take different branches. */
Test(masks, added_where_others_have_blocked) {
  clattn_context *context = test_context();
  for (int terms = 5; terms <= 9; terms += 2)
    for (size_t S = 13; S <= 64; S += 17) {
      attention_case c = {.heads = 3, .q_len = 7, .kv_len = S, .head_dim = 5, .seed = S};
      for (int m = 0; m < terms; m++)
        c.request.masks[m] = (test_mask){.kind = m == 4 || m == 1 ? CLATTN_MASK_ADD : CLATTN_MASK_BLOCK,
                                         .axes = m == 4 ? "ts" : "bhts",
                                         .share = 0.1};
      c.request.weights = TEST_PER_HEAD;
      test_line line = {{0}};
      cr_expect(attention_case_check(context, &c, &line), "%s", line.text);
    }
  clattn_context_destroy(&context);
}

/* Every pair of kinds in both orders, and three of a kind. */
Test(masks, pairs_of_kinds) {
  clattn_context *context = test_context();
  for (int first = 0; first < 3; first++)
    for (int second = 0; second < 3; second++) {
      EXPECT_CASE(context, .batch = 2, .heads = 2, .q_len = 7, .kv_len = 11, .head_dim = 4, .seed = 31,
                  .request = {.masks = {{.kind = all_kinds[first], .axes = "ts", .share = 0.3},
                                        {.kind = all_kinds[second], .axes = "bs", .share = 0.3}},
                              .weights = TEST_PER_HEAD});
      EXPECT_CASE(context, .batch = 2, .heads = 2, .q_len = 7, .kv_len = 11, .head_dim = 4, .seed = 32,
                  .request = {.masks = {{.kind = all_kinds[first], .axes = "hts", .share = 0.2},
                                        {.kind = all_kinds[first], .axes = "bs", .share = 0.2},
                                        {.kind = all_kinds[second], .axes = "t", .share = 0.2}},
                              .weights = TEST_PER_HEAD});
    }
  clattn_context_destroy(&context);
}

Test(masks, add_terms_of_another_type) {
  clattn_context *context = test_context();
  for (uint64_t seed = 0; seed < 3 && test_has_fp64(context); seed++) {
    const test_mask wide = {.kind = CLATTN_MASK_ADD, .axes = "hts", .type = CLATTN_FLOAT64, .share = 0.2};
    const test_mask narrow = {.kind = CLATTN_MASK_ADD, .axes = "bs", .type = CLATTN_FLOAT32, .share = 0.2};
    EXPECT_CASE(context, .batch = 2, .heads = 2, .q_len = 5, .kv_len = 9, .head_dim = 3, .seed = seed,
                .request = {.masks = {wide, narrow}, .weights = TEST_PER_HEAD});
    EXPECT_CASE(context, .batch = 2, .heads = 2, .q_len = 5, .kv_len = 9, .head_dim = 3, .seed = seed,
                .type = CLATTN_FLOAT64, .request = {.masks = {wide, narrow}, .weights = TEST_PER_HEAD});
  }
  clattn_context_destroy(&context);
}

/* Several views into one buffer as masks, one of them also backwards: masks are inputs and may overlap. */
Test(masks, one_buffer_for_several_terms) {
  enum { T = 5, S = 5 };
  clattn_context *context = test_context();
  unsigned char bytes[T * S];
  test_rng rng = {3};
  for (size_t n = 0; n < T * S; n++) bytes[n] = rng_below(&rng, 3) == 0;
  const size_t shape[2] = {T, S}, data_shape[4] = {1, 1, T, 2};
  float zeros[T * 2] = {0}, ones[S * 2], got[T * 2], want[T * 2];
  for (size_t n = 0; n < S * 2; n++) ones[n] = (float)n;
  clattn_tensor mask, query, value, out;
  EXPECT_SUCCESS(context, clattn_tensor_create(context, CLATTN_BOOL8, 2, shape, bytes, &mask));
  EXPECT_SUCCESS(context, clattn_tensor_create(context, CLATTN_FLOAT32, 4, data_shape, zeros, &query));
  EXPECT_SUCCESS(context, clattn_tensor_create(context, CLATTN_FLOAT32, 4, data_shape, ones, &value));
  EXPECT_SUCCESS(context, clattn_tensor_create(context, CLATTN_FLOAT32, 4, data_shape, NULL, &out));
  const clattn_mask masks[2] = {{CLATTN_MASK_BLOCK, mask}, {CLATTN_MASK_BLOCK, clattn_tensor_transposed(mask, 0, 1)}};
  clattn_options options;
  clattn_options_init(&options);
  options.masks = masks;
  options.mask_count = 2;
  EXPECT_SUCCESS(context, clattn_sdpa(context, &query, &query, &value, &out, &options));
  EXPECT_SUCCESS(context, clattn_tensor_read(context, &out, got));
  for (size_t i = 0; i < T; i++) {
    double sum = 0, live = 0;
    for (size_t j = 0; j < S; j++) {
      if (bytes[i * S + j] || bytes[j * S + i]) continue;
      sum += (double)j;
      live++;
    }
    want[i * 2] = live > 0 ? (float)(2 * sum / live) : 0;
    want[i * 2 + 1] = live > 0 ? (float)((2 * sum + live) / live) : 0;
  }
  /* Weights 1/n (6u), sums of five products. */
  for (size_t n = 0; n < T * 2; n++)
    cr_expect(is_near((double)got[n], (double)want[n], 12 * 0x1p-24 * (double)want[n]), "%zu: %g instead of %g", n,
              (double)got[n], (double)want[n]);
  clattn_tensor_release(&mask);
  clattn_tensor_release(&query);
  clattn_tensor_release(&value);
  clattn_tensor_release(&out);
  clattn_context_destroy(&context);
}

/* ----------------------------------------------------------------------------------------------- additive corners */

/* Q = K = 0, V = [1, 10, 100, ...]; `terms` masks over S keys; the expected weights in closed form: 0 or 1/n. */
static void expect_added(clattn_context *context, const double *masks, size_t terms, size_t S, const double *weights) {
  double *zeros = test_alloc(S, sizeof *zeros), *values = test_alloc(S, sizeof *values), output = 0;
  attention_case c = {.kv_len = S, .head_dim = 1, .query = zeros, .key = zeros, .value = values};
  for (size_t j = 0; j < S; j++) values[j] = pow(10, (double)j);
  for (size_t j = 0; j < S; j++) output += weights[j] * values[j];
  for (size_t m = 0; m < terms; m++)
    c.request.masks[m] = (test_mask){.kind = CLATTN_MASK_ADD, .axes = "s", .values = masks + m * S};
  c.request.weights = TEST_PER_HEAD;
  test_line line = {{0}};
  /* A division (6u) and S products and sums of at most `output` in all. */
  const double bound = (6 + (double)S) * 0x1p-24 * fmax(output, 1);
  cr_expect(attention_case_expect(context, &c, &output, weights, bound, &line), "%s", line.text);
  free(zeros);
  free(values);
}

Test(masks, infinite_and_finite_minimum) {
  const double M = (double)FLT_MAX, I = -HUGE_VAL;
  clattn_context *context = test_context();
  expect_added(context, (double[]){0, I, 0}, 1, 3, (double[]){0.5, 0, 0.5});
  expect_added(context, (double[]){I, I, I}, 1, 3, (double[]){0, 0, 0});
  expect_added(context, (double[]){0, -3e38, 0}, 1, 3, (double[]){0.5, 0, 0.5});
  /* A finite number does not block, not even where it is all there is. */
  expect_added(context, (double[]){-3e38, -3e38, -3e38}, 1, 3, (double[]){1.0 / 3, 1.0 / 3, 1.0 / 3});
  expect_added(context, (double[]){-M, -M, -M, -M}, 1, 4, (double[]){0.25, 0.25, 0.25, 0.25});
  expect_added(context, (double[]){-M, I, -M}, 1, 3, (double[]){0.5, 0, 0.5});
  expect_added(context, (double[]){-1e9, -1e9}, 1, 2, (double[]){0.5, 0.5});
  expect_added(context, (double[]){-10000, -20000, -10000}, 1, 3, (double[]){0.5, 0, 0.5});
  /* Sums: in float32 two of the minimum are minus infinity, and block. */
  expect_added(context, (double[]){0, -M, -M, -M, -M, 0}, 2, 3, (double[]){0.5, 0, 0.5});
  expect_added(context, (double[]){-M, -M, -M, -M}, 2, 2, (double[]){0, 0});
  expect_added(context, (double[]){-3e38, 0, 3e38, 0}, 2, 2, (double[]){0.5, 0.5});
  expect_added(context, (double[]){I, 0, 3e38, 0}, 2, 2, (double[]){0, 1});
  expect_added(context, (double[]){3e38, 0, I, 0}, 2, 2, (double[]){0, 1});
  clattn_context_destroy(&context);
}

/* A score that one term blocks stays blocked when others add plus infinity or NaN to it, before or after. */
Test(masks, blocked_stays_blocked) {
  const double block[3] = {0, 1, 0}, infinite[3] = {0, HUGE_VAL, 0}, nan[3] = {0, (double)NAN, 0};
  const double zeros[3] = {0, 0, 0}, values[3] = {1, 10, 100}, weights[3] = {0.5, 0, 0.5}, output = 50.5;
  const double *added[] = {infinite, nan};
  clattn_context *context = test_context();
  for (int order = 0; order < 2; order++)
    for (int a = 0; a < 2; a++) {
      const test_mask blocking = {.kind = CLATTN_MASK_BLOCK, .axes = "s", .values = block};
      const test_mask adding = {.kind = CLATTN_MASK_ADD, .axes = "s", .values = added[a]};
      attention_case c = {.kv_len = 3, .head_dim = 1, .query = zeros, .key = zeros, .value = values};
      c.request =
          (test_request){.masks = {order ? blocking : adding, order ? adding : blocking}, .weights = TEST_PER_HEAD};
      test_line line = {{0}};
      cr_expect(attention_case_expect(context, &c, &output, weights, 9 * 0x1p-24 * output, &line), "%s", line.text);
    }
  clattn_context_destroy(&context);
}

/* ---------------------------------------------------------------------------------------------------- key lengths */

/* attention_case fills keys and values past the lengths with NaN. */
Test(masks, kv_lengths) {
  clattn_context *context = test_context();
  static const int64_t lengths[][4] = {{9, 9, 9, 9}, {0, 9, 1, 5}, {0, 0, 0, 0}, {1, 1, 1, 1}, {8, 7, 0, 9}};
  for (size_t n = 0; n < sizeof lengths / sizeof *lengths; n++)
    for (int wide = 0; wide < 2; wide++) {
      const clattn_type type = wide ? CLATTN_INT64 : CLATTN_INT32;
      for (int weights = 0; weights < 3; weights++)
        EXPECT_CASE(
            context, .batch = 4, .heads = 2, .q_len = 5, .kv_len = 9, .head_dim = 4, .value_head_dim = 6, .seed = n,
            .request = {
                .kv_lengths = lengths[n], .lengths_type = type, .weights = (test_weights)weights, .log_sum_exp = 1});
      EXPECT_CASE(context, .batch = 4, .heads = 3, .q_len = 6, .kv_len = 9, .head_dim = 5, .seed = n,
                  .key_layout = {.order = "2013"}, .value_layout = {.order = "0213", .offset = 3},
                  .request = {.kv_lengths = lengths[n],
                              .lengths_type = type,
                              .masks = {{.kind = CLATTN_MASK_KEEP, .axes = "hts", .share = 0.4}}});
    }
  clattn_context_destroy(&context);
}

/* Values outside 0..S act as the nearer of the two. */
Test(masks, kv_lengths_out_of_range) {
  clattn_context *context = test_context();
  const int64_t narrow[4] = {-1, 100, INT32_MIN, INT32_MAX}, wide[4] = {INT64_MIN, INT64_MAX, -5000000000, 5000000000};
  EXPECT_CASE(context, .batch = 4, .heads = 2, .q_len = 3, .kv_len = 5, .head_dim = 4,
              .request = {.kv_lengths = narrow, .weights = TEST_PER_HEAD});
  EXPECT_CASE(context, .batch = 4, .heads = 2, .q_len = 3, .kv_len = 5, .head_dim = 4,
              .request = {.kv_lengths = wide, .lengths_type = CLATTN_INT64, .weights = TEST_PER_HEAD});
  EXPECT_CASE(context, .batch = 4, .heads = 2, .q_len = 3, .kv_len = 5, .head_dim = 4,
              .request = {.kv_lengths = wide, .lengths_type = CLATTN_INT64, .causal = CLATTN_CAUSAL_BOTTOM_RIGHT});
  clattn_context_destroy(&context);
}

/* --------------------------------------------------------------------------------------------- causal and windows */

typedef struct rule_sizes {
  size_t q_len, kv_len;
} rule_sizes;

/* Causal rules x windows x lengths, for T < S, T = S, T > S. */
Test(masks, causal_windows_and_lengths) {
  static const rule_sizes sizes[] = {{3, 7}, {6, 6}, {7, 3}, {1, 5}, {5, 1}, {19, 37}};
  static const int64_t windows[][2] = {{-1, -1}, {0, 0}, {2, -1}, {-1, 1}, {1, 2}, {100, 100}};
  static const struct {
    clattn_causal rule;
    int64_t offset;
  } rules[] = {{CLATTN_CAUSAL_NONE, 0},   {CLATTN_CAUSAL_TOP_LEFT, 0}, {CLATTN_CAUSAL_BOTTOM_RIGHT, 0},
               {CLATTN_CAUSAL_OFFSET, 2}, {CLATTN_CAUSAL_OFFSET, -2},  {CLATTN_CAUSAL_OFFSET, 0}};
  clattn_context *context = test_context();
  uint64_t seed = 0;
  for (size_t n = 0; n < (test_is_small() ? 3 : sizeof sizes / sizeof *sizes); n++)
    for (size_t r = 0; r < sizeof rules / sizeof *rules; r++)
      for (size_t w = 0; w < sizeof windows / sizeof *windows; w++) {
        const int64_t S = (int64_t)sizes[n].kv_len, lengths[3] = {S, S / 2, 0};
        test_request request = {.causal = rules[r].rule, .causal_offset = rules[r].offset, .weights = TEST_PER_HEAD};
        request.window.set = windows[w][0] >= 0 || windows[w][1] >= 0;
        request.window.left = windows[w][0];
        request.window.right = windows[w][1];
        request.kv_lengths = seed % 2 ? lengths : NULL;
        EXPECT_CASE(context, .batch = 3, .heads = 2, .q_len = sizes[n].q_len, .kv_len = sizes[n].kv_len, .head_dim = 3,
                    .seed = seed++, .request = request);
      }
  clattn_context_destroy(&context);
}

/* Windows as far as 64 bits go, and offsets as far as the library takes them: position arithmetic must not wrap. */
Test(masks, rules_with_huge_numbers) {
  static const int64_t offsets[] = {1LL << 31, -(1LL << 31), 1LL << 40, -(1LL << 40), 1LL << 61, -(1LL << 61)};
  static const int64_t windows[] = {1LL << 31, 1LL << 32, 1LL << 62, INT64_MAX - 3, INT64_MAX};
  clattn_context *context = test_context();
  for (size_t n = 0; n < sizeof offsets / sizeof *offsets; n++)
    EXPECT_CASE(context, .q_len = 4, .kv_len = 6, .head_dim = 3, .seed = n,
                .request = {.causal = CLATTN_CAUSAL_OFFSET, .causal_offset = offsets[n], .weights = TEST_PER_HEAD});
  for (size_t n = 0; n < sizeof windows / sizeof *windows; n++) {
    EXPECT_CASE(context, .q_len = 4, .kv_len = 6, .head_dim = 3, .seed = n,
                .request = {.causal = CLATTN_CAUSAL_TOP_LEFT, .window = {1, windows[n], 1}, .weights = TEST_PER_HEAD});
    EXPECT_CASE(context, .q_len = 4, .kv_len = 6, .head_dim = 3, .seed = n,
                .request = {.window = {1, 1, windows[n]}, .weights = TEST_PER_HEAD});
  }
  clattn_context_destroy(&context);
}

/* Rules and masks together, with more terms than any kernel takes at once. */
Test(masks, rules_and_masks) {
  clattn_context *context = test_context();
  const int64_t lengths[2] = {13, 7};
  test_request request = {.causal = CLATTN_CAUSAL_BOTTOM_RIGHT, .kv_lengths = lengths, .log_sum_exp = 1};
  request.window.set = 1;
  request.window.left = 6;
  request.window.right = CLATTN_WINDOW_NONE;
  for (int m = 0; m < TEST_MAX_MASKS; m++) {
    request.masks[m] = (test_mask){.kind = all_kinds[m % 3], .axes = all_axes[m % 6], .share = 0.1};
    for (int weights = 0; weights < 3; weights++) {
      request.weights = (test_weights)weights;
      EXPECT_CASE(context, .batch = 2, .heads = 3, .q_len = 11, .kv_len = 13, .head_dim = 5, .seed = (uint64_t)m,
                  .request = request);
    }
  }
  clattn_context_destroy(&context);
}

/* ---------------------------------------------------------------------------------------------- rows without keys */

/* Blocked in each of the possible ways; exactly 0, with weights asked for or not, whatever the values are. */
Test(masks, rows_without_keys_are_exactly_zero) {
  const double blocking[1] = {1}, keeping[1] = {0}, infinite[1] = {-HUGE_VAL};
  const int64_t lengths[2] = {0, 0};
  const test_request requests[] = {
      {.masks = {{.kind = CLATTN_MASK_BLOCK, .axes = "", .values = blocking}}},
      {.masks = {{.kind = CLATTN_MASK_KEEP, .axes = "", .values = keeping}}},
      {.masks = {{.kind = CLATTN_MASK_ADD, .axes = "", .values = infinite}}},
      {.kv_lengths = lengths},
      {.causal = CLATTN_CAUSAL_OFFSET, .causal_offset = -100},
      {.causal = CLATTN_CAUSAL_OFFSET, .causal_offset = 100, .window = {1, 5, CLATTN_WINDOW_NONE}},
  };
  clattn_context *context = test_context();
  for (size_t n = 0; n < sizeof requests / sizeof *requests; n++)
    for (int weights = 0; weights < 3; weights++) {
      attention_case c = {.batch = 2, .heads = 2, .q_len = 5, .kv_len = 6, .head_dim = 3, .seed = n};
      c.request = requests[n];
      c.request.weights = (test_weights)weights;
      c.request.log_sum_exp = 1;
      test_results results;
      test_line line = {{0}};
      cr_assert(attention_case_run(context, &c, &results, &line), "%s", line.text);
      for (size_t i = 0; i < results.output_count; i++) cr_assert_eq(results.output[i], 0, "request %zu", n);
      for (size_t i = 0; i < results.weights_count; i++) cr_assert_eq(results.weights[i], 0, "request %zu", n);
      for (size_t i = 0; i < results.log_sum_exp_count; i++) cr_assert_eq(results.log_sum_exp[i], -HUGE_VAL);
      results_release(&results);
    }
  clattn_context_destroy(&context);
}

/* --------------------------------------------------------------------------------------------------- equivalences */

/* Different words for the same mask give the same bits. */
static void expect_same(clattn_context *context, const test_request *first, const test_request *second,
                        const char *what) {
  attention_case c = {.batch = 2, .heads = 3, .q_len = 7, .kv_len = 7, .head_dim = 5, .seed = 12};
  test_results a, b;
  test_line line = {{0}};
  c.request = *first;
  c.request.weights = TEST_PER_HEAD;
  cr_assert(attention_case_run(context, &c, &a, &line), "%s", line.text);
  c.request = *second;
  c.request.weights = TEST_PER_HEAD;
  cr_assert(attention_case_run(context, &c, &b, &line), "%s", line.text);
  cr_expect(compare_bits(what, a.output, b.output, a.output_count * sizeof(double), &line), "%s", line.text);
  cr_expect(compare_bits(what, a.weights, b.weights, a.weights_count * sizeof(double), &line), "%s", line.text);
  results_release(&a);
  results_release(&b);
}

Test(masks, the_same_mask_in_other_words) {
  double block[49], keep[49], add[49];
  for (size_t n = 0; n < 49; n++) {
    block[n] = n % 7 > n / 7;
    keep[n] = 1 - block[n];
    add[n] = block[n] > 0 ? -HUGE_VAL : 0;
  }
  const test_request plain = {0}, blocked = {.masks = {{.kind = CLATTN_MASK_BLOCK, .axes = "ts", .values = block}}};
  const test_request kept = {.masks = {{.kind = CLATTN_MASK_KEEP, .axes = "ts", .values = keep}}};
  const test_request added = {.masks = {{.kind = CLATTN_MASK_ADD, .axes = "ts", .values = add}}};
  const test_request causal = {.causal = CLATTN_CAUSAL_TOP_LEFT}, bottom = {.causal = CLATTN_CAUSAL_BOTTOM_RIGHT};
  const test_request offset = {.causal = CLATTN_CAUSAL_OFFSET}, window = {.window = {1, CLATTN_WINDOW_NONE, 0}};
  const test_request wide = {.window = {1, 7, 7}}, far = {.causal = CLATTN_CAUSAL_OFFSET, .causal_offset = 7};
  const int64_t full[2] = {7, 7};
  const test_request lengths = {.kv_lengths = full};
  clattn_context *context = test_context();
  expect_same(context, &blocked, &kept, "block and keep");
  expect_same(context, &blocked, &added, "block and add");
  expect_same(context, &causal, &bottom, "top-left and bottom-right of a square");
  expect_same(context, &causal, &offset, "top-left and offset 0");
  expect_same(context, &causal, &window, "causal and a window without a right side");
  expect_same(context, &plain, &wide, "no window and one as wide as the keys");
  expect_same(context, &plain, &far, "no rule and one that allows all");
  expect_same(context, &plain, &lengths, "no lengths and full ones");
  clattn_context_destroy(&context);
}
