/* SPDX-License-Identifier: Apache-2.0
 *
 * What the fuzz targets share: an input as a file, and checks that end the process, which is how libFuzzer learns of a
 * defect. */
#ifndef CLATTN_TESTS_FUZZ_INPUT_H
#define CLATTN_TESTS_FUZZ_INPUT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* libFuzzer's entry point. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FUZZ_CHECK(condition)                                                                                          \
  do {                                                                                                                 \
    if (!(condition)) {                                                                                                \
      fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition);                                   \
      abort();                                                                                                         \
    }                                                                                                                  \
  } while (0)

/* A regular file in memory that holds the input. */
typedef struct fuzz_file {
  int descriptor;
  char path[64];
} fuzz_file;

fuzz_file fuzz_file_open(const uint8_t *data, size_t size);
void fuzz_file_close(fuzz_file *file);

/* A message is one line that a terminal can be shown: not empty, no control characters. */
void fuzz_check_line(const char *text, size_t size);

/* Reads all bytes, so that AddressSanitizer sees those that are not there. */
void fuzz_touch(const void *data, size_t size);

#endif
