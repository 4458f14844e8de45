/* SPDX-License-Identifier: Apache-2.0 */
#include "dump.h"
#include "io/npy.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void data_path(char path[1024], const char *folder, const char *file) {
  const int length = snprintf(path, 1024, "%s/%s/%s", CLATTN_TEST_DATA_DIR, folder, file);
  cr_assert(length > 0 && length < 1024, "the path of %s/%s is too long", folder, file);
}

static double element(const npy_array *array, size_t i) {
  switch (array->type) {
  case NPY_BOOL:
    return ((const unsigned char *)array->data)[i];
  case NPY_I4:
    return ((const int32_t *)array->data)[i];
  case NPY_F4:
    return (double)((const float *)array->data)[i];
  case NPY_F8:
    return ((const double *)array->data)[i];
  default:
    cr_assert_fail("an array of type %s among the dumps", npy_type_name(array->type));
  }
  return 0;
}

test_dump dump_load(const char *folder, const char *name, int optional) {
  char file[256], path[1024];
  snprintf(file, sizeof file, "%s.npy", name);
  data_path(path, folder, file);
  FILE *there = fopen(path, "rb");
  if (there) fclose(there);
  if (!there && optional) return (test_dump){0};
  npy_array array;
  io_error error;
  cr_assert_eq(npy_load(path, &array, &error), IO_OK, "%s", error.text);
  cr_assert_leq(array.rank, CLATTN_MAX_RANK);
  test_dump dump = {.shape = {.rank = array.rank}, .count = array.count};
  memcpy(dump.shape.extent, array.shape, (size_t)array.rank * sizeof *array.shape);
  dump.values = test_alloc(array.count, sizeof *dump.values);
  for (size_t i = 0; i < array.count; i++) dump.values[i] = element(&array, i);
  npy_free(&array);
  return dump;
}

void dump_release(test_dump *dump) {
  free(dump->values);
  *dump = (test_dump){0};
}
