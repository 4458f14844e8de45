/* SPDX-License-Identifier: Apache-2.0 */
#include "arrays.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int cli_array_load(cli_state *cli, const char *option, const char *path, bool bf16, cli_array *array) {
  io_error error;
  array->option = option;
  array->path = path;
  array->bf16 = bf16;
  io_status status = npy_load(path, &array->npy, &error);
  if (status == IO_OK) return CLI_DONE;
  return cli_fail(cli, status == IO_INVALID ? CLI_WRONG : CLI_FAILED, "--%s: %s", option, error.text);
}

void cli_array_free(cli_array *array) {
  npy_free(&array->npy);
}

const char *cli_array_type_name(const cli_array *array) {
  return array->npy.type == NPY_U2 && array->bf16 ? "bfloat16" : npy_type_name(array->npy.type);
}

const char *cli_shape_text(int rank, const size_t *shape, char text[SHAPE_TEXT_SIZE]) {
  size_t used = 0;
  text[used++] = '[';
  for (int i = 0; i < rank; i++) {
    int written = snprintf(text + used, SHAPE_TEXT_SIZE - used, "%s%zu", i > 0 ? "," : "", shape[i]);
    if (written > 0) used += (size_t)written;
  }
  snprintf(text + used, SHAPE_TEXT_SIZE - used, "]");
  return text;
}

int cli_array_expect_rank(cli_state *cli, const cli_array *array, int rank, const char *layout) {
  char text[SHAPE_TEXT_SIZE];
  if (array->npy.rank == rank) return CLI_DONE;
  return cli_fail(cli, CLI_WRONG, "--%s: %s has shape %s, where %s was expected", array->option, array->path,
                  cli_shape_text(array->npy.rank, array->npy.shape, text), layout);
}

int cli_array_expect_shape(cli_state *cli, const cli_array *array, int rank, const size_t *shape, const char *layout) {
  bool equal = array->npy.rank == rank;
  for (int i = 0; equal && i < rank; i++) equal = array->npy.shape[i] == shape[i];
  if (equal) return CLI_DONE;
  char seen[SHAPE_TEXT_SIZE], expected[SHAPE_TEXT_SIZE];
  return cli_fail(cli, CLI_WRONG, "--%s: %s has shape %s, where %s = %s was expected", array->option, array->path,
                  cli_shape_text(array->npy.rank, array->npy.shape, seen), layout,
                  cli_shape_text(rank, shape, expected));
}

static int fail_type(cli_state *cli, const cli_array *array, const char *expected) {
  return cli_fail(cli, CLI_WRONG, "--%s: %s holds %s, where %s was expected", array->option, array->path,
                  cli_array_type_name(array), expected);
}

int cli_array_expect_float(cli_state *cli, const cli_array *array) {
  npy_type type = array->npy.type;
  if (type == NPY_F2 || type == NPY_F4 || type == NPY_F8) return CLI_DONE;
  if (type != NPY_U2) return fail_type(cli, array, "float16, float32 or float64");
  if (array->bf16) return CLI_DONE;
  return fail_type(cli, array, "float16, float32, float64 or (with --bf16) bfloat16 in uint16");
}

int cli_array_expect_integer(cli_state *cli, const cli_array *array) {
  npy_type type = array->npy.type;
  return type == NPY_I4 || type == NPY_I8 ? CLI_DONE : fail_type(cli, array, "int32 or int64");
}

int cli_array_expect_bool(cli_state *cli, const cli_array *array) {
  return array->npy.type == NPY_BOOL ? CLI_DONE : fail_type(cli, array, "bool");
}

int cli_array_expect_positive(cli_state *cli, const cli_array *array, int axis, const char *what) {
  char text[SHAPE_TEXT_SIZE];
  if (array->npy.shape[axis] > 0) return CLI_DONE;
  return cli_fail(cli, CLI_WRONG, "--%s: %s has shape %s: the %s is 0 and must be at least 1", array->option,
                  array->path, cli_shape_text(array->npy.rank, array->npy.shape, text), what);
}

int64_t cli_array_integer_at(const cli_array *array, size_t i) {
  return array->npy.type == NPY_I8 ? ((const int64_t *)array->npy.data)[i] : ((const int32_t *)array->npy.data)[i];
}

clattn_type cli_array_compute_type(const cli_array *array) {
  return array->npy.type == NPY_F8 ? CLATTN_FLOAT64 : CLATTN_FLOAT32;
}

clattn_type cli_device_type(npy_type type, clattn_type compute) {
  switch (type) {
  case NPY_BOOL:
    return CLATTN_BOOL8;
  case NPY_U2:
    return CLATTN_BFLOAT16;
  case NPY_I4:
    return CLATTN_INT32;
  case NPY_I8:
    return CLATTN_INT64;
  case NPY_F2:
    return CLATTN_FLOAT16;
  case NPY_F4:
    return CLATTN_FLOAT32;
  case NPY_F8:
    return compute;
  }
  return CLATTN_FLOAT32;
}

/* Exchanges the data of a float32 or float64 array for the same in `type`, the other of the two. */
static int convert(cli_state *cli, npy_array *npy, npy_type type) {
  if (npy->type == type) return CLI_DONE;
  size_t size = npy_type_size(type);
  if (npy->count > SIZE_MAX / size) return cli_fail_memory(cli, "a converted array");
  void *data = malloc(npy->count > 0 ? npy->count * size : 1);
  if (data == NULL) return cli_fail_memory(cli, "a converted array");
  if (type == NPY_F8) {
    const float *from = npy->data;
    double *to = data;
    for (size_t i = 0; i < npy->count; i++) to[i] = from[i];
  } else {
    const double *from = npy->data;
    float *to = data;
    for (size_t i = 0; i < npy->count; i++) to[i] = (float)from[i];
  }
  free(npy->data);
  npy->data = data;
  npy->type = type;
  return CLI_DONE;
}

int cli_array_upload(cli_state *cli, clattn_context *context, cli_array *array, clattn_type compute,
                     clattn_tensor *tensor) {
  static const size_t single[] = {1};
  npy_array *npy = &array->npy;
  clattn_type type = cli_device_type(npy->type, compute);
  if (npy->type == NPY_F8 && type == CLATTN_FLOAT32) {
    int status = convert(cli, npy, NPY_F4);
    if (status != CLI_DONE) return status;
  }
  clattn_status status = clattn_tensor_create(context, type, npy->rank > 0 ? npy->rank : 1,
                                              npy->rank > 0 ? npy->shape : single, npy->data, tensor);
  if (status != CLATTN_SUCCESS) {
    return cli_fail_file(cli, status, array->option, array->path, clattn_context_message(context));
  }
  npy_free(npy);
  return CLI_DONE;
}

int cli_array_download(cli_state *cli, clattn_context *context, const clattn_tensor *tensor, npy_type type,
                       npy_array *npy) {
  memset(npy, 0, sizeof *npy);
  npy->type = type;
  if (tensor->type == CLATTN_FLOAT64) npy->type = NPY_F8;
  if (tensor->type == CLATTN_FLOAT32) npy->type = NPY_F4;
  npy->rank = tensor->rank;
  npy->count = 1;
  for (int i = 0; i < tensor->rank; i++) {
    npy->shape[i] = tensor->shape[i];
    npy->count *= tensor->shape[i];
  }
  npy->data = malloc(npy->count > 0 ? npy->count * npy_type_size(npy->type) : 1);
  if (npy->data == NULL) return cli_fail_memory(cli, "the results");
  clattn_status status = clattn_tensor_read(context, tensor, npy->data);
  int exit_status = status == CLATTN_SUCCESS ? convert(cli, npy, type)
                                             : cli_fail_library(cli, status, clattn_context_message(context));
  if (exit_status != CLI_DONE) npy_free(npy);
  return exit_status;
}
