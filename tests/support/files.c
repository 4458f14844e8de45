/* SPDX-License-Identifier: Apache-2.0 */
#define _XOPEN_SOURCE 700
#include "files.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void files_make_folder(char folder[FILES_PATH_SIZE]) {
  const char *base = getenv("TMPDIR");
  snprintf(folder, FILES_PATH_SIZE, "%s/clattn-test-XXXXXX", base != NULL && base[0] != '\0' ? base : "/tmp");
  cr_assert_not_null(mkdtemp(folder), "%s: %s", folder, strerror(errno));
}

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *place) {
  (void)info, (void)kind, (void)place;
  return remove(path);
}

void files_remove_folder(const char *folder) {
  cr_assert_eq(nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS), 0, "%s: %s", folder, strerror(errno));
}

void files_join(char path[FILES_PATH_SIZE], const char *folder, const char *name) {
  int length = snprintf(path, FILES_PATH_SIZE, "%s/%s", folder, name);
  cr_assert(length > 0 && length < FILES_PATH_SIZE, "%s/%s: too long", folder, name);
}

void files_write(const char *path, const void *data, size_t size) {
  FILE *file = fopen(path, "wb");
  cr_assert_not_null(file, "%s: %s", path, strerror(errno));
  cr_assert_eq(fwrite(data, 1, size, file), size);
  cr_assert_eq(fclose(file), 0);
}

char *files_read(const char *path, size_t *size) {
  FILE *file = fopen(path, "rb");
  cr_assert_not_null(file, "%s: %s", path, strerror(errno));
  cr_assert_eq(fseek(file, 0, SEEK_END), 0);
  long end = ftell(file);
  cr_assert_geq(end, 0);
  rewind(file);
  char *data = malloc((size_t)end + 1);
  cr_assert_not_null(data);
  *size = fread(data, 1, (size_t)end, file);
  cr_assert_eq(*size, (size_t)end);
  data[*size] = '\0';
  cr_assert_eq(fclose(file), 0);
  return data;
}

int bytes_differ(const void *left, const void *right, size_t size) {
  return memcmp(left, right, size);
}

size_t files_count(const char *folder) {
  size_t count = 0;
  DIR *open = opendir(folder);
  cr_assert_not_null(open, "%s: %s", folder, strerror(errno));
  for (const struct dirent *entry; (entry = readdir(open)) != NULL;)
    count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
  closedir(open);
  return count;
}

unsigned files_mode(const char *path) {
  struct stat info;
  cr_assert_eq(stat(path, &info), 0, "%s: %s", path, strerror(errno));
  return (unsigned)info.st_mode & 07777u;
}
