/* SPDX-License-Identifier: Apache-2.0
 *
 * Faults below the self check: before a call, with and without results on disk, and all of it. */
#define _POSIX_C_SOURCE 200809L
#include "core/cache.h"
#include "support/compare.h"
#include "support/fault_sweep.h"
#include "support/files.h"
#include "verify/trust.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[FILES_PATH_SIZE], cache[FILES_PATH_SIZE]; /* the cache is a folder in it, which may not exist */

static void begin(void) {
  if (access("/dev/shm", W_OK | X_OK) == 0) cr_assert_eq(setenv("TMPDIR", "/dev/shm", 0), 0);
  files_make_folder(folder);
  files_join(cache, folder, "cache");
  cr_assert_eq(setenv("CLATTN_CACHE_DIR", cache, 1), 0);
  cr_assert_eq(unsetenv("CLATTN_SELF_CHECK"), 0);
}

static void end(void) {
  files_remove_folder(folder);
}

TestSuite(faults_check, .init = begin, .fini = end, .timeout = 120);

enum { VALUES = 2 * 3 * 4, NOTHING = -7 };

/* A call on a device that has not been checked. */
typedef struct checked_call {
  clattn_context *context;
  clattn_tensor query, key, value, output;
  clattn_tensor scratch; /* buffer NULL: none is lent */
  clattn_mha *mha;       /* NULL: attention alone */
  int from_disk;         /* 1: the results of checks are there */
  char *plain;           /* the file with the result of the plain check alone, which is there then; NULL: not so */
  size_t plain_size;
  char plain_name[64];
  float want[VALUES];
  int known; /* 1: `want` is */
} checked_call;

/* Nothing is known of the device, but for what is on disk. */
static void forget(void *user) {
  checked_call *c = user;
  trust_state_free(c->context->trust);
  c->context->trust = NULL;
  if (c->plain != NULL)
    cr_assert(cache_write(c->plain_name, c->plain, c->plain_size));
  else if (!c->from_disk && access(cache, F_OK) == 0)
    files_remove_folder(cache);
}

static void fill_output(void *user) {
  checked_call *c = user;
  float nothing[VALUES];
  for (size_t i = 0; i < VALUES; i++) nothing[i] = NOTHING;
  EXPECT_SUCCESS(c->context, clattn_tensor_write(c->context, &c->output, nothing));
}

static clattn_status attend(void *user) {
  checked_call *c = user;
  const size_t rows[3] = {2, 3, 4};
  clattn_options options;
  clattn_options_init(&options);
  options.scratch = c->scratch.buffer;
  options.scratch_bytes = c->scratch.buffer != NULL ? c->scratch.shape[0] : 0;
  if (c->mha == NULL) return clattn_sdpa(c->context, &c->query, &c->key, &c->value, &c->output, &options);
  const clattn_tensor query = clattn_tensor_view(c->query.buffer, 0, CLATTN_FLOAT32, 3, rows);
  const clattn_tensor output = clattn_tensor_view(c->output.buffer, 0, CLATTN_FLOAT32, 3, rows);
  return clattn_mha_forward(c->mha, &query, NULL, NULL, &output, &options);
}

static const char *text_of(const void *user) {
  return clattn_context_message(((const checked_call *)user)->context);
}

static int output_right(void *user, test_line *line) {
  checked_call *c = user;
  float got[VALUES];
  EXPECT_SUCCESS(c->context, clattn_tensor_read(c->context, &c->output, got));
  if (!c->known) memcpy(c->want, got, sizeof got);
  c->known = 1;
  return compare_bits("output", got, c->want, sizeof got, line);
}

/* The check that the message says could not be run is as unknown as before. */
static int check_is_unknown(const checked_call *c, test_line *line) {
  for (size_t row = 0; c->context->trust != NULL && row < battery_count; row++) {
    char words[96];
    snprintf(words, sizeof words, "the self check '%.64s' could not", battery_name(&battery[row], CLATTN_FLOAT32));
    if (strstr(text_of(c), words) == NULL) continue;
    const trust_record *record = trust_find(c->context->trust, CLATTN_PATH_GEMM, CLATTN_FLOAT32, row);
    return record->source == TRUST_UNKNOWN || test_fail(line, "the check that did not run is remembered");
  }
  return 1;
}

/* And it leaves the call's output alone, though work was enqueued. */
static int output_untouched(void *user, test_line *line) {
  checked_call *c = user;
  float got[VALUES];
  if (strstr(text_of(c), "self check") == NULL) return 1;
  if (!check_is_unknown(c, line)) return 0;
  EXPECT_SUCCESS(c->context, clattn_tensor_read(c->context, &c->output, got));
  for (size_t i = 0; i < VALUES; i++)
    if (got[i] != NOTHING) return test_fail(line, "the output was written");
  return 1;
}

static void make(checked_call *c) {
  const size_t shape[4] = {1, 2, 3, 4};
  float values[VALUES];
  *c = (checked_call){.context = test_context()};
  for (size_t i = 0; i < VALUES; i++) values[i] = (float)(i * 7 % 5) / 4;
  EXPECT_SUCCESS(c->context, clattn_tensor_create(c->context, CLATTN_FLOAT32, 4, shape, values, &c->query));
  EXPECT_SUCCESS(c->context, clattn_tensor_create(c->context, CLATTN_FLOAT32, 4, shape, values, &c->key));
  EXPECT_SUCCESS(c->context, clattn_tensor_create(c->context, CLATTN_FLOAT32, 4, shape, values, &c->value));
  EXPECT_SUCCESS(c->context, clattn_tensor_create(c->context, CLATTN_FLOAT32, 4, shape, NULL, &c->output));
}

/* From now on the plain check has passed already, so that others can be swept without it. */
static void keep_plain(checked_call *c) {
  EXPECT_SUCCESS(c->context, attend(c));
  memcpy(c->plain_name, c->context->trust->file, sizeof c->plain_name);
  c->plain = cache_read(c->plain_name, 65536, &c->plain_size);
  cr_assert_not_null(c->plain);
}

static void make_layer(checked_call *c) {
  clattn_mha_config config;
  clattn_parameters *parameters = NULL;
  clattn_mha_config_init(&config);
  config.embed_dim = 4;
  config.heads = 2;
  cr_assert_eq(clattn_parameters_random(&config, NULL, 3, &parameters, NULL, 0), CLATTN_SUCCESS);
  EXPECT_SUCCESS(c->context, clattn_mha_create(c->context, parameters, 0, &c->mha));
  clattn_parameters_destroy(&parameters);
}

static void finish(checked_call *c) {
  clattn_tensor_release(&c->query);
  clattn_tensor_release(&c->key);
  clattn_tensor_release(&c->value);
  clattn_tensor_release(&c->output);
  clattn_tensor_release(&c->scratch);
  clattn_mha_destroy(&c->mha);
  free(c->plain);
  clattn_context_destroy(&c->context);
  for (int kind = HELD_CONTEXT; kind < HELD_MEMORY; kind++) cr_expect_eq(faults_held().held[kind], 0);
}

static void sweep(checked_call *c, unsigned kinds) {
  const fault_operation operation = {.name = "check, then attend",
                                     .user = c,
                                     .cool = forget,
                                     .prepare = fill_output,
                                     .run = attend,
                                     .message = text_of,
                                     .failed = output_untouched,
                                     .right = output_right};
  EXPECT_SWEEP(&operation, kinds);
}

Test(faults_check, before_a_call) {
  checked_call c;
  make(&c);
  sweep(&c, FAULT_OPENCL | FAULT_CLBLAST | FAULT_MEMORY | FAULT_FILE);
  c.from_disk = 1;
  sweep(&c, FAULT_MEMORY | FAULT_FILE);
  finish(&c);
  EXPECT_EXCEPTIONS("check, then attend");
}

Test(faults_check, before_a_call_with_lent_memory) {
  checked_call c;
  const size_t bytes[1] = {65536};
  make(&c);
  keep_plain(&c);
  EXPECT_SUCCESS(c.context, clattn_tensor_create(c.context, CLATTN_BOOL8, 1, bytes, NULL, &c.scratch));
  sweep(&c, FAULT_OPENCL | FAULT_MEMORY | FAULT_THIN);
  finish(&c);
}

Test(faults_check, before_a_layer) {
  checked_call c;
  make(&c);
  keep_plain(&c);
  make_layer(&c);
  sweep(&c, FAULT_OPENCL | FAULT_CLBLAST | FAULT_MEMORY | FAULT_THIN);
  finish(&c);
}

/* ------------------------------------------------------------------------------------------------------ the whole of
 * it
 */

typedef struct verdict {
  size_t checks, failed;
  char detail[256]; /* of the first failure */
} verdict;

static void count_check(void *user, const clattn_check *check) {
  verdict *v = user;
  v->checks++;
  if (check->result != CLATTN_CHECK_FAIL) return;
  if (v->failed++ == 0) memcpy(v->detail, check->detail, sizeof v->detail);
}

static clattn_status verify_with_fault(clattn_context *context, const fault_plan *plan, verdict *v) {
  *v = (verdict){0};
  program_cache_clear(&context->programs);
  trust_state_free(context->trust);
  context->trust = NULL;
  faults_arm(plan);
  const clattn_status status = clattn_verify(context, count_check, v);
  cr_expect(faults_disarm().fired);
  return status;
}

/* Checks cannot begin. */
Test(faults_check, all_of_it_before_it_begins) {
  clattn_context *context = test_context();
  const fault_account before = faults_held();
  const fault_plan plans[] = {{FAULT_MEMORY, 1, 0, ENOMEM},
                              {FAULT_MEMORY, 2, 0, ENOMEM},
                              {FAULT_OPENCL, 1, 0, CL_OUT_OF_RESOURCES},
                              {FAULT_OPENCL, 1, 0, CL_OUT_OF_HOST_MEMORY},
                              {FAULT_OPENCL, 1, 0, CL_DEVICE_NOT_AVAILABLE}};
  const clattn_status expected[] = {CLATTN_OUT_OF_HOST_MEMORY, CLATTN_OUT_OF_HOST_MEMORY, CLATTN_OUT_OF_DEVICE_MEMORY,
                                    CLATTN_OUT_OF_HOST_MEMORY, CLATTN_OPENCL_ERROR};
  for (size_t i = 0; i < sizeof plans / sizeof plans[0]; i++) {
    verdict v;
    test_line line = {{0}};
    EXPECT_STATUS(context, expected[i], verify_with_fault(context, &plans[i], &v));
    cr_expect_eq(v.checks, 0);
    cr_expect_str_not_empty(clattn_context_message(context));
    trust_state_free(context->trust);
    context->trust = NULL;
    cr_expect(faults_account_is(&before, &line), "%zu: %s", i, line.text);
  }
  clattn_context_destroy(&context);
}

/* A check that cannot be run counts as failed, the others go on, and nothing of it is remembered. */
static void expect_failures(clattn_context *context, const fault_plan *plan, const char *error, size_t failed) {
  verdict v;
  EXPECT_STATUS(context, CLATTN_SELF_CHECK_FAILED, verify_with_fault(context, plan, &v));
  cr_expect_gt(v.checks, 50);
  if (failed > 0) cr_expect_eq(v.failed, failed, "%zu checks failed", v.failed);
  if (failed == 0) cr_expect_gt(v.failed, 50, "%zu checks failed", v.failed);
  cr_expect_not_null(strstr(v.detail, error), "'%s' lacks '%s'", v.detail, error);
  cr_expect_not_null(strstr(clattn_context_message(context), v.detail), "'%s'", clattn_context_message(context));
}

Test(faults_check, all_of_it) {
  checked_call c;
  test_line line = {{0}};
  if (test_is_small()) cr_skip_test("takes long on slow devices");
  make(&c);
  fill_output(&c);
  EXPECT_SUCCESS(c.context, attend(&c));
  cr_assert(output_right(&c, &line));
  const fault_plan single = {FAULT_OPENCL, 7, 0, CL_OUT_OF_RESOURCES};
  const fault_plan lost = {FAULT_OPENCL | FAULT_CLBLAST, 7, 1, CL_DEVICE_NOT_AVAILABLE};
  expect_failures(c.context, &single, "CL_OUT_OF_RESOURCES (-5)", 1);
  fill_output(&c);
  EXPECT_SUCCESS(c.context, attend(&c));
  cr_expect(output_right(&c, &line), "%s", line.text);
  expect_failures(c.context, &lost, "CL_DEVICE_NOT_AVAILABLE (-2)", 0);
  fill_output(&c);
  EXPECT_SUCCESS(c.context, attend(&c));
  cr_expect(output_right(&c, &line), "%s", line.text);
  finish(&c);
}
