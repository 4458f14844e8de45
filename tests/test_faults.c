/* SPDX-License-Identifier: Apache-2.0
 *
 * The means by which faults are made: that they see all calls of the library, and that they see what goes wrong. */
#define _POSIX_C_SOURCE 200809L
#include "support/fault_sweep.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TestSuite(faults, .timeout = 60);

/* -------------------------------------------------------------------------------------------------------- all calls */

/* Functions of other libraries that the library may call without a wrapper, since they cannot fail, or only if called
 * wrongly. What jansson answers depends on memory, which it takes through the wrappers. */
static const char excused[] =
    " _GLOBAL_OFFSET_TABLE_ __stack_chk_fail" /* the compiler's own */
    " memchr memcmp memcpy memmove memset strchr strcmp strcspn strlen strncmp strrchr strspn strstr strerror"
    " strtod strtol strtoll strtoul strtoull"
    " bsearch qsort snprintf vsnprintf"
    " __ctype_b_loc __ctype_tolower_loc __ctype_toupper_loc __errno_location tolower toupper"
    " ceil cosh exp exp2 expm1 fabs floor fmax fmin frexp ldexp log log1p log2 nextafter pow sqrt tanh"
    " clearerr ferror fileno getenv getpid"
    " sigfillset sigprocmask"                  /* of the calling thread, with arguments that are known to be right */
    " pthread_mutex_lock pthread_mutex_unlock" /* of a static mutex that no thread locks twice */
    " json_array json_array_append_new json_array_get json_array_size json_delete json_dumps json_integer"
    " json_integer_value json_load_callback json_object json_object_get json_object_iter json_object_iter_key"
    " json_object_iter_next json_object_iter_value json_object_key_to_iter json_object_set_new json_object_size"
    " json_pack json_string json_string_value"
    " ";

static int in_list(const char *list, const char *name) {
  char spaced[128];
  snprintf(spaced, sizeof spaced, " %s ", name);
  return strstr(list, spaced) != NULL;
}

/* "__memcpy_chk" is memcpy, "__isoc23_strtoul" is strtoul. */
static const char *plain_name(char *name) {
  char *end = name + strlen(name);
  if (strncmp(name, "__isoc", 6) == 0 && strchr(name + 6, '_') != NULL) return strchr(name + 6, '_') + 1;
  if (strncmp(name, "__", 2) != 0 || end - name < 7 || strcmp(end - 4, "_chk") != 0) return name;
  end[-4] = '\0';
  return name + 2;
}

/* Sanitizers, coverage and the like put calls of their own into what they compile. */
static int is_instrumentation(const char *name) {
  return strncmp(name, "__asan_", 7) == 0 || strncmp(name, "__ubsan_", 8) == 0 || strncmp(name, "__tsan_", 7) == 0 ||
         strncmp(name, "__sanitizer_", 12) == 0;
}

enum { MOST_NAMES = 2000 };

typedef struct name_list {
  char *names[MOST_NAMES];
  size_t count;
} name_list;

static int holds(const name_list *list, const char *name) {
  for (size_t i = 0; i < list->count; i++)
    if (strcmp(list->names[i], name) == 0) return 1;
  return 0;
}

/* The symbols of the library that are defined or, with an `U` as type, used. */
static void read_symbols(name_list *defined, name_list *used) {
  static const char command[] = CLATTN_NM " -P " CLATTN_INTERNAL_LIBRARY " 2>/dev/null";
  char line[512], name[256], type;
  FILE *pipe = popen(command, "r"); /* NOLINT(cert-env33-c): the build's own nm on the build's own file */
  cr_assert_not_null(pipe);
  while (fgets(line, sizeof line, pipe) != NULL) {
    if (sscanf(line, "%255s %c", name, &type) != 2) continue;
    name_list *list = type == 'U' ? used : defined;
    if (holds(list, name)) continue;
    cr_assert_lt(list->count, MOST_NAMES);
    list->names[list->count] = strdup(name);
    cr_assert_not_null(list->names[list->count]);
    list->count++;
  }
  cr_assert_eq(pclose(pipe), 0, "%s", command);
}

/* A call that the library begins to make needs a wrapper in fault_calls*.c, or an excuse above. */
Test(faults, every_call_of_the_library_can_fail) {
  static name_list defined, used;
  size_t wrapped = 0;
  read_symbols(&defined, &used);
  for (size_t i = 0; i < used.count; i++) {
    char *name = used.names[i];
    if (holds(&defined, name) || is_instrumentation(name)) continue;
    if (in_list(" " CLATTN_FAULT_NAMES, name)) {
      wrapped++;
      continue;
    }
    cr_expect(in_list(excused, plain_name(name)), "%s can neither fail nor is it excused", name);
  }
  cr_expect_gt(wrapped, 50, "only %zu calls are seen to be wrapped", wrapped);
  for (size_t i = 0; i < defined.count; i++) free(defined.names[i]);
  for (size_t i = 0; i < used.count; i++) free(used.names[i]);
}

/* --------------------------------------------------------------------------------------------------------- accounts */

static void expect_account(const fault_account *before, int same) {
  test_line line = {{0}};
  cr_expect_eq(faults_account_is(before, &line), same, "%s", line.text);
}

Test(faults, memory_is_counted) {
  const fault_account before = faults_held();
  char *blocks[] = {malloc(8), calloc(2, 8), strdup("text"), strndup("text", 2), realloc(NULL, 8)};
  const size_t count = sizeof blocks / sizeof blocks[0];
  cr_expect_eq(faults_held().held[HELD_MEMORY], before.held[HELD_MEMORY] + count);
  char *grown = realloc(blocks[0], 4096);
  cr_assert_not_null(grown);
  blocks[0] = grown;
  cr_expect_eq(faults_held().held[HELD_MEMORY], before.held[HELD_MEMORY] + count);
  for (size_t i = 0; i < count; i++) {
    expect_account(&before, 0);
    free(blocks[i]);
  }
  expect_account(&before, 1);
}

Test(faults, files_are_counted) {
  const fault_account before = faults_held();
  int descriptor = open("/dev/null", O_RDWR);
  cr_assert_geq(descriptor, 0);
  expect_account(&before, 0);
  cr_expect_eq(close(descriptor), 0);
  expect_account(&before, 1);
  descriptor = open("/dev/null", O_RDWR);
  FILE *stream = fdopen(descriptor, "w");
  cr_assert_not_null(stream);
  cr_expect_eq(faults_held().held[HELD_DESCRIPTOR], before.held[HELD_DESCRIPTOR]);
  expect_account(&before, 0);
  cr_expect_eq(fclose(stream), 0);
  expect_account(&before, 1);
}

/* References are counted, not objects; a release too many shows, too. */
Test(faults, objects_are_counted) {
  fault_sweep_begin();
  clattn_context *context = test_context();
  cl_context cl = clattn_context_cl(context);
  cl_int error = CL_SUCCESS;
  const fault_account before = faults_held();
  cl_mem buffer = clCreateBuffer(cl, CL_MEM_READ_WRITE, 16, NULL, &error);
  cr_assert_eq(error, CL_SUCCESS);
  cl_event event = clCreateUserEvent(cl, &error);
  cr_assert_eq(error, CL_SUCCESS);
  cr_expect_eq(clRetainMemObject(buffer), CL_SUCCESS);
  cr_expect_eq(faults_held().held[HELD_BUFFER], before.held[HELD_BUFFER] + 2);
  cr_expect_eq(faults_held().held[HELD_EVENT], before.held[HELD_EVENT] + 1);
  clReleaseMemObject(buffer);
  clReleaseEvent(event);
  expect_account(&before, 0);
  clReleaseMemObject(buffer);
  expect_account(&before, 1);
  clattn_context_destroy(&context);
}

/* ----------------------------------------------------------------------------------------------------------- faults */

static fault_report allocate_four(unsigned nth, int lasting, int got[4]) {
  const fault_plan plan = {.kinds = FAULT_MEMORY, .nth = nth, .lasting = lasting, .code = ENOMEM};
  faults_arm(&plan);
  for (int i = 0; i < 4; i++) {
    void *volatile block = i % 2 ? malloc(8) : calloc(1, 8); /* volatile: compilers may leave out what is not used */
    got[i] = block != NULL;
    free(block);
  }
  return faults_disarm();
}

Test(faults, the_nth_call_fails) {
  int got[4];
  fault_report report = allocate_four(0, 0, got);
  cr_expect(got[0] && got[1] && got[2] && got[3] && !report.fired);
  cr_expect_eq(report.calls, 4);
  report = allocate_four(2, 0, got);
  cr_expect(got[0] && !got[1] && got[2] && got[3] && report.fired);
  cr_expect_str_eq(report.call, "malloc");
  cr_expect_str_eq(report.after, "calloc");
  report = allocate_four(3, 1, got);
  cr_expect(got[0] && got[1] && !got[2] && !got[3] && report.fired);
  cr_expect_str_eq(report.call, "calloc");
  report = allocate_four(5, 0, got);
  cr_expect(got[0] && got[1] && got[2] && got[3] && !report.fired);
}

/* ------------------------------------------------------------------------------------------------------------- sweeps
 * An operation with one call that may fail, and the ways in which it may do wrong. */

enum wrong { NOTHING, SWALLOWS, WRONG_STATUS, NO_MESSAGE, LEAKS, WRITES_FIRST, BREAKS };

typedef struct faulty {
  enum wrong wrong;
  const char *message;
  int output, broken;
} faulty;

static void faulty_prepare(void *user) {
  ((faulty *)user)->output = 0;
}

static clattn_status faulty_run(void *user) {
  faulty *f = user;
  f->message = "";
  if (f->wrong == WRITES_FIRST) f->output = 1;
  void *volatile before = malloc(8), *volatile block = malloc(8);
  if (before != NULL && block != NULL) f->output = 1 + f->broken;
  const int failed = before == NULL || block == NULL;
  if (!failed || f->wrong != LEAKS) free(before);
  free(block);
  if (!failed || f->wrong == SWALLOWS) return CLATTN_SUCCESS;
  if (f->wrong == BREAKS) f->broken = 1;
  if (f->wrong != NO_MESSAGE) f->message = "no memory";
  return f->wrong == WRONG_STATUS ? CLATTN_OPENCL_ERROR : CLATTN_OUT_OF_HOST_MEMORY;
}

static const char *faulty_message(const void *user) {
  return ((const faulty *)user)->message;
}

static int faulty_untouched(void *user, test_line *line) {
  return ((faulty *)user)->output == 0 || test_fail(line, "the output was written");
}

static int faulty_right(void *user, test_line *line) {
  return ((faulty *)user)->output == 1 || test_fail(line, "the output is wrong");
}

static unsigned faulty_sweep(enum wrong wrong, unsigned kinds, test_line *line) {
  faulty f = {.wrong = wrong, .message = ""};
  const fault_operation operation = {.name = "faulty",
                                     .user = &f,
                                     .prepare = faulty_prepare,
                                     .run = faulty_run,
                                     .message = faulty_message,
                                     .untouched = faulty_untouched,
                                     .right = faulty_right};
  return fault_sweep(&operation, kinds, line);
}

Test(faults, sweeps_see_what_is_wrong) {
  static const char *const lines[] = {
      [SWALLOWS] = "swallowed",      [WRONG_STATUS] = "not the status expected", [NO_MESSAGE] = "the message lacks",
      [LEAKS] = "blocks of memory,", [WRITES_FIRST] = "the output was written",  [BREAKS] = "the output is wrong"};
  test_line line = {{0}};
  cr_expect_eq(faulty_sweep(NOTHING, FAULT_MEMORY, &line), 4, "%s", line.text); /* two calls, once and lasting */
  for (int wrong = SWALLOWS; wrong <= BREAKS; wrong++) {
    line.text[0] = '\0';
    cr_expect_eq(faulty_sweep((enum wrong)wrong, FAULT_MEMORY, &line), 0, "%d", wrong);
    cr_expect_not_null(strstr(line.text, lines[wrong]), "'%s' lacks '%s'", line.text, lines[wrong]);
  }
  cr_expect_eq(faulty_sweep(NOTHING, FAULT_OPENCL, &line), 0, "an operation without such calls must fail");
}
