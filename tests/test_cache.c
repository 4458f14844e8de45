/* SPDX-License-Identifier: Apache-2.0
 *
 * The cache folder: where it is, and files that are there whole or not at all. */
#define _POSIX_C_SOURCE 200809L
#include "core/cache.h"
#include "support/files.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void expect_path(const char *own, const char *xdg, const char *home, const char *want) {
  char path[CACHE_PATH_SIZE] = "";
  const char *names[3] = {"CLATTN_CACHE_DIR", "XDG_CACHE_HOME", "HOME"}, *values[3] = {own, xdg, home};
  for (int i = 0; i < 3; i++) {
    if (values[i])
      setenv(names[i], values[i], 1);
    else
      unsetenv(names[i]);
  }
  cr_expect_eq(cache_path("f", path), want != NULL);
  if (want) cr_expect_str_eq(path, want);
}

Test(cache, folder) {
  expect_path("/own", "/xdg", "/home/me", "/own/f");
  expect_path("own", "/xdg", "/home/me", "own/f");
  expect_path(NULL, "/xdg", "/home/me", "/xdg/clattn/f");
  expect_path("", "/xdg", "/home/me", "/xdg/clattn/f");
  expect_path(NULL, "xdg", "/home/me", "/home/me/.cache/clattn/f"); /* no absolute path: to be ignored */
  expect_path(NULL, NULL, "/home/me", "/home/me/.cache/clattn/f");
  expect_path(NULL, "", "/home/me", "/home/me/.cache/clattn/f");
  expect_path(NULL, NULL, NULL, NULL);
  expect_path(NULL, NULL, "", NULL);
  char path[CACHE_PATH_SIZE], far[CACHE_PATH_SIZE + 1];
  memset(far, 'x', CACHE_PATH_SIZE);
  far[CACHE_PATH_SIZE] = '\0';
  setenv("CLATTN_CACHE_DIR", far, 1);
  cr_expect_eq(cache_path("f", path), 0);
  cr_expect_eq(cache_write("f", "x", 1), 0);
}

Test(cache, files) {
  char folder[FILES_PATH_SIZE], deep[FILES_PATH_SIZE + 16], path[FILES_PATH_SIZE];
  size_t size = 0;
  files_make_folder(folder);
  snprintf(deep, sizeof deep, "%s/a/b/c", folder);
  setenv("CLATTN_CACHE_DIR", deep, 1);
  cr_expect_null(cache_read("f", 100, &size));
  cr_assert_eq(cache_write("f", "12345", 5), 1);
  char *text = cache_read("f", 100, &size);
  cr_assert_not_null(text);
  cr_expect(size == 5 && strcmp(text, "12345") == 0);
  free(text);
  cr_assert_eq(cache_write("f", "6", 1), 1);
  text = cache_read("f", 1, &size);
  cr_assert_not_null(text);
  cr_expect_str_eq(text, "6");
  free(text);
  cr_expect_null(cache_read("f", 0, &size)); /* larger than the limit */
  cr_expect_eq(files_count(deep), 1);        /* nothing temporary is left */
  files_join(path, folder, "a");
  cr_expect_eq(files_mode(path), 0700u);
  /* The name is taken by a folder. */
  snprintf(deep, sizeof deep, "%s/a", folder);
  setenv("CLATTN_CACHE_DIR", deep, 1);
  cr_expect_eq(cache_write("b", "x", 1), 0);
  cr_expect_null(cache_read("b", 100, &size));
  cr_expect_eq(files_count(deep), 1);
  files_remove_folder(folder);
}

/* Test vectors of its authors, of "" and "foobar". */
Test(cache, hash) {
  cr_expect_eq(cache_hash(CACHE_HASH_START, "", 0), UINT64_C(0xcbf29ce484222325));
  cr_expect_eq(cache_hash(CACHE_HASH_START, "foobar", 6), UINT64_C(0x85944171f73967e8));
  cr_expect_eq(cache_hash(cache_hash(CACHE_HASH_START, "foo", 3), "bar", 3), UINT64_C(0x85944171f73967e8));
}
