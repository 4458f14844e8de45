/* SPDX-License-Identifier: Apache-2.0
 *
 * NumPy's .npy files (NEP 1, and the module documentation of numpy.lib.format): reads format 1.0 to 3.0, writes 1.0.
 */
#ifndef CLATTN_IO_NPY_H
#define CLATTN_IO_NPY_H

#include "error.h"

#include <stddef.h>
#include <stdio.h>

typedef enum npy_type {
  NPY_BOOL, /* a byte; values other than 0 and 1 stay as they are in the file */
  NPY_U2,   /* carries the bits of bfloat16 values */
  NPY_I4,
  NPY_I8,
  NPY_F2,
  NPY_F4,
  NPY_F8
} npy_type;

enum { NPY_MAX_RANK = 8 };

typedef struct npy_array {
  npy_type type;
  int rank; /* 0: a single value */
  size_t shape[NPY_MAX_RANK];
  size_t count; /* product of the extents */
  void *data;   /* [count] row-major, in the machine's byte order; after npy_load never NULL and owned by the array */
} npy_array;

/* Bytes of one element: 1, 2, 4 or 8; 0 for a value outside the enum. */
size_t npy_type_size(npy_type type);

/* "bool", "uint16", "int32", "int64", "float16", "float32", "float64"; "unknown" for a value outside the enum. */
const char *npy_type_name(npy_type type);

/* Reads a whole array. Only regular files are read, and nothing is allocated before the file is known to be as long as
 * its header claims. Files in Fortran order are transposed to row-major. Bytes behind the data are ignored, as NumPy
 * does. path        as the user gave it; a symbolic link is followed array       on success the array, to be released
 * with npy_free; on failure cleared Returns     IO_OK; IO_INVALID; IO_SYSTEM; IO_NO_MEMORY */
io_status npy_load(const char *path, npy_array *array, io_error *error);

/* Releases the data of a loaded array and clears it; NULL and cleared arrays are fine. */
void npy_free(npy_array *array);

/* Writes an array at the file's position: format 1.0 in C order, the header padded so that the data begin at a multiple
 * of 64. (A header of at most NPY_MAX_RANK extents always fits format 1.0.) The bytes depend on the array only. The
 * file is not flushed: what is still in its buffer can fail later. array       data may be NULL if count is 0 Returns
 * IO_OK; IO_INVALID (a rank, type, shape or count that do not fit together); IO_SYSTEM */
io_status npy_save(FILE *file, const npy_array *array, io_error *error);

#endif
