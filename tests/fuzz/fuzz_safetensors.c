/* SPDX-License-Identifier: Apache-2.0
 *
 * .safetensors files: whatever the bytes, st_open gives a list of tensors whose data fill the file, or none and says
 * why. Every tensor can be read, or is refused in words, alike in both widths. */
#include "fuzz_input.h"
#include "io/safetensors.h"

#include <string.h>

static int is_readable(const st_tensor *tensor) {
  return tensor->type != ST_OTHER && tensor->rank <= ST_MAX_RANK;
}

static void read_tensor(st_file *file, const st_tensor *tensor, size_t file_size) {
  io_error error = {""};
  const size_t count = st_elements(tensor);
  if (!is_readable(tensor)) {
    float none;
    FUZZ_CHECK(st_read_f32(file, tensor, &none, &error) == IO_INVALID);
    fuzz_check_line(error.text, sizeof error.text);
    return;
  }
  FUZZ_CHECK(count <= file_size);
  float *narrow = malloc(count * sizeof *narrow + 1);
  double *wide = malloc(count * sizeof *wide + 1);
  FUZZ_CHECK(narrow != NULL && wide != NULL);
  FUZZ_CHECK(st_read_f64(file, tensor, wide, &error) == IO_OK);
  const io_status status = st_read_f32(file, tensor, narrow, &error);
  FUZZ_CHECK(status == (tensor->type == ST_F64 ? IO_INVALID : IO_OK));
  for (size_t i = 0; i < count && status == IO_OK; i++)
    FUZZ_CHECK((double)narrow[i] == wide[i] || (narrow[i] != narrow[i] && wide[i] != wide[i]));
  free(narrow);
  free(wide);
}

/* Tensors in the order of their data, one behind the other. */
static void check_list(st_file *file, size_t file_size) {
  uint64_t end = 0;
  for (size_t i = 0; i < st_count(file); i++) {
    const st_tensor *tensor = st_at(file, i);
    FUZZ_CHECK(tensor->begin == end && tensor->end >= tensor->begin && tensor->end <= file_size);
    FUZZ_CHECK(strlen(tensor->dtype) < sizeof tensor->dtype && tensor->rank >= 0);
    FUZZ_CHECK(st_find(file, tensor->name) == tensor);
    end = tensor->end;
    read_tensor(file, tensor, file_size);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz_file input = fuzz_file_open(data, size);
  io_error error = {""};
  st_file *file = NULL;
  const io_status status = st_open(input.path, &file, &error);
  if (status == IO_OK) {
    check_list(file, size);
    st_close(&file);
  } else {
    FUZZ_CHECK(status == IO_INVALID); /* never a lack of memory: what a header claims is not allocated */
    fuzz_check_line(error.text, sizeof error.text);
  }
  FUZZ_CHECK(file == NULL);
  fuzz_file_close(&input);
  return 0;
}
