/* SPDX-License-Identifier: Apache-2.0
 *
 * .npy files: whatever the bytes, npy_load gives an array that is all there, or clears it and says why. What it has
 * loaded, it can save and load again. */
#include "fuzz_input.h"
#include "io/npy.h"

#include <string.h>

static void check_array(const npy_array *array) {
  FUZZ_CHECK(array->rank >= 0 && array->rank <= NPY_MAX_RANK);
  size_t count = 1;
  for (int d = 0; d < array->rank; d++) count *= array->shape[d];
  FUZZ_CHECK(array->count == count);
  FUZZ_CHECK(array->data != NULL && npy_type_size(array->type) > 0);
  fuzz_touch(array->data, array->count * npy_type_size(array->type));
}

/* The bits survive. */
static void check_round_trip(const npy_array *array) {
  const size_t bytes = array->count * npy_type_size(array->type);
  io_error error;
  npy_array again;
  fuzz_file file = fuzz_file_open(NULL, 0);
  FILE *stream = fopen(file.path, "wb");
  FUZZ_CHECK(stream != NULL);
  FUZZ_CHECK(npy_save(stream, array, &error) == IO_OK);
  FUZZ_CHECK(fclose(stream) == 0);
  FUZZ_CHECK(npy_load(file.path, &again, &error) == IO_OK);
  FUZZ_CHECK(again.type == array->type && again.rank == array->rank && again.count == array->count);
  FUZZ_CHECK(memcmp(again.shape, array->shape, (size_t)array->rank * sizeof *array->shape) == 0);
  FUZZ_CHECK(memcmp(again.data, array->data, bytes) == 0);
  npy_free(&again);
  fuzz_file_close(&file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz_file file = fuzz_file_open(data, size);
  io_error error = {""};
  npy_array array;
  memset(&array, 0x55, sizeof array); /* what was there before must not matter */
  const io_status status = npy_load(file.path, &array, &error);
  if (status == IO_OK) {
    check_array(&array);
    check_round_trip(&array);
    npy_free(&array);
  } else {
    FUZZ_CHECK(status == IO_INVALID); /* never a lack of memory: what a header claims is not allocated */
    fuzz_check_line(error.text, sizeof error.text);
  }
  FUZZ_CHECK(array.data == NULL && array.rank == 0 && array.count == 0);
  fuzz_file_close(&file);
  return 0;
}
