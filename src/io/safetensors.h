/* SPDX-License-Identifier: Apache-2.0
 *
 * .safetensors files (https://github.com/huggingface/safetensors): 8 bytes header length, a JSON header, tensor data.
 */
#ifndef CLATTN_IO_SAFETENSORS_H
#define CLATTN_IO_SAFETENSORS_H

#include "error.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { ST_MAX_RANK = 8 };

typedef enum st_type {
  ST_F64,
  ST_F32,
  ST_F16,
  ST_BF16,
  ST_OTHER /* any other: listed, but not read */
} st_type;

typedef struct st_tensor {
  char *name; /* UTF-8 */
  st_type type;
  char dtype[16];            /* as the file spells it, cut to 15 bytes: "F32", "I64", ... */
  int rank;                  /* may be above ST_MAX_RANK: then `shape` has the first extents, and reading is refused */
  size_t shape[ST_MAX_RANK]; /* row-major */
  uint64_t begin, end;       /* bytes, counted from the end of the header */
} st_tensor;

typedef struct st_file st_file;

/* Opens a file and checks its whole header, but reads no tensor data: lengths against the file's size, every entry,
 * offsets (no overlap, no hole, nothing left over, as in the reference implementation), sizes against shapes. Only
 * regular files are read. file        on success the open file, to be closed with st_close; NULL on failure Returns
 * IO_OK; IO_INVALID; IO_SYSTEM; IO_NO_MEMORY */
io_status st_open(const char *path, st_file **file, io_error *error);

/* The tensors, in the order of their data. st_at: i < st_count(file). st_find: NULL if there is none of that name. What
 * they return belongs to the file. */
size_t st_count(const st_file *file);
const st_tensor *st_at(const st_file *file, size_t i);
const st_tensor *st_find(const st_file *file, const char *name);

/* Number of elements of a tensor that st_read_... would read. */
size_t st_elements(const st_tensor *tensor);

/* Read a whole tensor of this file, row-major. Widening is exact: F16 and BF16 subnormals, infinities and NaN included.
 * st_read_f32 takes F32, F16 and BF16; st_read_f64 takes F64, F32, F16 and BF16.
 * out         [st_elements(tensor)]; undefined after a failure
 * Returns     IO_OK; IO_INVALID (a type that is not taken, a rank above ST_MAX_RANK, a file that shrank since it was
 * opened); IO_SYSTEM */
io_status st_read_f32(st_file *file, const st_tensor *tensor, float *out, io_error *error);
io_status st_read_f64(st_file *file, const st_tensor *tensor, double *out, io_error *error);

/* Closes the file, releases its tensors and sets *file to NULL; NULL is fine. */
void st_close(st_file **file);

/* A tensor to be saved. */
typedef struct st_item {
  const char *name; /* UTF-8, not "__metadata__" */
  st_type type;     /* ST_F32 or ST_F64 */
  int rank;
  size_t shape[ST_MAX_RANK];
  const void *data; /* row-major, in the machine's byte order; may be NULL if the tensor has no elements */
} st_item;

/* Writes a whole file, with the metadata {"format":"pt"}. Order as in the reference implementation: wider types first,
 * then by name, so that every tensor is aligned to its element size, data begin at a multiple of 8, and the bytes
 * depend on the set of items only. The file is not flushed: what is still in its buffer can fail later. Returns IO_OK;
 * IO_INVALID (a name that is missing, taken twice, reserved or no UTF-8; a type, rank or shape out of range);
 *             IO_SYSTEM; IO_NO_MEMORY */
io_status st_save(FILE *file, const st_item *items, size_t count, io_error *error);

#endif
