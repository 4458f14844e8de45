/* SPDX-License-Identifier: Apache-2.0
 *
 * The inputs that the fuzz targets start from are what their names say: files "ok_..." are taken, files "bad_..."
 * refused. */
#define _POSIX_C_SOURCE 200809L
#include "io/npy.h"
#include "io/safetensors.h"
#include "support/setup.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <string.h>

static int takes_npy(const char *path, io_error *error) {
  npy_array array;
  const int taken = npy_load(path, &array, error) == IO_OK;
  npy_free(&array);
  return taken;
}

static int takes_safetensors(const char *path, io_error *error) {
  st_file *file = NULL;
  const int taken = st_open(path, &file, error) == IO_OK;
  st_close(&file);
  return taken;
}

/* With two head counts, and as a layer with a prefix. */
static int takes_parameters(const char *path, io_error *error) {
  static const struct {
    const char *prefix;
    size_t heads, kv_heads;
  } ways[] = {{NULL, 4, 2}, {NULL, 2, 0}, {"p.", 4, 2}};
  int taken = 0;
  for (size_t w = 0; w < sizeof ways / sizeof *ways && !taken; w++) {
    clattn_parameters *parameters = NULL;
    taken = clattn_parameters_load(path, ways[w].prefix, CLATTN_NAMING_AUTO, ways[w].heads, ways[w].kv_heads,
                                   &parameters, error->text, sizeof error->text) == CLATTN_SUCCESS;
    clattn_parameters_destroy(&parameters);
  }
  return taken;
}

static void expect_names(const char *target, int (*takes)(const char *path, io_error *error)) {
  char folder[512], path[1024];
  snprintf(folder, sizeof folder, CLATTN_TEST_DATA_DIR "/fuzz/%s", target);
  DIR *entries = opendir(folder);
  cr_assert_not_null(entries, "%s", folder);
  int good = 0, bad = 0;
  for (const struct dirent *entry = readdir(entries); entry; entry = readdir(entries)) {
    const int is_good = strncmp(entry->d_name, "ok_", 3) == 0, is_bad = strncmp(entry->d_name, "bad_", 4) == 0;
    if (!is_good && !is_bad) continue;
    io_error error = {""};
    snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
    cr_expect_eq(takes(path, &error), is_good, "%s/%s: %s", target, entry->d_name, error.text);
    good += is_good;
    bad += is_bad;
  }
  closedir(entries);
  cr_expect(good > 0 && bad > 0, "%s has %d and %d files", folder, good, bad);
}

Test(corpus, npy) {
  expect_names("npy", takes_npy);
}

Test(corpus, safetensors) {
  expect_names("safetensors", takes_safetensors);
}

Test(corpus, parameters) {
  expect_names("parameters", takes_parameters);
}
