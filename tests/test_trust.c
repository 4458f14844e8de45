/* SPDX-License-Identifier: Apache-2.0
 *
 * Trust in paths: checks run before a path is used, what they find is kept on disk, a path that fails is not used, and
 * nobody notices otherwise. Faults are planted in the kernels' texts on their way to the driver (support/planted.h). */
#define _POSIX_C_SOURCE 200809L
#include "support/files.h"
#include "support/guarded.h"
#include "support/planted.h"
#include "support/setup.h"
#include "verify/check_run.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BATCH = 2, HEADS = 2, LENGTH = 5, SIZE = 7, COUNT = BATCH * HEADS * LENGTH * SIZE };

/* ----------------------------------------------------------------------------------------------------------- set-up */

/* Lines of the log. */
typedef struct check_log {
  size_t checks; /* that ran */
  char last[512];
} check_log;

static void take_line(void *user, const char *line) {
  check_log *log = user;
  if (strncmp(line, "self check, ", 12) != 0) return;
  log->checks++;
  snprintf(log->last, sizeof log->last, "%s", line);
}

static clattn_context *logged_context(check_log *log) {
  clattn_context_options options;
  clattn_context_options_init(&options);
  options.log = take_line;
  options.log_user = log;
  *log = (check_log){0};
  return test_context_with(&options);
}

/* An empty cache folder of its own, so that no other test's results are found, nor this one's by others. */
static void fresh_cache(char folder[FILES_PATH_SIZE]) {
  files_make_folder(folder);
  cr_assert_eq(setenv("CLATTN_CACHE_DIR", folder, 1), 0);
  unsetenv("CLATTN_SELF_CHECK");
}

/* The one file in the cache folder. */
static void only_file(char path[FILES_PATH_SIZE], const char *folder) {
  char command[FILES_PATH_SIZE + 16], name[FILES_PATH_SIZE] = "";
  cr_assert_eq(files_count(folder), 1);
  snprintf(command, sizeof command, "ls '%s'", folder);
  FILE *list = popen(command, "r");
  cr_assert_not_null(list);
  cr_assert_not_null(fgets(name, sizeof name, list));
  pclose(list);
  name[strcspn(name, "\n")] = '\0';
  files_join(path, folder, name);
}

/* A small call: Q = K, V drawn once and for all. */
typedef struct small_call {
  clattn_context *context;
  clattn_tensor query, value, output, block;
  clattn_options options;
  clattn_mask mask;
} small_call;

static small_call *small_create(clattn_context *context) {
  static const size_t shape[4] = {BATCH, HEADS, LENGTH, SIZE}, keys[4] = {BATCH, 1, 1, LENGTH};
  static const unsigned char blocked[BATCH * LENGTH] = {1, 0, 0, 0, 1, 0, 1, 0, 0, 0};
  float host[COUNT];
  small_call *call = test_alloc(1, sizeof *call);
  for (int i = 0; i < COUNT; i++) host[i] = (float)(i * 37 % 101) / 50 - 1;
  call->context = context;
  EXPECT_SUCCESS(context, clattn_tensor_create(context, CLATTN_FLOAT32, 4, shape, host, &call->query));
  EXPECT_SUCCESS(context, clattn_tensor_create(context, CLATTN_FLOAT32, 4, shape, host, &call->value));
  EXPECT_SUCCESS(context, clattn_tensor_create(context, CLATTN_FLOAT32, 4, shape, NULL, &call->output));
  EXPECT_SUCCESS(context, clattn_tensor_create(context, CLATTN_BOOL8, 4, keys, blocked, &call->block));
  clattn_options_init(&call->options);
  call->mask = (clattn_mask){CLATTN_MASK_BLOCK, call->block};
  return call;
}

static void small_mask(small_call *call) {
  call->options.masks = &call->mask;
  call->options.mask_count = 1;
}

static clattn_status small_run(small_call *call) {
  return clattn_sdpa(call->context, &call->query, &call->query, &call->value, &call->output, &call->options);
}

static clattn_status small_plan(small_call *call, clattn_plan *plan) {
  return clattn_sdpa_plan(call->context, &call->query, &call->query, &call->value, &call->output, &call->options, plan);
}

static void small_read(small_call *call, float out[COUNT]) {
  EXPECT_SUCCESS(call->context, clattn_tensor_read(call->context, &call->output, out));
}

static void small_destroy(small_call *call) {
  clattn_tensor_release(&call->query);
  clattn_tensor_release(&call->value);
  clattn_tensor_release(&call->output);
  clattn_tensor_release(&call->block);
  free(call);
}

/* Checks that a plain call, or one with a mask, makes a new context run. */
static size_t checks_of_new_context(int masked) {
  check_log log;
  clattn_context *context = logged_context(&log);
  small_call *call = small_create(context);
  if (masked) small_mask(call);
  EXPECT_SUCCESS(context, small_run(call));
  cr_expect_str_empty(clattn_context_message(context));
  EXPECT_SUCCESS(context, clattn_finish(context));
  small_destroy(call);
  clattn_context_destroy(&context);
  return log.checks;
}

/* ------------------------------------------------------------------------------------------------------ remembering */

Test(trust, a_call_waits_for_what_it_uses_alone) {
  char folder[FILES_PATH_SIZE], path[FILES_PATH_SIZE];
  size_t size = 0;
  fresh_cache(folder);
  cr_expect_eq(checks_of_new_context(0), 1); /* plain */
  only_file(path, folder);
  char *text = files_read(path, &size);
  cr_expect(strstr(text, "clattn self check, format 1\n") == text && strstr(text, "  plain\n") &&
                !strstr(text, "block mask"),
            "%s", text);
  free(text);
  cr_expect_eq(checks_of_new_context(0), 0); /* known from disk */
  cr_expect_eq(checks_of_new_context(1), 1); /* block mask */
  cr_expect_eq(checks_of_new_context(1), 0);
  text = files_read(path, &size);
  cr_expect(strstr(text, "  plain\n") && strstr(text, "  block mask\n"), "%s", text);
  free(text);
  files_remove_folder(folder);
}

Test(trust, known_in_the_context) {
  char folder[FILES_PATH_SIZE];
  check_log log;
  fresh_cache(folder);
  clattn_context *context = logged_context(&log);
  small_call *call = small_create(context);
  for (int i = 0; i < 3; i++) EXPECT_SUCCESS(context, small_run(call));
  cr_expect_eq(log.checks, 1);
  call->options.causal = CLATTN_CAUSAL_TOP_LEFT;
  for (int i = 0; i < 3; i++) EXPECT_SUCCESS(context, small_run(call));
  cr_expect_eq(log.checks, 2);
  cr_expect(strstr(log.last, "causal, top left: pass"), "%s", log.last);
  clattn_plan plan;
  EXPECT_SUCCESS(context, small_plan(call, &plan));
  cr_expect(strstr(plan.text, "self check: passed 'plain', 'causal, top left' with errors up to"), "%s", plan.text);
  cr_expect(!strstr(plan.text, "known from"), "%s", plan.text);
  small_destroy(call);
  clattn_context_destroy(&context);
  files_remove_folder(folder);
}

Test(trust, the_plan_names_the_file) {
  char folder[FILES_PATH_SIZE], path[FILES_PATH_SIZE];
  fresh_cache(folder);
  cr_assert_eq(checks_of_new_context(0), 1);
  only_file(path, folder);
  clattn_context *context = test_context();
  small_call *call = small_create(context);
  clattn_plan plan;
  EXPECT_SUCCESS(context, small_plan(call, &plan));
  cr_expect(strstr(plan.text, "1 known from ") && strstr(plan.text, path), "%s", plan.text);
  cr_expect_eq(plan.path, CLATTN_PATH_GEMM);
  small_destroy(call);
  clattn_context_destroy(&context);
  files_remove_folder(folder);
}

/* Damage is not known, never an error: the checks run again and the file is made anew. */
Test(trust, damaged_files_are_ignored) {
  char folder[FILES_PATH_SIZE], path[FILES_PATH_SIZE];
  size_t size = 0;
  fresh_cache(folder);
  cr_assert_eq(checks_of_new_context(0), 1);
  only_file(path, folder);
  char *sound = files_read(path, &size), *damaged = test_alloc(size, 1);
  for (size_t cut = 0; cut < size; cut += size / 7) {
    files_write(path, sound, cut);
    cr_expect_eq(checks_of_new_context(0), 1, "cut to %zu of %zu bytes", cut, size);
    cr_expect_eq(checks_of_new_context(0), 0, "after it was cut to %zu bytes", cut);
  }
  for (size_t at = 0; at < size; at += 1 + size / 11) {
    memcpy(damaged, sound, size);
    damaged[at] ^= 4;
    files_write(path, damaged, size);
    cr_expect_eq(checks_of_new_context(0), 1, "byte %zu of %zu changed", at, size);
  }
  /* A line that is no line, a file of another library, and no regular file. */
  files_write(path, "gemm pass 0 plain\n", 18);
  cr_expect_eq(checks_of_new_context(0), 1);
  cr_assert_eq(unlink(path), 0);
  cr_assert_eq(mkdir(path, 0700), 0);
  cr_expect_eq(checks_of_new_context(0), 1);
  cr_assert_eq(rmdir(path), 0);
  cr_assert_eq(mkfifo(path, 0600), 0);
  cr_expect_eq(checks_of_new_context(0), 1);
  free(sound);
  free(damaged);
  files_remove_folder(folder);
}

Test(trust, without_a_cache_folder) {
  setenv("CLATTN_CACHE_DIR", "/dev/null/nowhere", 1);
  unsetenv("CLATTN_SELF_CHECK");
  cr_expect_eq(checks_of_new_context(0), 1);
  cr_expect_eq(checks_of_new_context(0), 1);
}

/* ---------------------------------------------------------------------------------------------------------- failing */

static void expect_refusal(small_call *call) {
  clattn_context *context = call->context;
  float before[COUNT], after[COUNT];
  clattn_plan plan;
  for (int i = 0; i < COUNT; i++) before[i] = (float)i;
  EXPECT_SUCCESS(context, clattn_tensor_write(context, &call->output, before));
  EXPECT_STATUS(context, CLATTN_SELF_CHECK_FAILED, small_run(call));
  const char *says = clattn_context_message(context);
  cr_expect(strstr(says, "'block mask'") && strstr(says, "output[0,0,0,0] is ") && strstr(says, " +- ") &&
                strstr(says, "CLATTN_SELF_CHECK=off") && strstr(says, "no_self_check"),
            "%s", says);
  EXPECT_STATUS(context, CLATTN_SELF_CHECK_FAILED, small_plan(call, &plan));
  cr_expect_eq(plan.path, CLATTN_PATH_AUTO);
  cr_expect(strstr(plan.text, "path: none\nself check: ") == plan.text && strstr(plan.text, "'block mask'"), "%s",
            plan.text);
  small_read(call, after);
  cr_expect_not(bytes_differ(before, after, sizeof after));
}

/* A path with a fault is refused where the fault is, and used elsewhere; the next process knows it. */
Test(trust, a_path_that_fails_is_not_used) {
  char folder[FILES_PATH_SIZE];
  check_log log;
  fresh_cache(folder);
  planted_fault("((value) != 0 ? BLOCKED : (score))", "((value) == 0 ? BLOCKED : (score))");
  clattn_context *context = logged_context(&log);
  small_call *call = small_create(context);
  EXPECT_SUCCESS(context, small_run(call));
  small_mask(call);
  expect_refusal(call);
  cr_expect_eq(log.checks, 2);
  call->options.mask_count = 0;
  EXPECT_SUCCESS(context, small_run(call));
  small_destroy(call);
  clattn_context_destroy(&context);
  planted_fault(NULL, NULL);

  context = logged_context(&log);
  call = small_create(context);
  small_mask(call);
  expect_refusal(call);
  cr_expect_eq(log.checks, 0);
  small_destroy(call);
  clattn_context_destroy(&context);

  /* Turned off, it computes; and does not ask the disk. */
  setenv("CLATTN_SELF_CHECK", "off", 1);
  context = logged_context(&log);
  call = small_create(context);
  small_mask(call);
  EXPECT_SUCCESS(context, small_run(call));
  cr_expect_eq(log.checks, 0);
  small_destroy(call);
  clattn_context_destroy(&context);
  files_remove_folder(folder);
}

Test(trust, layers_are_refused_too) {
  char folder[FILES_PATH_SIZE];
  fresh_cache(folder);
  planted_fault("value += ", "value -= "); /* a bias of the other sign */
  clattn_context *context = test_context();
  clattn_mha_config config;
  clattn_parameters *parameters = NULL;
  clattn_mha *mha = NULL;
  clattn_tensor x, y;
  clattn_plan plan;
  const size_t shape[3] = {1, 3, 4};
  const float host[12] = {1, 2, 3};
  clattn_mha_config_init(&config);
  config.embed_dim = 4;
  config.heads = 2;
  cr_assert_eq(clattn_parameters_random(&config, NULL, 1, &parameters, NULL, 0), CLATTN_SUCCESS);
  EXPECT_SUCCESS(context, clattn_mha_create(context, parameters, (clattn_type)0, &mha));
  EXPECT_SUCCESS(context, clattn_tensor_create(context, CLATTN_FLOAT32, 3, shape, host, &x));
  EXPECT_SUCCESS(context, clattn_tensor_create(context, CLATTN_FLOAT32, 3, shape, host, &y));
  EXPECT_STATUS(context, CLATTN_SELF_CHECK_FAILED, clattn_mha_forward(mha, &x, NULL, NULL, &y, NULL));
  cr_expect(strstr(clattn_context_message(context), "'layer'"), "%s", clattn_context_message(context));
  EXPECT_STATUS(context, CLATTN_SELF_CHECK_FAILED, clattn_mha_plan(mha, &x, NULL, NULL, &y, NULL, &plan));
  cr_expect(strstr(plan.text, "path: none\n") && strstr(plan.text, "'layer'"), "%s", plan.text);
  clattn_tensor_release(&x);
  clattn_tensor_release(&y);
  clattn_mha_destroy(&mha);
  clattn_parameters_destroy(&parameters);
  clattn_context_destroy(&context);
  files_remove_folder(folder);
}

/* A check that cannot be run is no failed one: nothing is remembered, and it runs the next time. */
Test(trust, a_check_that_cannot_be_built) {
  char folder[FILES_PATH_SIZE];
  check_log log;
  fresh_cache(folder);
  planted_fault("__kernel", "this is no OpenCL C __kernel");
  clattn_context *context = logged_context(&log);
  small_call *call = small_create(context);
  EXPECT_STATUS(context, CLATTN_BUILD_FAILED, small_run(call));
  cr_expect(strstr(clattn_context_message(context), "the self check 'plain' could not be run on"), "%s",
            clattn_context_message(context));
  planted_fault(NULL, NULL);
  EXPECT_SUCCESS(context, small_run(call));
  cr_expect_eq(log.checks, 1);
  small_destroy(call);
  clattn_context_destroy(&context);
  files_remove_folder(folder);
}

Test(trust, turned_off_by_the_options) {
  char folder[FILES_PATH_SIZE];
  fresh_cache(folder);
  check_log log = {0};
  clattn_context_options options;
  clattn_context_options_init(&options);
  options.no_self_check = 1;
  options.log = take_line;
  options.log_user = &log;
  clattn_context *context = test_context_with(&options);
  small_call *call = small_create(context);
  clattn_plan plan;
  EXPECT_SUCCESS(context, small_run(call));
  EXPECT_SUCCESS(context, small_plan(call, &plan));
  cr_expect(strstr(plan.text, "self check: turned off by no_self_check"), "%s", plan.text);
  cr_expect_eq(log.checks, 0);
  cr_expect_eq(files_count(folder), 0);
  small_destroy(call);
  clattn_context_destroy(&context);
  files_remove_folder(folder);
}

Test(trust, turned_off_by_the_environment) {
  char folder[FILES_PATH_SIZE];
  fresh_cache(folder);
  setenv("CLATTN_SELF_CHECK", "off", 1);
  cr_expect_eq(checks_of_new_context(1), 0);
  cr_expect_eq(files_count(folder), 0);
  clattn_context *context = test_context();
  small_call *call = small_create(context);
  clattn_plan plan;
  EXPECT_SUCCESS(context, small_plan(call, &plan));
  cr_expect(strstr(plan.text, "self check: turned off by CLATTN_SELF_CHECK=off"), "%s", plan.text);
  small_destroy(call);
  clattn_context_destroy(&context);
  setenv("CLATTN_SELF_CHECK", "on", 1); /* any other value leaves it on */
  cr_expect_eq(checks_of_new_context(0), 1);
  files_remove_folder(folder);
}

/* ------------------------------------------------------------------------------------------------------ undisturbed */

/* The same call with and without the check: bits, scratch memory, peak. */
Test(trust, a_checked_call_is_the_same_call) {
  char folder[FILES_PATH_SIZE];
  float values[2][COUNT];
  uint64_t bytes[2], peak[2];
  fresh_cache(folder);
  for (int off = 0; off < 2; off++) {
    clattn_context_options options;
    clattn_context_options_init(&options);
    options.no_self_check = off;
    options.scratch_limit = 4096; /* far below what some checks need */
    clattn_context *context = test_context_with(&options);
    small_call *call = small_create(context);
    cl_event event = NULL;
    cl_int state = CL_QUEUED;
    small_mask(call);
    call->options.event = &event;
    EXPECT_SUCCESS(context, small_run(call));
    cr_assert_not_null(event);
    cr_expect_eq(clWaitForEvents(1, &event), CL_SUCCESS);
    cr_expect_eq(clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL), CL_SUCCESS);
    cr_expect_eq(state, CL_COMPLETE);
    clReleaseEvent(event);
    small_read(call, values[off]);
    bytes[off] = clattn_context_scratch_bytes(context);
    peak[off] = clattn_context_scratch_peak(context);
    small_destroy(call);
    clattn_context_destroy(&context);
  }
  cr_expect_not(bytes_differ(values[0], values[1], sizeof values[0]));
  cr_expect_eq(bytes[0], bytes[1]);
  cr_expect_eq(peak[0], peak[1]);
  files_remove_folder(folder);
}

/* The caller's queue waits for an event that comes after the call: the check must not wait for it. */
Test(trust, the_check_waits_for_nothing_of_the_caller, .timeout = 120) {
  char folder[FILES_PATH_SIZE];
  float values[COUNT], expected[COUNT];
  cl_int error = CL_SUCCESS;
  fresh_cache(folder);
  check_log log;
  clattn_context *context = logged_context(&log);
  small_call *call = small_create(context);
  cl_event gate = clCreateUserEvent(clattn_context_cl(context), &error);
  cr_assert_eq(error, CL_SUCCESS);
  cr_assert_eq(clEnqueueBarrierWithWaitList(clattn_context_queue(context), 1, &gate, NULL), CL_SUCCESS);
  EXPECT_SUCCESS(context, small_run(call));
  cr_expect_eq(log.checks, 1);
  cr_assert_eq(clSetUserEventStatus(gate, CL_COMPLETE), CL_SUCCESS);
  small_read(call, values);
  EXPECT_SUCCESS(context, small_run(call));
  small_read(call, expected);
  cr_expect_not(bytes_differ(values, expected, sizeof values));
  clReleaseEvent(gate);
  small_destroy(call);
  clattn_context_destroy(&context);
  files_remove_folder(folder);
}

/* ----------------------------------------------------------------------------------------------------------- faults */

typedef struct fault {
  const char *name, *text, *fault;
  const char *row; /* that must see it */
} fault;

/* Faults of drivers and of people, each with a row that no other row stands in for. */
static const fault faults[] = {
    {"mask polarity", "((value) != 0 ? (score) : BLOCKED)", "((value) != 0 ? BLOCKED : (score))", "keep mask"},
    {"a mask that is not added", "BLOCKED : (score) + (value))", "BLOCKED : (score))", "added mask"},
    {"window one off", "(ulong)clamp(position - rule.s2,", "(ulong)clamp(position - rule.s2 + 1,", "window"},
    {"causal rule one off", "rule.s0 ? position :", "rule.s0 ? position + 1 :", "causal, top left"},
    {"bottom right from the keys there are", "? length - (long)q_len", "? (long)kv_len - (long)q_len",
     "causal, bottom right of lengths"},
    {"blocked rows not zeroed", "sum == 0 ? (real)0 : 1 / sum", "1 / sum", "block mask"},
    {"infinity from itself", "maximum == BLOCKED ? (real)0 : maximum", "maximum", "block mask"},
    {"keys behind the rule not zeroed", "for (ulong j = end + lane; j < kv_len; j += WG) s[j] = 0;", "",
     "causal, top left"},
    {"no maximum taken off", "const real shift = maximum == BLOCKED ? (real)0 : maximum;", "const real shift = 0;",
     "scores of +-1e30"},
    {"last elements of a row left out", "rest = end - tail + extra;", "rest = extra;", "plain"},
    {"half truncated", "vstore_half_rte(", "vstore_half_rtz(", "float16"},
    {"half truncated, seen at its edges", "vstore_half_rte(", "vstore_half_rtz(", "rounding to float16"},
    {"bfloat16 truncated", "bits + 0x7fffu + ((bits >> 16) & 1u)", "bits", "bfloat16"},
    {"bfloat16 ties away from even", "+ 0x7fffu + ((bits >> 16) & 1u)", "+ 0x8000u", "rounding to bfloat16"},
    {"soft cap left out", "score = cap * tanh((score) / cap);", "", "soft cap"},
    {"slope of the other sign", "score -= slope *", "score += slope *", "slopes"},
    {"key lengths not kept", "(long)t < KEY_COUNT(b, rows)", "(long)t < (long)rows", "key lengths"},
    {"query lengths not kept", "(long)t < QUERY_COUNT(b, rows)", "(long)t < (long)rows", "layer with query lengths"},
    {"dropout not scaled", "(real)0 : s[j] * dropout_scale", "(real)0 : s[j]", "dropout"},
    {"dropout of nine rounds", "round < 10", "round < 9", "dropout, known answer"},
    {"the other generator key", "0xBB67AE85u", "0xBB67AE86u", "dropout pattern"},
    {"weights from before", "w[j * weights_view.s4] = s[j]", "w[j * weights_view.s4] = s[j] * 0.5f", "weights"},
    {"a mean over one head less", "sum /= (real)(kv_heads * group)", "sum /= (real)(kv_heads * group - 1)",
     "averaged weights"},
    {"log-sum-exp without the maximum", "BLOCKED : shift + log(sum)", "BLOCKED : log(sum)", "log-sum-exp"},
    {"heads merged in the wrong order", "to_view.s0 + b * to_view.s1 + h * to_view.s2",
     "to_view.s0 + b * to_view.s1 + (heads - 1 - h) * to_view.s2", "strides and offsets"},
    {"the zero key written beside", "if (d >= columns || t >= rows + EXTRA", "if (d >= columns || t >= rows",
     "zero key"},
    {"output dropout on the wrong stream", "b + 0x80000000u", "b", "output dropout"},
};
enum { FAULTS = sizeof faults / sizeof *faults };

static const check_row *find_row(const char *name) {
  for (size_t i = 0; i < battery_count; i++)
    if (strcmp(battery[i].names[0], name) == 0) return &battery[i];
  cr_assert(0, "no row '%s'", name);
  return NULL;
}

static clattn_check run_row(const char *name) {
  clattn_check check;
  check_scope scope;
  clattn_context *context = test_context();
  EXPECT_SUCCESS(context, check_scope_enter(context, &scope));
  EXPECT_SUCCESS(context, check_run(context, CLATTN_PATH_GEMM, find_row(name), CLATTN_FLOAT32, &check));
  check_scope_leave(context, &scope);
  clattn_context_destroy(&context);
  return check;
}

/* Each fault is seen by its row. That the row passes without it is tested with the whole battery (test_verify.c). Small
 * sets take every fourth. */
static void expect_faults(int first, int count) {
  for (int n = first; n < first + count; n += (int)test_size(1, 4)) {
    const fault *f = &faults[n];
    planted_fault(f->text, f->fault);
    const clattn_check check = run_row(f->row);
    cr_expect_gt(planted_count(), 0, "%s: the kernels have no such text", f->name);
    cr_expect_eq(check.result, CLATTN_CHECK_FAIL, "%s is not seen by '%s'", f->name, f->row);
    cr_expect(check.worst > 1 && check.detail[0] != '\0', "%s: %g, '%s'", f->name, check.worst, check.detail);
  }
}

Test(planted, faults_of_the_first_half_are_seen, .timeout = 600) {
  expect_faults(0, FAULTS / 2);
}

Test(planted, faults_of_the_second_half_are_seen, .timeout = 600) {
  expect_faults(FAULTS / 2, FAULTS - FAULTS / 2);
}
