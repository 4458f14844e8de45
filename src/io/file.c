/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE   200809L
#define _FILE_OFFSET_BITS 64
#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "a device";
  if (S_ISSOCK(mode)) return "a socket";
  return "no regular file";
}

static io_status check_regular(const char *path, const struct stat *info, io_error *error) {
  if (S_ISREG(info->st_mode)) return IO_OK;
  return io_fail(error, IO_INVALID, "%s: is %s; only regular files can be read", io_path_tail(path),
                 kind_of(info->st_mode));
}

io_status io_file_open(io_file *file, const char *path, io_error *error) {
  struct stat info;
  io_status status;
  *file = (io_file){.descriptor = -1};
  /* Looked at before it is opened, since opening some devices does something; and again behind it, since the path may
   * lead elsewhere by then. O_NONBLOCK: a FIFO that took the file's place must not make us wait for its writer. */
  if (stat(path, &info) != 0) return io_fail_errno(error, errno, "%s: cannot be opened", io_path_tail(path));
  status = check_regular(path, &info, error);
  if (status != IO_OK) return status;
  do {
    file->descriptor = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  } while (file->descriptor < 0 && errno == EINTR);
  if (file->descriptor < 0) return io_fail_errno(error, errno, "%s: cannot be opened", io_path_tail(path));
  if (fstat(file->descriptor, &info) != 0) {
    status = io_fail_errno(error, errno, "%s: cannot be examined", io_path_tail(path));
    goto cleanup;
  }
  status = check_regular(path, &info, error);
  if (status != IO_OK) goto cleanup;
  file->path = strdup(io_path_tail(path));
  if (file->path == NULL) {
    status = io_fail(error, IO_NO_MEMORY, "%s: out of memory", io_path_tail(path));
    goto cleanup;
  }
  file->size = (uint64_t)info.st_size;
cleanup:
  if (status != IO_OK) io_file_close(file);
  return status;
}

io_status io_file_read(const io_file *file, uint64_t offset, void *out, size_t size, io_error *error) {
  const size_t largest = (size_t)1 << 30; /* some systems refuse reads of 2 GiB and more */
  for (size_t done = 0; done < size;) {
    size_t part = size - done < largest ? size - done : largest;
    ssize_t got = pread(file->descriptor, (char *)out + done, part, (off_t)(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      int code = errno;
      io_fail_errno(error, code, "%s: cannot be read at byte %" PRIu64, file->path, offset + done);
      return code == ENOMEM ? IO_NO_MEMORY : IO_SYSTEM;
    }
    if (got == 0)
      return io_fail(error, IO_INVALID, "%s: ends at byte %" PRIu64 " but had %" PRIu64 " bytes when it was opened",
                     file->path, offset + done, file->size);
    done += (size_t)got;
  }
  return IO_OK;
}

void io_file_close(io_file *file) {
  if (file->descriptor >= 0) close(file->descriptor);
  free(file->path);
  *file = (io_file){.descriptor = -1};
}

io_status io_write(FILE *file, const void *data, size_t size, io_error *error) {
  for (size_t done = 0; done < size;) {
    errno = 0;
    done += fwrite((const char *)data + done, 1, size - done, file);
    if (done == size) break;
    int code = errno;
    if (code != EINTR) {
      io_fail_errno(error, code != 0 ? code : EIO, "writing stopped %zu bytes before the end of a piece of %zu bytes",
                    size - done, size);
      return code == ENOMEM ? IO_NO_MEMORY : IO_SYSTEM;
    }
    clearerr(file);
  }
  return IO_OK;
}

int io_shape_count(const size_t *shape, size_t rank, size_t element_size, size_t *count) {
  size_t most = (size_t)PTRDIFF_MAX / element_size, product = 1;
  int empty = 0;
  for (size_t i = 0; i < rank; i++) {
    if (shape[i] == 0) {
      empty = 1;
      continue;
    }
    if (product > most / shape[i]) return 0;
    product *= shape[i];
  }
  *count = empty ? 0 : product;
  return 1;
}
