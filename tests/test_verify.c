/* SPDX-License-Identifier: Apache-2.0
 *
 * The self check itself: the battery passes on a sound device, its reference agrees with the tests' own and with its
 * closed forms, and numbers are rounded and measured as they should. What it sees of faults is in test_trust.c. */
#define _POSIX_C_SOURCE 200809L
#include "io/half.h"
#include "reference/reference.h"
#include "support/files.h"
#include "support/rng.h"
#include "support/setup.h"
#include "verify/check_case.h"
#include "verify/check_run.h"
#include "verify/numbers.h"
#include "verify/reference.h"

#include <criterion/criterion.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------------------------------------------------- battery */

enum { MOST_CHECKS = 400 };

typedef struct seen_checks {
  size_t count, results[3];
  clattn_check checks[MOST_CHECKS];
} seen_checks;

static void take_check(void *user, const clattn_check *check) {
  seen_checks *seen = user;
  cr_assert_lt(seen->count, MOST_CHECKS);
  seen->checks[seen->count++] = *check;
  seen->results[check->result]++;
}

static void expect_checks(const clattn_context *context, const seen_checks *seen) {
  size_t expected = battery_count;
  for (size_t i = 0; i < battery_count; i++) expected += !battery[i].single && test_has_fp64(context);
  cr_expect_eq(seen->results[CLATTN_CHECK_PASS], expected);
  cr_expect_eq(seen->results[CLATTN_CHECK_FAIL], 0);
  cr_expect_eq(seen->results[CLATTN_CHECK_UNSUPPORTED], test_has_fp64(context) ? 1 : 2);
  for (size_t i = 0; i < seen->count; i++) {
    const clattn_check *check = &seen->checks[i];
    if (check->result == CLATTN_CHECK_PASS)
      cr_expect(check->worst >= 0 && check->worst <= 1 && check->detail[0] == '\0', "%s: %g", check->name,
                check->worst);
    else
      cr_expect(strstr(check->detail, "not in this version") || strstr(check->detail, "float64"), "%s: %s", check->name,
                check->detail);
    for (size_t j = 0; j < i; j++)
      cr_expect(check->path != seen->checks[j].path || strcmp(check->name, seen->checks[j].name) != 0,
                "%s is there twice", check->name);
  }
}

/* Every row of every arithmetic that the device has, once each; the path that this version lacks says so. Takes minutes
 * where kernels are slow, so small sets do without. */
Test(verify, the_battery_passes, .timeout = 600) {
  char folder[FILES_PATH_SIZE];
  if (test_is_small()) return;
  files_make_folder(folder);
  setenv("CLATTN_CACHE_DIR", folder, 1);
  clattn_context *context = test_context();
  seen_checks *seen = test_alloc(1, sizeof *seen);
  EXPECT_SUCCESS(context, clattn_verify(context, take_check, seen));
  cr_expect_str_empty(clattn_context_message(context));
  expect_checks(context, seen);
  cr_expect_eq(files_count(folder), 1); /* what it found is kept */
  cr_expect_eq(clattn_context_scratch_bytes(context), 0);
  free(seen);
  clattn_context_destroy(&context);
  files_remove_folder(folder);
}

/* The rows that are quick on every device, one by one. */
Test(verify, rows_pass, .timeout = 600) {
  check_scope scope;
  clattn_check check;
  clattn_context *context = test_context();
  EXPECT_SUCCESS(context, check_scope_enter(context, &scope));
  for (size_t i = 0; i < battery_count; i += test_size(1, 3)) {
    if (battery[i].single) continue;
    EXPECT_SUCCESS(context, check_run(context, CLATTN_PATH_GEMM, &battery[i], CLATTN_FLOAT32, &check));
    cr_expect_eq(check.result, CLATTN_CHECK_PASS, "%s: %s", check.name, check.detail);
    cr_expect_leq(check.worst, 1, "%s", check.name);
  }
  check_scope_leave(context, &scope);
  clattn_context_destroy(&context);
}

Test(verify, without_a_context) {
  cr_expect_eq(clattn_verify(NULL, take_check, NULL), CLATTN_INVALID_ARGUMENT);
}

/* Every single feature has a row that a call waits for. */
Test(verify, every_feature_is_covered) {
  for (unsigned feature = 1; feature <= TRUST_LAYER; feature <<= 1) {
    size_t rows = 0;
    for (size_t i = 0; i < battery_count; i++)
      rows +=
          (battery[i].features & feature) != 0 && battery_is_needed(&battery[i], CLATTN_FLOAT32, feature | TRUST_LAYER);
    cr_expect_gt(rows, 0, "no row covers feature 0x%x alone", feature);
  }
  size_t plain = 0;
  for (size_t i = 0; i < battery_count; i++) plain += (size_t)battery_is_needed(&battery[i], CLATTN_FLOAT32, 0);
  cr_expect_eq(plain, 1, "a plain call waits for %zu rows", plain);
}

/* ------------------------------------------------------------------------------------------------------------- closed
 * forms
 */

/* The reference lies within the bounds of the closed forms. Its own are infinite where
 * scores are too large for it; rows with large products take it too long. */
Test(reference, agrees_with_the_closed_forms) {
  size_t compared = 0;
  for (size_t i = 0; i < battery_count; i++) {
    if (!battery[i].fill || battery[i].single) continue;
    for (int wide = 0; wide < 2; wide++) {
      const clattn_type compute = wide ? CLATTN_FLOAT64 : CLATTN_FLOAT32;
      check_case closed, asked;
      cr_assert(check_case_create(&closed, &battery[i], compute));
      cr_assert(check_case_create(&asked, &battery[i], compute) && check_case_ask_reference(&asked));
      for (int place = AT_OUTPUT; place <= AT_LOG_SUM_EXP; place++) {
        const numbers *a = &closed.arrays[place].data, *b = &asked.arrays[place].data;
        const clattn_type type = closed.arrays[place].type;
        cr_assert_eq(a->count, b->count);
        for (size_t n = 0; n < a->count; n++) {
          const double stored = type ? number_nearest(type, b->value[n]) : 0;
          const int near = stored == a->value[n] || fabs(b->value[n] - a->value[n]) <= a->error[n];
          cr_assert(near, "%s, result %d, element %zu: %.17g +- %g and %.17g +- %g", battery_name(&battery[i], compute),
                    place, n, a->value[n], a->error[n], b->value[n], b->error[n]);
          compared++;
        }
      }
      check_case_free(&closed);
      check_case_free(&asked);
    }
  }
  cr_expect_gt(compared, 1000);
}

/* ------------------------------------------------------------------------------------------------------- the tests'
 * reference
 */

enum { MOST_MASKS = 3 };

/* A random call with its arrays, for both references. */
typedef struct random_call {
  test_rng rng;
  clattn_options options;
  size_t batch, heads, kv_heads, q_len, kv_len, head_dim, value_dim;
  clattn_type compute;
  int bias_kv;
  reference_mask masks[MOST_MASKS];
  ref_mask ref_masks[MOST_MASKS];
  double *mask_values[MOST_MASKS];
  double slopes[64], kv_lengths[4], q_lengths[4];
  int64_t kv_counts[4], q_counts[4];
} random_call;

static size_t pick(random_call *c, size_t low, size_t high) {
  return low + rng_below(&c->rng, high - low + 1);
}

static int chance(random_call *c, double probability) {
  return rng_uniform(&c->rng) < probability;
}

static void draw_masks(random_call *c) {
  const size_t full[4] = {c->batch, c->heads, c->q_len, c->kv_len};
  c->options.mask_count = pick(c, 0, MOST_MASKS);
  for (size_t m = 0; m < c->options.mask_count; m++) {
    size_t count = 1;
    c->masks[m].kind = (clattn_mask_kind)pick(c, CLATTN_MASK_BLOCK, CLATTN_MASK_ADD);
    for (int d = 0; d < 4; d++) count *= c->masks[m].shape[d] = chance(c, 0.6) ? full[d] : 1;
    c->mask_values[m] = test_alloc(count, sizeof(double));
    for (size_t i = 0; i < count; i++) {
      const int blocks = chance(c, 0.2);
      c->mask_values[m][i] = c->masks[m].kind == CLATTN_MASK_BLOCK  ? blocks
                             : c->masks[m].kind == CLATTN_MASK_KEEP ? !blocks
                             : blocks                               ? (chance(c, 0.5) ? -HUGE_VAL : -(double)FLT_MAX)
                                                                    : (double)(float)rng_normal(&c->rng);
    }
    c->masks[m].values = c->mask_values[m];
    c->ref_masks[m] = (ref_mask){.kind = c->masks[m].kind, .values = c->mask_values[m]};
    memcpy(c->ref_masks[m].shape, c->masks[m].shape, sizeof c->masks[m].shape);
  }
}

static void draw_options(random_call *c) {
  clattn_options *o = &c->options;
  clattn_options_init(o);
  if (chance(c, 0.5)) o->scale = rng_normal(&c->rng);
  if (chance(c, 0.7)) o->causal = (clattn_causal)pick(c, 0, 3);
  if (o->causal == CLATTN_CAUSAL_OFFSET) o->causal_offset = (int64_t)pick(c, 0, 8) - 4;
  if (chance(c, 0.4)) o->window_left = (int64_t)pick(c, 0, 5);
  if (chance(c, 0.4)) o->window_right = (int64_t)pick(c, 0, 5);
  if (chance(c, 0.4)) o->soft_cap = 0.5 + rng_uniform(&c->rng);
  o->add_zero_key = chance(c, 0.3);
  if (chance(c, 0.4)) o->dropout = 0.1 + 0.8 * rng_uniform(&c->rng);
  if (chance(c, 0.4)) o->output_dropout = 0.5;
  o->dropout_seed = rng_next(&c->rng);
  o->dropout_call = (uint32_t)rng_next(&c->rng);
  o->inference = chance(c, 0.1);
}

static void draw_call(random_call *c, uint64_t seed) {
  *c = (random_call){.rng = {seed}};
  c->batch = pick(c, 1, 3);
  c->kv_heads = pick(c, 1, 2);
  c->heads = c->kv_heads * pick(c, 1, 3);
  c->q_len = pick(c, 1, 9);
  c->kv_len = pick(c, 1, 12);
  c->head_dim = pick(c, 1, 6);
  c->value_dim = pick(c, 1, 6);
  c->compute = chance(c, 0.5) ? CLATTN_FLOAT64 : CLATTN_FLOAT32;
  draw_options(c);
  draw_masks(c);
  for (size_t i = 0; i < 64; i++) c->slopes[i] = ldexp(1, -(int)pick(c, 0, 5));
  for (size_t b = 0; b < 4; b++) {
    c->kv_lengths[b] = (double)(c->kv_counts[b] = (int64_t)pick(c, 0, c->kv_len + 2) - 1);
    c->q_lengths[b] = (double)(c->q_counts[b] = (int64_t)pick(c, 0, c->q_len + 2) - 1);
  }
}

static void release_call(random_call *c) {
  for (size_t m = 0; m < c->options.mask_count; m++) free(c->mask_values[m]);
}

/* Random numbers for both. */
static void draw_array(random_call *c, size_t count, numbers *a, ref_array *b) {
  cr_assert(numbers_create(a, count));
  *b = ref_array_create(count);
  for (size_t i = 0; i < count; i++) a->value[i] = b->value[i] = (double)(float)rng_normal(&c->rng);
}

static ref_rules rules_of(const random_call *c, int slopes, int kv_lengths, int q_lengths, double *slopes_full) {
  const clattn_options *o = &c->options;
  const double dropout = o->inference ? 0 : o->dropout, output_dropout = o->inference ? 0 : o->output_dropout;
  for (size_t i = 0; i < c->batch * c->heads; i++) slopes_full[i] = c->slopes[slopes == 2 ? i : i % c->heads];
  return (ref_rules){
      .soft_cap = o->soft_cap,
      .alibi_slopes = slopes ? slopes_full : NULL,
      .masks = c->ref_masks,
      .mask_count = o->mask_count,
      .causal = o->causal,
      .causal_offset = o->causal_offset,
      .window_left = o->window_left,
      .window_right = o->window_right,
      .kv_lengths = kv_lengths ? c->kv_counts : NULL,
      .q_lengths = q_lengths ? c->q_counts : NULL,
      .dropout = {.probability = dropout, .seed = o->dropout_seed, .call = o->dropout_call},
      .output_dropout = {.probability = output_dropout, .seed = o->dropout_seed, .call = o->dropout_call}};
}

/* Both round in double alone, so values agree within the bounds that both would give float64, and bounds within a
 * factor: none may be absurd. Where a mask of -FLT_MAX leaves nothing but itself, neither can say anything. */
static void expect_same(const char *what, uint64_t seed, const numbers *a, const ref_array *b, clattn_type compute) {
  const double wide = compute == CLATTN_FLOAT64 ? 1 : ldexp(1, -27), factor = 40, tiny = 1e3 * (double)FLT_MIN;
  cr_assert_eq(a->count, b->count, "%s, seed %llu", what, (unsigned long long)seed);
  for (size_t i = 0; i < a->count; i++) {
    if (!isfinite(b->bound[i])) continue;
    cr_assert(isfinite(a->error[i]), "seed %llu, %s[%zu]: bounds %g and %g", (unsigned long long)seed, what, i,
              a->error[i], b->bound[i]);
    const double off = fabs(a->value[i] - b->value[i]);
    cr_assert(a->value[i] == b->value[i] || off <= wide * (a->error[i] + b->bound[i]),
              "seed %llu, %s[%zu]: %.17g and %.17g", (unsigned long long)seed, what, i, a->value[i], b->value[i]);
    cr_assert(a->error[i] <= factor * b->bound[i] + tiny && b->bound[i] <= factor * a->error[i] + tiny,
              "seed %llu, %s[%zu] = %g: bounds %g and %g", (unsigned long long)seed, what, i, a->value[i], a->error[i],
              b->bound[i]);
  }
}

static reference_call call_of(const random_call *c, int slopes, int kv_lengths, int q_lengths) {
  return (reference_call){.batch = c->batch,
                          .heads = c->heads,
                          .kv_heads = c->kv_heads,
                          .q_len = c->q_len,
                          .kv_len = c->kv_len,
                          .head_dim = c->head_dim,
                          .value_dim = c->value_dim,
                          .compute = c->compute,
                          .options = &c->options,
                          .masks = c->masks,
                          .slopes = slopes ? c->slopes : NULL,
                          .slopes_per_entry = slopes == 2,
                          .kv_lengths = kv_lengths ? c->kv_lengths : NULL,
                          .q_lengths = q_lengths ? c->q_lengths : NULL};
}

static void compare_attention(uint64_t seed) {
  random_call c;
  reference_result got;
  double slopes_full[64];
  draw_call(&c, seed);
  const int slopes = (int)pick(&c, 0, 2), kv_lengths = chance(&c, 0.4), q_lengths = chance(&c, 0.4);
  reference_call ours = call_of(&c, slopes, kv_lengths, q_lengths);
  ref_attention theirs = {.batch = c.batch,
                          .heads = c.heads,
                          .kv_heads = c.kv_heads,
                          .q_len = c.q_len,
                          .kv_len = c.kv_len,
                          .head_dim = c.head_dim,
                          .value_head_dim = c.value_dim,
                          .scale = c.options.scale,
                          .extra_keys = (size_t)c.options.add_zero_key,
                          .extra_key = ref_array_create(c.kv_heads * c.head_dim),
                          .extra_value = ref_array_create(c.kv_heads * c.value_dim),
                          .rules = rules_of(&c, slopes, kv_lengths, q_lengths, slopes_full),
                          .arithmetic = c.compute == CLATTN_FLOAT64 ? ref_float64() : ref_float32()};
  draw_array(&c, c.batch * c.heads * c.q_len * c.head_dim, &ours.query, &theirs.query);
  draw_array(&c, c.batch * c.kv_heads * c.kv_len * c.head_dim, &ours.key, &theirs.key);
  draw_array(&c, c.batch * c.kv_heads * c.kv_len * c.value_dim, &ours.value, &theirs.value);
  cr_assert(reference_attend(&ours, &got));
  ref_attention_result want = ref_attention_run(&theirs);
  expect_same("output", seed, &got.output, &want.output, c.compute);
  expect_same("weights", seed, &got.weights, &want.weights, c.compute);
  expect_same("mean weights", seed, &got.mean, &want.mean_weights, c.compute);
  expect_same("log-sum-exp", seed, &got.log_sum_exp, &want.log_sum_exp, c.compute);
  reference_result_free(&got);
  ref_attention_result_release(&want);
  numbers *mine[3] = {&ours.query, &ours.key, &ours.value};
  ref_array *others[5] = {&theirs.query, &theirs.key, &theirs.value, &theirs.extra_key, &theirs.extra_value};
  for (int i = 0; i < 3; i++) numbers_free(mine[i]);
  for (int i = 0; i < 5; i++) ref_array_release(others[i]);
  release_call(&c);
}

static void compare_layer(uint64_t seed) {
  random_call c;
  reference_result got;
  double slopes_full[64];
  draw_call(&c, seed);
  const int slopes = (int)pick(&c, 0, 2), kv_lengths = chance(&c, 0.4), q_lengths = chance(&c, 0.4),
            biases = chance(&c, 0.7);
  const size_t E = pick(&c, 1, 7), Ek = pick(&c, 1, 7), Ev = pick(&c, 1, 7), Eo = pick(&c, 1, 7);
  const size_t q = c.heads * c.head_dim, k = c.kv_heads * c.head_dim, v = c.kv_heads * c.value_dim;
  reference_layer ours = {.call = call_of(&c, slopes, kv_lengths, q_lengths),
                          .config = {.embed_dim = E,
                                     .heads = c.heads,
                                     .kv_heads = c.kv_heads,
                                     .head_dim = c.head_dim,
                                     .value_head_dim = c.value_dim,
                                     .kdim = Ek,
                                     .vdim = Ev,
                                     .out_dim = Eo}};
  ref_layer theirs = {.batch = c.batch,
                      .q_len = c.q_len,
                      .kv_len = c.kv_len,
                      .heads = c.heads,
                      .kv_heads = c.kv_heads,
                      .head_dim = c.head_dim,
                      .value_head_dim = c.value_dim,
                      .embed_dim = E,
                      .kdim = Ek,
                      .vdim = Ev,
                      .out_dim = Eo,
                      .zero_key = c.options.add_zero_key,
                      .scale = c.options.scale,
                      .rules = rules_of(&c, slopes, kv_lengths, q_lengths, slopes_full),
                      .arithmetic = c.compute == CLATTN_FLOAT64 ? ref_float64() : ref_float32()};
  draw_array(&c, c.batch * c.q_len * E, &ours.input[0], &theirs.query);
  draw_array(&c, c.batch * c.kv_len * Ek, &ours.input[1], &theirs.key);
  draw_array(&c, c.batch * c.kv_len * Ev, &ours.input[2], &theirs.value);
  const size_t counts[CLATTN_PARAMETER_COUNT] = {q * E, k * Ek, v * Ev, Eo * c.heads * c.value_dim, q, k, v, Eo, k, v};
  const int extra = chance(&c, 0.4);
  for (int p = 0; p < CLATTN_PARAMETER_COUNT; p++)
    if (p < CLATTN_BQ || (p < CLATTN_BIAS_K ? biases : extra))
      draw_array(&c, counts[p], &ours.parameter[p], &theirs.parameter[p]);
  cr_assert(reference_forward(&ours, &got));
  ref_layer_result want = ref_layer_run(&theirs);
  expect_same("layer's output", seed, &got.output, &want.output, c.compute);
  expect_same("layer's weights", seed, &got.weights, &want.attention.weights, c.compute);
  expect_same("layer's log-sum-exp", seed, &got.log_sum_exp, &want.attention.log_sum_exp, c.compute);
  reference_result_free(&got);
  ref_layer_result_release(&want);
  ref_array_release(&theirs.query);
  ref_array_release(&theirs.key);
  ref_array_release(&theirs.value);
  for (int i = 0; i < 3; i++) numbers_free(&ours.input[i]);
  for (int p = 0; p < CLATTN_PARAMETER_COUNT; p++) {
    numbers_free(&ours.parameter[p]);
    ref_array_release(&theirs.parameter[p]);
  }
  release_call(&c);
}

Test(reference, agrees_with_the_tests_reference_on_attention) {
  for (uint64_t seed = 1; seed <= test_size(2000, 200); seed++) compare_attention(seed);
}

Test(reference, agrees_with_the_tests_reference_on_layers) {
  for (uint64_t seed = 1; seed <= test_size(1000, 100); seed++) compare_layer(seed);
}

/* ---------------------------------------------------------------------------------------------------------- numbers */

Test(numbers, every_16_bit_number_is_read_and_written) {
  for (uint32_t bits = 0; bits < 0x10000; bits++) {
    const uint16_t pattern = (uint16_t)bits;
    unsigned char bytes[4], again[4] = {0};
    memcpy(bytes, &pattern, 2);
    const double half = number_load(CLATTN_FLOAT16, bytes, 0), brain = number_load(CLATTN_BFLOAT16, bytes, 0);
    if (isnan(half) || isnan(brain)) continue;
    cr_assert_eq(half, (double)io_half_to_float(pattern));
    number_store(CLATTN_FLOAT16, again, 0, half);
    number_store(CLATTN_BFLOAT16, again, 1, brain);
    cr_assert(memcmp(again, bytes, 2) == 0 && memcmp(again + 2, bytes, 2) == 0, "pattern 0x%04x", bits);
    cr_assert_eq(number_nearest(CLATTN_FLOAT16, half), half);
    cr_assert_eq(number_nearest(CLATTN_BFLOAT16, brain), brain);
  }
}

Test(numbers, nearest_as_the_tests_say) {
  test_rng rng = {7};
  const clattn_type types[] = {CLATTN_FLOAT16, CLATTN_BFLOAT16, CLATTN_FLOAT32, CLATTN_FLOAT64};
  for (int n = 0; n < 20000; n++) {
    const double value = ldexp(rng_normal(&rng), (int)rng_below(&rng, n % 2 ? 50 : 300) - (n % 2 ? 30 : 150));
    for (int t = 0; t < 4; t++)
      cr_assert_eq(number_nearest(types[t], value), ref_round(types[t], value), "%.17g as %s", value,
                   clattn_type_name(types[t]));
  }
}

/* Error over bound: of numbers that were not rounded, of rounded ones on both sides of the edge between neighbours, and
 * where nothing may pass. */
Test(numbers, excess) {
  const clattn_type exact = (clattn_type)0;
  cr_expect_eq(number_excess(exact, 1.5, 1, 1), 0.5);
  cr_expect_eq(number_excess(exact, -1, 1, 1), 2);
  cr_expect_eq(number_excess(exact, 1, 1, 0), 0);
  cr_expect(isinf(number_excess(exact, nextafter(1, 2), 1, 0)));
  cr_expect(isinf(number_excess(exact, NAN, 1, 1)) && isinf(number_excess(exact, 1, NAN, 1)));
  cr_expect(isinf(number_excess(exact, 1, 1.5, HUGE_VAL)), "a bound that says nothing shows nothing");
  cr_expect(isinf(number_excess(exact, HUGE_VAL, 1, 1)));
  cr_expect_eq(number_excess(exact, -HUGE_VAL, -HUGE_VAL, 0), 0);
  /* 2048 and 2050 are neighbours: 2049.5 +- 1 may be either, with half of the bound for the farther one. */
  cr_expect_eq(number_excess(CLATTN_FLOAT16, 2050, 2049.5, 1), 0);
  cr_expect_eq(number_excess(CLATTN_FLOAT16, 2048, 2049.5, 1), 0.5);
  cr_expect_eq(number_excess(CLATTN_FLOAT16, 2048, 2049.5, 0.25), 2);
  cr_expect_eq(number_excess(CLATTN_FLOAT16, 2052, 2049.5, 1), 1.5);
  /* Below a power of two the neighbour is nearer. */
  cr_expect_eq(number_excess(CLATTN_FLOAT16, 2048, 2047.25, 1), 0.25);
  /* 65520 is the edge to infinity. */
  cr_expect_eq(number_excess(CLATTN_FLOAT16, HUGE_VAL, 65530, 1), 0);
  cr_expect_eq(number_excess(CLATTN_FLOAT16, HUGE_VAL, 65518, 1), 2);
  cr_expect_eq(number_excess(CLATTN_FLOAT16, 65504, 65521, 2), 0.5);
  cr_expect(isinf(number_excess(CLATTN_FLOAT16, HUGE_VAL, 65518, 0)));
  /* Around zero, where the step is that of subnormal numbers. */
  cr_expect_eq(number_excess(CLATTN_FLOAT16, 0, 0x1p-25, 0x1p-24), 0);
  cr_expect_eq(number_excess(CLATTN_FLOAT16, 0, 0x1p-24, 0x1p-25), 1);
  cr_expect_eq(number_excess(CLATTN_FLOAT16, -0x1p-24, 0, 0x1p-24), 0.5);
}
