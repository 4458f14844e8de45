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
  bool bf16;     /* uint16 values are bits of bfloat16 numbers */
  npy_array npy; /* data is NULL until it is loaded and once it is on the device */
} cli_array;

int cli_array_load(cli_state *cli, const char *option, const char *path, bool bf16, cli_array *array);
void cli_array_free(cli_array *array);

/* What the array holds, for messages: "bfloat16". */
const char *cli_array_type_name(const cli_array *array);

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

/* The type on the device of numbers that a file has as `type`, beside arithmetic in `compute`: that of the file, but
 * float32 for float64 beside fp32, which devices without fp64 have to do with. */
clattn_type cli_device_type(npy_type type, clattn_type compute);

/* A buffer with the array's data in the type of cli_device_type (to the nearest, ties to even, overflow to infinity),
 * as a view of the array's own shape ([1] for rank 0). The host data are released. */
int cli_array_upload(cli_state *cli, clattn_context *context, cli_array *array, clattn_type compute,
                     clattn_tensor *tensor);

/* A row-major host copy of a tensor, to be released with npy_free. Of float32 and float64, `type` may be the other one
 * than the tensor's. */
int cli_array_download(cli_state *cli, clattn_context *context, const clattn_tensor *tensor, npy_type type,
                       npy_array *npy);

#endif
