/* SPDX-License-Identifier: Apache-2.0
 *
 * Contexts: the caller's own queue and buffers, events in and out, several contexts, lifetimes, the log, locales. */
#include "support/attention_case.h"
#include "support/layer_case.h"

#include <criterion/criterion.h>
#include <ctype.h>
#include <locale.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ----------------------------------------------------------------------------------------- the caller's own queue */

typedef struct own_queue {
  cl_context context;
  cl_command_queue queue;
} own_queue;

/* A context and queue of the device that the library would choose. */
static own_queue make_queue(cl_command_queue_properties properties) {
  clattn_context *context = test_context();
  cl_device_id device = clattn_context_device(context);
  clattn_context_destroy(&context);
  cl_int error;
  own_queue own = {clCreateContext(NULL, 1, &device, NULL, NULL, &error), NULL};
  cr_assert_eq(error, CL_SUCCESS);
  own.queue = clCreateCommandQueue(own.context, device, properties, &error);
  if (error != CL_SUCCESS) own.queue = NULL;
  return own;
}

static cl_uint queue_references(cl_command_queue queue) {
  cl_uint references = 0;
  cr_assert_eq(clGetCommandQueueInfo(queue, CL_QUEUE_REFERENCE_COUNT, sizeof references, &references, NULL),
               CL_SUCCESS);
  return references;
}

static size_t count_references(void *queue) {
  return queue_references(queue);
}

/* One life of a context on the caller's queue. */
static void live_on(own_queue own) {
  clattn_context_options options;
  clattn_context_options_init(&options);
  options.queue = own.queue;
  clattn_context *context = test_context_with(&options);
  cr_expect_gt(queue_references(own.queue), 1, "the queue is retained");
  cr_expect_eq(clattn_context_queue(context), own.queue);
  cr_expect_eq(clattn_context_cl(context), own.context);
  cr_expect_str_not_empty(clattn_context_device_info(context)->name);
  EXPECT_CASE(context, .batch = 2, .heads = 3, .q_len = 5, .kv_len = 7, .head_dim = 4, .query_layout = {.offset = 3},
              .request = {.weights = TEST_PER_HEAD});
  EXPECT_LAYER(context, .batch = 2, .q_len = 5, .kv_len = 7, .config = {.embed_dim = 6, .heads = 2});
  clattn_context_destroy(&context);
  clFinish(own.queue);
  cr_assert_eq(test_settled(count_references, own.queue, 1), 1, "the queue is not released");
}

Test(context, on_the_callers_queue) {
  own_queue own = make_queue(0);
  cr_assert_not_null(own.queue);
  for (int n = 0; n < 4; n++) live_on(own);
  /* Queue and context still work. */
  cl_int error;
  cl_mem buffer = clCreateBuffer(own.context, CL_MEM_READ_WRITE, 64, NULL, &error);
  cr_expect_eq(error, CL_SUCCESS);
  const float value = 3;
  cr_expect_eq(clEnqueueWriteBuffer(own.queue, buffer, CL_TRUE, 0, sizeof value, &value, 0, NULL, NULL), CL_SUCCESS);
  clReleaseMemObject(buffer);
  clReleaseCommandQueue(own.queue);
  clReleaseContext(own.context);
}

/* The caller may let go of queue and context first. */
Test(context, outlives_the_callers_references) {
  own_queue own = make_queue(0);
  clattn_context_options options;
  clattn_context_options_init(&options);
  options.queue = own.queue;
  clattn_context *context = test_context_with(&options);
  clReleaseCommandQueue(own.queue);
  clReleaseContext(own.context);
  EXPECT_CASE(context, .batch = 2, .heads = 3, .q_len = 5, .kv_len = 7, .head_dim = 4);
  clattn_context_destroy(&context);
}

Test(context, an_out_of_order_queue_is_refused) {
  own_queue own = make_queue(CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
  if (own.queue) { /* a device without such queues cannot be given one */
    char message[512];
    clattn_context_options options;
    clattn_context_options_init(&options);
    options.queue = own.queue;
    clattn_context *context = NULL;
    cr_expect_eq(clattn_context_create(&options, &context, message, sizeof message), CLATTN_INVALID_ARGUMENT);
    cr_expect_null(context);
    cr_expect(strstr(message, "order") != NULL, "%s", message);
    cr_expect_eq(queue_references(own.queue), 1, "a refused queue is not retained");
    clReleaseCommandQueue(own.queue);
  }
  clReleaseContext(own.context);
}

Test(context, profiling_queue) {
  clattn_context_options options;
  clattn_context_options_init(&options);
  options.profiling = 1;
  clattn_context *context = test_context_with(&options);
  cl_command_queue_properties properties = 0;
  cr_assert_eq(
      clGetCommandQueueInfo(clattn_context_queue(context), CL_QUEUE_PROPERTIES, sizeof properties, &properties, NULL),
      CL_SUCCESS);
  cr_expect(properties & CL_QUEUE_PROFILING_ENABLE);
  cr_expect_not(properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
  EXPECT_CASE(context, .q_len = 3, .kv_len = 4, .head_dim = 5);
  clattn_context_destroy(&context);
}

/* --------------------------------------------------------------------------------------------------------- events */

typedef struct small_call {
  clattn_tensor query, key, value, output;
} small_call;

/* Q = K = 0, so the output is the mean of V = 0, 1, 2, ...: (count - 1) / 2, exact for a power of two. */
static small_call make_call(clattn_context *context, size_t count) {
  const size_t q_shape[4] = {1, 1, 1, 1}, k_shape[4] = {1, 1, count, 1};
  float *zeros = test_alloc(count, sizeof *zeros), *values = test_alloc(count, sizeof *values), nan = NAN;
  for (size_t n = 0; n < count; n++) values[n] = (float)n;
  small_call call;
  EXPECT_SUCCESS(context, clattn_tensor_create(context, CLATTN_FLOAT32, 4, q_shape, zeros, &call.query));
  EXPECT_SUCCESS(context, clattn_tensor_create(context, CLATTN_FLOAT32, 4, k_shape, zeros, &call.key));
  EXPECT_SUCCESS(context, clattn_tensor_create(context, CLATTN_FLOAT32, 4, k_shape, values, &call.value));
  EXPECT_SUCCESS(context, clattn_tensor_create(context, CLATTN_FLOAT32, 4, q_shape, &nan, &call.output));
  free(zeros);
  free(values);
  return call;
}

static void release_call(small_call *call) {
  clattn_tensor_release(&call->query);
  clattn_tensor_release(&call->key);
  clattn_tensor_release(&call->value);
  clattn_tensor_release(&call->output);
}

static float read_one(clattn_context *context, const clattn_tensor *tensor) {
  float value = -1;
  EXPECT_SUCCESS(context, clattn_tensor_read(context, tensor, &value));
  return value;
}

/* The call begins when the events it waits for are done, and its own event ends when its work has. */
Test(context, events_in_and_out) {
  clattn_context *context = test_context();
  small_call call = make_call(context, 8);
  cl_int error, state = 0;
  cl_event gates[2] = {clCreateUserEvent(clattn_context_cl(context), &error),
                       clCreateUserEvent(clattn_context_cl(context), &error)};
  cr_assert_eq(error, CL_SUCCESS);
  cl_event done = NULL;
  clattn_options options;
  clattn_options_init(&options);
  options.wait_count = 2;
  options.wait_list = gates;
  options.event = &done;
  EXPECT_SUCCESS(context, clattn_sdpa(context, &call.query, &call.key, &call.value, &call.output, &options));
  cr_assert_not_null(done);
  clFlush(clattn_context_queue(context));
  clSetUserEventStatus(gates[0], CL_COMPLETE);
  cr_expect_eq(clGetEventInfo(done, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL), CL_SUCCESS);
  cr_expect_gt(state, CL_COMPLETE, "the second gate is still shut");
  clSetUserEventStatus(gates[1], CL_COMPLETE);
  cr_expect_eq(clWaitForEvents(1, &done), CL_SUCCESS);
  cr_expect_eq(clGetEventInfo(done, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL), CL_SUCCESS);
  cr_expect_eq(state, CL_COMPLETE);
  cr_expect_eq(read_one(context, &call.output), 3.5f);
  clReleaseEvent(done);
  clReleaseEvent(gates[0]);
  clReleaseEvent(gates[1]);
  release_call(&call);
  clattn_context_destroy(&context);
}

/* Work of another queue of the same OpenCL context, chained by events alone: a write before, a read after. */
Test(context, events_between_queues) {
  clattn_context *context = test_context();
  small_call call = make_call(context, 4);
  cl_int error;
  cl_command_queue other = clCreateCommandQueue(clattn_context_cl(context), clattn_context_device(context), 0, &error);
  cr_assert_eq(error, CL_SUCCESS);
  for (int n = 0; n < 20; n++) {
    const float values[4] = {(float)n, (float)n, (float)(3 * n), (float)(3 * n)};
    float got = -1;
    cl_event written = NULL, done = NULL;
    cr_assert_eq(clEnqueueWriteBuffer(other, call.value.buffer, CL_FALSE, 0, sizeof values, values, 0, NULL, &written),
                 CL_SUCCESS);
    clattn_options options;
    clattn_options_init(&options);
    options.wait_count = 1;
    options.wait_list = &written;
    options.event = &done;
    clFlush(other);
    EXPECT_SUCCESS(context, clattn_sdpa(context, &call.query, &call.key, &call.value, &call.output, &options));
    clFlush(clattn_context_queue(context));
    cr_assert_eq(clEnqueueReadBuffer(other, call.output.buffer, CL_TRUE, 0, sizeof got, &got, 1, &done, NULL),
                 CL_SUCCESS);
    cr_expect_eq(got, (float)(2 * n), "round %d: %g", n, (double)got);
    clReleaseEvent(written);
    clReleaseEvent(done);
  }
  clReleaseCommandQueue(other);
  release_call(&call);
  clattn_context_destroy(&context);
}

/* Masks and lists may be gone as soon as the call is back; so may the caller's hold on the buffers. */
Test(context, arguments_need_not_outlive_the_call) {
  clattn_context *context = test_context();
  const size_t mask_shape[1] = {4};
  const unsigned char bytes[4] = {0, 0, 1, 1};
  for (int n = 0; n < 10; n++) {
    small_call call = make_call(context, 4);
    clattn_tensor mask_values;
    EXPECT_SUCCESS(context, clattn_tensor_create(context, CLATTN_BOOL8, 1, mask_shape, bytes, &mask_values));
    clattn_mask *mask = test_alloc(1, sizeof *mask);
    *mask = (clattn_mask){CLATTN_MASK_BLOCK, mask_values};
    clattn_options *options = test_alloc(1, sizeof *options);
    clattn_options_init(options);
    options->masks = mask;
    options->mask_count = 1;
    EXPECT_SUCCESS(context, clattn_sdpa(context, &call.query, &call.key, &call.value, &call.output, options));
    memset(mask, 0xA5, sizeof *mask);
    memset(options, 0xA5, sizeof *options);
    free(mask);
    free(options);
    clattn_tensor_release(&mask_values);
    clattn_tensor_release(&call.query);
    clattn_tensor_release(&call.key);
    clattn_tensor_release(&call.value);
    cr_expect_eq(read_one(context, &call.output), 0.5f);
    release_call(&call);
  }
  clattn_context_destroy(&context);
}

/* ------------------------------------------------------------------------------------------------------ lifetimes */

Test(context, a_layer_outlives_its_context) {
  enum { E = 2 };
  clattn_context *context = test_context();
  clattn_mha_config config;
  clattn_mha_config_init(&config);
  config.embed_dim = E;
  config.heads = 1;
  config.bias = 0;
  const float identity[E * E] = {1, 0, 0, 1}, x[E] = {3, 5};
  const void *const arrays[CLATTN_PARAMETER_COUNT] = {identity, identity, identity, identity};
  clattn_parameters *parameters = NULL;
  cr_assert_eq(clattn_parameters_create(&config, CLATTN_FLOAT32, arrays, &parameters, NULL, 0), CLATTN_SUCCESS);
  clattn_mha *mha = NULL;
  EXPECT_SUCCESS(context, clattn_mha_create(context, parameters, (clattn_type)0, &mha));
  clattn_parameters_destroy(&parameters);
  const size_t shape[3] = {1, 1, E};
  clattn_tensor in, out;
  EXPECT_SUCCESS(context, clattn_tensor_create(context, CLATTN_FLOAT32, 3, shape, x, &in));
  EXPECT_SUCCESS(context, clattn_tensor_create(context, CLATTN_FLOAT32, 3, shape, NULL, &out));
  cl_command_queue queue = clattn_context_queue(context);
  clRetainCommandQueue(queue);
  clattn_context_destroy(&context);
  cr_expect_null(context);
  cr_expect_eq(clattn_mha_forward(mha, &in, NULL, NULL, &out, NULL), CLATTN_SUCCESS);
  float got[E] = {0};
  cr_expect_eq(clEnqueueReadBuffer(queue, out.buffer, CL_TRUE, 0, sizeof got, got, 0, NULL, NULL), CL_SUCCESS);
  cr_expect(got[0] == 3 && got[1] == 5);
  clattn_mha_destroy(&mha);
  cr_expect_null(mha);
  clattn_tensor_release(&in);
  clattn_tensor_release(&out);
  clReleaseCommandQueue(queue);
  clattn_context_destroy(&context);
  clattn_context_destroy(NULL);
}

/* Created and destroyed over and over, with work still in flight. */
Test(context, many_lives) {
  for (int n = 0; n < 20; n++) {
    clattn_context *context = test_context();
    small_call call = make_call(context, 64);
    EXPECT_SUCCESS(context, clattn_sdpa(context, &call.query, &call.key, &call.value, &call.output, NULL));
    clattn_context_destroy(&context);
    release_call(&call);
  }
}

/* Two contexts take turns; each has its own message. */
Test(context, two_contexts) {
  clattn_context *first = test_context(), *second = test_context();
  EXPECT_STATUS(first, CLATTN_INVALID_ARGUMENT, clattn_sdpa(first, NULL, NULL, NULL, NULL, NULL));
  cr_expect_str_not_empty(clattn_context_message(first));
  cr_expect_str_empty(clattn_context_message(second));
  for (uint64_t n = 0; n < 3; n++) {
    EXPECT_CASE(first, .batch = 2, .heads = 2, .q_len = 9, .kv_len = 17, .head_dim = 4, .seed = n);
    EXPECT_CASE(second, .batch = 1, .heads = 3, .q_len = 4, .kv_len = 33, .head_dim = 7, .seed = n);
  }
  clattn_context_destroy(&first);
  EXPECT_CASE(second, .batch = 2, .heads = 3, .q_len = 5, .kv_len = 6, .head_dim = 7);
  clattn_context_destroy(&second);
}

/* One thread's work, from a context's beginning to its end. Lines come back, since assertions belong to the main
 * thread. */
typedef struct thread_work {
  uint64_t seed;
  test_line line;
  int good;
} thread_work;

static void *run_thread(void *argument) {
  thread_work *work = argument;
  clattn_context *context = NULL;
  work->good = clattn_context_create(NULL, &context, work->line.text, sizeof work->line.text) == CLATTN_SUCCESS;
  for (uint64_t n = 0; work->good && n < 15; n++) {
    const attention_case c = {.batch = 2,
                              .heads = 2,
                              .q_len = 3 + n,
                              .kv_len = 5 + 2 * n,
                              .head_dim = 1 + n,
                              .seed = work->seed + n,
                              .request = {.weights = TEST_PER_HEAD}};
    work->good = attention_case_check(context, &c, &work->line);
  }
  clattn_context_destroy(&context);
  return NULL;
}

/* The first use of drivers and of CLBlast included: the one that sets them up is one of these threads. */
Test(context, contexts_in_threads) {
  enum { THREADS = 4 };
  thread_work work[THREADS] = {{0}};
  pthread_t threads[THREADS];
  for (int n = 0; n < THREADS; n++) {
    work[n].seed = (uint64_t)n * 1000;
    cr_assert_eq(pthread_create(&threads[n], NULL, run_thread, &work[n]), 0);
  }
  for (int n = 0; n < THREADS; n++) cr_assert_eq(pthread_join(threads[n], NULL), 0);
  for (int n = 0; n < THREADS; n++) cr_expect(work[n].good, "thread %d: %s", n, work[n].line.text);
}

/* --------------------------------------------------------------------------------------------------- message, log */

/* The last failure stays until the next call; success clears it. */
Test(context, message_of_the_last_call) {
  clattn_context *context = test_context();
  cr_expect_str_empty(clattn_context_message(context));
  const size_t shape[1] = {3};
  clattn_tensor tensor;
  EXPECT_STATUS(context, CLATTN_INVALID_TYPE, clattn_tensor_create(context, (clattn_type)99, 1, shape, NULL, &tensor));
  cr_expect(strstr(clattn_context_message(context), "99") != NULL, "%s", clattn_context_message(context));
  EXPECT_SUCCESS(context, clattn_finish(context));
  cr_expect_str_empty(clattn_context_message(context));
  clattn_context_destroy(&context);
}

typedef struct log_record {
  int lines;
  int decimal_commas, decimal_points; /* digits on both sides, but for -cl-std=CL1.2 */
} log_record;

static void record_line(void *user, const char *line) {
  log_record *record = user;
  record->lines++;
  for (const char *c = line; *c && c[1]; c++) {
    if (c == line || !isdigit((unsigned char)c[-1]) || !isdigit((unsigned char)c[1])) continue;
    record->decimal_commas += *c == ',';
    record->decimal_points += *c == '.' && !(c - line >= 3 && strncmp(c - 3, "CL1.2", 5) == 0);
  }
}

/* Built kernels are told of; and no number with a fraction goes into their options, so no locale can spoil one. */
Test(context, log_of_built_kernels) {
  log_record record = {0};
  clattn_context_options options;
  clattn_context_options_init(&options);
  options.log = record_line;
  options.log_user = &record;
  clattn_context *context = test_context_with(&options);
  EXPECT_CASE(
      context, .batch = 2, .heads = 2, .q_len = 5, .kv_len = 7, .head_dim = 64,
      .request = {.scale = {1, 0.3}, .weights = TEST_MEAN, .masks = {{.kind = CLATTN_MASK_BLOCK, .share = 0.2}}});
  cr_expect_gt(record.lines, 0);
  cr_expect_eq(record.decimal_commas + record.decimal_points, 0);
  const int once = record.lines;
  EXPECT_CASE(
      context, .batch = 2, .heads = 2, .q_len = 5, .kv_len = 7, .head_dim = 64,
      .request = {.scale = {1, 0.3}, .weights = TEST_MEAN, .masks = {{.kind = CLATTN_MASK_BLOCK, .share = 0.2}}});
  cr_expect_eq(record.lines, once, "kernels are built once");
  clattn_context_destroy(&context);
}

/* Under a locale with a decimal comma the bits are those of the C locale (scales of 1/8 and 0.3). */
Test(context, decimal_comma) {
  static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "fr_FR.utf8", "de_DE"};
  attention_case c = {.batch = 2, .heads = 2, .q_len = 9, .kv_len = 17, .head_dim = 64};
  test_results results[2][2];
  test_line line = {{0}};
  int commas = 0;
  for (int run = 0; run < 2; run++) {
    for (size_t n = 0; run == 1 && !commas && n < sizeof names / sizeof *names; n++)
      commas = setlocale(LC_ALL, names[n]) != NULL && strcmp(localeconv()->decimal_point, ",") == 0;
    clattn_context *context = test_context();
    for (int scaled = 0; scaled < 2; scaled++) {
      c.request.scale.set = scaled;
      c.request.scale.value = 0.3;
      cr_assert(attention_case_run(context, &c, &results[run][scaled], &line), "%s", line.text);
    }
    clattn_context_destroy(&context);
  }
  /* A machine without such a locale repeats the run in the C locale; log_of_built_kernels covers it there. */
  for (int scaled = 0; scaled < 2; scaled++) {
    cr_expect(compare_bits("output", results[0][scaled].output, results[1][scaled].output,
                           results[0][scaled].output_count * sizeof(double), &line),
              "%s", line.text);
    results_release(&results[0][scaled]);
    results_release(&results[1][scaled]);
  }
}

/* ------------------------------------------------------------------------------------------------------- versions */

Test(context, version) {
  char text[64];
  snprintf(text, sizeof text, "%d.%d.%d", CLATTN_VERSION_MAJOR, CLATTN_VERSION_MINOR, CLATTN_VERSION_PATCH);
  cr_expect_str_eq(clattn_version(), text);
}

/* Programs built against an older header know fewer fields: what they do not know has its default, and is not
 * written. */
Test(context, structs_of_an_older_header) {
  clattn_context_options options;
  memset(&options, 0x77, sizeof options);
  const size_t known = offsetof(clattn_context_options, profiling);
  clattn_context_options_init_sized(&options, known);
  cr_expect_eq(options.struct_size, known);
  cr_expect_null(options.queue);
  for (size_t n = known; n < sizeof options; n++) cr_assert_eq(((unsigned char *)&options)[n], 0x77);
  clattn_context *context = test_context_with(&options); /* the garbage behind is not read */
  clattn_options call;
  memset(&call, 0x77, sizeof call);
  const size_t older = offsetof(clattn_options, kv_lengths);
  clattn_options_init_sized(&call, older);
  for (size_t n = older; n < sizeof call; n++) cr_assert_eq(((unsigned char *)&call)[n], 0x77);
  small_call small = make_call(context, 4);
  EXPECT_SUCCESS(context, clattn_sdpa(context, &small.query, &small.key, &small.value, &small.output, &call));
  cr_expect_eq(read_one(context, &small.output), 1.5f);
  clattn_mha_config config;
  memset(&config, 0x77, sizeof config);
  const size_t oldest = offsetof(clattn_mha_config, kv_heads);
  clattn_mha_config_init_sized(&config, oldest);
  config.embed_dim = 8;
  config.heads = 2;
  uint64_t count = 0;
  cr_expect_eq(clattn_parameter_count(&config, &count, NULL, 0), CLATTN_SUCCESS);
  cr_expect_eq(count, 4 * 64 + 4 * 8, "bias is the default");
  release_call(&small);
  clattn_context_destroy(&context);
}

Test(context, defaults) {
  clattn_context_options options;
  clattn_context_options_init(&options);
  cr_expect(options.struct_size == sizeof options && !options.device && !options.queue && !options.profiling &&
            !options.scratch_limit && !options.log && !options.log_user);
  clattn_options call;
  clattn_options_init(&call);
  cr_expect(call.struct_size == sizeof call && call.scale == CLATTN_SCALE_AUTO && !call.masks && !call.mask_count &&
            call.causal == CLATTN_CAUSAL_NONE && call.causal_offset == 0 && call.window_left == CLATTN_WINDOW_NONE &&
            call.window_right == CLATTN_WINDOW_NONE && !call.kv_lengths && !call.weights && !call.log_sum_exp &&
            call.compute == 0 && call.path == CLATTN_PATH_AUTO && !call.scratch_limit && !call.wait_count &&
            !call.wait_list && !call.event);
  clattn_mha_config config;
  clattn_mha_config_init(&config);
  cr_expect(config.struct_size == sizeof config && config.bias == 1 && !config.embed_dim && !config.heads &&
            !config.kv_heads && !config.head_dim && !config.value_head_dim && !config.kdim && !config.vdim &&
            !config.out_dim);
}
