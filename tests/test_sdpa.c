/* SPDX-License-Identifier: Apache-2.0
 *
 * Scaled dot-product attention without masks: sizes, types, layouts, scales, empty extents and extreme numbers, against
 * the scalar reference. Every case runs twice between guards (support/attention_case.h). */
#include "support/attention_case.h"

#include <criterion/criterion.h>
#include <float.h>
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------------------------------------------------- sizes */

/* Around every power of two that a tile may have, and the smallest. */
static const size_t odd_sizes[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 13, 15, 16, 17, 31, 33, 63, 65, 127, 129, 257};

static size_t draw_size(test_rng *rng, size_t limit) {
  size_t size;
  do size = odd_sizes[rng_below(rng, sizeof odd_sizes / sizeof *odd_sizes)];
  while (size > limit);
  return size;
}

/* Cases of drawn sizes with at most `work` products each. */
static void run_drawn_sizes(clattn_context *context, clattn_type type, int cases, size_t work, uint64_t seed) {
  test_rng rng = {seed};
  for (int n = 0; n < cases;) {
    const size_t B = draw_size(&rng, 17), H = draw_size(&rng, 17), T = draw_size(&rng, 257), S = draw_size(&rng, 257);
    const size_t D = draw_size(&rng, 257), Dv = draw_size(&rng, 257);
    if (B * H * T * S * (D + Dv) > work) continue;
    EXPECT_CASE(context, .batch = B, .heads = H, .q_len = T, .kv_len = S, .head_dim = D, .value_head_dim = Dv,
                .type = type, .seed = rng_next(&rng),
                .request = {.weights = (test_weights)rng_below(&rng, 3), .log_sum_exp = (int)rng_below(&rng, 2)});
    n++;
  }
}

Test(sdpa, sizes_drawn) {
  clattn_context *context = test_context();
  run_drawn_sizes(context, CLATTN_FLOAT32, test_is_small() ? 12 : 120, test_size(4000000, 100000), 1);
  clattn_context_destroy(&context);
}

Test(sdpa, each_size_in_each_place) {
  clattn_context *context = test_context();
  for (size_t n = 0; n < sizeof odd_sizes / sizeof *odd_sizes; n++) {
    const size_t size = odd_sizes[n];
    if (test_is_small() && size > 33) break;
    if (size <= 17) {
      EXPECT_CASE(context, .batch = size, .heads = 2, .q_len = 3, .kv_len = 5, .head_dim = 4, .seed = n);
      EXPECT_CASE(context, .batch = 2, .heads = size, .q_len = 3, .kv_len = 5, .head_dim = 4, .seed = n);
    }
    EXPECT_CASE(context, .batch = 2, .heads = 3, .q_len = size, .kv_len = 5, .head_dim = 4, .seed = n);
    EXPECT_CASE(context, .batch = 2, .heads = 3, .q_len = 5, .kv_len = size, .head_dim = 4, .seed = n);
    EXPECT_CASE(context, .batch = 2, .heads = 3, .q_len = 5, .kv_len = 4, .head_dim = size, .seed = n);
    EXPECT_CASE(context, .batch = 2, .heads = 3, .q_len = 5, .kv_len = 4, .head_dim = 3, .value_head_dim = size,
                .seed = n);
    EXPECT_CASE(context, .batch = 1, .heads = 1, .q_len = size, .kv_len = size, .head_dim = size, .seed = n);
  }
  clattn_context_destroy(&context);
}

Test(sdpa, extreme_shapes) {
  clattn_context *context = test_context();
  const size_t large = test_size(2049, 129);
  EXPECT_CASE(context, .head_dim = 1);
  EXPECT_CASE(context, .head_dim = 257, .value_head_dim = 1);
  EXPECT_CASE(context, .head_dim = 1, .value_head_dim = 257);
  EXPECT_CASE(context, .q_len = large, .kv_len = 1, .head_dim = 3);
  EXPECT_CASE(context, .q_len = 1, .kv_len = large, .head_dim = 3);
  EXPECT_CASE(context, .batch = test_size(261, 33), .head_dim = 40);
  EXPECT_CASE(context, .heads = test_size(261, 33), .head_dim = 40, .kv_len = 3);
  EXPECT_CASE(context, .head_dim = large, .q_len = 3, .kv_len = 5);
  clattn_context_destroy(&context);
}

/* Every kernel of an attention call once, in few sizes: for devices and checkers that are slow or slow to compile. */
Test(sdpa, short_every_kernel) {
  clattn_context *context = test_context();
  const int64_t lengths[2] = {7, 3};
  const double none[1] = {0};
  test_request many = {.weights = TEST_MEAN, .causal = CLATTN_CAUSAL_BOTTOM_RIGHT, .kv_lengths = lengths};
  for (int m = 0; m < 6; m++)
    many.masks[m] = (test_mask){.kind = m % 3 == 0   ? CLATTN_MASK_BLOCK
                                        : m % 3 == 1 ? CLATTN_MASK_ADD
                                                     : CLATTN_MASK_KEEP,
                                .axes = m % 2 ? "ts" : "bhs",
                                .share = 0.1};
  EXPECT_CASE(context, .batch = 2, .heads = 2, .q_len = 3, .kv_len = 7, .head_dim = 5,
              .request = {.weights = TEST_PER_HEAD, .log_sum_exp = 1});
  EXPECT_CASE(context, .batch = 2, .heads = 2, .q_len = 3, .kv_len = 7, .head_dim = 5,
              .query_layout = {.order = "0213"}, .key_layout = {.order = "2013", .offset = 1},
              .value_layout = {.pad = {0, 0, 1, 0}},
              .request = {.output_layout = {.order = "0213", .pad = {0, 0, 0, 1}}});
  EXPECT_CASE(context, .batch = 2, .heads = 2, .q_len = 5, .kv_len = 7, .head_dim = 5, .request = many);
  EXPECT_CASE(context, .heads = 2, .q_len = 3, .kv_len = 7, .head_dim = 5,
              .request = {.masks = {{.kind = CLATTN_MASK_KEEP, .axes = "", .values = none}}, .log_sum_exp = 1});
  EXPECT_CASE(context, .empty = 1, .batch = 1, .heads = 2, .q_len = 3, .kv_len = 0, .head_dim = 5,
              .request = {.log_sum_exp = 1});
  clattn_context_destroy(&context);
}

/* ---------------------------------------------------------------------------------------------------------- types */

Test(sdpa, float64) {
  clattn_context *context = test_context();
  if (test_has_fp64(context)) {
    run_drawn_sizes(context, CLATTN_FLOAT64, test_is_small() ? 6 : 40, test_size(2000000, 50000), 2);
  } else {
    /* Without float64 on the device the call is refused before anything is read. */
    const size_t shape[4] = {1, 1, 1, 1};
    cl_int error;
    cl_mem buffer = clCreateBuffer(clattn_context_cl(context), CL_MEM_READ_WRITE, 64, NULL, &error);
    cr_assert_eq(error, CL_SUCCESS);
    const clattn_tensor in = clattn_tensor_view(buffer, 0, CLATTN_FLOAT64, 4, shape);
    const clattn_tensor out = clattn_tensor_view(buffer, 4, CLATTN_FLOAT64, 4, shape);
    EXPECT_STATUS(context, CLATTN_UNSUPPORTED, clattn_sdpa(context, &in, &in, &in, &out, NULL));
    const clattn_tensor in32 = clattn_tensor_view(buffer, 0, CLATTN_FLOAT32, 4, shape);
    const clattn_tensor out32 = clattn_tensor_view(buffer, 8, CLATTN_FLOAT32, 4, shape);
    clattn_options options;
    clattn_options_init(&options);
    options.compute = CLATTN_FLOAT64;
    EXPECT_STATUS(context, CLATTN_UNSUPPORTED, clattn_sdpa(context, &in32, &in32, &in32, &out32, &options));
    clReleaseMemObject(buffer);
  }
  clattn_context_destroy(&context);
}

/* The arithmetic may be narrower or wider than what is stored; weights and log-sum-exp have its type. */
Test(sdpa, arithmetic_of_another_type) {
  clattn_context *context = test_context();
  for (uint64_t seed = 0; seed < 4 && test_has_fp64(context); seed++) {
    const test_weights weights = seed & 1 ? TEST_PER_HEAD : TEST_MEAN;
    EXPECT_CASE(context, .batch = 2, .heads = 3, .q_len = 9, .kv_len = 17, .head_dim = 33, .value_head_dim = 5,
                .type = CLATTN_FLOAT64, .seed = seed,
                .request = {.compute = CLATTN_FLOAT32, .weights = weights, .log_sum_exp = 1});
    EXPECT_CASE(context, .batch = 2, .heads = 3, .q_len = 9, .kv_len = 17, .head_dim = 33, .value_head_dim = 5,
                .type = CLATTN_FLOAT32, .seed = seed,
                .request = {.compute = CLATTN_FLOAT64, .weights = weights, .log_sum_exp = 1});
    EXPECT_CASE(context, .batch = 2, .heads = 2, .q_len = 4, .kv_len = 5, .head_dim = 3, .type = CLATTN_FLOAT64,
                .seed = seed, .request = {.compute = CLATTN_FLOAT64});
    EXPECT_CASE(context, .batch = 2, .heads = 2, .q_len = 4, .kv_len = 5, .head_dim = 3, .type = CLATTN_FLOAT64,
                .query_layout = {.order = "0213", .offset = 3}, .key_layout = {.order = "2013"}, .seed = seed,
                .request = {.compute = CLATTN_FLOAT32, .output_layout = {.order = "0213", .offset = 1}});
  }
  clattn_context_destroy(&context);
}

/* -------------------------------------------------------------------------------------------------------- layouts */

Test(sdpa, layouts) {
  static const test_layout layouts[] = {
      {.offset = 0},                                       /* [B,H,T,D] at an odd offset (the guard's) */
      {.offset = 61},                                      /* ... at 128 elements */
      {.offset = 62},                                      /* ... and one past it */
      {.order = "0213"},                                   /* [B,T,H,D] */
      {.order = "2013", .offset = 1},                      /* [T,B,H,D] */
      {.order = "1023", .offset = 5},                      /* [H,B,T,D] */
      {.order = "0132"},                                   /* [B,H,D,T]: the last dimension has a stride */
      {.order = "3210", .offset = 7},                      /* all reversed */
      {.pad = {0, 0, 0, 1}},                               /* every other element */
      {.pad = {0, 0, 3, 0}, .offset = 9},                  /* rows with gaps */
      {.pad = {13, 5, 0, 0}},                              /* heads and batches with gaps */
      {.pad = {1, 2, 3, 4}, .order = "0213", .offset = 11} /* gaps everywhere */
  };
  const size_t count = sizeof layouts / sizeof *layouts;
  clattn_context *context = test_context();
  test_rng rng = {5};
  for (size_t n = 0; n < count; n++) {
    /* Each layout for one argument at a time, then drawn ones for all. */
    for (int which = 0; which < 4; which++) {
      attention_case c = {.batch = 2, .heads = 3, .q_len = 5, .kv_len = 7, .head_dim = 4, .value_head_dim = 6};
      test_layout *places[] = {&c.query_layout, &c.key_layout, &c.value_layout, &c.request.output_layout};
      c.seed = n;
      *places[which] = layouts[n];
      test_line line = {{0}};
      cr_expect(attention_case_check(context, &c, &line), "layout %zu for argument %d: %s", n, which, line.text);
    }
    const size_t q = rng_below(&rng, count), k = rng_below(&rng, count), v = rng_below(&rng, count);
    const size_t o = rng_below(&rng, count);
    EXPECT_CASE(context, .batch = 3, .heads = 2, .q_len = 9, .kv_len = 6, .head_dim = 5, .query_layout = layouts[q],
                .key_layout = layouts[k], .value_layout = layouts[v], .seed = n,
                .request = {.output_layout = layouts[o]});
  }
  clattn_context_destroy(&context);
}

/* One head, one row or one feature leave a stride without meaning: it may be anything. */
Test(sdpa, strides_of_extents_of_one) {
  clattn_context *context = test_context();
  EXPECT_CASE(context, .batch = 3, .q_len = 4, .kv_len = 5, .head_dim = 6, .query_layout = {.pad = {0, 1000}},
              .key_layout = {.pad = {0, 7}}, .request = {.output_layout = {.pad = {0, 3}}});
  EXPECT_CASE(context, .heads = 3, .q_len = 1, .kv_len = 1, .head_dim = 6, .query_layout = {.pad = {5, 0, 9}},
              .key_layout = {.pad = {3, 0, 11}});
  EXPECT_CASE(context, .batch = 2, .heads = 3, .q_len = 4, .kv_len = 5, .head_dim = 1,
              .query_layout = {.pad = {0, 0, 0, 13}}, .key_layout = {.pad = {0, 0, 0, 2}},
              .value_layout = {.pad = {0, 0, 0, 5}}, .request = {.output_layout = {.pad = {0, 0, 0, 3}}});
  clattn_context_destroy(&context);
}

typedef struct raw_call {
  clattn_tensor query, key, value;
  size_t batch, heads, q_len, kv_len, dim;
} raw_call;

/* Runs views that the caller made and returns the output, row-major. */
static float *run_raw(clattn_context *context, const raw_call *c) {
  const size_t shape[4] = {c->batch, c->heads, c->q_len, c->dim};
  float *host = test_alloc(c->batch * c->heads * c->q_len * c->dim, sizeof *host);
  clattn_tensor out;
  EXPECT_SUCCESS(context, clattn_tensor_create(context, CLATTN_FLOAT32, 4, shape, NULL, &out));
  EXPECT_SUCCESS(context, clattn_sdpa(context, &c->query, &c->key, &c->value, &out, NULL));
  EXPECT_SUCCESS(context, clattn_tensor_read(context, &out, host));
  clattn_tensor_release(&out);
  return host;
}

/* A view of [B,T,parts,H,D] memory: part number `part` as [B,H,T,D]. */
static clattn_tensor packed_part(cl_mem buffer, size_t part, const size_t shape[4], size_t parts) {
  const size_t H = shape[1], T = shape[2], D = shape[3];
  clattn_tensor view = clattn_tensor_view(buffer, part * H * D, CLATTN_FLOAT32, 4, shape);
  view.stride[0] = T * parts * H * D;
  view.stride[1] = D;
  view.stride[2] = parts * H * D;
  return view;
}

/* Q, K and V in one [B,T,3,H,D] buffer give the bits of packed copies: the library's arithmetic sees the same
 * numbers. */
Test(sdpa, packed_qkv) {
  enum { B = 2, H = 3, T = 7, D = 5, COUNT = B * T * 3 * H * D };
  clattn_context *context = test_context();
  const size_t shape[4] = {B, H, T, D};
  float together[COUNT], apart[3][B * H * T * D];
  test_rng rng = {17};
  for (size_t n = 0; n < COUNT; n++) together[n] = (float)rng_normal(&rng);
  for (size_t n = 0; n < COUNT; n++) {
    const size_t d = n % D, h = n / D % H, part = n / (D * H) % 3, t = n / (D * H * 3) % T, b = n / (D * H * 3 * T);
    apart[part][((b * H + h) * T + t) * D + d] = together[n];
  }
  clattn_tensor all, copies[3];
  const size_t flat[1] = {COUNT};
  EXPECT_SUCCESS(context, clattn_tensor_create(context, CLATTN_FLOAT32, 1, flat, together, &all));
  for (int part = 0; part < 3; part++)
    EXPECT_SUCCESS(context, clattn_tensor_create(context, CLATTN_FLOAT32, 4, shape, apart[part], &copies[part]));
  raw_call views = {.batch = B, .heads = H, .q_len = T, .kv_len = T, .dim = D}, plain = views;
  views.query = packed_part(all.buffer, 0, shape, 3);
  views.key = packed_part(all.buffer, 1, shape, 3);
  views.value = packed_part(all.buffer, 2, shape, 3);
  plain.query = copies[0];
  plain.key = copies[1];
  plain.value = copies[2];
  float *got = run_raw(context, &views), *want = run_raw(context, &plain);
  test_line line = {{0}};
  cr_expect(compare_bits("packed QKV", want, got, B * H * T * D * sizeof *got, &line), "%s", line.text);
  free(got);
  free(want);
  clattn_tensor_release(&all);
  for (int part = 0; part < 3; part++) clattn_tensor_release(&copies[part]);
  clattn_context_destroy(&context);
}

/* Inputs may be one and the same, and may repeat with stride 0: one key head for all heads, one query for all rows. */
Test(sdpa, inputs_that_overlap_and_repeat) {
  enum { B = 2, H = 3, T = 4, D = 5 };
  clattn_context *context = test_context();
  const size_t shape[4] = {B, H, T, D};
  float host[B * H * T * D], copied[B * H * T * D];
  test_rng rng = {23};
  for (size_t n = 0; n < B * H * T * D; n++) host[n] = (float)rng_normal(&rng);
  clattn_tensor one, repeated;
  EXPECT_SUCCESS(context, clattn_tensor_create(context, CLATTN_FLOAT32, 4, shape, host, &one));
  const size_t strides[][4] = {{T * D, 0, D, 1}, {0, T * D, D, 1}, {T * D, T * D, 0, 1}, {0, 0, 0, 0}, {1, 1, 1, 1}};
  for (size_t n = 0; n < sizeof strides / sizeof *strides; n++) {
    clattn_tensor view = one;
    memcpy(view.stride, strides[n], sizeof view.stride);
    for (size_t e = 0; e < B * H * T * D; e++) {
      const size_t d = e % D, t = e / D % T, h = e / (D * T) % H, b = e / (D * T * H);
      copied[e] = host[b * strides[n][0] + h * strides[n][1] + t * strides[n][2] + d * strides[n][3]];
    }
    EXPECT_SUCCESS(context, clattn_tensor_create(context, CLATTN_FLOAT32, 4, shape, copied, &repeated));
    const raw_call views[] = {{view, one, one, B, H, T, T, D},
                              {one, view, one, B, H, T, T, D},
                              {one, one, view, B, H, T, T, D},
                              {view, view, view, B, H, T, T, D}};
    const raw_call plain[] = {{repeated, one, one, B, H, T, T, D},
                              {one, repeated, one, B, H, T, T, D},
                              {one, one, repeated, B, H, T, T, D},
                              {repeated, repeated, repeated, B, H, T, T, D}};
    for (int k = 0; k < 4; k++) {
      float *got = run_raw(context, &views[k]), *want = run_raw(context, &plain[k]);
      test_line line = {{0}};
      cr_expect(compare_bits("repeated", want, got, sizeof host, &line), "strides %zu, place %d: %s", n, k, line.text);
      free(got);
      free(want);
    }
    clattn_tensor_release(&repeated);
  }
  clattn_tensor_release(&one);
  clattn_context_destroy(&context);
}

/* ---------------------------------------------------------------------------------------------- scale and results */

Test(sdpa, scales) {
  static const double scales[] = {0, 1, -1, 0.125, 3.5, -0.3, 1e-30, 7e-39, 1.0 / 3};
  clattn_context *context = test_context();
  for (size_t n = 0; n < sizeof scales / sizeof *scales; n++)
    EXPECT_CASE(context, .batch = 2, .heads = 2, .q_len = 5, .kv_len = 9, .head_dim = 7, .seed = n,
                .request = {.scale = {1, scales[n]}, .weights = TEST_PER_HEAD, .log_sum_exp = 1});
  clattn_context_destroy(&context);
}

/* The default is 1/sqrt(D), of the head size, not of the value size or the width. */
Test(sdpa, default_scale_is_of_the_head_size) {
  clattn_context *context = test_context();
  const attention_case c = {.batch = 1, .heads = 2, .q_len = 3, .kv_len = 4, .head_dim = 16, .value_head_dim = 9};
  attention_case explicit_scale = c;
  explicit_scale.request.scale.set = 1;
  explicit_scale.request.scale.value = 0.25;
  test_results first, second;
  test_line line = {{0}};
  cr_assert(attention_case_run(context, &c, &first, &line), "%s", line.text);
  cr_assert(attention_case_run(context, &explicit_scale, &second, &line), "%s", line.text);
  cr_expect(compare_bits("output", first.output, second.output, first.output_count * sizeof(double), &line), "%s",
            line.text);
  results_release(&first);
  results_release(&second);
  clattn_context_destroy(&context);
}

/* -------------------------------------------------------------------------------------------------- empty extents */

Test(sdpa, empty_extents) {
  clattn_context *context = test_context();
  const test_weights all_weights[] = {TEST_NO_WEIGHTS, TEST_PER_HEAD, TEST_MEAN};
  for (int n = 0; n < 3; n++) {
    const test_request request = {.weights = all_weights[n], .log_sum_exp = 1};
    EXPECT_CASE(context, .empty = 1, .batch = 0, .heads = 2, .q_len = 3, .kv_len = 4, .head_dim = 5,
                .request = request);
    EXPECT_CASE(context, .empty = 1, .batch = 2, .heads = 2, .q_len = 0, .kv_len = 4, .head_dim = 5,
                .request = request);
    /* Without a key the output is 0 and the log-sum-exp minus infinity: the reference says so. */
    EXPECT_CASE(context, .empty = 1, .batch = 2, .heads = 2, .q_len = 3, .kv_len = 0, .head_dim = 5,
                .value_head_dim = 7, .request = request);
    EXPECT_CASE(context, .empty = 1, .batch = 2, .heads = 2, .q_len = 3, .kv_len = 0, .head_dim = 5,
                .request = {.weights = all_weights[n], .output_layout = {.order = "2013", .pad = {0, 1, 0, 1}}});
    EXPECT_CASE(context, .empty = 1, .batch = 0, .heads = 2, .q_len = 0, .kv_len = 0, .head_dim = 5,
                .request = request);
  }
  /* Masks and lengths of empty extents are empty too. */
  const int64_t lengths[2] = {0, 0};
  EXPECT_CASE(context, .empty = 1, .batch = 2, .heads = 2, .q_len = 3, .kv_len = 0, .head_dim = 5,
              .request = {.masks = {{.kind = CLATTN_MASK_BLOCK, .share = 0.5}},
                          .causal = CLATTN_CAUSAL_BOTTOM_RIGHT,
                          .kv_lengths = lengths});
  clattn_context_destroy(&context);
}

/* An empty call has an event too, and it ends. */
Test(sdpa, empty_call_gives_an_event) {
  clattn_context *context = test_context();
  const size_t shape[4] = {0, 1, 2, 3};
  clattn_tensor empty;
  EXPECT_SUCCESS(context, clattn_tensor_create(context, CLATTN_FLOAT32, 4, shape, NULL, &empty));
  clattn_options options;
  clattn_options_init(&options);
  cl_event event = NULL;
  options.event = &event;
  EXPECT_SUCCESS(context, clattn_sdpa(context, &empty, &empty, &empty, &empty, &options));
  cr_assert_not_null(event);
  cr_expect_eq(clWaitForEvents(1, &event), CL_SUCCESS);
  clReleaseEvent(event);
  clattn_tensor_release(&empty);
  clattn_context_destroy(&context);
}

/* ------------------------------------------------------------------------------------------------ extreme numbers */

/* One query of 1, keys as given, V[j] = j: output and weights in closed form. */
static void expect_keys(clattn_context *context, const double *keys, size_t count, const double *weights) {
  const double one = 1;
  double output = 0, *values = test_alloc(count, sizeof *values);
  for (size_t j = 0; j < count; j++) {
    values[j] = (double)j;
    output += weights[j] * values[j];
  }
  const attention_case c = {.kv_len = count,
                            .head_dim = 1,
                            .query = &one,
                            .key = keys,
                            .value = values,
                            .request = {.weights = TEST_PER_HEAD}};
  test_line line = {{0}};
  /* Every weight is 0, 1 or 1/n: a division and a product (6u), a sum of `count` such products. */
  const double bound = (6 + 2 * (double)count) * 0x1p-24 * ((double)count + 1);
  cr_expect(attention_case_expect(context, &c, &output, weights, bound, &line), "%s", line.text);
  free(values);
}

Test(sdpa, huge_logits) {
  clattn_context *context = test_context();
  expect_keys(context, (double[]){1e30, -1e30, 0}, 3, (double[]){1, 0, 0});
  expect_keys(context, (double[]){-1e30, 1e30, 1e30}, 3, (double[]){0, 0.5, 0.5});
  expect_keys(context, (double[]){-1e30, -1e30, -1e30, -1e30}, 4, (double[]){0.25, 0.25, 0.25, 0.25});
  expect_keys(context, (double[]){1e30, 1e30}, 2, (double[]){0.5, 0.5});
  expect_keys(context, (double[]){3e38, -3e38}, 2, (double[]){1, 0});
  expect_keys(context, (double[]){-3e38, 3e38, 3e38}, 3, (double[]){0, 0.5, 0.5});
  expect_keys(context, (double[]){-3e38, -3e38}, 2, (double[]){0.5, 0.5});
  expect_keys(context, (double[]){(double)FLT_MAX, (double)-FLT_MAX}, 2, (double[]){1, 0});
  expect_keys(context, (double[]){200, 0, -200}, 3, (double[]){1, 0, 0});
  clattn_context_destroy(&context);
}

/* exp(0) is 1 and a sum of ones is exact, so the weights are 1/S to the last bits of a division, whatever the logit. */
Test(sdpa, equal_logits) {
  clattn_context *context = test_context();
  static const double logits[] = {0, 1, -1, 88, -88, 1e4, -1e4, 1e30, -1e30};
  static const size_t lengths[] = {1, 2, 3, 17, 256, 257, 1000};
  for (size_t n = 0; n < sizeof lengths / sizeof *lengths; n++) {
    const size_t S = lengths[n];
    double *keys = test_alloc(S, sizeof *keys), *weights = test_alloc(S, sizeof *weights);
    for (size_t l = 0; l < sizeof logits / sizeof *logits; l++) {
      for (size_t j = 0; j < S; j++) {
        keys[j] = logits[l];
        weights[j] = 1 / (double)S;
      }
      const double one = 1;
      const attention_case c = {.kv_len = S,
                                .head_dim = 1,
                                .query = &one,
                                .key = keys,
                                .request = {.weights = TEST_PER_HEAD, .no_output = 1}};
      test_line line = {{0}};
      cr_expect(attention_case_expect(context, &c, NULL, weights, 6 * 0x1p-24 / (double)S, &line), "%s", line.text);
    }
    free(keys);
    free(weights);
  }
  clattn_context_destroy(&context);
}

/* NaN that a call leaves in the pool's memory must not reach the next call. */
Test(sdpa, old_memory_does_not_show) {
  clattn_context *context = test_context();
  for (int n = 0; n < 3; n++) {
    attention_case poison = {.batch = 2, .heads = 3, .q_len = 33, .kv_len = 65, .head_dim = 17, .seed = 3};
    double *nan = test_alloc(2 * 3 * 65 * 17, sizeof *nan);
    for (size_t i = 0; i < 2 * 3 * 65 * 17; i++) nan[i] = (double)NAN;
    poison.key = poison.value = nan;
    test_results results;
    test_line line = {{0}};
    cr_expect(attention_case_run(context, &poison, &results, &line), "%s", line.text);
    cr_expect(isnan(results.output[0]));
    results_release(&results);
    free(nan);
    EXPECT_CASE(context, .batch = 2, .heads = 3, .q_len = 31, .kv_len = 63, .head_dim = 15, .seed = 4,
                .query_layout = {.order = "0213"}, .request = {.weights = TEST_MEAN, .log_sum_exp = 1});
    EXPECT_CASE(context, .heads = 2, .q_len = 2, .kv_len = 3, .head_dim = 5, .seed = 5);
  }
  clattn_context_destroy(&context);
}

/* NaN in one query or key stays in the rows that it belongs to. */
Test(sdpa, nan_stays_in_its_rows) {
  enum { T = 9, S = 5, D = 3 };
  clattn_context *context = test_context();
  double query[2 * T * D] = {0}, key[2 * S * D] = {0}, value[2 * S * D];
  for (size_t n = 0; n < 2 * S * D; n++) value[n] = 1;
  query[4 * D + 1] = (double)NAN; /* head 0, row 4 */
  key[(S + 2) * D] = (double)NAN; /* head 1, all rows */
  const attention_case c = {
      .heads = 2, .q_len = T, .kv_len = S, .head_dim = D, .query = query, .key = key, .value = value};
  test_results results;
  test_line line = {{0}};
  cr_assert(attention_case_run(context, &c, &results, &line), "%s", line.text);
  for (size_t n = 0; n < results.output_count; n++) {
    const size_t row = n / D;
    if (row == 4 || row >= T)
      cr_expect(isnan(results.output[n]), "row %zu", row);
    else /* a mean of five ones: division and products of 6u, a sum of five */
      cr_expect(is_near(results.output[n], 1, 12 * 0x1p-24), "row %zu: %g", row, results.output[n]);
  }
  results_release(&results);
  clattn_context_destroy(&context);
}
