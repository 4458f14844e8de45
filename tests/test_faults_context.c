/* SPDX-License-Identifier: Apache-2.0
 *
 * Faults below devices, contexts and tensors. */
#include "support/attention_case.h"
#include "support/fault_sweep.h"
#include "support/files.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

enum { MOST_ROWS = 32, MESSAGE_SIZE = 1024 };

/* The device that the library chooses, and its selector: with faults in the way it would choose another by itself. */
static struct {
  cl_platform_id platform;
  cl_device_id device;
  char selector[32];
} chosen;

static void choose(void) {
  fault_sweep_begin();
  clattn_context *context = test_context();
  const clattn_device_info *info = clattn_context_device_info(context);
  chosen.device = clattn_context_device(context);
  cr_assert_eq(clGetDeviceInfo(chosen.device, CL_DEVICE_PLATFORM, sizeof chosen.platform, &chosen.platform, NULL),
               CL_SUCCESS);
  snprintf(chosen.selector, sizeof chosen.selector, "%u:%u", info->platform_index, info->device_index);
  clattn_context_destroy(&context);
}

TestSuite(faults_context, .init = choose, .timeout = 120);

/* ---------------------------------------------------------------------------------------------------------- listing */

typedef struct listing {
  clattn_device_info rows[MOST_ROWS], want[MOST_ROWS];
  size_t count, want_count;
  char message[MESSAGE_SIZE];
} listing;

static void fill_rows(void *user) {
  listing *l = user;
  memset(l->rows, 0xEE, sizeof l->rows);
  l->count = 77;
}

static clattn_status list(void *user) {
  listing *l = user;
  return clattn_list_devices(chosen.selector, l->rows, MOST_ROWS, &l->count, l->message, sizeof l->message);
}

static const char *list_message(const void *user) {
  return ((const listing *)user)->message;
}

static int rows_untouched(void *user, test_line *line) {
  const listing *l = user;
  const unsigned char *bytes = (const unsigned char *)l->rows;
  if (l->count != 0) return test_fail(line, "count is %zu", l->count);
  for (size_t i = 0; i < sizeof l->rows; i++)
    if (bytes[i] != 0xEE) return test_fail(line, "a row was written");
  return 1;
}

static int rows_right(void *user, test_line *line) {
  const listing *l = user;
  if (l->count != l->want_count) return test_fail(line, "%zu rows, not %zu", l->count, l->want_count);
  return compare_bits("rows", l->rows, l->want, l->count * sizeof *l->rows, line);
}

/* Rows either are as ever or tell of a failure, and one tells of this call. */
static int rows_partial(void *user, const fault_report *report, test_line *line) {
  const listing *l = user;
  int told = 0;
  for (size_t i = 0; i < l->count; i++) {
    const clattn_device_info *row = &l->rows[i];
    size_t same = 0;
    while (same < l->want_count && bytes_differ(row, &l->want[same], sizeof *row)) same++;
    if (same < l->want_count) continue;
    if (row->status == CLATTN_SUCCESS || strstr(row->reason, "the driver fails: cl") == NULL)
      return test_fail(line, "row %zu: status %s, reason '%s'", i, clattn_status_name(row->status), row->reason);
    told |= strstr(row->reason, report->call) != NULL;
  }
  return told || test_fail(line, "no row tells of %s", report->call);
}

Test(faults_context, listing_devices) {
  static listing l;
  fill_rows(&l);
  cr_assert_eq(list(&l), CLATTN_SUCCESS);
  cr_assert_leq(l.count, MOST_ROWS);
  memcpy(l.want, l.rows, sizeof l.rows);
  l.want_count = l.count;
  const fault_operation operation = {.name = "list devices",
                                     .user = &l,
                                     .prepare = fill_rows,
                                     .run = list,
                                     .message = list_message,
                                     .untouched = rows_untouched,
                                     .right = rows_right,
                                     .partial = rows_partial};
  EXPECT_SWEEP(&operation, FAULT_OPENCL | FAULT_MEMORY);
  EXPECT_EXCEPTIONS("list devices");
}

/* --------------------------------------------------------------------------------------------------------- contexts */

typedef struct creation {
  clattn_context_options options;
  clattn_context *context;
  clattn_device_info info;
  char message[MESSAGE_SIZE];
} creation;

static void forget_context(void *user) {
  ((creation *)user)->context = (clattn_context *)user; /* must become NULL */
}

static clattn_status create(void *user) {
  creation *c = user;
  return clattn_context_create(&c->options, &c->context, c->message, sizeof c->message);
}

static const char *creation_message(const void *user) {
  return ((const creation *)user)->message;
}

static int context_is_null(void *user, test_line *line) {
  return ((creation *)user)->context == NULL || test_fail(line, "*context is not NULL");
}

static int context_right(void *user, test_line *line) {
  const creation *c = user;
  if (clattn_context_device(c->context) != chosen.device) return test_fail(line, "the context has another device");
  const clattn_device_info *info = clattn_context_device_info(c->context);
  clattn_device_info got = *info;
  if (got.platform_index == 0 && got.device_index == 0 && c->options.queue != NULL) { /* see the exceptions */
    got.platform_index = c->info.platform_index;
    got.device_index = c->info.device_index;
  }
  if (!compare_bits("info", &got, &c->info, sizeof got, line)) return 0;
  return clattn_finish(c->context) == CLATTN_SUCCESS || test_fail(line, "the context does not work");
}

static void destroy(void *user) {
  clattn_context_destroy(&((creation *)user)->context);
}

/* Creates a context once to know what it tells of its device; then sweeps. */
static void sweep_creation(creation *c, const char *name) {
  cr_assert_eq(create(c), CLATTN_SUCCESS, "%s", c->message);
  c->info = *clattn_context_device_info(c->context);
  destroy(c);
  const fault_operation operation = {.name = name,
                                     .user = c,
                                     .prepare = forget_context,
                                     .run = create,
                                     .message = creation_message,
                                     .untouched = context_is_null,
                                     .right = context_right,
                                     .release = destroy,
                                     .platform = chosen.platform,
                                     .device = chosen.device};
  EXPECT_SWEEP(&operation, FAULT_OPENCL | FAULT_MEMORY);
}

Test(faults_context, creating_on_a_device) {
  static creation c;
  clattn_context_options_init(&c.options);
  c.options.device = chosen.selector;
  c.options.profiling = 1;
  sweep_creation(&c, "create a context");
  EXPECT_EXCEPTIONS("create a context");
}

/* Options with a queue of our own. */
static cl_command_queue own_queue(clattn_context_options *options) {
  cl_int error = CL_SUCCESS;
  cl_context context = clCreateContext(NULL, 1, &chosen.device, NULL, NULL, &error);
  cr_assert_eq(error, CL_SUCCESS);
  clattn_context_options_init(options);
  options->queue = clCreateCommandQueue(context, chosen.device, 0, &error);
  cr_assert_eq(error, CL_SUCCESS);
  cr_assert_eq(clReleaseContext(context), CL_SUCCESS); /* the queue holds it */
  return options->queue;
}

Test(faults_context, creating_on_the_callers_queue) {
  static creation c;
  cl_command_queue queue = own_queue(&c.options);
  sweep_creation(&c, "adopt a queue");
  EXPECT_EXCEPTIONS("adopt a queue");
  cr_expect_eq(clReleaseCommandQueue(queue), CL_SUCCESS);
  for (int kind = HELD_CONTEXT; kind < HELD_MEMORY; kind++) cr_expect_eq(faults_held().held[kind], 0);
}

/* ------------------------------------------------------------------------------------------------- ends of contexts */

/* A context with kernels in its cache and memory in its pool, but nothing of CLBlast, which takes long to build. */
static void make_used(void *user) {
  creation *c = user;
  clattn_tensor query, key, output;
  const size_t query_shape[4] = {1, 2, 3, 4}, key_shape[4] = {1, 2, 0, 4};
  cr_assert_eq(create(c), CLATTN_SUCCESS, "%s", c->message);
  EXPECT_SUCCESS(c->context, clattn_tensor_create(c->context, CLATTN_FLOAT32, 4, query_shape, NULL, &query));
  EXPECT_SUCCESS(c->context, clattn_tensor_create(c->context, CLATTN_FLOAT32, 4, key_shape, NULL, &key));
  EXPECT_SUCCESS(c->context, clattn_tensor_create(c->context, CLATTN_FLOAT32, 4, query_shape, NULL, &output));
  EXPECT_SUCCESS(c->context, clattn_sdpa(c->context, &query, &key, &key, &output, NULL));
  cr_assert_gt(clattn_context_scratch_bytes(c->context), 0);
  clattn_tensor_release(&query);
  clattn_tensor_release(&key);
  clattn_tensor_release(&output);
}

static clattn_status destroy_context(void *user) {
  destroy(user);
  return CLATTN_SUCCESS;
}

Test(faults_context, destroying) {
  static creation c;
  cl_command_queue queue = own_queue(&c.options);
  const fault_operation operation = {
      .name = "destroy a context", .user = &c, .prepare = make_used, .run = destroy_context, .right = context_is_null};
  EXPECT_SWEEP(&operation, FAULT_OPENCL);
  cr_expect_eq(clReleaseCommandQueue(queue), CL_SUCCESS);
  for (int kind = HELD_CONTEXT; kind < HELD_MEMORY; kind++) cr_expect_eq(faults_held().held[kind], 0);
}

static clattn_status trim(void *user) {
  clattn_context_trim(((creation *)user)->context);
  return CLATTN_SUCCESS;
}

static int pool_is_empty(void *user, test_line *line) {
  const uint64_t bytes = clattn_context_scratch_bytes(((creation *)user)->context);
  return bytes == 0 || test_fail(line, "%llu bytes in the pool", (unsigned long long)bytes);
}

Test(faults_context, trimming) {
  static creation c;
  cl_command_queue queue = own_queue(&c.options);
  const fault_operation operation = {.name = "trim a context",
                                     .user = &c,
                                     .prepare = make_used,
                                     .run = trim,
                                     .right = pool_is_empty,
                                     .release = destroy};
  EXPECT_SWEEP(&operation, FAULT_OPENCL);
  cr_expect_eq(clReleaseCommandQueue(queue), CL_SUCCESS);
}

static clattn_status finish(void *user) {
  return clattn_finish(*(clattn_context **)user);
}

static const char *context_text(const void *user) {
  return clattn_context_message(*(clattn_context *const *)user);
}

static int always(void *user, test_line *line) {
  (void)user, (void)line;
  return 1;
}

Test(faults_context, finishing) {
  clattn_context *context = test_context();
  const fault_operation operation = {
      .name = "finish", .user = &context, .run = finish, .message = context_text, .right = always};
  EXPECT_SWEEP(&operation, FAULT_OPENCL);
  clattn_context_destroy(&context);
}

/* ---------------------------------------------------------------------------------------------------------- tensors */

enum { ROWS = 3, COLUMNS = 4, STRIDE = 6 };

/* A view of ROWS x COLUMNS elements, with gaps between the rows or without. */
typedef struct copying {
  clattn_context *context;
  clattn_tensor whole, view, made;
  float device[ROWS * STRIDE], host[ROWS * COLUMNS], want[ROWS * STRIDE];
} copying;

static clattn_status create_tensor(void *user) {
  copying *c = user;
  const size_t shape[2] = {ROWS, COLUMNS};
  return clattn_tensor_create(c->context, CLATTN_FLOAT32, 2, shape, c->host, &c->made);
}

static clattn_status read_tensor(void *user) {
  copying *c = user;
  return clattn_tensor_read(c->context, &c->view, c->host);
}

static clattn_status write_tensor(void *user) {
  copying *c = user;
  return clattn_tensor_write(c->context, &c->view, c->host);
}

static const char *copying_message(const void *user) {
  return clattn_context_message(((const copying *)user)->context);
}

/* -1 on the host, 1, 2, ... on the device. */
static void before_reading(void *user) {
  copying *c = user;
  for (size_t i = 0; i < ROWS * COLUMNS; i++) c->host[i] = -1;
}

static int host_untouched(void *user, test_line *line) {
  const copying *c = user;
  for (size_t i = 0; i < ROWS * COLUMNS; i++)
    if (c->host[i] != -1) return test_fail(line, "host[%zu] is %g", i, (double)c->host[i]);
  return 1;
}

static int host_right(void *user, test_line *line) {
  const copying *c = user;
  for (size_t i = 0; i < ROWS * COLUMNS; i++)
    if (c->host[i] != (float)(1 + i / COLUMNS * c->view.stride[0] + i % COLUMNS))
      return test_fail(line, "host[%zu] is %g", i, (double)c->host[i]);
  return 1;
}

static void fetch(copying *c, float *out) {
  EXPECT_SUCCESS(c->context, clattn_tensor_read(c->context, &c->whole, out));
}

/* 1, 2, ... on the device, 101, 102, ... on the host. */
static void before_writing(void *user) {
  copying *c = user;
  for (size_t i = 0; i < ROWS * STRIDE; i++) c->device[i] = (float)(1 + i);
  for (size_t i = 0; i < ROWS * COLUMNS; i++) c->host[i] = (float)(101 + i);
  EXPECT_SUCCESS(c->context, clattn_tensor_write(c->context, &c->whole, c->device));
}

static int device_untouched(void *user, test_line *line) {
  copying *c = user;
  float now[ROWS * STRIDE];
  fetch(c, now);
  return compare_bits("device", now, c->device, sizeof now, line);
}

static int device_right(void *user, test_line *line) {
  copying *c = user;
  float now[ROWS * STRIDE];
  memcpy(c->want, c->device, sizeof c->want);
  for (size_t i = 0; i < ROWS * COLUMNS; i++) c->want[i / COLUMNS * c->view.stride[0] + i % COLUMNS] = (float)(101 + i);
  fetch(c, now);
  return compare_bits("device", now, c->want, sizeof now, line);
}

static int tensor_is_clear(void *user, test_line *line) {
  const copying *c = user;
  const clattn_tensor none = {0};
  return compare_bits("tensor", &c->made, &none, sizeof none, line);
}

static void before_creating(void *user) {
  copying *c = user;
  before_writing(c);
  memset(&c->made, 0xEE, sizeof c->made);
}

static int tensor_right(void *user, test_line *line) {
  copying *c = user;
  float now[ROWS * COLUMNS];
  EXPECT_SUCCESS(c->context, clattn_tensor_read(c->context, &c->made, now));
  return compare_bits("tensor", now, c->host, sizeof now, line);
}

static void release_tensor(void *user) {
  clattn_tensor_release(&((copying *)user)->made);
}

static void make_copying(copying *c, size_t stride) {
  const size_t whole[2] = {ROWS, STRIDE}, shape[2] = {ROWS, COLUMNS};
  c->context = test_context();
  EXPECT_SUCCESS(c->context, clattn_tensor_create(c->context, CLATTN_FLOAT32, 2, whole, NULL, &c->whole));
  c->view = clattn_tensor_view(c->whole.buffer, 0, CLATTN_FLOAT32, 2, shape);
  c->view.stride[0] = stride;
  before_writing(c);
}

static void end_copying(copying *c) {
  clattn_tensor_release(&c->whole);
  clattn_context_destroy(&c->context);
}

Test(faults_context, creating_tensors) {
  copying c;
  make_copying(&c, COLUMNS);
  const fault_operation operation = {.name = "create a tensor",
                                     .user = &c,
                                     .prepare = before_creating,
                                     .run = create_tensor,
                                     .message = copying_message,
                                     .untouched = tensor_is_clear,
                                     .right = tensor_right,
                                     .release = release_tensor};
  EXPECT_SWEEP(&operation, FAULT_OPENCL);
  end_copying(&c);
}

Test(faults_context, reading_and_writing_tensors) {
  const size_t strides[] = {COLUMNS, STRIDE};
  for (size_t i = 0; i < 2; i++) {
    copying c;
    make_copying(&c, strides[i]);
    const fault_operation reading = {.name = "read a tensor",
                                     .user = &c,
                                     .prepare = before_reading,
                                     .run = read_tensor,
                                     .message = copying_message,
                                     .untouched = host_untouched,
                                     .right = host_right};
    const fault_operation writing = {.name = "write a tensor",
                                     .user = &c,
                                     .prepare = before_writing,
                                     .run = write_tensor,
                                     .message = copying_message,
                                     .untouched = device_untouched,
                                     .right = device_right};
    /* Without gaps no memory is needed. */
    EXPECT_SWEEP(&reading, FAULT_OPENCL | (strides[i] > COLUMNS ? FAULT_MEMORY : 0));
    EXPECT_SWEEP(&writing, FAULT_OPENCL | (strides[i] > COLUMNS ? FAULT_MEMORY : 0));
    end_copying(&c);
  }
}
