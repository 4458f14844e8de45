/* SPDX-License-Identifier: Apache-2.0
 *
 * Every wrong argument of clattn_sdpa, clattn_mha_forward and their plans: refused with the right status and a message
 * that has the values in it, with no byte of any buffer changed. */
#include "support/guarded.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { B = 2, H = 3, T = 4, S = 5, D = 6, DV = 7, E = 12, HEADS = 3, BUFFERS = 10 };

/* A valid call, made anew before each argument is spoiled. */
typedef struct call_arguments {
  clattn_context *context;
  clattn_mha *mha; /* NULL: clattn_sdpa */
  const clattn_tensor *query, *key, *value, *output;
  clattn_options options;
  const clattn_options *given;
  clattn_tensor q, k, v, o, weights, mean, lse, lengths;
  clattn_mask masks[2];
  cl_event event;
} call_arguments;

typedef struct fixture {
  clattn_context *context;
  clattn_mha *mha;
  test_guarded buffers[BUFFERS]; /* q, k, v, o, weights, mean, lse, lengths, block mask, add mask */
} fixture;

static fixture fixture_create(int layer) {
  fixture f = {.context = test_context()};
  const test_shape heads[4] = {{4, {B, H, T, D}}, {4, {B, H, S, D}}, {4, {B, H, S, DV}}, {4, {B, H, T, DV}}};
  const test_shape rows[4] = {{3, {B, T, E}}, {3, {B, S, E}}, {3, {B, S, E}}, {3, {B, T, E}}};
  for (int n = 0; n < 4; n++)
    f.buffers[n] = guarded_create(f.context, CLATTN_FLOAT32, layer ? &rows[n] : &heads[n], NULL, NULL);
  const test_shape others[6] = {{4, {B, H, T, S}}, {3, {B, T, S}}, {3, {B, H, T}}, {1, {B}}, {2, {T, S}}, {2, {T, S}}};
  const clattn_type types[6] = {CLATTN_FLOAT32, CLATTN_FLOAT32, CLATTN_FLOAT32,
                                CLATTN_INT32,   CLATTN_BOOL8,   CLATTN_FLOAT32};
  for (int n = 0; n < 6; n++) f.buffers[4 + n] = guarded_create(f.context, types[n], &others[n], NULL, NULL);
  if (layer) {
    clattn_mha_config config;
    clattn_mha_config_init(&config);
    config.embed_dim = E;
    config.heads = HEADS;
    clattn_parameters *parameters = NULL;
    cr_assert_eq(clattn_parameters_random(&config, NULL, 1, &parameters, NULL, 0), CLATTN_SUCCESS);
    EXPECT_SUCCESS(f.context, clattn_mha_create(f.context, parameters, (clattn_type)0, &f.mha));
    clattn_parameters_destroy(&parameters);
  }
  return f;
}

static void fixture_release(fixture *f) {
  clattn_mha_destroy(&f->mha);
  for (int n = 0; n < BUFFERS; n++) guarded_release(&f->buffers[n]);
  clattn_context_destroy(&f->context);
}

static void fill_arguments(const fixture *f, call_arguments *a) {
  const test_guarded *b = f->buffers;
  *a = (call_arguments){.context = f->context, .mha = f->mha};
  a->q = b[0].view;
  a->k = b[1].view;
  a->v = b[2].view;
  a->o = b[3].view;
  a->weights = b[4].view;
  a->mean = b[5].view;
  a->lse = b[6].view;
  a->lengths = b[7].view;
  a->masks[0] = (clattn_mask){CLATTN_MASK_BLOCK, b[8].view};
  a->masks[1] = (clattn_mask){CLATTN_MASK_ADD, b[9].view};
  a->query = &a->q;
  a->key = &a->k;
  a->value = &a->v;
  a->output = &a->o;
  clattn_options_init(&a->options);
  a->options.weights = &a->weights;
  a->options.log_sum_exp = &a->lse;
  a->options.kv_lengths = &a->lengths;
  a->options.masks = a->masks;
  a->options.mask_count = 2;
  a->options.event = &a->event;
  a->given = &a->options;
}

static clattn_status make_call(const call_arguments *a, int plan_only) {
  clattn_plan plan;
  if (a->mha && plan_only) return clattn_mha_plan(a->mha, a->query, a->key, a->value, a->output, a->given, &plan);
  if (a->mha) return clattn_mha_forward(a->mha, a->query, a->key, a->value, a->output, a->given);
  if (plan_only) return clattn_sdpa_plan(a->context, a->query, a->key, a->value, a->output, a->given, &plan);
  return clattn_sdpa(a->context, a->query, a->key, a->value, a->output, a->given);
}

static void expect_untouched(const fixture *f, const char *what) {
  static const char *const names[BUFFERS] = {"query", "key", "value",   "output", "weights",
                                             "mean",  "lse", "lengths", "mask",   "add mask"};
  test_line line = {{0}};
  for (int n = 0; n < BUFFERS; n++)
    cr_expect(guarded_check(&f->buffers[n], names[n], 1, &line), "%s: %s", what, line.text);
}

/* Makes the call and its plan: both must give `status` and a message with all of the words, '|' between them. */
static void expect_refused(const fixture *f, const call_arguments *a, clattn_status status, const char *words,
                           const char *what) {
  for (int plan = 0; plan < 2; plan++) {
    const clattn_status got = make_call(a, plan);
    char message[1024];
    strncpy(message, clattn_context_message(f->context), sizeof message - 1);
    message[sizeof message - 1] = 0;
    cr_expect(got == status, "%s: %s instead of %s: %s", what, clattn_status_name(got), clattn_status_name(status),
              message);
    char list[256];
    strncpy(list, words, sizeof list - 1);
    list[sizeof list - 1] = 0;
    char *rest = NULL;
    for (char *word = strtok_r(list, "|", &rest); word; word = strtok_r(NULL, "|", &rest))
      cr_expect(strstr(message, word) != NULL, "%s: the message lacks '%s': %s", what, word, message);
  }
  cr_expect_null(a->event, "%s: an event came out", what);
  cr_expect_eq(clattn_finish(f->context), CLATTN_SUCCESS);
  expect_untouched(f, what);
}

/* REFUSED(status, words, statements that spoil the arguments `a`) */
#define REFUSED(status, words, ...)                                                                                    \
  do {                                                                                                                 \
    call_arguments a;                                                                                                  \
    fill_arguments(&f, &a);                                                                                            \
    __VA_ARGS__;                                                                                                       \
    expect_refused(&f, &a, CLATTN_##status, words, #__VA_ARGS__);                                                      \
  } while (0)

/* The call as it is before anything is spoiled works, or nothing here would show. */
static void expect_valid(fixture *f) {
  call_arguments a;
  fill_arguments(f, &a);
  EXPECT_SUCCESS(f->context, make_call(&a, 1));
  EXPECT_SUCCESS(f->context, make_call(&a, 0));
  EXPECT_SUCCESS(f->context, clattn_finish(f->context));
  cr_assert_not_null(a.event);
  clReleaseEvent(a.event);
  for (int n = 0; n < BUFFERS; n++) guarded_reset(&f->buffers[n]);
}

/* ---------------------------------------------------------------------------------------------- arguments of both */

static void refuse_options(fixture f) {
  REFUSED(INVALID_ARGUMENT, "struct_size|0", a.options.struct_size = 0);
  REFUSED(INVALID_ARGUMENT, "struct_size|9999", a.options.struct_size = 9999);
  REFUSED(INVALID_ARGUMENT, "scale|nan", a.options.scale = (double)NAN);
  REFUSED(INVALID_ARGUMENT, "scale|-inf", a.options.scale = -HUGE_VAL);
  REFUSED(INVALID_ARGUMENT, "scale|1e+39", a.options.scale = 1e39);
  REFUSED(INVALID_ARGUMENT, "causal|4", a.options.causal = (clattn_causal)4);
  REFUSED(INVALID_ARGUMENT, "causal|-1", a.options.causal = (clattn_causal)-1);
  REFUSED(INVALID_ARGUMENT, "causal_offset|3", a.options.causal_offset = 3);
  REFUSED(INVALID_ARGUMENT, "causal_offset|-7", a.options.causal = CLATTN_CAUSAL_TOP_LEFT;
          a.options.causal_offset = -7);
  REFUSED(INVALID_ARGUMENT, "causal_offset|9223372036854775807", a.options.causal = CLATTN_CAUSAL_OFFSET;
          a.options.causal_offset = INT64_MAX);
  REFUSED(INVALID_ARGUMENT, "causal_offset|-9223372036854775808", a.options.causal = CLATTN_CAUSAL_OFFSET;
          a.options.causal_offset = INT64_MIN);
  REFUSED(INVALID_ARGUMENT, "window_left|-2", a.options.window_left = -2);
  REFUSED(INVALID_ARGUMENT, "window_right|-9", a.options.window_right = -9);
  REFUSED(INVALID_ARGUMENT, "path|3", a.options.path = (clattn_path)3);
  REFUSED(INVALID_ARGUMENT, "path|-1", a.options.path = (clattn_path)-1);
  REFUSED(UNSUPPORTED, "fused", a.options.path = CLATTN_PATH_FUSED);
  REFUSED(INVALID_ARGUMENT, "wait_count|1", a.options.wait_count = 1);
  REFUSED(INVALID_ARGUMENT, "wait_list|0", cl_event none = NULL; a.options.wait_list = &none);
  REFUSED(INVALID_ARGUMENT, "masks|2", a.options.masks = NULL);
  REFUSED(OUT_OF_DEVICE_MEMORY, "limit|1", a.options.scratch_limit = 1);
}

static void refuse_masks(fixture f) {
  REFUSED(INVALID_ARGUMENT, "masks[0]|kind|0", a.masks[0].kind = (clattn_mask_kind)0);
  REFUSED(INVALID_ARGUMENT, "masks[1]|kind|4", a.masks[1].kind = (clattn_mask_kind)4);
  REFUSED(INVALID_TYPE, "masks[0]|float32|bool8", a.masks[0].values = a.masks[1].values);
  REFUSED(INVALID_TYPE, "masks[0]|int32", a.masks[0].values.type = CLATTN_INT32; a.masks[0].values.offset = 0;
          a.masks[0].values.shape[0] = a.masks[0].values.shape[1] = 1);
  REFUSED(INVALID_TYPE, "masks[1]|bool8", a.masks[1].values = a.masks[0].values);
  REFUSED(INVALID_TYPE, "masks[1]|int32", a.masks[1].values.type = CLATTN_INT32);
  REFUSED(INVALID_TYPE, "masks[0]|0", a.masks[0].values.type = (clattn_type)0);
  REFUSED(INVALID_SHAPE, "masks[0]|[3,5]|4", a.masks[0].values.shape[0] = 3);
  REFUSED(INVALID_SHAPE, "masks[0]|[4,2]|5", a.masks[0].values.shape[1] = 2);
  REFUSED(INVALID_SHAPE, "masks[1]|[4]|5", a.masks[1].values.rank = 1; a.masks[1].values.shape[0] = 4);
  REFUSED(INVALID_SHAPE, "masks[0]|[2,5]", a.masks[0].values.shape[0] = 2); /* a [B,S] key mask is the view [B,1,1,S] */
  REFUSED(INVALID_SHAPE, "masks[0]|rank|0", a.masks[0].values.rank = 0);
  REFUSED(INVALID_SHAPE, "masks[0]|rank|5", a.masks[0].values.rank = 5);
  REFUSED(INVALID_ARGUMENT, "masks[1]", a.masks[1].values.buffer = NULL);
  REFUSED(INVALID_BUFFER, "masks[1]|1000", a.masks[1].values.offset = 1000);
  REFUSED(INVALID_SHAPE, "masks[0]|[0,5]", a.masks[0].values.shape[0] = 0);
}

static void refuse_results(fixture f) {
  REFUSED(INVALID_TYPE, "weights|int32|float32", a.weights.type = CLATTN_INT32);
  REFUSED(INVALID_TYPE, "log_sum_exp|bool8", a.lse.type = CLATTN_BOOL8);
  REFUSED(INVALID_SHAPE, "weights|[2,3,4,4]|[2,3,4,5]", a.weights.shape[3] = 4);
  REFUSED(INVALID_SHAPE, "weights|[2,2,4,5]", a.weights.shape[1] = 2);
  REFUSED(INVALID_SHAPE, "weights|[2,3]", a.weights.rank = 2);
  REFUSED(INVALID_SHAPE, "weights|[2,4,4]|[2,4,5]", a.options.weights = &a.mean; a.mean.shape[2] = 4);
  REFUSED(INVALID_SHAPE, "log_sum_exp|[2,3,3]|[2,3,4]", a.lse.shape[2] = 3);
  REFUSED(INVALID_SHAPE, "log_sum_exp|[2,4,5]", a.options.log_sum_exp = &a.mean);
  REFUSED(INVALID_ARGUMENT, "weights", a.weights.buffer = NULL);
  REFUSED(INVALID_BUFFER, "log_sum_exp|5000", a.lse.offset = 5000);
  REFUSED(INVALID_OVERLAP, "weights", a.weights.stride[3] = 0);
  REFUSED(INVALID_OVERLAP, "log_sum_exp|weights", a.lse.buffer = a.weights.buffer);
  REFUSED(INVALID_TYPE, "kv_lengths|float32", a.lengths = a.lse; a.lengths.rank = 1);
  REFUSED(INVALID_TYPE, "kv_lengths|bool8", a.lengths.type = CLATTN_BOOL8);
  REFUSED(INVALID_SHAPE, "kv_lengths|[1]|[2]", a.lengths.shape[0] = 1);
  REFUSED(INVALID_SHAPE, "kv_lengths|[3]|[2]", a.lengths.shape[0] = 3);
  REFUSED(INVALID_SHAPE, "kv_lengths|[2,1]", a.lengths.rank = 2; a.lengths.shape[1] = 1);
  REFUSED(INVALID_ARGUMENT, "kv_lengths", a.lengths.buffer = NULL);
  REFUSED(INVALID_ARGUMENT, "NULL", a.output = NULL; a.options.weights = NULL; a.options.log_sum_exp = NULL);
}

/* `used` bytes of every buffer are the view's; the views' last elements pass it. */
static void refuse_tensors(fixture f) {
  REFUSED(INVALID_ARGUMENT, "query", a.q.buffer = NULL);
  REFUSED(INVALID_ARGUMENT, "output", a.o.buffer = NULL);
  REFUSED(INVALID_TYPE, "query|int32", a.q.type = CLATTN_INT32);
  REFUSED(INVALID_TYPE, "key|bool8", a.k.type = CLATTN_BOOL8);
  REFUSED(INVALID_TYPE, "value|99", a.v.type = (clattn_type)99);
  REFUSED(INVALID_TYPE, "output|type", a.o.type = (clattn_type)0);
  REFUSED(INVALID_SHAPE, "query|2", a.q.rank = 2);
  REFUSED(INVALID_SHAPE, "key|0", a.k.rank = 0);
  REFUSED(INVALID_SHAPE, "value|5", a.v.rank = 5);
  REFUSED(INVALID_SHAPE, "output|-1", a.o.rank = -1);
  REFUSED(INVALID_BUFFER, "query|10000", a.q.offset = 10000);
  REFUSED(INVALID_BUFFER, "key|10000", a.k.stride[0] = 10000);
  REFUSED(INVALID_BUFFER, "output|10000", a.o.offset = 10000);
  /* Sums and products that pass 64 bits must not come out small. */
  REFUSED(INVALID_SHAPE, "query|64 bits", a.q.offset = SIZE_MAX);
  REFUSED(INVALID_SHAPE, "key|64 bits", a.k.stride[0] = SIZE_MAX);
  REFUSED(INVALID_SHAPE, "value|64 bits", a.v.stride[0] = SIZE_MAX / 2 + 1; a.v.stride[1] = SIZE_MAX / 2 + 1);
  REFUSED(INVALID_SHAPE, "output|64 bits", a.o.offset = SIZE_MAX / 4 + 1);
  REFUSED(INVALID_SHAPE, "query|64 bits", a.q.shape[0] = (size_t)1 << 40; a.q.shape[1] = (size_t)1 << 40);
  REFUSED(INVALID_SHAPE, "64 bits", a.q.shape[0] = SIZE_MAX; a.q.stride[0] = 0);
  REFUSED(INVALID_OVERLAP, "output", a.o.stride[0] = 0);
  REFUSED(INVALID_OVERLAP, "output", a.o.stride[a.o.rank - 1] = 0);
  REFUSED(INVALID_OVERLAP, "output", a.o.stride[1] = 1);
  REFUSED(INVALID_OVERLAP, "output", a.o.stride[0] = a.o.stride[1]);
  REFUSED(INVALID_OVERLAP, "output|weights", a.weights.buffer = a.o.buffer);
}

/* An output in an input's buffer is refused as soon as one byte is shared. */
static void refuse_overlaps(fixture f) {
  REFUSED(INVALID_OVERLAP, "output|query", a.o.buffer = a.q.buffer);
  REFUSED(INVALID_OVERLAP, "output|key", a.o.buffer = a.k.buffer);
  REFUSED(INVALID_OVERLAP, "output|value", a.o.buffer = a.v.buffer; a.o.offset = 0);
  REFUSED(INVALID_OVERLAP, "log_sum_exp|query", a.lse.buffer = a.q.buffer);
  REFUSED(INVALID_OVERLAP, "log_sum_exp|mask", a.lse.buffer = a.masks[1].values.buffer);
  REFUSED(INVALID_OVERLAP, "log_sum_exp|kv_lengths", a.lse.buffer = a.lengths.buffer; a.lse.offset = 67 + 1);
}

static size_t bytes_of(cl_mem buffer) {
  size_t bytes = 0;
  cr_assert_eq(clGetMemObjectInfo(buffer, CL_MEM_SIZE, sizeof bytes, &bytes, NULL), CL_SUCCESS);
  return bytes;
}

/* Buffers that are a byte too small, of another context, of the wrong access, or images. */
static void refuse_buffers(fixture f) {
  cl_int error;
  cl_context cl = clattn_context_cl(f.context);
  clattn_context *other = test_context();
  cl_mem foreign = clCreateBuffer(clattn_context_cl(other), CL_MEM_READ_WRITE, 1 << 16, NULL, &error);
  cl_mem read_only = clCreateBuffer(cl, CL_MEM_READ_ONLY, 1 << 16, NULL, &error);
  cl_mem write_only = clCreateBuffer(cl, CL_MEM_WRITE_ONLY, 1 << 16, NULL, &error);
  size_t last = 0;
  for (int d = 0; d < f.buffers[3].view.rank; d++)
    last += (f.buffers[3].view.shape[d] - 1) * f.buffers[3].view.stride[d];
  cl_mem small = clCreateBuffer(cl, CL_MEM_READ_WRITE, (last + 1) * sizeof(float) - 1, NULL, &error);
  cr_assert(foreign && read_only && write_only && small);
  REFUSED(INVALID_BUFFER, "query|another", a.q.buffer = foreign);
  REFUSED(INVALID_BUFFER, "output|another", a.o.buffer = foreign);
  REFUSED(INVALID_BUFFER, "weights|another", a.weights.buffer = foreign);
  REFUSED(INVALID_BUFFER, "masks[0]|another", a.masks[0].values.buffer = foreign);
  REFUSED(INVALID_BUFFER, "kv_lengths|another", a.lengths.buffer = foreign);
  REFUSED(INVALID_BUFFER, "output|READ_ONLY", a.o.buffer = read_only);
  REFUSED(INVALID_BUFFER, "log_sum_exp|READ_ONLY", a.lse.buffer = read_only);
  REFUSED(INVALID_BUFFER, "key|WRITE_ONLY", a.k.buffer = write_only);
  cr_assert_eq(bytes_of(small), (last + 1) * sizeof(float) - 1);
  REFUSED(INVALID_BUFFER, "output", a.o.buffer = small; a.o.offset = 0);
  clReleaseMemObject(foreign);
  clReleaseMemObject(read_only);
  clReleaseMemObject(write_only);
  clReleaseMemObject(small);
  clattn_context_destroy(&other);
}

static void refuse_common(fixture f) {
  refuse_options(f);
  refuse_masks(f);
  refuse_results(f);
  refuse_tensors(f);
  refuse_overlaps(f);
  refuse_buffers(f);
}

/* ----------------------------------------------------------------------------------------------------------- sdpa */

Test(bad_input, sdpa) {
  fixture f = fixture_create(0);
  expect_valid(&f);
  refuse_common(f);
  REFUSED(INVALID_ARGUMENT, "query|NULL", a.query = NULL);
  REFUSED(INVALID_ARGUMENT, "key|NULL", a.key = NULL);
  REFUSED(INVALID_ARGUMENT, "value|NULL", a.value = NULL);
  REFUSED(INVALID_SHAPE, "key|[1,3,5,6]|[2,3,4,6]", a.k.shape[0] = 1);
  REFUSED(INVALID_SHAPE, "key|[2,3,5,5]|[2,3,4,6]", a.k.shape[3] = 5);
  REFUSED(INVALID_SHAPE, "key|2|3", a.k.shape[1] = 2);
  REFUSED(INVALID_SHAPE, "value|[2,3,4,7]|[2,3,5,6]", a.v.shape[2] = 4);
  REFUSED(INVALID_SHAPE, "value|[1,3,5,7]", a.v.shape[0] = 1);
  REFUSED(INVALID_SHAPE, "value|[2,2,5,7]", a.v.shape[1] = 2);
  REFUSED(INVALID_SHAPE, "output|[2,3,4,6]|[2,3,4,7]", a.o.shape[3] = 6);
  REFUSED(INVALID_SHAPE, "output|[2,3,3,7]|[2,3,4,7]", a.o.shape[2] = 3);
  REFUSED(INVALID_SHAPE, "heads|0", a.q.shape[1] = a.k.shape[1] = a.v.shape[1] = a.o.shape[1] = 0);
  REFUSED(INVALID_SHAPE, "[2,3,4,0]", a.q.shape[3] = a.k.shape[3] = 0);
  REFUSED(INVALID_SHAPE, "[2,3,5,0]", a.v.shape[3] = a.o.shape[3] = 0);
  REFUSED(INVALID_SHAPE, "query|[2,3,4]", a.q.rank = 3);
  REFUSED(INVALID_TYPE, "compute|int32", a.options.compute = CLATTN_INT32);
  REFUSED(INVALID_TYPE, "compute|77", a.options.compute = (clattn_type)77);
  if (test_has_fp64(f.context)) {
    cl_int error;
    cl_mem wide = clCreateBuffer(clattn_context_cl(f.context), CL_MEM_READ_WRITE, 1 << 16, NULL, &error);
    cr_assert_eq(error, CL_SUCCESS);
    REFUSED(INVALID_TYPE, "key|float64|float32", a.k.type = CLATTN_FLOAT64; a.k.buffer = wide);
    REFUSED(INVALID_TYPE, "output|float64|float32", a.o.type = CLATTN_FLOAT64; a.o.buffer = wide);
    REFUSED(INVALID_TYPE, "weights|float32|float64", a.options.compute = CLATTN_FLOAT64);
    clReleaseMemObject(wide);
  }
  cr_expect_eq(clattn_sdpa(NULL, NULL, NULL, NULL, NULL, NULL), CLATTN_INVALID_ARGUMENT);
  cr_expect_eq(clattn_sdpa_plan(NULL, NULL, NULL, NULL, NULL, NULL, NULL), CLATTN_INVALID_ARGUMENT);
  call_arguments a;
  fill_arguments(&f, &a);
  cr_expect_eq(clattn_sdpa_plan(f.context, a.query, a.key, a.value, a.output, a.given, NULL), CLATTN_INVALID_ARGUMENT);
  expect_valid(&f); /* after all that, a call still works */
  fixture_release(&f);
}

/* ---------------------------------------------------------------------------------------------------------- layer */

Test(bad_input, mha) {
  fixture f = fixture_create(1);
  expect_valid(&f);
  refuse_common(f);
  REFUSED(INVALID_ARGUMENT, "query|NULL", a.query = NULL);
  REFUSED(INVALID_SHAPE, "query|[2,4,11]|12", a.q.shape[2] = 11);
  REFUSED(INVALID_SHAPE, "key|[2,5,13]|12", a.k.shape[2] = 13);
  REFUSED(INVALID_SHAPE, "value|[2,5,1]|12", a.v.shape[2] = 1);
  REFUSED(INVALID_SHAPE, "output|[2,4,11]|12", a.o.shape[2] = 11);
  REFUSED(INVALID_SHAPE, "key|[1,5,12]|[2,4,12]", a.k.shape[0] = 1);
  REFUSED(INVALID_SHAPE, "value|[2,4,12]|[2,5,12]", a.v.shape[1] = 4);
  REFUSED(INVALID_SHAPE, "value|[1,5,12]", a.v.shape[0] = 1);
  REFUSED(INVALID_SHAPE, "output|[2,3,12]|[2,4,12]", a.o.shape[1] = 3);
  REFUSED(INVALID_SHAPE, "query|[2,4]", a.q.rank = 2);
  REFUSED(INVALID_TYPE, "compute|int32", a.options.compute = CLATTN_INT32);
  REFUSED(INVALID_TYPE, "compute|float64|float32", a.options.compute = CLATTN_FLOAT64);
  /* The layer's own weights are inputs, too. */
  REFUSED(INVALID_OVERLAP, "output|parameter", a.o.buffer = clattn_mha_parameter(f.mha, CLATTN_WQ).buffer;
          a.o.offset = 0);
  REFUSED(INVALID_OVERLAP, "log_sum_exp|parameter", a.lse.buffer = clattn_mha_parameter(f.mha, CLATTN_WO).buffer);
  cr_expect_eq(clattn_mha_forward(NULL, NULL, NULL, NULL, NULL, NULL), CLATTN_INVALID_ARGUMENT);
  cr_expect_eq(clattn_mha_plan(NULL, NULL, NULL, NULL, NULL, NULL, NULL), CLATTN_INVALID_ARGUMENT);
  call_arguments a;
  fill_arguments(&f, &a);
  cr_expect_eq(clattn_mha_plan(f.mha, a.query, a.key, a.value, a.output, a.given, NULL), CLATTN_INVALID_ARGUMENT);
  expect_valid(&f);
  fixture_release(&f);
}

Test(bad_input, mha_create) {
  clattn_context *context = test_context();
  clattn_mha_config config;
  clattn_mha_config_init(&config);
  config.embed_dim = 4;
  config.heads = 2;
  clattn_parameters *parameters = NULL;
  cr_assert_eq(clattn_parameters_random(&config, NULL, 1, &parameters, NULL, 0), CLATTN_SUCCESS);
  clattn_mha *mha = (clattn_mha *)&config;
  EXPECT_STATUS(context, CLATTN_INVALID_ARGUMENT, clattn_mha_create(context, NULL, (clattn_type)0, &mha));
  cr_expect_null(mha, "*mha is NULL on failure");
  EXPECT_STATUS(context, CLATTN_INVALID_ARGUMENT, clattn_mha_create(context, parameters, (clattn_type)0, NULL));
  EXPECT_STATUS(context, CLATTN_INVALID_TYPE, clattn_mha_create(context, parameters, CLATTN_INT32, &mha));
  EXPECT_STATUS(context, CLATTN_INVALID_TYPE, clattn_mha_create(context, parameters, (clattn_type)55, &mha));
  EXPECT_STATUS(context, CLATTN_INVALID_TYPE, clattn_mha_create(context, parameters, CLATTN_FLOAT16, &mha));
  cr_expect_eq(clattn_mha_create(NULL, parameters, (clattn_type)0, &mha), CLATTN_INVALID_ARGUMENT);
  if (!test_has_fp64(context))
    EXPECT_STATUS(context, CLATTN_UNSUPPORTED, clattn_mha_create(context, parameters, CLATTN_FLOAT64, &mha));
  cr_expect_null(mha);
  const int beyond[] = {-1, CLATTN_PARAMETER_COUNT, 1000};
  EXPECT_SUCCESS(context, clattn_mha_create(context, parameters, (clattn_type)0, &mha));
  for (int n = 0; n < 3; n++) cr_expect_null(clattn_mha_parameter(mha, (clattn_parameter)beyond[n]).buffer);
  cr_expect_null(clattn_mha_parameter(NULL, CLATTN_WQ).buffer);
  clattn_mha_destroy(&mha);
  clattn_parameters_destroy(&parameters);
  clattn_context_destroy(&context);
}
