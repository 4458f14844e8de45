/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* memfd_create */
#include "fuzz_input.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

fuzz_file fuzz_file_open(const uint8_t *data, size_t size) {
  fuzz_file file = {.descriptor = memfd_create("fuzz", MFD_CLOEXEC)};
  FUZZ_CHECK(file.descriptor >= 0);
  for (size_t done = 0; done < size;) {
    const ssize_t written = write(file.descriptor, data + done, size - done);
    FUZZ_CHECK(written > 0);
    done += (size_t)written;
  }
  snprintf(file.path, sizeof file.path, "/proc/self/fd/%d", file.descriptor);
  return file;
}

void fuzz_file_close(fuzz_file *file) {
  FUZZ_CHECK(close(file->descriptor) == 0);
  file->descriptor = -1;
}

void fuzz_check_line(const char *text, size_t size) {
  const size_t length = strnlen(text, size);
  FUZZ_CHECK(length > 0 && length < size);
  for (size_t i = 0; i < length; i++) FUZZ_CHECK((unsigned char)text[i] >= 0x20 && text[i] != 0x7f);
}

void fuzz_touch(const void *data, size_t size) {
  const volatile unsigned char *bytes = data;
  for (size_t i = 0; i < size; i++) (void)bytes[i];
}
