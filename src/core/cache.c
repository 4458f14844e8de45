/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L
#include "core/cache.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* ----------------------------------------------------------------------------------------------------------- places */

static int is_set(const char *value) {
  return value != NULL && value[0] != '\0';
}

int cache_path(const char *name, char path[CACHE_PATH_SIZE]) {
  const char *own = getenv("CLATTN_CACHE_DIR"), *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  int length = -1;
  if (is_set(own))
    length = snprintf(path, CACHE_PATH_SIZE, "%s/%s", own, name);
  else if (is_set(xdg) && xdg[0] == '/') /* the XDG base directory specification has others ignored */
    length = snprintf(path, CACHE_PATH_SIZE, "%s/clattn/%s", xdg, name);
  else if (is_set(home))
    length = snprintf(path, CACHE_PATH_SIZE, "%s/.cache/clattn/%s", home, name);
  return length > 0 && length < CACHE_PATH_SIZE;
}

/* Every folder of the path, for the user alone as the specification asks. The last part is the file. */
static void make_folders(char *path) {
  for (char *at = path + 1; *at != '\0'; at++) {
    if (*at != '/') continue;
    *at = '\0';
    (void)mkdir(path, 0700); /* one that cannot be made shows when the file is opened */
    *at = '/';
  }
}

/* ---------------------------------------------------------------------------------------------------------- reading */

static int read_all(int file, char *data, size_t size) {
  for (size_t done = 0; done < size;) {
    ssize_t got = read(file, data + done, size - done);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return 0;
    done += (size_t)got;
  }
  return 1;
}

char *cache_read(const char *name, size_t limit, size_t *size) {
  char path[CACHE_PATH_SIZE];
  char *data = NULL;
  struct stat status;
  if (!cache_path(name, path)) return NULL;
  /* Without waiting: whoever put a pipe there must not stop the program. */
  int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return NULL;
  if (fstat(file, &status) == 0 && S_ISREG(status.st_mode) && status.st_size >= 0 &&
      (uintmax_t)status.st_size <= limit) {
    *size = (size_t)status.st_size;
    data = malloc(*size + 1);
    if (data != NULL && !read_all(file, data, *size)) {
      free(data);
      data = NULL;
    }
    if (data != NULL) data[*size] = '\0';
  }
  (void)close(file);
  return data;
}

/* ---------------------------------------------------------------------------------------------------------- writing */

static int write_all(int file, const char *data, size_t size) {
  for (size_t done = 0; done < size;) {
    ssize_t put = write(file, data + done, size - done);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return 0;
    done += (size_t)put;
  }
  return 1;
}

int cache_write(const char *name, const void *data, size_t size) {
  char path[CACHE_PATH_SIZE], temporary[CACHE_PATH_SIZE + 8];
  if (!cache_path(name, path)) return 0;
  make_folders(path);
  (void)snprintf(temporary, sizeof temporary, "%s.XXXXXX", path);
  int file = mkstemp(temporary);
  if (file < 0) return 0;
  int good = write_all(file, data, size);
  good &= close(file) == 0;
  good = good && rename(temporary, path) == 0;
  if (!good) (void)unlink(temporary);
  return good;
}

uint64_t cache_hash(uint64_t before, const void *data, size_t size) {
  const unsigned char *bytes = data;
  uint64_t hash = before;
  for (size_t i = 0; i < size; i++) hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
  return hash;
}
