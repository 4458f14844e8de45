/* SPDX-License-Identifier: Apache-2.0
 *
 * Bugs that others reported about attention and about OpenCL libraries, as small inputs with answers in closed form.
 * Each names the public reports; the inputs are our own. Unless a case says otherwise a number is right when |got -
 * want| <= 1e-5 + 1e-5 |want|: every wrong answer that the reports tell of is further away than 1e-2.
 *
 * "Plain" layers have identity weights and no bias, so that they are attention per head; with Q = K = 0 every key that
 * may be seen weighs the same. */
#include "support/attention_case.h"
#include "support/layer_case.h"

#include <criterion/criterion.h>
#include <float.h>
#include <stdlib.h>
#include <string.h>

static const double zeros[4096]; /* Q and K of most cases */

static int is_right(const double *got, const double *want, size_t count, const char *what, test_line *line) {
  for (size_t n = 0; n < count; n++)
    if (!is_near(got[n], want[n], 1e-5 + 1e-5 * fabs(want[n])))
      return test_fail(line, "%s[%zu] = %.9g, want %.9g", what, n, got[n], want[n]);
  return 1;
}

/* output, weights: NULL if the case says nothing of them. */
static void expect_attention(clattn_context *context, const attention_case *c, const double *output,
                             const double *weights) {
  test_results results;
  test_line line = {{0}};
  cr_assert(attention_case_run(context, c, &results, &line), "%s", line.text);
  if (output) cr_expect(is_right(results.output, output, results.output_count, "output", &line), "%s", line.text);
  if (weights) cr_expect(is_right(results.weights, weights, results.weights_count, "weights", &line), "%s", line.text);
  results_release(&results);
}

/* A plain layer of at most 8 wide; query and key are zeros. */
static void expect_plain_layer(clattn_context *context, const layer_case *c, const double *output) {
  const size_t E = c->config.embed_dim;
  double identity[64] = {0};
  for (size_t e = 0; e < E; e++) identity[e * E + e] = 1;
  layer_case plain = *c;
  plain.no_bias = 1;
  plain.query = plain.key = zeros;
  for (int p = 0; p < 4; p++) plain.parameter[p] = identity;
  test_results results;
  test_line line = {{0}};
  cr_assert(layer_case_run(context, &plain, &results, &line), "%s", line.text);
  cr_expect(is_right(results.output, output, results.output_count, "output", &line), "%s", line.text);
  results_release(&results);
}

/* pytorch/pytorch#41508: a band mask and key padding are each harmless, together they leave a query without a key:
 * NaN. */
Test(field, a1_band_and_padding_leave_a_row_without_keys) {
  static const double values[8] = {1, 2, 4, 8, 1, 2, 4, 8}, want[8] = {1, 1.5, 3, 6, 1, 1.5, 2, 0};
  static const double band[16] = {1, 0, 0, 0, 1, 1, 0, 0, 0, 1, 1, 0, 0, 0, 1, 1},
                      padding[8] = {0, 0, 0, 0, 0, 0, 1, 1};
  clattn_context *context = test_context();
  layer_case c = {.batch = 2, .q_len = 4, .kv_len = 4, .config = {.embed_dim = 1, .heads = 1}, .value = values};
  c.request.masks[0] = (test_mask){.kind = CLATTN_MASK_KEEP, .axes = "ts", .values = band};
  c.request.masks[1] = (test_mask){.kind = CLATTN_MASK_BLOCK, .axes = "bs", .values = padding};
  for (int w = 0; w < 3; w++) {
    c.request.weights = (test_weights)w;
    expect_plain_layer(context, &c, want);
  }
  clattn_context_destroy(&context);
}

/* pytorch/pytorch#99282, keras-team/keras#23038: the causal flag is lost when weights are asked for or a mask is
 * given. */
Test(field, a3_causal_flag_on_every_path) {
  static const double values[3] = {1, 2, 4}, want[3] = {1, 1.5, 7.0 / 3}, all[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
  static const test_mask masks[] = {{.kind = (clattn_mask_kind)0},
                                    {.kind = CLATTN_MASK_KEEP, .axes = "ts", .values = all},
                                    {.kind = CLATTN_MASK_ADD, .axes = "ts", .values = zeros},
                                    {.kind = CLATTN_MASK_BLOCK, .axes = "bs", .values = zeros}};
  clattn_context *context = test_context();
  for (int w = 0; w < 3; w++)
    for (int m = 0; m < 4; m++) {
      test_request request = {.causal = CLATTN_CAUSAL_TOP_LEFT, .weights = (test_weights)w};
      request.masks[0] = masks[m];
      const attention_case c = {
          .q_len = 3, .kv_len = 3, .head_dim = 1, .query = zeros, .key = zeros, .value = values, .request = request};
      expect_attention(context, &c, want, NULL);
      const layer_case l = {
          .q_len = 3, .kv_len = 3, .config = {.embed_dim = 1, .heads = 1}, .value = values, .request = request};
      expect_plain_layer(context, &l, want);
    }
  clattn_context_destroy(&context);
}

/* pytorch/pytorch#63271: padding merged with a [B*H,T,S] mask blanks padded query rows as well. */
Test(field, a4_padding_blocks_columns_only) {
  static const double values[5] = {1, 2, 4, 8, 16}, padding[5] = {0, 0, 0, 0, 1};
  static const double want[5] = {1, 1.5, 7.0 / 3, 3.75, 3.75};
  double causal[25], weights[25] = {0};
  for (int n = 0; n < 25; n++) {
    const int i = n / 5, j = n % 5, seen = i < 4 ? i + 1 : 4;
    causal[n] = j > i;
    weights[n] = j < seen ? 1.0 / seen : 0;
  }
  clattn_context *context = test_context();
  attention_case c = {.q_len = 5, .kv_len = 5, .head_dim = 1, .query = zeros, .key = zeros, .value = values};
  c.request.masks[0] = (test_mask){.kind = CLATTN_MASK_BLOCK, .axes = "bhts", .values = causal};
  c.request.masks[1] = (test_mask){.kind = CLATTN_MASK_BLOCK, .axes = "bs", .values = padding};
  c.request.weights = TEST_PER_HEAD;
  expect_attention(context, &c, want, weights);
  clattn_context_destroy(&context);
}

/* pytorch/pytorch#64706, #184180, #189631, Tencent/ncnn#6869, openvinotoolkit/openvino#21217: masks of the wrong batch
 * entry or head, or read without broadcast. Each mask keeps one key, V[s] = 2^s. */
Test(field, a5_masks_of_batch_and_head) {
  enum { B = 2, H = 3, T = 2, S = 4 };
  static const char *const axes[] = {"bhts", "bts", "hts", "ts", "bs"};
  clattn_context *context = test_context();
  double values[B * H * S], keep[B * H * T * S], want[B * H * T];
  for (int n = 0; n < B * H * S; n++) values[n] = ldexp(1, n % S);
  for (int a = 0; a < 5; a++)
    for (int stride_0 = 0; stride_0 < 2; stride_0++) {
      size_t at = 0;
      for (int b = 0; b < (strchr(axes[a], 'b') ? B : 1); b++)
        for (int h = 0; h < (strchr(axes[a], 'h') ? H : 1); h++)
          for (int t = 0; t < (strchr(axes[a], 't') ? T : 1); t++)
            for (int s = 0; s < S; s++) {
              const int only[] = {(b * H + h) % S, b, h, t, b};
              keep[at++] = s == only[a];
            }
      for (int n = 0; n < B * H * T; n++) {
        const int t = n % T, h = n / T % H, b = n / (T * H);
        const int only[] = {(b * H + h) % S, b, h, t, b};
        want[n] = ldexp(1, only[a]);
      }
      attention_case c = {.batch = B, .heads = H, .q_len = T, .kv_len = S, .head_dim = 1};
      c.query = c.key = zeros;
      c.value = values;
      c.request.masks[0] = (test_mask){.kind = CLATTN_MASK_KEEP, .axes = axes[a], .values = keep};
      c.request.masks[0].form = stride_0 ? TEST_STRIDE_0 : TEST_FULL_RANK;
      expect_attention(context, &c, want, NULL);
    }
  clattn_context_destroy(&context);
}

/* openvinotoolkit/openvino#31630: a boolean mask with the opposite meaning, or added as the number 1. Flipped it gives
 * 10, added 44.2, ignored 37. Any byte but 0 is true. */
Test(field, a6_polarity_and_bytes_of_boolean_masks) {
  static const double values[3] = {1, 10, 100}, want[1] = {50.5}, truths[3] = {1, 2, 255};
  clattn_context *context = test_context();
  for (int n = 0; n < 3; n++) {
    const double keep[3] = {truths[n], 0, truths[n]}, block[3] = {0, truths[n], 0};
    attention_case c = {.kv_len = 3, .head_dim = 1, .query = zeros, .key = zeros, .value = values};
    c.request.masks[0] = (test_mask){.kind = CLATTN_MASK_KEEP, .axes = "s", .values = keep};
    expect_attention(context, &c, want, NULL);
    c.request.masks[0] = (test_mask){.kind = CLATTN_MASK_BLOCK, .axes = "s", .values = block};
    expect_attention(context, &c, want, NULL);
  }
  clattn_context_destroy(&context);
}

/* microsoft/onnxruntime#29020, ml-explore/mlx#2835, pytorch/pytorch#103082, #108108, onnx/onnx#8054, #8068,
 * Dao-AILab/flash-attention#1778: is query 0 lined up with key 0, or the last with the last? */
Test(field, a8_alignment_of_the_causal_diagonal) {
  static const double values[4] = {1, 2, 4, 8};
  static const double top_wide[2] = {1, 1.5}, top_tall[4] = {1, 1.5, 1.5, 1.5};
  static const double bottom_wide[2] = {7.0 / 3, 3.75}, bottom_tall[4] = {0, 0, 1, 1.5};
  clattn_context *context = test_context();
  attention_case wide = {.q_len = 2, .kv_len = 4, .head_dim = 1, .query = zeros, .key = zeros, .value = values};
  attention_case tall = {.q_len = 4, .kv_len = 2, .head_dim = 1, .query = zeros, .key = zeros, .value = values};
  wide.request.causal = tall.request.causal = CLATTN_CAUSAL_TOP_LEFT;
  expect_attention(context, &wide, top_wide, NULL);
  expect_attention(context, &tall, top_tall, NULL);
  wide.request.causal = tall.request.causal = CLATTN_CAUSAL_BOTTOM_RIGHT;
  expect_attention(context, &wide, bottom_wide, NULL);
  expect_attention(context, &tall, bottom_tall, NULL);
  wide.request.causal = tall.request.causal = CLATTN_CAUSAL_OFFSET;
  wide.request.causal_offset = 2; /* S - T */
  tall.request.causal_offset = -2;
  expect_attention(context, &wide, bottom_wide, NULL);
  expect_attention(context, &tall, bottom_tall, NULL);
  clattn_context_destroy(&context);
}

/* One query over `count` keys with V[j] = j, all blocked but [from, to), by adding `minimum`. */
static void expect_live_range(clattn_context *context, size_t count, size_t from, size_t to, double minimum) {
  double *values = test_alloc(count, sizeof *values), *mask = test_alloc(count, sizeof *mask);
  const double want[1] = {((double)from + (double)to - 1) / 2};
  for (size_t j = 0; j < count; j++) {
    values[j] = (double)j;
    mask[j] = j >= from && j < to ? 0 : minimum;
  }
  attention_case c = {.kv_len = count, .head_dim = 1, .query = zeros, .key = zeros, .value = values};
  c.request.masks[0] = (test_mask){.kind = CLATTN_MASK_ADD, .axes = "s", .values = mask};
  expect_attention(context, &c, want, NULL);
  free(values);
  free(mask);
}

/* ggml-org/llama.cpp#6438, pytorch/pytorch#109517, openvinotoolkit/openvino#32893: a first block of keys that is
 * blocked whole spoils a running maximum. */
Test(field, a11_blocks_of_keys_without_a_live_one) {
  const double M = -(double)FLT_MAX, I = -HUGE_VAL;
  clattn_context *context = test_context();
  expect_live_range(context, 600, 512, 600, I); /* 555.5 */
  expect_live_range(context, 441, 128, 441, M); /* 284 */
  expect_live_range(context, 600, 0, 88, I);    /* live keys first */
  expect_live_range(context, 441, 0, 313, M);
  expect_live_range(context, 600, 256, 300, I); /* in the middle */
  expect_live_range(context, 600, 599, 600, I);
  /* Gaps of the size of a block. */
  enum { S = 600 };
  double values[S], mask[S], sum = 0, live = 0;
  for (size_t j = 0; j < S; j++) {
    const int blocked = (j / 64) % 2 == 0;
    values[j] = (double)j;
    mask[j] = blocked ? I : 0;
    sum += blocked ? 0 : values[j];
    live += !blocked;
  }
  const double mean[1] = {sum / live};
  attention_case gaps = {.kv_len = S, .head_dim = 1, .query = zeros, .key = zeros, .value = values};
  gaps.request.masks[0] = (test_mask){.kind = CLATTN_MASK_ADD, .axes = "s", .values = mask};
  expect_attention(context, &gaps, mean, NULL);
  /* A band: i - 9 <= j <= i. */
  const size_t T = test_size(600, 100);
  double want[S];
  for (size_t i = 0; i < T; i++) want[i] = i < 9 ? (double)i / 2 : (double)i - 4.5;
  attention_case band = {.q_len = T, .kv_len = T, .head_dim = 1, .query = zeros, .key = zeros, .value = values};
  band.request.causal = CLATTN_CAUSAL_TOP_LEFT;
  band.request.window.set = 1;
  band.request.window.left = 9;
  band.request.window.right = CLATTN_WINDOW_NONE;
  expect_attention(context, &band, want, NULL);
  clattn_context_destroy(&context);
}

/* huggingface/transformers#27114, NVIDIA-NeMo/Automodel#2658, microsoft/onnxruntime#14363, #8549: masks of the type's
 * minimum are added together: in float32 two of them are minus infinity. */
Test(field, a13_sums_of_finite_minima) {
  const double M = (double)FLT_MAX, values[3] = {1, 10, 100};
  const double apart[2][3] = {{0, -M, -M}, {-M, -M, 0}}, same[3] = {-M, -M, -M};
  const double first[1] = {50.5}, uniform[1] = {37}, none[1] = {0}, weights[3] = {0.5, 0, 0.5};
  clattn_context *context = test_context();
  attention_case c = {.kv_len = 3, .head_dim = 1, .query = zeros, .key = zeros, .value = values};
  c.request.weights = TEST_PER_HEAD;
  c.request.masks[0] = (test_mask){.kind = CLATTN_MASK_ADD, .axes = "s", .values = apart[0]};
  c.request.masks[1] = (test_mask){.kind = CLATTN_MASK_ADD, .axes = "bs", .values = apart[1]};
  expect_attention(context, &c, first, weights);
  c.request.masks[0].values = c.request.masks[1].values = same;
  expect_attention(context, &c, none, zeros);
  c.request.masks[1] = (test_mask){.kind = (clattn_mask_kind)0};
  expect_attention(context, &c, uniform, NULL);
  clattn_context_destroy(&context);
}

/* huggingface/transformers#39408, Dao-AILab/flash-attention#1133: a window of w is w keys in one place and w + 1 in
 * another. */
Test(field, a16_windows_count_keys_beside_the_own_position) {
  static const double values[6] = {0, 1, 2, 3, 4, 5};
  static const double two_left[6] = {0, 0.5, 1, 2, 3, 4}, two_in_all[6] = {0, 0.5, 1.5, 2.5, 3.5, 4.5};
  static const double both_sides[5] = {1, 1.5, 2.5, 3, 3.5};
  clattn_context *context = test_context();
  attention_case c = {.q_len = 6, .kv_len = 6, .head_dim = 1, .query = zeros, .key = zeros, .value = values};
  c.request.causal = CLATTN_CAUSAL_TOP_LEFT;
  c.request.window.set = 1;
  c.request.window.left = 2;
  c.request.window.right = CLATTN_WINDOW_NONE;
  expect_attention(context, &c, two_left, NULL);
  c.request.window.left = 1;
  expect_attention(context, &c, two_in_all, NULL);
  c.request.causal = CLATTN_CAUSAL_NONE;
  c.request.window.right = 2;
  c.q_len = c.kv_len = 5;
  expect_attention(context, &c, both_sides, NULL);
  clattn_context_destroy(&context);
}

/* The last feature of the last key weighs as much as all other keys together. */
static void expect_needle(clattn_context *context, size_t T, size_t S, size_t D) {
  double *query = test_alloc(T * D, sizeof *query), *key = test_alloc(S * D, sizeof *key);
  double *value = test_alloc(S * D, sizeof *value), *want = test_alloc(T * D, sizeof *want);
  for (size_t i = 0; i < T; i++) query[i * D + D - 1] = 1;
  key[S * D - 1] = sqrt((double)D) * log((double)(S - 1));
  for (size_t d = 0; d < D; d++) value[(S - 1) * D + d] = 1;
  for (size_t n = 0; n < T * D; n++) want[n] = 0.5;
  const attention_case c = {.q_len = T, .kv_len = S, .head_dim = D, .query = query, .key = key, .value = value};
  expect_attention(context, &c, want, NULL);
  free(query);
  free(key);
  free(value);
  free(want);
}

/* triton-lang/triton#621, NVIDIA/FasterTransformer#89, nntrainer/nntrainer#3812, tenstorrent/tt-metal#32502,
 * mlc-ai/mlc-llm#1889: sizes that are no multiple of a tile, or above a built-in limit. */
Test(field, a18_head_sizes_and_lengths_of_no_tile) {
  static const size_t dims[] = {1, 3, 40, 63, 65, 72, 80, 96, 100, 128, 129, 160, 192, 256, 257, 320};
  static const size_t lengths[] = {2, 15, 16, 17, 31, 33, 63, 65, 127, 129, 255, 257, 511, 513, 1025};
  clattn_context *context = test_context();
  for (size_t n = 0; n < 16; n++)
    for (size_t k = 0; k < 3; k++) {
      const size_t S = lengths[(n * 4 + k * 5) % (test_is_small() ? 7 : 15)];
      const size_t T = lengths[(n * 7 + k * 2) % (test_is_small() ? 7 : 12)];
      expect_needle(context, k ? T : 1, S, dims[n]);
      if (k == 0)
        EXPECT_CASE(context, .heads = 2, .q_len = T, .kv_len = S, .head_dim = dims[n], .seed = n,
                    .request = {.weights = TEST_PER_HEAD});
    }
  clattn_context_destroy(&context);
}

/* pytorch/opacus#825, pytorch/pytorch#67651, #187506, NVIDIA/TransformerEngine#1195: a reshape where a transposition is
 * needed; batch-first taken for sequence-first, which does not show when B = T. */
Test(field, a19_heads_and_sequence_first) {
  static const double values[12] = {0, 1, 2, 3, 10, 11, 12, 13, 20, 21, 22, 23};
  static const double rows[12] = {10, 11, 12, 13, 10, 11, 12, 13, 10, 11, 12, 13};
  static const double square[4] = {1, 2, 3, 5}, batch_first[4] = {1, 1.5, 3, 4};
  /* [T,B,E] memory 1 2 / 3 5 is batch entries (1, 3) and (2, 5); the answer 1 2 / 2 3.5 is (1, 2) and (2, 3.5). */
  static const double turned[4] = {1, 3, 2, 5}, sequence_first[4] = {1, 2, 2, 3.5};
  clattn_context *context = test_context();
  const layer_case heads = {.q_len = 3, .kv_len = 3, .config = {.embed_dim = 4, .heads = 2}, .value = values};
  expect_plain_layer(context, &heads, rows);
  layer_case c = {.batch = 2, .q_len = 2, .kv_len = 2, .config = {.embed_dim = 1, .heads = 1}, .value = square};
  c.request.causal = CLATTN_CAUSAL_TOP_LEFT;
  expect_plain_layer(context, &c, batch_first);
  c.value = turned;
  c.sequence_first = 1;
  expect_plain_layer(context, &c, sequence_first);
  clattn_context_destroy(&context);
}

/* pytorch/pytorch#192651, #166318, #188765, #81077, #97111, Dao-AILab/flash-attention#1159: empty extents; an output
 * shortened to the longest real length. */
Test(field, a21_empty_and_fully_padded) {
  static const double bias[2] = {3, 4}, padding[12] = {0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1};
  static const double only_bias[4] = {3, 4, 3, 4}, values[6] = {1, 10, 100, 1, 10, 100}, of_lengths[2] = {0, 37};
  static const double six[12] = {1, 2, 3, 4, 5, 6, 2, 4, 6, 8, 10, 12};
  static const int64_t lengths[2] = {0, 3};
  clattn_context *context = test_context();
  test_line line = {{0}};
  layer_case c = {.empty = 1, .batch = 1, .q_len = 2, .kv_len = 0, .config = {.embed_dim = 2, .heads = 1}};
  c.parameter[CLATTN_BO] = bias;
  c.request.weights = TEST_PER_HEAD;
  cr_expect(layer_case_expect(context, &c, only_bias, 0, &line), "%s", line.text);
  c.batch = 0;
  c.kv_len = 3;
  cr_expect(layer_case_expect(context, &c, NULL, 0, &line), "%s", line.text);
  c.batch = 1;
  c.q_len = 0;
  cr_expect(layer_case_expect(context, &c, NULL, 0, &line), "%s", line.text);

  attention_case ragged = {.batch = 2, .kv_len = 3, .head_dim = 1, .query = zeros, .key = zeros, .value = values};
  ragged.request.kv_lengths = lengths;
  expect_attention(context, &ragged, of_lengths, NULL);

  double want[12];
  for (int n = 0; n < 12; n++) want[n] = n < 6 ? 3 : 6; /* six rows each, the mean of the first five */
  attention_case padded = {.batch = 2, .q_len = 6, .kv_len = 6, .head_dim = 1, .query = zeros, .key = zeros};
  padded.value = six;
  padded.request.masks[0] = (test_mask){.kind = CLATTN_MASK_BLOCK, .axes = "bs", .values = padding};
  expect_attention(context, &padded, want, NULL);
  clattn_context_destroy(&context);
}

/* microsoft/onnxruntime-genai#2354, tinygrad/tinygrad#15949, microsoft/onnxruntime#29447, #28031: decoding with an
 * offset one off, or a capacity taken for a length. A cache of 16 slots; what is not yet written there is 1e6, then
 * NaN. */
Test(field, a22_decoding_step_by_step) {
  enum { CAPACITY = 16, STEPS = 10 };
  static const size_t chunks[] = {1, 2, 7};
  const double unwritten[] = {1e6, (double)NAN};
  clattn_context *context = test_context();
  for (int u = 0; u < 2; u++)
    for (int n = 0; n < 3; n++)
      for (size_t t = 0; t < STEPS; t += chunks[n]) {
        const size_t count = t + chunks[n] < STEPS ? chunks[n] : STEPS - t;
        const int64_t length[1] = {(int64_t)(t + count)};
        double key[CAPACITY], value[CAPACITY], want[STEPS];
        for (size_t j = 0; j < CAPACITY; j++) {
          key[j] = j < t + count ? 0 : unwritten[u];
          value[j] = j < t + count ? (double)j : unwritten[u];
        }
        for (size_t i = 0; i < count; i++) want[i] = (double)(t + i) / 2;
        attention_case c = {.q_len = count, .kv_len = CAPACITY, .head_dim = 1, .query = zeros, .key = key};
        c.value = value;
        c.request.kv_lengths = length;
        c.request.causal = CLATTN_CAUSAL_BOTTOM_RIGHT;
        expect_attention(context, &c, want, NULL);
        /* The same without a cache: S grows, and the offset is explicit. */
        c.kv_len = t + count;
        c.request.kv_lengths = NULL;
        c.request.causal = CLATTN_CAUSAL_OFFSET;
        c.request.causal_offset = (int64_t)t;
        expect_attention(context, &c, want, NULL);
      }
  /* Past lengths 3 and 5: the new token sees 4 and 6 keys. */
  const int64_t lengths[2] = {4, 6};
  double value[2 * CAPACITY];
  const double want[2] = {1.5, 2.5};
  for (size_t j = 0; j < 2 * CAPACITY; j++) value[j] = (double)(j % CAPACITY);
  attention_case c = {.batch = 2, .kv_len = CAPACITY, .head_dim = 1, .query = zeros, .key = zeros, .value = value};
  c.request.kv_lengths = lengths;
  c.request.causal = CLATTN_CAUSAL_BOTTOM_RIGHT;
  expect_attention(context, &c, want, NULL);
  clattn_context_destroy(&context);
}

/* microsoft/onnxruntime#28357, pytorch/text#1371, rasbt/LLMs-from-scratch#857: the scale of the value's head size; a
 * weight matrix read transposed. */
Test(field, a26_value_size_and_weight_orientation) {
  const double q4[4] = {2, 0, 0, 0}, k4[8] = {0, 0, 0, 0, log(3), 0, 0, 0}, v1[2] = {0, 1},
               three_quarters[4] = {0.75, 0.75, 0.75, 0.75};
  const double q1[1] = {1}, k1[2] = {0, log(3)}, v4[8] = {0, 0, 0, 0, 1, 1, 1, 1};
  const double x[3] = {1, 2, 3}, w[6] = {1, 2, 3, 4, 5, 6}, identity[4] = {1, 0, 0, 1}, projected[2] = {14, 32};
  clattn_context *context = test_context();
  test_line line = {{0}};
  const attention_case first = {.kv_len = 2, .head_dim = 4, .value_head_dim = 1, .query = q4, .key = k4, .value = v1};
  expect_attention(context, &first, three_quarters, NULL);
  const attention_case second = {.kv_len = 2, .head_dim = 1, .value_head_dim = 4, .query = q1, .key = k1, .value = v4};
  expect_attention(context, &second, three_quarters, NULL);
  /* One key has weight 1, so that the layer is its value projection. */
  layer_case third = {.config = {.embed_dim = 3, .heads = 1, .head_dim = 1, .value_head_dim = 2, .out_dim = 2}};
  third.query = third.key = third.value = x;
  third.no_bias = 1;
  third.parameter[CLATTN_WV] = w;
  third.parameter[CLATTN_WO] = identity;
  cr_expect(layer_case_expect(context, &third, projected, 1e-4, &line), "%s", line.text);
  EXPECT_LAYER(context, .batch = 2, .q_len = 3, .kv_len = 4,
               .config = {.embed_dim = 6, .heads = 2, .kdim = 3, .vdim = 5}, .request = {.weights = TEST_PER_HEAD});
  clattn_context_destroy(&context);
}

/* ggml-org/llama.cpp#7090, #12795, halide/Halide#8235: offsets that are no multiple of the device's base alignment,
 * which is in bits. Views begin 4, 60, 0 and 68 bytes behind a multiple of 128, and heads 60 bytes apart. */
Test(field, b4_offsets_of_no_alignment) {
  static const size_t offsets[] = {30, 12, 29, 46}; /* the guard in front has 67 elements */
  clattn_context *context = test_context();
  for (int n = 0; n < 4; n++)
    for (int k = 0; k < 4; k++)
      EXPECT_CASE(context, .batch = 2, .heads = 3, .q_len = 3, .kv_len = 3, .head_dim = 5, .seed = (uint64_t)n,
                  .query_layout = {.offset = offsets[n]}, .key_layout = {.offset = offsets[k]},
                  .value_layout = {.offset = offsets[(n + k) % 4]},
                  .request = {.output_layout = {.offset = offsets[(n + 1) % 4]},
                              .weights = TEST_PER_HEAD,
                              .weights_layout = {.offset = offsets[k]}});
  clattn_context_destroy(&context);
}

/* CNugteren/CLBlast#346, #578, #167: batched products that refuse or break with tiny matrices and zero sizes. */
Test(field, b14_corners_of_batched_products) {
  enum { COUNT = 261, D = 40 };
  clattn_context *context = test_context();
  double *value = test_alloc(COUNT * D, sizeof *value);
  test_rng rng = {40};
  test_line line = {{0}};
  for (size_t n = 0; n < COUNT * D; n++) value[n] = type_round(CLATTN_FLOAT32, rng_normal(&rng));
  for (int heads = 1; heads <= COUNT; heads += heads == 1 ? 2 : COUNT - 3) { /* 1, 3 and 261 heads */
    const attention_case c = {.batch = COUNT / (size_t)heads, .heads = (size_t)heads, .head_dim = D, .value = value};
    cr_expect(attention_case_expect(context, &c, value, NULL, 0, &line), "V exactly: %s", line.text);
  }
  free(value);
  EXPECT_CASE(context, .q_len = 1, .kv_len = test_size(1000, 100), .head_dim = D);
  EXPECT_CASE(context, .empty = 1, .batch = 1, .heads = 2, .q_len = 3, .kv_len = 0, .head_dim = D);
  clattn_context_destroy(&context);
}

/* clMathLibraries/clBLAS#201, #219, eth-cscs/COSMA#158: beta = 0 still reads C, so that NaN in old memory comes
 * through. Outputs are full of NaN before every call of these tests; here so is the pool's memory. */
Test(field, b15_nan_in_old_memory) {
  enum { S = 65, D = 17 };
  clattn_context *context = test_context();
  double *nan = test_alloc(2 * S * D, sizeof *nan);
  test_line line = {{0}};
  for (size_t n = 0; n < 2 * S * D; n++) nan[n] = (double)NAN;
  for (int n = 0; n < 2; n++) {
    test_results results;
    layer_case poison = {.q_len = S, .kv_len = S, .config = {.embed_dim = D, .heads = 1}};
    poison.query = poison.key = poison.value = nan;
    cr_assert(layer_case_run(context, &poison, &results, &line), "%s", line.text);
    cr_expect(isnan(results.output[0]));
    results_release(&results);
    EXPECT_LAYER(context, .q_len = S - 3, .kv_len = S - 1, .config = {.embed_dim = D - 1, .heads = 4},
                 .request = {.weights = TEST_MEAN});
    EXPECT_CASE(context, .heads = 2, .q_len = 9, .kv_len = 33, .head_dim = 5, .key_layout = {.order = "0213"});
  }
  free(nan);
  clattn_context_destroy(&context);
}
