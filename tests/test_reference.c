/* SPDX-License-Identifier: Apache-2.0
 *
 * The scalar reference against PyTorch, its bounds against float32 arithmetic in several orders, and the comparison
 * itself against what it must refuse. No device is used here. */
#include "support/rng.h"
#include "support/torch_case.h"

#include <criterion/criterion.h>
#include <float.h>
#include <stdlib.h>

/* -------------------------------------------------------------------------------------------------------- PyTorch */

static ref_rules rules_of(const torch_case *c) {
  return (ref_rules){.masks = c->masks,
                     .mask_count = c->mask_count,
                     .causal = c->name->causal ? CLATTN_CAUSAL_TOP_LEFT : CLATTN_CAUSAL_NONE,
                     .window_left = -1,
                     .window_right = -1};
}

static void expect_dump(const torch_case *c, const char *what, const test_dump *dump, const ref_array *want) {
  test_line line = {{0}};
  cr_expect_eq(dump->count, want->count, "%s: %s has %zu numbers instead of %zu", c->name->folder, what, dump->count,
               want->count);
  cr_expect(compare_arrays(what, dump->values, &dump->shape, want, &dump->shape, &line), "%s: %s", c->name->folder,
            line.text);
}

/* PyTorch computed in float64 too, in an order of its own: the float64 bound is for exactly that. */
Test(reference, agrees_with_torch_function) {
  for (const torch_name *name = torch_functions; name->folder; name++) {
    torch_case c;
    torch_case_load(name, &c);
    ref_attention problem = {.batch = c.batch,
                             .heads = c.heads,
                             .kv_heads = c.kv_heads,
                             .q_len = c.q_len,
                             .kv_len = c.kv_len,
                             .head_dim = c.head_dim,
                             .value_head_dim = c.value_head_dim,
                             .query = ref_array_from(c.query.values, c.query.count, 0),
                             .key = ref_array_from(c.key.values, c.key.count, 0),
                             .value = ref_array_from(c.value.values, c.value.count, 0),
                             .scale = name->scale != 0 ? name->scale : CLATTN_SCALE_AUTO,
                             .rules = rules_of(&c),
                             .arithmetic = ref_float64()};
    ref_attention_result result = ref_attention_run(&problem);
    expect_dump(&c, "output", &c.out, &result.output);
    ref_attention_result_release(&result);
    ref_array_release(&problem.query);
    ref_array_release(&problem.key);
    ref_array_release(&problem.value);
    torch_case_release(&c);
  }
}

Test(reference, agrees_with_torch_layer) {
  for (const torch_name *name = torch_layers; name->folder; name++) {
    torch_case c;
    torch_case_load(name, &c);
    ref_layer layer = {.batch = c.batch,
                       .heads = c.heads,
                       .kv_heads = c.kv_heads,
                       .q_len = c.q_len,
                       .kv_len = c.kv_len,
                       .head_dim = c.head_dim,
                       .value_head_dim = c.value_head_dim,
                       .embed_dim = c.embed_dim,
                       .kdim = c.kdim,
                       .vdim = c.vdim,
                       .out_dim = c.embed_dim,
                       .query = ref_array_from(c.query.values, c.query.count, 0),
                       .key = ref_array_from(c.key.values, c.key.count, 0),
                       .value = ref_array_from(c.value.values, c.value.count, 0),
                       .scale = CLATTN_SCALE_AUTO,
                       .rules = rules_of(&c),
                       .arithmetic = ref_float64()};
    for (int p = 0; p < CLATTN_PARAMETER_COUNT; p++)
      layer.parameter[p] = ref_array_from(c.parameter[p].values, c.parameter[p].count, 0);
    ref_layer_result result = ref_layer_run(&layer);
    expect_dump(&c, "output", &c.out, &result.output);
    expect_dump(&c, "weights", &c.weights, &result.attention.weights);
    expect_dump(&c, "mean_weights", &c.mean_weights, &result.attention.mean_weights);
    ref_layer_result_release(&result);
    ref_array_release(&layer.query);
    ref_array_release(&layer.key);
    ref_array_release(&layer.value);
    for (int p = 0; p < CLATTN_PARAMETER_COUNT; p++) ref_array_release(&layer.parameter[p]);
    torch_case_release(&c);
  }
}

/* --------------------------------------------------------------------------------------------------------- bounds */

enum { BOUND_T = 5, BOUND_S = 300, BOUND_D = 33 };

typedef struct float_inputs {
  float query[BOUND_T * BOUND_D], key[BOUND_S * BOUND_D], value[BOUND_S * BOUND_D];
} float_inputs;

/* How the float32 computation below goes about it; the defects are such as a kernel might have. */
typedef struct float_way {
  int backwards;   /* sums from the last term to the first */
  int early_scale; /* scales the queries instead of the products */
  int base_two;    /* exp2 of scores in base 2 */
  size_t keys;     /* fewer than BOUND_S: a defect */
  size_t features; /* fewer than BOUND_D: a defect */
  int no_maximum;  /* exp without subtracting the maximum */
  float scale;
} float_way;

static void float_row(const float_inputs *in, size_t i, const float_way *way, float *weight, float *output) {
  float maximum = -HUGE_VALF, sum = 0;
  for (size_t j = 0; j < BOUND_S; j++) {
    float score = 0;
    for (size_t n = 0; n < way->features; n++) {
      const size_t d = way->backwards ? way->features - 1 - n : n;
      const float q = in->query[i * BOUND_D + d], k = in->key[j * BOUND_D + d];
      score += way->early_scale ? q * way->scale * k : q * k;
    }
    weight[j] = (way->early_scale ? score : score * way->scale) * (way->base_two ? 1.44269504f : 1);
    if (weight[j] > maximum) maximum = weight[j];
  }
  if (way->no_maximum) maximum = 0;
  for (size_t n = 0; n < way->keys; n++) {
    const size_t j = way->backwards ? way->keys - 1 - n : n;
    weight[j] = way->base_two ? exp2f(weight[j] - maximum) : expf(weight[j] - maximum);
    sum += weight[j];
  }
  for (size_t j = 0; j < BOUND_S; j++) weight[j] = j < way->keys ? weight[j] / sum : 0;
  for (size_t d = 0; d < BOUND_D; d++) {
    output[d] = 0;
    for (size_t n = 0; n < way->keys; n++) {
      const size_t j = way->backwards ? way->keys - 1 - n : n;
      output[d] += weight[j] * in->value[j * BOUND_D + d];
    }
  }
}

/* 1 if weights and outputs of all rows are within the bounds. */
static int float_way_is_within(const float_inputs *in, const ref_attention_result *want, const float_way *way) {
  float weight[BOUND_S], output[BOUND_D];
  int within = 1;
  for (size_t i = 0; i < BOUND_T; i++) {
    float_row(in, i, way, weight, output);
    for (size_t j = 0; j < BOUND_S; j++)
      within &= is_near((double)weight[j], want->weights.value[i * BOUND_S + j], want->weights.bound[i * BOUND_S + j]);
    for (size_t d = 0; d < BOUND_D; d++)
      within &= is_near((double)output[d], want->output.value[i * BOUND_D + d], want->output.bound[i * BOUND_D + d]);
  }
  return within;
}

static ref_array widen(const float *values, size_t count) {
  ref_array array = ref_array_create(count);
  for (size_t i = 0; i < count; i++) array.value[i] = (double)values[i];
  return array;
}

static float_inputs *draw_inputs(ref_attention *problem) {
  float_inputs *in = test_alloc(1, sizeof *in);
  test_rng rng = {71};
  for (size_t n = 0; n < BOUND_T * BOUND_D; n++) in->query[n] = (float)rng_normal(&rng);
  for (size_t n = 0; n < BOUND_S * BOUND_D; n++) in->key[n] = (float)rng_normal(&rng);
  for (size_t n = 0; n < BOUND_S * BOUND_D; n++) in->value[n] = (float)rng_normal(&rng);
  *problem = (ref_attention){.batch = 1,
                             .heads = 1,
                             .kv_heads = 1,
                             .q_len = BOUND_T,
                             .kv_len = BOUND_S,
                             .head_dim = BOUND_D,
                             .value_head_dim = BOUND_D,
                             .query = widen(in->query, BOUND_T * BOUND_D),
                             .key = widen(in->key, BOUND_S * BOUND_D),
                             .value = widen(in->value, BOUND_S * BOUND_D),
                             .scale = CLATTN_SCALE_AUTO,
                             .rules = {.window_left = -1, .window_right = -1},
                             .arithmetic = ref_float32()};
  return in;
}

/* Every way to compute in float32 fits into the bound, and defects do not: it is neither too tight nor too wide. */
Test(reference, bounds_hold_and_tell_defects) {
  ref_attention problem;
  float_inputs *in = draw_inputs(&problem);
  ref_attention_result want = ref_attention_run(&problem);
  const float_way plain = {.keys = BOUND_S, .features = BOUND_D, .scale = (float)(1 / sqrt(BOUND_D))};
  for (int n = 0; n < 16; n++) {
    float_way way = plain;
    way.backwards = n & 1;
    way.early_scale = n >> 1 & 1;
    way.base_two = n >> 2 & 1;
    way.no_maximum = n >> 3 & 1;
    cr_expect(float_way_is_within(in, &want, &way), "way %d", n);
  }
  float_way defect = plain;
  defect.keys = BOUND_S - 1;
  cr_expect_not(float_way_is_within(in, &want, &defect), "a key left out went unseen");
  defect = plain;
  defect.features = BOUND_D - 1;
  cr_expect_not(float_way_is_within(in, &want, &defect), "a feature left out went unseen");
  defect = plain;
  defect.scale *= 1.0001f;
  cr_expect_not(float_way_is_within(in, &want, &defect), "a scale wrong by 1e-4 went unseen");
  ref_attention_result_release(&want);
  ref_array_release(&problem.query);
  ref_array_release(&problem.key);
  ref_array_release(&problem.value);
  free(in);
}

/* ------------------------------------------------------------------------------------------- masks and arithmetic */

/* One query, three keys, zero scores, V = [1, 10, 100]; the sum of the masks, [3] each, decides. */
static ref_attention_result run_masks(const double (*masks)[3], size_t count, ref_arithmetic arithmetic) {
  const double zeros[3] = {0, 0, 0}, values[3] = {1, 10, 100};
  ref_mask terms[2];
  for (size_t m = 0; m < count; m++)
    terms[m] = (ref_mask){.kind = CLATTN_MASK_ADD, .shape = {1, 1, 1, 3}, .values = masks[m]};
  ref_attention problem = {.batch = 1,
                           .heads = 1,
                           .kv_heads = 1,
                           .q_len = 1,
                           .kv_len = 3,
                           .head_dim = 1,
                           .value_head_dim = 1,
                           .query = ref_array_from(zeros, 1, 0),
                           .key = ref_array_from(zeros, 3, 0),
                           .value = ref_array_from(values, 3, 0),
                           .scale = 1,
                           .rules = {.masks = terms, .mask_count = count, .window_left = -1, .window_right = -1},
                           .arithmetic = arithmetic};
  const ref_attention_result result = ref_attention_run(&problem);
  ref_array_release(&problem.query);
  ref_array_release(&problem.key);
  ref_array_release(&problem.value);
  return result;
}

static void expect_masks(const double (*masks)[3], size_t count, ref_arithmetic arithmetic, double output) {
  ref_attention_result result = run_masks(masks, count, arithmetic);
  cr_expect(is_near(result.output.value[0], output, 1e-12), "%g instead of %g", result.output.value[0], output);
  ref_attention_result_release(&result);
}

Test(reference, mask_sums_overflow_as_in_their_type) {
  const double M = (double)FLT_MAX;
  const double apart[2][3] = {{0, -M, -M}, {-M, -M, 0}}, alone[1][3] = {{-M, -M, -M}};
  const double twice[2][3] = {{-M, -M, -M}, {-M, -M, -M}}, infinite[1][3] = {{-HUGE_VAL, 0, -HUGE_VAL}};
  expect_masks(apart, 2, ref_float32(), 50.5);
  expect_masks(apart, 2, ref_float64(), 50.5);
  expect_masks(alone, 1, ref_float32(), 37);
  expect_masks(twice, 2, ref_float32(), 0);
  expect_masks(twice, 2, ref_float64(), 37);
  expect_masks(infinite, 1, ref_float32(), 10);
}

/* A blocked score is exactly 0 in every correct implementation, so nothing is allowed there. */
Test(reference, blocked_scores_allow_no_deviation) {
  const double mask[1][3] = {{0, -HUGE_VAL, 0}}, all[1][3] = {{-HUGE_VAL, -HUGE_VAL, -HUGE_VAL}};
  ref_attention_result one = run_masks(mask, 1, ref_float32()), none = run_masks(all, 1, ref_float32());
  cr_expect_eq(one.weights.value[1], 0);
  cr_expect_eq(one.weights.bound[1], 0);
  cr_expect_gt(one.weights.bound[0], 0);
  for (size_t j = 0; j < 3; j++) cr_expect(none.weights.value[j] == 0 && none.weights.bound[j] == 0);
  cr_expect(none.output.value[0] == 0 && none.output.bound[0] == 0);
  cr_expect(none.mean_weights.value[0] == 0 && none.mean_weights.bound[0] == 0);
  cr_expect(none.log_sum_exp.value[0] == -HUGE_VAL && none.log_sum_exp.bound[0] == 0);
  ref_attention_result_release(&one);
  ref_attention_result_release(&none);
}

/* -n where it is meaningless, n*u/(1-n*u) elsewhere. */
Test(reference, gamma) {
  cr_expect_eq(ref_gamma(0, 0x1p-24), 0);
  cr_expect(is_near(ref_gamma(2, 0.25), 1, 0));
  cr_expect_eq(ref_gamma(4, 0.25), HUGE_VAL);
  cr_expect_eq(ref_gamma(5, 0.25), HUGE_VAL);
}

/* ----------------------------------------------------------------------------------------------------- comparison */

/* Compares one number; shapes alike. */
static int passes(double got, double want, double bound) {
  const test_shape shape = {1, {1}};
  const ref_array array = {1, &want, &bound};
  test_line line = {{0}};
  const int good = compare_arrays("number", &got, &shape, &array, &shape, &line);
  cr_expect_eq(good, line.text[0] == 0, "a failure must leave a line, and nothing else");
  return good;
}

Test(comparison, refuses_what_is_not_known_to_be_near) {
  const double nan = (double)NAN, up = nextafter(1.5, 2), down = 0.5 - 0x1p-53;
  cr_expect(passes(1, 1, 0));
  cr_expect(passes(1.5, 1, 0.5));
  cr_expect(passes(0.5, 1, 0.5));
  cr_expect_not(passes(up, 1, 0.5), "a value just above the bound");
  cr_expect_not(passes(down, 1, 0.5), "a value just below the bound");
  cr_expect_not(passes(nan, 1, 0.5), "NaN came back");
  cr_expect_not(passes(1, nan, 0.5), "NaN was expected");
  cr_expect_not(passes(nan, nan, 0.5), "NaN on both sides");
  cr_expect_not(passes(1, 1, nan), "a bound of NaN");
  cr_expect_not(passes(1, 2, HUGE_VAL), "an infinite bound");
  cr_expect_not(passes(HUGE_VAL, 1, 0.5));
  cr_expect_not(passes(-HUGE_VAL, HUGE_VAL, 0.5));
  cr_expect(passes(-HUGE_VAL, -HUGE_VAL, 0), "minus infinity is the log-sum-exp of a row without keys");
  cr_expect_not(passes(DBL_MIN, 0, 0), "a blocked score must be exactly 0");
}

Test(comparison, refuses_other_shapes) {
  const double got[6] = {0};
  double value[6] = {0}, bound[6] = {0};
  const ref_array want = {6, value, bound};
  const test_shape two_three = {2, {2, 3}}, three_two = {2, {3, 2}}, six = {1, {6}}, four = {2, {2, 2}};
  test_line line = {{0}};
  cr_expect(compare_arrays("a", got, &two_three, &want, &two_three, &line));
  cr_expect_not(compare_arrays("a", got, &two_three, &want, &three_two, &line));
  cr_expect_not(compare_arrays("a", got, &two_three, &want, &six, &line));
  cr_expect_not(compare_arrays("a", got, &four, &want, &four, &line), "fewer numbers than the reference has");
}

Test(comparison, says_where_and_by_how_much) {
  const double got[6] = {0, 0, 0, 0, 0, 0.25};
  double value[6] = {0}, bound[6] = {0};
  const ref_array want = {6, value, bound};
  const test_shape shape = {3, {1, 2, 3}};
  test_line line = {{0}};
  cr_expect_not(compare_arrays("output", got, &shape, &want, &shape, &line));
  cr_expect_str_eq(line.text, "output[0,1,2] = 0.25, want 0 +- 0 (off by 0.25)");
}

Test(comparison, bits) {
  const float zero = 0, minus_zero = -0.0f;
  test_line line = {{0}};
  cr_expect(compare_bits("a", &zero, &zero, sizeof zero, &line));
  cr_expect_not(compare_bits("a", &zero, &minus_zero, sizeof zero, &line));
}
