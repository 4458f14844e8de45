/* SPDX-License-Identifier: Apache-2.0
 *
 * Arrays that an independent program computed, from tests/data. */
#ifndef CLATTN_TESTS_DUMP_H
#define CLATTN_TESTS_DUMP_H

#include "compare.h"

typedef struct test_dump {
  test_shape shape; /* rank 0 if there is no such file */
  size_t count;
  double *values;
} test_dump;

/* Reads tests/data/FOLDER/NAME.npy. A file that is missing fails the test, unless it is optional. */
test_dump dump_load(const char *folder, const char *name, int optional);
void dump_release(test_dump *dump);

/* The path of a file in tests/data. */
void data_path(char path[1024], const char *folder, const char *file);

#endif
