/* SPDX-License-Identifier: Apache-2.0
 *
 * Wrappers of the C library: memory and files. Functions whose name ends in 64 are what large files make of the others.
 * A close that is to fail closes all the same, as the system's does. */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>
#include <time.h>

#include "fault_calls.h"

#define DECLARE(type, call, parameters)                                                                                \
  type __real_##call parameters;                                                                                       \
  type __wrap_##call parameters;

/* A function that answers a new block of memory. */
#define WRAP_MEMORY(call, parameters, arguments)                                                                       \
  DECLARE(void *, call, parameters)                                                                                    \
  void *__wrap_##call parameters {                                                                                     \
    if (fault_system(FAULT_MEMORY, #call)) return NULL;                                                                \
    void *made = __real_##call arguments;                                                                              \
    if (made != NULL) fault_hold(HELD_MEMORY, made);                                                                   \
    return made;                                                                                                       \
  }

/* A function that answers `failure` and sets errno when it fails; `name` is what tests call it. */
#define WRAP_SYSTEM(call, name, type, failure, parameters, arguments)                                                  \
  DECLARE(type, call, parameters)                                                                                      \
  type __wrap_##call parameters {                                                                                      \
    return fault_system(FAULT_FILE, name) ? failure : __real_##call arguments;                                         \
  }

/* ----------------------------------------------------------------------------------------------------------- memory */

WRAP_MEMORY(malloc, (size_t size), (size))
WRAP_MEMORY(calloc, (size_t count, size_t size), (count, size))
WRAP_MEMORY(strdup, (const char *text), (text))
WRAP_MEMORY(strndup, (const char *text, size_t length), (text, length))

/* A function that needs more; the body follows. */
#define WRAP_OTHER(call, type, parameters) DECLARE(type, call, parameters) type __wrap_##call parameters

WRAP_OTHER(free, void, (void *memory)) {
  if (memory != NULL) fault_drop(HELD_MEMORY, memory);
  __real_free(memory);
}

WRAP_OTHER(realloc, void *, (void *memory, size_t size)) {
  if (fault_system(FAULT_MEMORY, "realloc")) return NULL;
  void *made = __real_realloc(memory, size);
  if (made == NULL) return NULL;
  if (memory != NULL) fault_drop(HELD_MEMORY, memory);
  fault_hold(HELD_MEMORY, made);
  return made;
}

/* ------------------------------------------------------------------------------------------------------------ files */

/* Descriptors in the account: 0 is one of them, so they are told from NULL. */
static const void *handle_of(int descriptor) {
  return (const void *)((uintptr_t)descriptor * 16 + 1);
}

static int hold_descriptor(int descriptor) {
  if (descriptor >= 0) fault_hold(HELD_DESCRIPTOR, handle_of(descriptor));
  return descriptor;
}

static mode_t read_mode(int flags, va_list arguments) {
  return (flags & O_CREAT) != 0 ? va_arg(arguments, mode_t) : 0;
}

#define OPEN_BODY(call)                                                                                                \
  va_list arguments;                                                                                                   \
  va_start(arguments, flags);                                                                                          \
  const mode_t mode = read_mode(flags, arguments);                                                                     \
  va_end(arguments);                                                                                                   \
  return fault_system(FAULT_FILE, "open") ? -1 : hold_descriptor(call(path, flags, mode))

WRAP_OTHER(open, int, (const char *path, int flags, ...)) {
  OPEN_BODY(__real_open);
}

WRAP_OTHER(open64, int, (const char *path, int flags, ...)) {
  OPEN_BODY(__real_open64);
}

WRAP_OTHER(mkstemp, int, (char *path)) {
  return fault_system(FAULT_FILE, "mkstemp") ? -1 : hold_descriptor(__real_mkstemp(path));
}

WRAP_OTHER(mkstemp64, int, (char *path)) {
  return fault_system(FAULT_FILE, "mkstemp") ? -1 : hold_descriptor(__real_mkstemp64(path));
}

WRAP_OTHER(close, int, (int descriptor)) {
  const int fails = fault_system(FAULT_FILE, "close");
  fault_drop(HELD_DESCRIPTOR, handle_of(descriptor));
  const int result = __real_close(descriptor);
  if (!fails) return result;
  errno = fault_code();
  return -1;
}

/* The stream takes the descriptor over. */
WRAP_OTHER(fdopen, FILE *, (int descriptor, const char *mode)) {
  if (fault_system(FAULT_FILE, "fdopen")) return NULL;
  FILE *stream = __real_fdopen(descriptor, mode);
  if (stream == NULL) return NULL;
  fault_drop(HELD_DESCRIPTOR, handle_of(descriptor));
  fault_hold(HELD_STREAM, stream);
  return stream;
}

WRAP_OTHER(fclose, int, (FILE * stream)) {
  const int fails = fault_system(FAULT_FILE, "fclose");
  fault_drop(HELD_STREAM, stream);
  const int result = __real_fclose(stream);
  if (!fails) return result;
  errno = fault_code();
  return EOF;
}

/* Files of tests need not reach the disk, which takes long. */
WRAP_OTHER(fsync, int, (int descriptor)) {
  (void)descriptor;
  return fault_system(FAULT_FILE, "fsync") ? -1 : 0;
}

WRAP_SYSTEM(stat, "stat", int, -1, (const char *path, void *info), (path, info))
WRAP_SYSTEM(stat64, "stat", int, -1, (const char *path, void *info), (path, info))
WRAP_SYSTEM(lstat, "lstat", int, -1, (const char *path, void *info), (path, info))
WRAP_SYSTEM(lstat64, "lstat", int, -1, (const char *path, void *info), (path, info))
WRAP_SYSTEM(fstat, "fstat", int, -1, (int descriptor, void *info), (descriptor, info))
WRAP_SYSTEM(fstat64, "fstat", int, -1, (int descriptor, void *info), (descriptor, info))
WRAP_SYSTEM(pread, "pread", ssize_t, -1, (int descriptor, void *out, size_t size, off_t at),
            (descriptor, out, size, at))
WRAP_SYSTEM(pread64, "pread", ssize_t, -1, (int descriptor, void *out, size_t size, int64_t at),
            (descriptor, out, size, at))
WRAP_SYSTEM(read, "read", ssize_t, -1, (int descriptor, void *out, size_t size), (descriptor, out, size))
WRAP_SYSTEM(write, "write", ssize_t, -1, (int descriptor, const void *data, size_t size), (descriptor, data, size))
WRAP_SYSTEM(mkdir, "mkdir", int, -1, (const char *path, mode_t mode), (path, mode))
WRAP_SYSTEM(readlink, "readlink", ssize_t, -1, (const char *path, char *out, size_t size), (path, out, size))
WRAP_SYSTEM(faccessat, "faccessat", int, -1, (int folder, const char *path, int mode, int flags),
            (folder, path, mode, flags))
WRAP_SYSTEM(fchown, "fchown", int, -1, (int descriptor, uid_t owner, gid_t group), (descriptor, owner, group))
WRAP_SYSTEM(fchmod, "fchmod", int, -1, (int descriptor, mode_t mode), (descriptor, mode))
WRAP_SYSTEM(fwrite, "fwrite", size_t, 0, (const void *data, size_t size, size_t count, FILE *stream),
            (data, size, count, stream))
WRAP_SYSTEM(fflush, "fflush", int, EOF, (FILE * stream), (stream))
WRAP_SYSTEM(link, "link", int, -1, (const char *from, const char *to), (from, to))
WRAP_SYSTEM(rename, "rename", int, -1, (const char *from, const char *to), (from, to))
WRAP_SYSTEM(unlink, "unlink", int, -1, (const char *path), (path))
WRAP_SYSTEM(clock_gettime, "clock_gettime", int, -1, (clockid_t clock, struct timespec *now), (clock, now))
