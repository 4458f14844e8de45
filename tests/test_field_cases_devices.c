/* SPDX-License-Identifier: Apache-2.0
 *
 * Bugs that others reported about OpenCL libraries and drivers: discovery, compiler options, size limits, lifetimes,
 * fork, long kernels. The program's side of them is in tests/cli/test_field_cases.py. */
#define _GNU_SOURCE
#include "core/kernel_source.h"
#include "support/attention_case.h"

#include <criterion/criterion.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void expect_small_call(clattn_context *context) {
  EXPECT_CASE(context, .batch = 2, .heads = 3, .q_len = 5, .kv_len = 7, .head_dim = 4);
}

/* LuxMark#19, open-mpi/hwloc#425, cf4ocl#16 and others: start-up fails because the first platform has no device, or
 * none exists, or the count of devices is used although the query failed. */
Test(field_devices, b1_discovery) {
  char message[1024];
  size_t count = 77;
  clattn_device_info devices[16];
  cr_assert_eq(clattn_list_devices("no such device", devices, 16, &count, message, sizeof message), CLATTN_SUCCESS);
  cr_assert(count >= 1 && count < 77);
  int gpus = 0;
  for (size_t n = 0; n < count && n < 16; n++) {
    gpus += (devices[n].type & CL_DEVICE_TYPE_GPU) != 0;
    cr_expect(devices[n].status == CLATTN_SUCCESS || devices[n].reason[0] != '\0', "row %zu has no reason", n);
    cr_expect_eq(devices[n].selected, 0);
  }
  clattn_context *context = test_context(); /* though platforms without devices may come first */
  expect_small_call(context);
  clattn_context_destroy(&context);
  clattn_context_options options;
  clattn_context_options_init(&options);
  options.device = "gpu";
  const clattn_status status = clattn_context_create(&options, &context, message, sizeof message);
  cr_expect_eq(status, gpus ? CLATTN_SUCCESS : CLATTN_INVALID_DEVICE, "%s: %s", clattn_status_name(status), message);
  clattn_context_destroy(&context);
}

/* The text of everything that was built, from the log callback. */
static void keep_log(void *user, const char *line) {
  char *all = user;
  const size_t used = strlen(all);
  snprintf(all + used, 65536 - used, "%s\n", line);
}

/* cvortex#8, llvm/llvm-project#54947, opencv/opencv#23881: options for fast mathematics fold infinities away, and masks
 * with them. e^-95 is subnormal as a float: 0 and 5.52e-42 are both right. */
Test(field_devices, b6_no_fast_mathematics) {
  static char log[65536];
  static const double query[1] = {1}, keys[2] = {0, -95}, values[2] = {0, 1};
  clattn_context_options options;
  clattn_context_options_init(&options);
  options.log = keep_log;
  options.log_user = log;
  log[0] = '\0';
  clattn_context *context = test_context_with(&options);
  test_results results;
  test_line line = {{0}};
  attention_case c = {.kv_len = 2, .query = query, .key = keys, .value = values, .request = {.weights = TEST_PER_HEAD}};
  cr_assert(attention_case_run(context, &c, &results, &line), "%s", line.text);
  cr_expect(results.weights[0] == 1 && fabs(results.weights[1]) <= 5.6e-42, "%g %g", results.weights[0],
            results.weights[1]);
  results_release(&results);
  cr_expect_not_null(strstr(log, "built softmax"), "%s", log);
  static const char *const never[] = {"fast-relaxed-math", "finite-math", "unsafe-math", "no-signed-zeros"};
  for (int n = 0; n < 4; n++) cr_expect_null(strstr(log, never[n]), "%s is an option of: %s", never[n], log);
  clattn_context_destroy(&context);
}

/* The first floating literal without an f behind it; NULL if there is none. Comments do not count. */
static const char *find_double_literal(const char *text) {
  int comment = 0;
  for (const char *at = text; *at; at++) {
    if (!comment && at[0] == '/' && at[1] == '*') comment = 1;
    if (comment && at[0] == '*' && at[1] == '/') comment = 0;
    const int begins = at == text || !(isalnum((unsigned char)at[-1]) || at[-1] == '_' || at[-1] == '.');
    if (comment || !begins || !isdigit((unsigned char)*at)) continue;
    char *end = NULL;
    (void)strtod(at, &end);
    const size_t length = (size_t)(end - at);
    const int floating = memchr(at, '.', length) != NULL;
    if (floating && *end != 'f') return at;
    at = end - 1;
  }
  return NULL;
}

/* xmrig#2709, libxcam#393, diku-dk/futhark#439, inducer/pyopencl#141: a literal such as 1.0 makes a kernel need fp64.
 */
Test(field_devices, b7_no_double_literals) {
  cr_assert_not_null(find_double_literal("x = 1.0;"));
  cr_assert_null(find_double_literal("x = 1.0f + 0x10 + y.s0 + v1; /* 2.5 */"));
  cr_assert(clattn_kernel_source_count > 0);
  for (size_t n = 0; n < clattn_kernel_source_count; n++) {
    const char *at = find_double_literal(clattn_kernel_sources[n].text);
    cr_expect_null(at, "%s has %.20s", clattn_kernel_sources[n].name, at ? at : "");
  }
}

/* intel/compute-runtime#627, CNugteren/CLBlast#333, #163, OpenCL-CTS#2549: one buffer above the device's limit, hidden
 * temporaries, indices past 31 bits. 64*8192*8192*4 = 17,179,869,184 bytes of weights. */
Test(field_devices, b9_size_limits) {
  enum { H = 64, T = 8192 };
  clattn_context *context = test_context();
  const clattn_device_info *info = clattn_context_device_info(context);
  const size_t weights_shape[4] = {1, H, T, T}, heads_shape[4] = {1, H, T, 1};
  const uint64_t bytes = UINT64_C(17179869184);
  clattn_tensor weights, heads, output;
  if (info->max_alloc_bytes < bytes) {
    EXPECT_STATUS(context, CLATTN_OUT_OF_DEVICE_MEMORY,
                  clattn_tensor_create(context, CLATTN_FLOAT32, 4, weights_shape, NULL, &weights));
    cr_expect_not_null(strstr(clattn_context_message(context), "17179869184"), "%s", clattn_context_message(context));
  }
  EXPECT_SUCCESS(context, clattn_tensor_create(context, CLATTN_FLOAT32, 4, heads_shape, NULL, &heads));
  EXPECT_SUCCESS(context, clattn_tensor_create(context, CLATTN_FLOAT32, 4, heads_shape, NULL, &output));
  clattn_plan plan;
  EXPECT_SUCCESS(context, clattn_sdpa_plan(context, &heads, &heads, &heads, &output, NULL, &plan));
  cr_expect(plan.slices > 1 && plan.scratch_bytes < bytes / 8, "%llu slices, %llu bytes",
            (unsigned long long)plan.slices, (unsigned long long)plan.scratch_bytes);
  clattn_tensor_release(&heads);
  clattn_tensor_release(&output);
  expect_small_call(context);
  clattn_context_destroy(&context);
}

static long resident_kib(void) {
  long pages = 0, unused = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  if (file == NULL) return -1;
  if (fscanf(file, "%ld %ld", &unused, &pages) != 2) pages = -1;
  fclose(file);
  return pages < 0 ? -1 : pages * (sysconf(_SC_PAGESIZE) / 1024);
}

/* CLBlast#126, #643, #646, clBLAS#296, pocl/pocl#182, mmc#127: memory that grows with every call, handles that are not
 * retained. Resident memory is flat, within a MiB, after the first half of the calls. */
Test(field_devices, b12_thousands_of_calls_leave_nothing) {
  const size_t calls = test_size(4000, 60), shape[4] = {1, 2, 5, 8};
  float numbers[80] = {0};
  clattn_context *context = test_context();
  clattn_tensor heads, output;
  EXPECT_SUCCESS(context, clattn_tensor_create(context, CLATTN_FLOAT32, 4, shape, numbers, &heads));
  EXPECT_SUCCESS(context, clattn_tensor_create(context, CLATTN_FLOAT32, 4, shape, NULL, &output));
  long half = 0;
  for (size_t n = 0; n < calls; n++) {
    cl_event event = NULL;
    clattn_options options;
    clattn_options_init(&options);
    options.event = &event;
    options.causal = n % 2 ? CLATTN_CAUSAL_TOP_LEFT : CLATTN_CAUSAL_NONE;
    EXPECT_SUCCESS(context, clattn_sdpa(context, &heads, &heads, &heads, &output, &options));
    cr_assert_eq(clWaitForEvents(1, &event), CL_SUCCESS);
    cr_assert_eq(clReleaseEvent(event), CL_SUCCESS);
    if (n == calls / 2) half = resident_kib();
  }
  const long end = resident_kib();
#ifdef TEST_ADDRESS_SANITIZER /* which keeps what was freed, and finds leaks itself */
  cr_expect(half > 0 && end > 0);
#else
  cr_expect(half > 0 && end - half <= 1024, "resident memory grew from %ld to %ld KiB", half, end);
#endif
  clattn_tensor_release(&heads);
  clattn_tensor_release(&output);
  clattn_context_destroy(&context);
}

static int wait_for(pid_t child) {
  int status = 0;
  cr_assert_eq(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* inducer/pyopencl#156, IntelPython/dpctl#1169, openmm/openmm#1886: the runtime's threads do not come along into a
 * forked child. Forking before the first call must work, so no OpenCL call is made when the library is loaded; and a
 * child that does nothing must not harm its parent. */
Test(field_devices, b16_fork) {
  pid_t early = fork();
  cr_assert(early >= 0);
  if (early == 0) {
    alarm(120); /* a hang ends the child, and the test fails */
    clattn_context *context = NULL;
    if (clattn_context_create(NULL, &context, NULL, 0) != CLATTN_SUCCESS) _exit(1);
    attention_case c = {.batch = 2, .heads = 3, .q_len = 5, .kv_len = 7, .head_dim = 4};
    test_line line = {{0}};
    _exit(attention_case_check(context, &c, &line) ? 0 : 2);
  }
  cr_expect_eq(wait_for(early), 0, "forked before the first call");
  clattn_context *context = test_context();
  expect_small_call(context);
  pid_t idle = fork();
  cr_assert(idle >= 0);
  if (idle == 0) _exit(0);
  cr_expect_eq(wait_for(idle), 0);
  expect_small_call(context);
  clattn_context_destroy(&context);
}

/* openwall/john#396, #355, ITK#1555: a single launch that runs for seconds is killed by a display's watchdog. One query
 * against many keys: uniform weights over 0, 1, 0, 1, ... */
Test(field_devices, b21_one_query_against_many_keys) {
  const size_t S = test_size(200000, 2000);
  double *values = test_alloc(S, sizeof *values), *keys = test_alloc(S * 8, sizeof *keys);
  static const double query[8], want[1] = {0.5};
  test_line line = {{0}};
  for (size_t j = 0; j < S; j++) values[j] = (double)(j % 2);
  clattn_context *context = test_context();
  attention_case c = {.kv_len = S, .head_dim = 8, .value_head_dim = 1, .query = query, .key = keys, .value = values};
  cr_expect(attention_case_expect(context, &c, want, NULL, 1e-5, &line), "%s", line.text);
  free(values);
  free(keys);
  clattn_context_destroy(&context);
}
