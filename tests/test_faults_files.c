/* SPDX-License-Identifier: Apache-2.0
 *
 * Faults below parameters and files: made from arrays and at random, loaded and saved; arrays; sets of outputs. */
#define _POSIX_C_SOURCE 200809L
#include "io/file.h"
#include "io/npy.h"
#include "io/output.h"
#include "support/compare.h"
#include "support/fault_sweep.h"
#include "support/files.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MESSAGE_SIZE = 1024 };

/* Every name has this in it, and so has every message about a file (fault_expected_name). */
#define NAME "file-of-the-test"

static char folder[FILES_PATH_SIZE];

static void begin(void) {
  faults_take_jansson();
  /* In memory, where there is a place for that: disks are slow to replace a file hundreds of times. */
  if (access("/dev/shm", W_OK | X_OK) == 0) cr_assert_eq(setenv("TMPDIR", "/dev/shm", 0), 0);
  files_make_folder(folder);
}

static void end(void) {
  files_remove_folder(folder);
}

TestSuite(faults_files, .init = begin, .fini = end, .timeout = 120);

/* ------------------------------------------------------------------------------------------------------- parameters */

typedef struct parameters_state {
  char path[FILES_PATH_SIZE];
  const clattn_parameters *want;
  clattn_parameters *made;
  clattn_mha_config config;
  clattn_naming naming;
  const char *before; /* what the file holds before it is saved to; NULL: there is none */
  char *after;        /* what it holds then */
  size_t after_size;
  char message[MESSAGE_SIZE];
} parameters_state;

static const char *parameters_message(const void *user) {
  return ((const parameters_state *)user)->message;
}

static void forget_parameters(void *user) {
  ((parameters_state *)user)->made = (clattn_parameters *)user; /* must become NULL */
}

static int parameters_are_null(void *user, test_line *line) {
  return ((parameters_state *)user)->made == NULL || test_fail(line, "*parameters is not NULL");
}

static size_t parameter_size(const clattn_parameters *parameters, int which) {
  clattn_mha_config c;
  clattn_parameters_config(parameters, &c);
  const size_t q = c.heads * c.head_dim, k = c.kv_heads * c.head_dim, v = c.kv_heads * c.value_head_dim;
  const size_t sizes[CLATTN_PARAMETER_COUNT] = {
      q * c.embed_dim, k * c.kdim, v * c.vdim, c.out_dim * c.heads * c.value_head_dim, q, k, v, c.out_dim, k, v};
  return sizes[which] * sizeof(float);
}

static int parameters_right(void *user, test_line *line) {
  const parameters_state *s = user;
  if (clattn_parameters_type(s->made) != CLATTN_FLOAT32) return test_fail(line, "not float32");
  for (int which = 0; which < CLATTN_PARAMETER_COUNT; which++) {
    const void *got = clattn_parameters_data(s->made, (clattn_parameter)which);
    const void *want = clattn_parameters_data(s->want, (clattn_parameter)which);
    if ((got != NULL) != (want != NULL)) return test_fail(line, "parameter %d is given or not", which);
    if (want != NULL && !compare_bits("a parameter", got, want, parameter_size(s->want, which), line)) return 0;
  }
  return 1;
}

static void destroy_parameters(void *user) {
  clattn_parameters_destroy(&((parameters_state *)user)->made);
}

static clattn_status draw(void *user) {
  parameters_state *s = user;
  return clattn_parameters_random(&s->config, NULL, 5, &s->made, s->message, sizeof s->message);
}

static clattn_status copy(void *user) {
  parameters_state *s = user;
  const void *arrays[CLATTN_PARAMETER_COUNT];
  for (int which = 0; which < CLATTN_PARAMETER_COUNT; which++)
    arrays[which] = clattn_parameters_data(s->want, (clattn_parameter)which);
  return clattn_parameters_create(&s->config, CLATTN_FLOAT32, arrays, &s->made, s->message, sizeof s->message);
}

static clattn_status load(void *user) {
  parameters_state *s = user;
  return clattn_parameters_load(s->path, "layer.", CLATTN_NAMING_AUTO, 2, 0, &s->made, s->message, sizeof s->message);
}

static clattn_status save(void *user) {
  parameters_state *s = user;
  return clattn_parameters_save(s->want, s->path, "layer.", s->naming, s->message, sizeof s->message);
}

/* A layer with all that naming torch has a place for, and the path of a file that does not exist. */
static parameters_state make_state(void) {
  parameters_state s = {.naming = CLATTN_NAMING_TORCH};
  clattn_mha_config_init(&s.config);
  s.config.embed_dim = 6;
  s.config.heads = 2;
  s.config.bias_kv = 1;
  files_join(s.path, folder, NAME ".safetensors");
  cr_assert_eq(draw(&s), CLATTN_SUCCESS, "%s", s.message);
  s.want = s.made;
  return s;
}

static void sweep_making(parameters_state *s, const char *name, clattn_status (*run)(void *), unsigned kinds) {
  clattn_parameters *want = s->made;
  const fault_operation operation = {.name = name,
                                     .user = s,
                                     .prepare = forget_parameters,
                                     .run = run,
                                     .message = parameters_message,
                                     .untouched = parameters_are_null,
                                     .right = parameters_right,
                                     .release = destroy_parameters};
  EXPECT_SWEEP(&operation, kinds);
  clattn_parameters_destroy(&want);
}

Test(faults_files, drawing_parameters) {
  parameters_state s = make_state();
  sweep_making(&s, "draw parameters", draw, FAULT_MEMORY);
}

Test(faults_files, copying_parameters) {
  parameters_state s = make_state();
  sweep_making(&s, "copy parameters", copy, FAULT_MEMORY);
}

Test(faults_files, loading_stacked_parameters) {
  parameters_state s = make_state();
  cr_assert_eq(save(&s), CLATTN_SUCCESS, "%s", s.message);
  sweep_making(&s, "load parameters", load, FAULT_MEMORY | FAULT_FILE);
  EXPECT_EXCEPTIONS("load parameters");
}

Test(faults_files, loading_separate_parameters) {
  parameters_state s = make_state();
  clattn_parameters_destroy(&s.made);
  s.config.bias_kv = 0;
  cr_assert_eq(draw(&s), CLATTN_SUCCESS, "%s", s.message);
  s.want = s.made;
  s.naming = CLATTN_NAMING_LLAMA;
  cr_assert_eq(save(&s), CLATTN_SUCCESS, "%s", s.message);
  sweep_making(&s, "load parameters", load, FAULT_MEMORY | FAULT_FILE);
  EXPECT_EXCEPTIONS("load parameters");
}

/* ----------------------------------------------------------------------------------------------------------- saving */

static void before_saving(void *user) {
  const parameters_state *s = user;
  (void)remove(s->path); /* quicker than to empty it: some file systems write that to the disk at once */
  if (s->before != NULL) files_write(s->path, s->before, strlen(s->before));
}

/* The folder is as it was: no temporary file is left, either. */
static int file_untouched(void *user, test_line *line) {
  const parameters_state *s = user;
  const size_t files = files_count(folder);
  if (files != (s->before != NULL)) return test_fail(line, "%zu files in the folder", files);
  if (s->before == NULL) return 1;
  size_t size = 0;
  char *content = files_read(s->path, &size);
  const int same = size == strlen(s->before) && memcmp(content, s->before, size) == 0;
  free(content);
  return same || test_fail(line, "the file was written");
}

static int file_right(void *user, test_line *line) {
  parameters_state *s = user;
  if (files_count(folder) != 1) return test_fail(line, "%zu files in the folder", files_count(folder));
  size_t size = 0;
  char *content = files_read(s->path, &size);
  if (s->after == NULL) { /* the first run */
    s->after = content;
    s->after_size = size;
    return 1;
  }
  const int same = size == s->after_size && memcmp(content, s->after, size) == 0;
  free(content);
  return same || test_fail(line, "the file is wrong");
}

static void sweep_saving(const char *before, const char *name) {
  parameters_state s = make_state();
  s.before = before;
  const fault_operation operation = {.name = name,
                                     .user = &s,
                                     .prepare = before_saving,
                                     .run = save,
                                     .message = parameters_message,
                                     .untouched = file_untouched,
                                     .right = file_right};
  EXPECT_SWEEP(&operation, FAULT_MEMORY | FAULT_FILE);
  /* What was saved last is what was to be saved. */
  clattn_parameters *want = s.made;
  cr_expect_eq(load(&s), CLATTN_SUCCESS, "%s", s.message);
  test_line line = {{0}};
  cr_expect(parameters_right(&s, &line), "%s", line.text);
  destroy_parameters(&s);
  clattn_parameters_destroy(&want);
  free(s.after);
}

Test(faults_files, saving_parameters) {
  sweep_saving(NULL, "save parameters");
}

Test(faults_files, saving_parameters_over_a_file) {
  sweep_saving("what was there before", "save parameters over a file");
}

/* ----------------------------------------------------------------------------------------------------------- arrays */

typedef struct array_state {
  char path[FILES_PATH_SIZE];
  npy_array array;
  io_error error;
} array_state;

/* The library's statuses for those of src/io: its own translation hides in the loading of parameters. */
static clattn_status status_of(io_status status) {
  static const clattn_status statuses[] = {[IO_OK] = CLATTN_SUCCESS,
                                           [IO_INVALID] = CLATTN_INVALID_FILE,
                                           [IO_NO_MEMORY] = CLATTN_OUT_OF_HOST_MEMORY,
                                           [IO_SYSTEM] = CLATTN_FILE_ERROR};
  return statuses[status];
}

static const char *array_message(const void *user) {
  return ((const array_state *)user)->error.text;
}

static void forget_array(void *user) {
  array_state *s = user;
  s->array = (npy_array){.data = s};
  s->error.text[0] = '\0';
}

static clattn_status load_array(void *user) {
  array_state *s = user;
  return status_of(npy_load(s->path, &s->array, &s->error));
}

static int array_is_clear(void *user, test_line *line) {
  const array_state *s = user;
  return (s->array.data == NULL && s->array.count == 0) || test_fail(line, "the array is not clear");
}

/* Its values are their own indices, as NumPy stores them. */
static int array_right(void *user, test_line *line) {
  const array_state *s = user;
  const float *data = s->array.data;
  if (s->array.count != 6 || s->array.rank != 2) return test_fail(line, "%zu values", s->array.count);
  for (size_t i = 0; i < 6; i++)
    if (data[i] != (float)i) return test_fail(line, "value %zu is %g", i, (double)data[i]);
  return 1;
}

static void free_array(void *user) {
  npy_free(&((array_state *)user)->array);
}

/* [2,3] in C and in Fortran order. */
static void sweep_array(int fortran) {
  const float rows[6] = {0, 1, 2, 3, 4, 5}, columns[6] = {0, 3, 1, 4, 2, 5};
  unsigned char bytes[128 + sizeof rows];
  array_state s;
  files_join(s.path, folder, NAME ".npy");
  memset(bytes, ' ', 128);
  memcpy(bytes, "\x93NUMPY\x01\x00\x76\x00", 10);
  const char *header = fortran ? "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }"
                               : "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";
  memcpy(bytes + 10, header, strlen(header));
  bytes[127] = '\n';
  memcpy(bytes + 128, fortran ? columns : rows, sizeof rows);
  files_write(s.path, bytes, sizeof bytes);
  const fault_operation operation = {.name = "load an array",
                                     .user = &s,
                                     .prepare = forget_array,
                                     .run = load_array,
                                     .message = array_message,
                                     .untouched = array_is_clear,
                                     .right = array_right,
                                     .release = free_array};
  EXPECT_SWEEP(&operation, FAULT_MEMORY | FAULT_FILE);
}

Test(faults_files, loading_arrays) {
  sweep_array(0);
  sweep_array(1);
}

/* -------------------------------------------------------------------------------------------------- sets of outputs */

enum { OUTPUTS = 3 };

/* The first and the last replace a file, the one between is new. */
typedef struct set_state {
  char path[OUTPUTS][FILES_PATH_SIZE];
  io_error error;
} set_state;

static const char old_content[] = "before", *const new_content[OUTPUTS] = {"first", "second", "third"};

static const char *set_message(const void *user) {
  return ((const set_state *)user)->error.text;
}

/* Also takes away what a fault may have left: see `set_partial`. */
static void before_set(void *user) {
  set_state *s = user;
  files_remove_folder(folder);
  files_make_folder(folder);
  for (int i = 0; i < OUTPUTS; i++) {
    char name[64];
    snprintf(name, sizeof name, NAME "-%d", i);
    files_join(s->path[i], folder, name);
    if (i != 1) files_write(s->path[i], old_content, strlen(old_content));
  }
  s->error.text[0] = '\0';
}

static clattn_status write_set(void *user) {
  set_state *s = user;
  output_set *set = NULL;
  io_status status = output_set_create(&set, &s->error);
  for (int i = 0; i < OUTPUTS && status == IO_OK; i++) {
    FILE *file = NULL;
    status = output_set_add(set, s->path[i], &file, &s->error);
    if (status != IO_OK) break;
    status = io_write(file, new_content[i], strlen(new_content[i]), &s->error);
    if (status != IO_OK) { /* io_write knows the stream alone */
      const io_error error = s->error;
      snprintf(s->error.text, sizeof s->error.text, "%s: %.200s", s->path[i], error.text);
    }
  }
  if (status == IO_OK) status = output_set_commit(set, &s->error);
  output_set_destroy(&set);
  return status_of(status);
}

static int has_content(const char *path, const char *want, test_line *line) {
  size_t size = 0;
  char *content = files_read(path, &size);
  const int same = strcmp(content, want) == 0;
  if (!same) test_fail(line, "%s holds '%s', not '%s'", path, content, want);
  free(content);
  return same;
}

static int set_untouched(void *user, test_line *line) {
  const set_state *s = user;
  const size_t files = files_count(folder);
  if (files != OUTPUTS - 1) return test_fail(line, "%zu files in the folder", files);
  return has_content(s->path[0], old_content, line) && has_content(s->path[2], old_content, line);
}

static int contents_right(const set_state *s, test_line *line) {
  for (int i = 0; i < OUTPUTS; i++)
    if (!has_content(s->path[i], new_content[i], line)) return 0;
  return 1;
}

static int set_right(void *user, test_line *line) {
  const size_t files = files_count(folder);
  return contents_right(user, line) && (files == OUTPUTS || test_fail(line, "%zu files in the folder", files));
}

/* A backup that cannot be removed stays. */
static int set_partial(void *user, const fault_report *report, test_line *line) {
  (void)report;
  return contents_right(user, line) &&
         (files_count(folder) == OUTPUTS + 1 || test_fail(line, "%zu files in the folder", files_count(folder)));
}

Test(faults_files, sets_of_outputs) {
  set_state s;
  const fault_operation operation = {.name = "write outputs",
                                     .user = &s,
                                     .prepare = before_set,
                                     .run = write_set,
                                     .message = set_message,
                                     .untouched = set_untouched,
                                     .right = set_right,
                                     .partial = set_partial};
  EXPECT_SWEEP(&operation, FAULT_MEMORY | FAULT_FILE);
  EXPECT_EXCEPTIONS("write outputs");
}
