/* SPDX-License-Identifier: Apache-2.0
 *
 * Output files that appear all together or not at all.
 */
#define _XOPEN_SOURCE 700
#include "io/npy.h"
#include "io/output.h"
#include "support/files.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <glob.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[FILES_PATH_SIZE];
static output_set *set;
static io_error error;

static void setup(void) {
  files_make_folder(folder);
  cr_assert_eq(output_set_create(&set, &error), IO_OK);
}

static void teardown(void) {
  output_set_destroy(&set);
  cr_assert_null(set);
  files_remove_folder(folder);
}

TestSuite(output, .init = setup, .fini = teardown, .timeout = 60);

/* Paths in the folder, valid until the fourth call after. */
static const char *in_folder(const char *name) {
  static char paths[4][FILES_PATH_SIZE];
  static unsigned next;
  char *path = paths[next++ % 4];
  files_join(path, folder, name);
  return path;
}

static void put(const char *name, const char *text) {
  files_write(in_folder(name), text, strlen(text));
}

static void expect_content(const char *name, const char *text) {
  size_t size;
  char *content = files_read(in_folder(name), &size);
  cr_assert_eq(size, strlen(text), "%s: \"%s\"", name, content);
  cr_assert_str_eq(content, text, "%s", name);
  free(content);
}

static FILE *add_path(const char *path, const char *text) {
  FILE *file;
  cr_assert_eq(output_set_add(set, path, &file, &error), IO_OK, "%s", error.text);
  cr_assert_not_null(file);
  cr_assert_geq(fputs(text, file), 0);
  return file;
}

static FILE *add(const char *name, const char *text) {
  return add_path(in_folder(name), text);
}

static void commit(void) {
  cr_assert_eq(output_set_commit(set, &error), IO_OK, "%s", error.text);
}

/* The path is refused with this text, and nothing is left behind in the folder. */
static void expect_refused(const char *path, io_status expected, const char *fragment) {
  size_t before = files_count(folder);
  FILE *file = stdout;
  io_status status = output_set_add(set, path, &file, &error);
  cr_assert_eq(status, expected, "%s: status %d, \"%s\"", path, status, error.text);
  cr_assert_not_null(strstr(error.text, fragment), "\"%s\" lacks \"%s\"", error.text, fragment);
  cr_assert_null(file);
  cr_assert_eq(files_count(folder), before);
}

static void expect_commit_fails(io_status expected, const char *fragment) {
  io_status status = output_set_commit(set, &error);
  cr_assert_eq(status, expected, "status %d, \"%s\"", status, error.text);
  cr_assert_not_null(strstr(error.text, fragment), "\"%s\" lacks \"%s\"", error.text, fragment);
}

Test(output, appear_together) {
  put("old", "before");
  FILE *old = add("old", "after");
  FILE *new = add("new", "first ");
  cr_assert_eq(fflush(old), 0);
  cr_assert_geq(fputs("second", new), 0);
  cr_assert_eq(fflush(new), 0);
  expect_content("old", "before");
  cr_assert_neq(access(in_folder("new"), F_OK), 0);
  commit();
  expect_content("old", "after");
  expect_content("new", "first second");
  cr_assert_eq(files_count(folder), 2);
  output_set_destroy(&set);
  expect_content("old", "after");
  cr_assert_eq(files_count(folder), 2);
}

Test(output, replaces_several) {
  put("first", "before");
  put("second", "before");
  put("third", "before");
  add("first", "1");
  add("second", "2");
  add("third", "3");
  commit();
  expect_content("first", "1");
  expect_content("second", "2");
  expect_content("third", "3");
  cr_assert_eq(files_count(folder), 3); /* no backup stays */
}

Test(output, nothing_without_commit) {
  put("old", "before");
  add("old", "after");
  add("new", "after");
  cr_assert_eq(files_count(folder), 3);
  output_set_destroy(&set);
  expect_content("old", "before");
  cr_assert_eq(files_count(folder), 1);
}

Test(output, empty_set) {
  commit();
  cr_assert_eq(files_count(folder), 0);
  output_set_destroy(NULL);
}

Test(output, relative_path) {
  cr_assert_eq(chdir(folder), 0);
  add_path("plain", "text");
  commit();
  expect_content("plain", "text");
  cr_assert_eq(chdir("/"), 0);
}

Test(output, output_names_an_input) {
  char input[FILES_PATH_SIZE];
  float values[3] = {1.5f, -0.0f, 3e38f};
  npy_array array = {.type = NPY_F4, .rank = 1, .shape = {3}, .count = 3, .data = values}, read, again;
  FILE *file;
  files_join(input, folder, "x.npy");
  file = fopen(input, "wb");
  cr_assert_eq(npy_save(file, &array, &error), IO_OK, "%s", error.text);
  cr_assert_eq(fclose(file), 0);
  cr_assert_eq(output_set_add(set, input, &file, &error), IO_OK, "%s", error.text);
  cr_assert_eq(npy_load(input, &read, &error), IO_OK, "%s", error.text);
  cr_assert_eq(bytes_differ(read.data, values, sizeof values), 0);
  ((float *)read.data)[0] = 7;
  cr_assert_eq(npy_save(file, &read, &error), IO_OK, "%s", error.text);
  commit();
  cr_assert_eq(npy_load(input, &again, &error), IO_OK, "%s", error.text);
  cr_assert_eq(bytes_differ(again.data, read.data, sizeof values), 0);
  npy_free(&read);
  npy_free(&again);
}

Test(output, permission_bits) {
  mode_t before = umask(027);
  put("kept", "before");
  put("private", "before");
  cr_assert_eq(chmod(in_folder("kept"), 0626), 0);
  cr_assert_eq(chmod(in_folder("private"), 0600), 0);
  add("kept", "after");
  add("private", "after");
  add("new", "after");
  commit();
  umask(before);
  cr_assert_eq(files_mode(in_folder("kept")), 0626, "%o", files_mode(in_folder("kept")));
  cr_assert_eq(files_mode(in_folder("private")), 0600, "%o", files_mode(in_folder("private")));
  cr_assert_eq(files_mode(in_folder("new")), 0640, "%o", files_mode(in_folder("new")));
  expect_content("kept", "after");
}

Test(output, owner_is_kept_if_allowed) {
  struct stat info;
  put("foreign", "before");
  if (geteuid() == 0) cr_assert_eq(chown(in_folder("foreign"), 12345, 54321), 0);
  cr_assert_eq(stat(in_folder("foreign"), &info), 0);
  add("foreign", "after");
  commit();
  struct stat after;
  cr_assert_eq(stat(in_folder("foreign"), &after), 0);
  cr_assert_eq(after.st_uid, info.st_uid);
  cr_assert_eq(after.st_gid, info.st_gid);
  cr_assert_neq(after.st_ino, info.st_ino);
}

static void expect_link(const char *name, const char *leads_to) {
  char link[FILES_PATH_SIZE] = "";
  ssize_t length = readlink(in_folder(name), link, sizeof link - 1);
  cr_assert_eq(length, (ssize_t)strlen(leads_to), "%s", name);
  cr_assert_str_eq(link, leads_to);
}

Test(output, symbolic_links_stay) {
  cr_assert_eq(mkdir(in_folder("sub"), 0700), 0);
  put("sub/target", "before");
  cr_assert_eq(symlink("sub/second", in_folder("first")), 0);
  cr_assert_eq(symlink("target", in_folder("sub/second")), 0);
  cr_assert_eq(symlink("sub/new", in_folder("dangling")), 0);
  cr_assert_eq(symlink(in_folder("sub/absolute_new"), in_folder("absolute")), 0);
  add("first", "after");
  add("dangling", "new");
  add("absolute", "too");
  commit();
  expect_link("first", "sub/second");
  expect_link("sub/second", "target");
  expect_link("dangling", "sub/new");
  expect_content("sub/target", "after");
  expect_content("sub/new", "new");
  expect_content("sub/absolute_new", "too");
  cr_assert_eq(files_count(folder), 4);
  cr_assert_eq(files_count(in_folder("sub")), 4);
}

Test(output, paths_refused) {
  expect_refused("", IO_INVALID, "the name of an output is empty");
  expect_refused(in_folder("missing/y.npy"), IO_INVALID, "missing/y.npy: its folder ");
  expect_refused(in_folder("missing/y.npy"), IO_INVALID, "No such file or directory");
  expect_refused(folder, IO_INVALID, "exists and is a folder");
  expect_refused(in_folder("new/"), IO_INVALID, "new/: names a folder, not a file");
  expect_refused("/dev/null", IO_INVALID, "/dev/null: exists and is no regular file");
  cr_assert_eq(mkfifo(in_folder("fifo"), 0600), 0);
  expect_refused(in_folder("fifo"), IO_INVALID, "fifo: exists and is no regular file");
  cr_assert_eq(symlink("fifo", in_folder("to_fifo")), 0);
  expect_refused(in_folder("to_fifo"), IO_INVALID, "to_fifo: exists and is no regular file");
  cr_assert_eq(symlink("loop", in_folder("loop")), 0);
  expect_refused(in_folder("loop"), IO_INVALID, "Too many levels of symbolic links");
  cr_assert_eq(symlink("missing/y.npy", in_folder("astray")), 0);
  expect_refused(in_folder("astray"), IO_INVALID, "No such file or directory");
  put("file", "text");
  expect_refused(in_folder("file/y.npy"), IO_INVALID, "Not a directory");
  char name[300];
  memset(name, 'n', 256);
  name[256] = '\0';
  expect_refused(in_folder(name), IO_INVALID, "File name too long");
  expect_content("file", "text");
}

Test(output, longest_name) {
  char name[256];
  memset(name, 'n', 255);
  name[255] = '\0';
  add(name, "text");
  commit();
  expect_content(name, "text");
}

Test(output, same_file_twice_refused) {
  cr_assert_eq(mkdir(in_folder("sub"), 0700), 0);
  cr_assert_eq(symlink("y", in_folder("link")), 0);
  cr_assert_eq(symlink(".", in_folder("here")), 0);
  add("y", "text");
  expect_refused(in_folder("y"), IO_INVALID, "y: is the same file as another output, ");
  expect_refused(in_folder("sub/../y"), IO_INVALID, "is the same file as another output");
  expect_refused(in_folder("link"), IO_INVALID, "is the same file as another output");
  expect_refused(in_folder("here/y"), IO_INVALID, "is the same file as another output");
  add("sub/y", "of another folder");
  commit();
  expect_content("y", "text");
  expect_content("sub/y", "of another folder");
}

Test(output, no_permission) {
  uid_t self = geteuid();
  cr_assert_eq(chmod(folder, 0755), 0);
  cr_assert_eq(mkdir(in_folder("open"), 0777), 0);
  cr_assert_eq(chmod(in_folder("open"), 0777), 0);
  put("open/read_only", "before");
  cr_assert_eq(chmod(in_folder("open/read_only"), 0444), 0);
  if (self == 0)
    cr_assert_eq(seteuid(65534), 0); /* root may write everywhere */
  else
    cr_assert_eq(chmod(folder, 0555), 0);
  expect_refused(in_folder("y"), IO_INVALID, "cannot be written to: Permission denied");
  expect_refused(in_folder("open/read_only"), IO_INVALID, "read_only: exists and cannot be written: Permission denied");
  if (self == 0)
    cr_assert_eq(seteuid(self), 0);
  else
    cr_assert_eq(chmod(folder, 0755), 0);
}

/* Lets no file grow beyond `size` bytes, as a full disk would. */
static void limit_file_size(rlim_t size) {
  struct rlimit limit = {.rlim_cur = size, .rlim_max = size};
  cr_assert_neq(signal(SIGXFSZ, SIG_IGN), SIG_ERR);
  cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

Test(output, full_disk_at_flush) {
  static char text[3000];
  put("first", "before");
  memset(text, 'x', sizeof text - 1);
  add("first", "short");
  add("second", text);
  limit_file_size(1000);
  expect_commit_fails(IO_SYSTEM, "second: cannot be written: File too large");
  output_set_destroy(&set);
  expect_content("first", "before");
  cr_assert_eq(files_count(folder), 1);
}

Test(output, full_disk_earlier) {
  static char text[100000];
  put("first", "before");
  memset(text, 'x', sizeof text);
  FILE *file = add("first", "");
  limit_file_size(1000);
  cr_assert_lt(fwrite(text, 1, sizeof text, file), sizeof text);
  cr_assert_neq(ferror(file), 0);
  expect_commit_fails(IO_SYSTEM, "first: ");
  output_set_destroy(&set);
  expect_content("first", "before");
  cr_assert_eq(files_count(folder), 1);
}

/* The name is the file that it was, `before`, and the only one in its folder. */
static void expect_untouched(const char *sub, const char *name, const struct stat *before) {
  struct stat after;
  expect_content(name, "before");
  cr_assert_eq(stat(in_folder(name), &after), 0);
  cr_assert_eq(after.st_ino, before->st_ino);
  cr_assert_eq(after.st_nlink, 1);
  cr_assert_eq(files_count(in_folder(sub)), 1);
}

/* The folder of one output of three vanishes before the commit: the others are what they were, the same file or none,
 * whichever it is and in whichever order they are renamed. */
static void check_restored(int vanishing, int existing) {
  static const char *const names[3] = {"a/y", "b/y", "c/y"}, *const folders[3] = {"a", "b", "c"};
  struct stat before[3];
  for (int i = 0; i < 3; i++) {
    cr_assert_eq(mkdir(in_folder(folders[i]), 0700), 0);
    if (existing) put(names[i], "before");
    cr_assert_eq(stat(in_folder(existing ? names[i] : folders[i]), &before[i]), 0);
    add(names[i], "after");
  }
  files_remove_folder(in_folder(folders[vanishing]));
  expect_commit_fails(IO_INVALID, "y: cannot be replaced: No such file or directory");
  output_set_destroy(&set);
  for (int i = 0; i < 3; i++) {
    if (i == vanishing) continue;
    if (existing)
      expect_untouched(folders[i], names[i], &before[i]);
    else
      cr_assert_eq(files_count(in_folder(folders[i])), 0, "%s", folders[i]);
  }
}

Test(output, first_rename_fails) {
  check_restored(2, 0);
}

Test(output, second_rename_fails) {
  check_restored(1, 0);
}

Test(output, last_rename_fails) {
  check_restored(0, 0);
}

Test(output, first_replacement_fails) {
  check_restored(2, 1);
}

Test(output, second_replacement_fails) {
  check_restored(1, 1);
}

Test(output, last_replacement_fails) {
  check_restored(0, 1);
}

/* The first rename of two fails while its backup and the old file are still one. */
Test(output, temporaries_that_vanish) {
  struct stat after;
  glob_t found;
  add("new", "after");
  put("old", "before");
  add("old", "after");
  cr_assert_eq(glob(in_folder(".clattn-*"), 0, NULL, &found), 0);
  cr_assert_eq(found.gl_pathc, 2);
  for (size_t i = 0; i < found.gl_pathc; i++) cr_assert_eq(unlink(found.gl_pathv[i]), 0);
  globfree(&found);
  expect_commit_fails(IO_INVALID, "cannot be replaced: No such file or directory");
  cr_assert_eq(stat(in_folder("old"), &after), 0);
  cr_assert_eq(after.st_nlink, 1);
  expect_content("old", "before");
  cr_assert_eq(files_count(folder), 1);
}

Test(output, folder_takes_the_name_before_commit) {
  put("other", "before");
  add("y", "after");
  add("other", "after");
  cr_assert_eq(mkdir(in_folder("y"), 0700), 0);
  expect_commit_fails(IO_INVALID, "y: exists and is a folder");
  output_set_destroy(&set);
  expect_content("other", "before");
  cr_assert_eq(files_count(folder), 2);
}

Test(output, closed_after_commit) {
  add("y", "text");
  commit();
  expect_refused(in_folder("z"), IO_INVALID, "z: the set of outputs is closed");
  expect_commit_fails(IO_INVALID, "the set of outputs is closed");
  cr_assert_eq(output_set_abandon(set), 0);
  expect_content("y", "text");
}

Test(output, closed_after_a_failed_commit) {
  cr_assert_eq(mkdir(in_folder("a"), 0700), 0);
  add("a/y", "text");
  files_remove_folder(in_folder("a"));
  expect_commit_fails(IO_INVALID, "cannot be replaced");
  expect_refused(in_folder("z"), IO_INVALID, "the set of outputs is closed");
  expect_commit_fails(IO_INVALID, "the set of outputs is closed");
}

static volatile sig_atomic_t abandoned = -1;

static void on_signal(int number) {
  (void)number;
  abandoned = output_set_abandon(set);
}

Test(output, signal_handler_removes_temporaries) {
  struct sigaction action = {.sa_handler = on_signal};
  put("old", "before");
  add("old", "after");
  add("new", "after");
  cr_assert_eq(files_count(folder), 3);
  cr_assert_eq(sigaction(SIGTERM, &action, NULL), 0);
  errno = 4711;
  cr_assert_eq(raise(SIGTERM), 0);
  cr_assert_eq(errno, 4711);
  cr_assert_eq(abandoned, 1);
  cr_assert_eq(files_count(folder), 1);
  errno = 4711; /* the temporaries are gone by now, so that their removal fails */
  cr_assert_eq(output_set_abandon(set), 1);
  cr_assert_eq(errno, 4711);
  expect_refused(in_folder("z"), IO_INVALID, "the set of outputs is closed");
  expect_commit_fails(IO_INVALID, "the set of outputs is closed");
  errno = 4711;
  output_set_destroy(&set);
  cr_assert_eq(errno, 4711);
  expect_content("old", "before");
  cr_assert_eq(files_count(folder), 1);
}

/* The signal comes while the commit writes: it was first, so nothing is renamed. */
Test(output, signal_during_commit) {
  static char text[3000];
  struct sigaction action = {.sa_handler = on_signal};
  memset(text, 'x', sizeof text - 1);
  put("old", "before");
  add("old", text);
  limit_file_size(1000);
  cr_assert_eq(sigaction(SIGXFSZ, &action, NULL), 0);
  expect_commit_fails(IO_SYSTEM, "interrupted by a signal before the outputs were complete");
  cr_assert_eq(abandoned, 1);
  expect_content("old", "before");
  cr_assert_eq(files_count(folder), 1);
}
