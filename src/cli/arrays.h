/* SPDX-License-Identifier: Apache-2.0
 *
 * Arrays on their way between .npy files and the device. Messages name the option and what the file holds. */
#ifndef CLATTN_CLI_ARRAYS_H
#define CLATTN_CLI_ARRAYS_H

#include "cli.h"
#include "io/npy.h"

/* An array that an option named. */
typedef struct cli_array {
  const char *option; /* "q" */
  const char *path;
  npy_array npy; /* data is NULL until it is loaded and once it is on the device */
} cli_array;

int cli_array_load(cli_state *cli, const char *option, const char *path, cli_array *array);
void cli_array_free(cli_array *array);

/* "[2,3,4]", in `text`, which is returned. */
enum { SHAPE_TEXT_SIZE = 24 * NPY_MAX_RANK };
const char *cli_shape_text(int rank, const size_t *shape, char text[SHAPE_TEXT_SIZE]);

/* Each fails with the shape or type seen; `layout` says what was expected: "[B,H,T,D]". */
int cli_array_expect_rank(cli_state *cli, const cli_array *array, int rank, const char *layout);
int cli_array_expect_shape(cli_state *cli, const cli_array *array, int rank, const size_t *shape, const char *layout);
int cli_array_expect_float(cli_state *cli, const cli_array *array);
int cli_array_expect_integer(cli_state *cli, const cli_array *array);
int cli_array_expect_bool(cli_state *cli, const cli_array *array);

/* Extent `axis` is at least 1; `what` names it: "head size". */
int cli_array_expect_positive(cli_state *cli, const cli_array *array, int axis, const char *what);

/* The element of an integer array. */
int64_t cli_array_integer_at(const cli_array *array, size_t i);

/* The type of the arithmetic that floats of a file take: float64 for float64, else float32. */
clattn_type cli_array_compute_type(const cli_array *array);

/* Converts a float array to another float type: to the nearest, ties to even, overflow to infinity. */
int cli_convert(cli_state *cli, npy_array *npy, npy_type type);

/* A buffer with the array's data, converted to `type` if that is a float type, as a view of the array's own shape ([1]
 * for rank 0). The host data are released. */
int cli_array_upload(cli_state *cli, clattn_context *context, cli_array *array, clattn_type type,
                     clattn_tensor *tensor);

/* The array's own type on the device. */
clattn_type cli_array_device_type(const cli_array *array);

/* A row-major host copy of a float tensor, converted to `type`, to be released with npy_free. */
int cli_array_download(cli_state *cli, clattn_context *context, const clattn_tensor *tensor, npy_type type,
                       npy_array *npy);

#endif
