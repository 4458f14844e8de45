/* SPDX-License-Identifier: Apache-2.0
 *
 * Dropout: the generator against published answers, on the host and on the device; which numbers are dropped, how many,
 * and that nothing but seed, call and place decides it. */
#include "core/kernel_source.h"
#include "layer/philox.h"
#include "support/attention_case.h"
#include "support/layer_case.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

/* -------------------------------------------------------------------------------------------------------- generator */

typedef struct known_answer {
  uint32_t counter[4], key[2], words[4];
} known_answer;

/* The lines "philox4x32 10" of kat_vectors, Random123 1.14.0 (https://github.com/DEShawResearch/random123): zeros,
 * ones, and the digits of pi. */
static const known_answer known_answers[] = {
    {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
    {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
     {0xffffffff, 0xffffffff},
     {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
    {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
     {0xa4093822, 0x299f31d0},
     {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
};
enum { KNOWN = sizeof known_answers / sizeof *known_answers };

Test(philox, host_gives_the_published_answers) {
  for (int n = 0; n < KNOWN; n++) {
    uint32_t words[4], reference[4];
    philox4x32_10(known_answers[n].counter, known_answers[n].key, words);
    ref_philox(known_answers[n].counter, known_answers[n].key, reference);
    cr_expect_arr_eq(words, known_answers[n].words, sizeof words, "vector %d", n);
    cr_expect_arr_eq(reference, known_answers[n].words, sizeof words, "vector %d", n);
  }
}

static const clattn_kernel_source *common_source(void) {
  for (size_t i = 0; i < clattn_kernel_source_count; i++)
    if (strcmp(clattn_kernel_sources[i].name, "common.clh") == 0) return &clattn_kernel_sources[i];
  return NULL;
}

/* words[n] = philox4x32_10(counters[n], keys[n]) by the code that kernels use; 8 words of input each, 4 of output. */
static void run_kernel(clattn_context *context, const uint32_t *inputs, size_t count, uint32_t *words) {
  static const char text[] = "__kernel void generate(__global const uint *in, __global uint *out) {\n"
                             "  const size_t n = get_global_id(0);\n"
                             "  vstore4(philox4x32_10(vload4(2 * n, in), vload2(4 * n + 2, in)), n, out);\n"
                             "}\n";
  const clattn_kernel_source *common = common_source();
  cr_assert_not_null(common);
  const char *texts[] = {common->text, text};
  const size_t lengths[] = {common->length, sizeof text - 1};
  const cl_context cl = clattn_context_cl(context);
  const cl_device_id device = clattn_context_device(context);
  cl_int error[5];
  cl_program program = clCreateProgramWithSource(cl, 2, texts, lengths, &error[0]);
  cr_assert_eq(error[0], CL_SUCCESS);
  cr_assert_eq(clBuildProgram(program, 1, &device, "-cl-std=CL1.2 -D COMPUTE=float32 -D DROPOUT=1", NULL, NULL),
               CL_SUCCESS);
  cl_kernel kernel = clCreateKernel(program, "generate", &error[1]);
  cl_mem in =
      clCreateBuffer(cl, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, count * 32, (void *)(uintptr_t)inputs, &error[2]);
  cl_mem out = clCreateBuffer(cl, CL_MEM_WRITE_ONLY, count * 16, NULL, &error[3]);
  cr_assert(error[1] == CL_SUCCESS && error[2] == CL_SUCCESS && error[3] == CL_SUCCESS);
  cr_assert_eq(clSetKernelArg(kernel, 0, sizeof in, (const void *)&in), CL_SUCCESS);
  cr_assert_eq(clSetKernelArg(kernel, 1, sizeof out, (const void *)&out), CL_SUCCESS);
  const cl_command_queue queue = clattn_context_queue(context);
  cr_assert_eq(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &count, NULL, 0, NULL, NULL), CL_SUCCESS);
  cr_assert_eq(clEnqueueReadBuffer(queue, out, CL_TRUE, 0, count * 16, words, 0, NULL, NULL), CL_SUCCESS);
  clReleaseMemObject(in);
  clReleaseMemObject(out);
  clReleaseKernel(kernel);
  clReleaseProgram(program);
}

Test(philox, device_gives_the_published_answers_and_the_host_s) {
  enum { COUNT = 1024 };
  clattn_context *context = test_context();
  uint32_t *inputs = test_alloc(COUNT, 32), *words = test_alloc(COUNT, 16);
  test_rng rng = {123};
  for (size_t i = 0; i < (size_t)COUNT * 8; i++) inputs[i] = (uint32_t)rng_next(&rng);
  for (size_t n = 0; n < KNOWN; n++) {
    memcpy(inputs + 8 * n, known_answers[n].counter, sizeof known_answers[n].counter);
    memcpy(inputs + 8 * n + 4, known_answers[n].key, sizeof known_answers[n].key);
  }
  run_kernel(context, inputs, COUNT, words);
  for (size_t n = 0; n < COUNT; n++) {
    uint32_t expected[4];
    philox4x32_10(inputs + 8 * n, inputs + 8 * n + 4, expected);
    cr_expect_arr_eq(words + 4 * n, n < KNOWN ? known_answers[n].words : expected, sizeof expected, "counter %zu", n);
  }
  free(inputs);
  free(words);
  clattn_context_destroy(&context);
}

/* --------------------------------------------------------------------------------------------------------- dropping */

/* Weights of equal scores: 1/S where nothing is dropped. [B,H,T,S], to be freed. */
static double *run_equal_scores(clattn_context *context, const attention_case *shape, size_t *count) {
  attention_case c = *shape;
  double *zeros = test_alloc(c.batch * c.heads * c.q_len * c.head_dim, sizeof *zeros);
  test_line line = {{0}};
  test_results results;
  c.query = zeros;
  c.request.weights = TEST_PER_HEAD;
  c.request.no_output = 1;
  cr_assert(attention_case_run(context, &c, &results, &line), "%s", line.text);
  double *weights = results.weights;
  *count = results.weights_count;
  results.weights = NULL;
  results_release(&results);
  free(zeros);
  return weights;
}

/* 1/S over 1 - p, or 0: at the places that the reference names. Returns how many were dropped. */
static size_t expect_pattern(clattn_context *context, const attention_case *c) {
  const test_request *r = &c->request;
  const ref_dropout dropout = {r->dropout, r->dropout_seed, r->dropout_call};
  const double kept = 1 / (double)c->kv_len / (1 - r->dropout);
  size_t count = 0, dropped = 0, wrong = 0;
  double *weights = run_equal_scores(context, c, &count);
  for (size_t n = 0; n < count; n++) {
    const size_t column = n % c->kv_len, row = n / c->kv_len % c->q_len, stream = n / c->kv_len / c->q_len;
    const int drops = ref_is_dropped(&dropout, (uint32_t)stream, row, column);
    wrong += !(drops ? weights[n] == 0 : is_near(weights[n], kept, 32 * 0x1p-24 * kept));
    dropped += (size_t)drops;
  }
  cr_expect_eq(wrong, 0, "%zu of %zu weights, p = %g", wrong, count, r->dropout);
  free(weights);
  return dropped;
}

/* The number of dropped ones is binomial: beyond 5 standard deviations once in 1.7 million. */
Test(softmax_dropout, short_pattern_and_rate) {
  static const double probabilities[] = {0.1, 0.5, 0.9};
  clattn_context *context = test_context();
  for (int n = 0; n < 3; n++) {
    const double p = probabilities[n];
    const attention_case c = {.batch = 2,
                              .heads = 3,
                              .q_len = test_size(61, 5),
                              .kv_len = test_size(131, 19),
                              .head_dim = 4,
                              .request = {.dropout = p, .dropout_seed = 0x123456789abcdef0, .dropout_call = 7}};
    const double count = (double)(c.batch * c.heads * c.q_len * c.kv_len);
    const double dropped = (double)expect_pattern(context, &c);
    cr_expect_leq(fabs(dropped - count * p), 5 * sqrt(count * p * (1 - p)), "%g of %g at p = %g", dropped, count, p);
  }
  clattn_context_destroy(&context);
}

/* How many of `count` weights are dropped in both, or kept in both. */
static size_t count_alike(const double *a, const double *b, size_t count) {
  size_t alike = 0;
  for (size_t n = 0; n < count; n++) alike += (a[n] == 0) == (b[n] == 0);
  return alike;
}

/* Patterns of other seeds and calls, and of other heads and rows of one call, agree as independent ones do: in half of
 * the places at p = 1/2, within 5 standard deviations. */
Test(dropout, streams_are_independent) {
  clattn_context *context = test_context();
  attention_case c = {.batch = 2, .heads = 2, .q_len = 32, .kv_len = 128, .head_dim = 1};
  const uint64_t seeds[] = {5, 6, 5 + (UINT64_C(1) << 32), 5};
  const uint32_t calls[] = {1, 1, 1, 2};
  double *weights[4];
  size_t count = 0;
  c.request.dropout = 0.5;
  for (int n = 0; n < 4; n++) {
    c.request.dropout_seed = seeds[n];
    c.request.dropout_call = calls[n];
    weights[n] = run_equal_scores(context, &c, &count);
  }
  for (int n = 1; n < 4; n++)
    cr_expect_leq(fabs((double)count_alike(weights[0], weights[n], count) - 0.5 * (double)count),
                  2.5 * sqrt((double)count), "call %d", n);
  const size_t steps[] = {1, c.kv_len, c.kv_len * c.q_len, c.kv_len * c.q_len * c.heads};
  for (int n = 0; n < 4; n++) {
    const size_t pairs = count - steps[n];
    cr_expect_leq(fabs((double)count_alike(weights[0], weights[0] + steps[n], pairs) - 0.5 * (double)pairs),
                  2.5 * sqrt((double)pairs), "neighbours %zu apart", steps[n]);
  }
  for (int n = 0; n < 4; n++) free(weights[n]);
  clattn_context_destroy(&context);
}

/* The same numbers are dropped whole or in slices, from the pool or in lent memory, with 16-bit inputs and with
 * float64. */
Test(dropout, does_not_depend_on_the_cut) {
  clattn_context *context = test_context();
  const attention_case plain = {.batch = 2,
                                .heads = 4,
                                .q_len = 23,
                                .kv_len = 37,
                                .head_dim = 3,
                                .request = {.dropout = 0.3, .dropout_seed = 99}};
  attention_case others[4] = {plain, plain, plain, plain};
  others[0].request.scratch_limit = 4096;
  others[1].request.lends = 1;
  others[2].type = CLATTN_BFLOAT16;
  others[3].type = test_has_fp64(context) ? CLATTN_FLOAT64 : CLATTN_FLOAT16;
  clattn_plan plan;
  EXPECT_SUCCESS(context, attention_case_plan(context, &others[0], &plan));
  cr_expect_gt(plan.slices, 1, "%s", plan.text);
  size_t count = 0, other_count = 0;
  double *weights = run_equal_scores(context, &plain, &count);
  for (int n = 0; n < 4; n++) {
    double *other = run_equal_scores(context, &others[n], &other_count);
    cr_expect_eq(count_alike(weights, other, count), count, "case %d", n);
    free(other);
  }
  free(weights);
  clattn_context_destroy(&context);
}

/* Output and weights of a layer with dropout in both places; the mean over heads, extra keys and query lengths among
 * them. */
Test(mha_dropout, short_against_reference) {
  clattn_context *context = test_context();
  const int64_t q_lengths[2] = {5, 3};
  for (int weights = TEST_NO_WEIGHTS; weights <= TEST_MEAN; weights++)
    EXPECT_LAYER(context, .batch = 2, .q_len = 5, .kv_len = 9, .seed = 3,
                 .config = {.embed_dim = 12, .heads = 4, .kv_heads = 2, .out_dim = 7, .bias_kv = 1},
                 .request = {.weights = (test_weights)weights,
                             .zero_key = 1,
                             .q_lengths = q_lengths,
                             .dropout = 0.25,
                             .output_dropout = 0.5,
                             .dropout_seed = 17,
                             .dropout_call = 2});
  clattn_context_destroy(&context);
}

Test(dropout, inference_turns_it_off) {
  clattn_context *context = test_context();
  attention_case c = {.heads = 2, .q_len = 9, .kv_len = 11, .head_dim = 5, .seed = 4};
  test_results plain, inference;
  test_line line = {{0}};
  cr_assert(attention_case_run(context, &c, &plain, &line), "%s", line.text);
  c.request.dropout = 0.7;
  c.request.inference = 1;
  cr_assert(attention_case_run(context, &c, &inference, &line), "%s", line.text);
  cr_expect_arr_eq(plain.output, inference.output, plain.output_count * sizeof *plain.output);
  results_release(&plain);
  results_release(&inference);
  clattn_context_destroy(&context);
}

/* Probabilities are 0 or more and below 1; NaN is none. */
Test(dropout, refuses_what_is_no_probability) {
  clattn_context *context = test_context();
  const double wrong[] = {-0.1, 1, 1.5, (double)NAN, HUGE_VAL};
  for (int n = 0; n < 10; n++) {
    attention_case c = {.q_len = 2, .kv_len = 2, .head_dim = 2};
    clattn_plan plan;
    if (n % 2 == 0) c.request.dropout = wrong[n / 2];
    if (n % 2 == 1) c.request.output_dropout = wrong[n / 2];
    EXPECT_STATUS(context, CLATTN_INVALID_ARGUMENT, attention_case_plan(context, &c, &plan));
    cr_expect_not_null(strstr(clattn_context_message(context), n % 2 ? "output_dropout is" : "dropout is"), "%s",
                       clattn_context_message(context));
  }
  clattn_context_destroy(&context);
}
