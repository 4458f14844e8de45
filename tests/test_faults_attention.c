/* SPDX-License-Identifier: Apache-2.0
 *
 * Faults below scaled dot-product attention. */
#include "support/attention_case.h"
#include "support/fault_subject.h"

#include <criterion/criterion.h>

TestSuite(faults_attention, .init = fault_sweep_begin, .timeout = 120);

typedef struct inputs {
  clattn_context *context;
  test_guarded query, key, value;
} inputs;

static clattn_status attend(void *user, const fault_arguments *arguments) {
  const inputs *in = user;
  if (arguments->plan != NULL)
    return clattn_sdpa_plan(in->context, &in->query.view, &in->key.view, &in->value.view, arguments->output,
                            arguments->options, arguments->plan);
  return clattn_sdpa(in->context, &in->query.view, &in->key.view, &in->value.view, arguments->output,
                     arguments->options);
}

/* How a case is swept beside what it describes. */
typedef struct sweep_options {
  int with_events, in_part;
} sweep_options;

/* Sweeps the case, and compares it with the reference in the same context before and after. The case names all of its
 * extents and types. */
static void sweep(const char *name, const attention_case *c, sweep_options how) {
  clattn_context *context = test_context();
  const size_t groups = c->kv_heads ? c->kv_heads : c->heads;
  const test_shape query = {4, {c->batch, c->heads, c->q_len, c->head_dim}};
  const test_shape key = {4, {c->batch, groups, c->kv_len, c->head_dim}};
  const test_shape value = {4, {c->batch, groups, c->kv_len, c->value_head_dim}};
  const test_shape output = {4, {c->batch, c->heads, c->q_len, c->value_head_dim}};
  const size_t extent[5] = {c->batch, c->heads, c->q_len, c->kv_len, c->kv_len + (c->request.zero_key != 0)};
  const clattn_type arithmetic = c->type == CLATTN_FLOAT64 ? CLATTN_FLOAT64 : CLATTN_FLOAT32;
  test_rng rng = {7};
  test_line line = {{0}};
  cr_expect(attention_case_check(context, c, &line), "%s", line.text);
  inputs in = {context, fault_draw(context, c->type, &query, &c->query_layout, &rng),
               fault_draw(context, c->key_type, &key, &c->key_layout, &rng),
               fault_draw(context, c->value_type, &value, &c->value_layout, &rng)};
  fault_subject subject = {.run = attend, .user = &in, .with_events = how.with_events, .in_part = how.in_part};
  call_build(&subject.call, context, &c->request, extent, arithmetic, c->output_type, &output, &rng);
  fault_subject_sweep(&subject, name);
  call_release(&subject.call);
  cr_expect(attention_case_check(context, c, &line), "%s", line.text);
  guarded_release(&in.query);
  guarded_release(&in.key);
  guarded_release(&in.value);
  clattn_context_destroy(&context);
  for (int kind = HELD_CONTEXT; kind < HELD_MEMORY; kind++) cr_expect_eq(faults_held().held[kind], 0);
}

#define SWEEP(name, how, ...)                                                                                          \
  do {                                                                                                                 \
    const attention_case case_ = {__VA_ARGS__};                                                                        \
    const sweep_options how_ = how;                                                                                    \
    sweep(name, &case_, how_);                                                                                         \
  } while (0)

#define FLOAT32_CASE                                                                                                   \
  .type = CLATTN_FLOAT32, .key_type = CLATTN_FLOAT32, .value_type = CLATTN_FLOAT32, .output_type = CLATTN_FLOAT32

static const sweep_options plainly = {0, 0}, with_events = {1, 0}, in_part = {0, 1};

Test(faults_attention, plain) {
  SWEEP("attention", plainly, FLOAT32_CASE, .batch = 2, .heads = 2, .q_len = 3, .kv_len = 5, .head_dim = 4,
        .value_head_dim = 4);
}

/* What the options add to a call, most of it at once. */
Test(faults_attention, with_all_options) {
  static const int64_t kv_lengths[2] = {5, 3}, q_lengths[2] = {3, 2};
  SWEEP("attention with all options", with_events, FLOAT32_CASE, .batch = 2, .heads = 4, .kv_heads = 2, .q_len = 3,
        .kv_len = 5, .head_dim = 4, .value_head_dim = 6,
        .request = {.masks = {{CLATTN_MASK_BLOCK, .share = 0.1},
                              {CLATTN_MASK_KEEP, .axes = "bs", .share = 0.1},
                              {CLATTN_MASK_ADD, .axes = "hts"},
                              {CLATTN_MASK_ADD, .axes = "ts", .type = CLATTN_FLOAT16},
                              {CLATTN_MASK_BLOCK, .axes = "t", .share = 0.1},
                              {CLATTN_MASK_ADD, .axes = "s", .type = CLATTN_BFLOAT16}},
                    .causal = CLATTN_CAUSAL_BOTTOM_RIGHT,
                    .window = {1, 3, 1},
                    .kv_lengths = kv_lengths,
                    .q_lengths = q_lengths,
                    .soft_cap = 3,
                    .slopes = TEST_SLOPES_PER_ENTRY,
                    .zero_key = 1,
                    .dropout = 0.25,
                    .dropout_seed = 11,
                    .weights = TEST_PER_HEAD,
                    .log_sum_exp = 1});
}

/* Averaged weights, 16-bit storage, and so little scratch memory that there are several chunks and slices, with a wait
 * after each. */
Test(faults_attention, in_slices) {
  SWEEP("attention in slices", with_events, .type = CLATTN_FLOAT16, .key_type = CLATTN_BFLOAT16,
        .value_type = CLATTN_FLOAT32, .output_type = CLATTN_BFLOAT16, .batch = 2, .heads = 2, .q_len = 4, .kv_len = 8,
        .head_dim = 4, .value_head_dim = 4, .request = {.weights = TEST_MEAN, .scratch_limit = 700});
}

/* Slices of two units: from the second on they lie where CLBlast cannot take them at once (blas_batch_is_safe). */
Test(faults_attention, product_by_product) {
  SWEEP("attention, product by product", plainly, FLOAT32_CASE, .batch = 2, .heads = 2, .q_len = 3, .kv_len = 5,
        .head_dim = 4, .value_head_dim = 4, .request = {.scratch_limit = 1670});
}

Test(faults_attention, in_lent_memory) {
  SWEEP("attention in lent memory", plainly, FLOAT32_CASE, .batch = 2, .heads = 2, .q_len = 1, .kv_len = 5,
        .head_dim = 4, .value_head_dim = 4, .request = {.lends = 1});
}

Test(faults_attention, in_a_part_of_lent_memory) {
  SWEEP("attention in a part of lent memory", in_part, FLOAT32_CASE, .batch = 2, .heads = 2, .q_len = 1, .kv_len = 5,
        .head_dim = 4, .value_head_dim = 4, .request = {.lends = 1});
}

Test(faults_attention, without_keys) {
  SWEEP("attention without keys", with_events, FLOAT32_CASE, .empty = 1, .batch = 2, .heads = 2, .q_len = 3,
        .kv_len = 0, .head_dim = 4, .value_head_dim = 4, .request = {.log_sum_exp = 1});
}

/* Nothing to do, but for the events. */
Test(faults_attention, without_queries) {
  SWEEP("attention without queries", with_events, FLOAT32_CASE, .empty = 1, .batch = 2, .heads = 2, .q_len = 0,
        .kv_len = 3, .head_dim = 4, .value_head_dim = 4);
}

Test(faults_attention, in_float64) {
  clattn_context *context = test_context();
  const int has_it = test_has_fp64(context);
  clattn_context_destroy(&context);
  if (!has_it) cr_skip_test("the device has no float64");
  SWEEP("attention in float64", plainly, .type = CLATTN_FLOAT64, .key_type = CLATTN_FLOAT64,
        .value_type = CLATTN_FLOAT64, .output_type = CLATTN_FLOAT64, .batch = 2, .heads = 2, .q_len = 3, .kv_len = 5,
        .head_dim = 4, .value_head_dim = 4, .request = {.weights = TEST_MEAN, .log_sum_exp = 1, .dropout = 0.5});
}
