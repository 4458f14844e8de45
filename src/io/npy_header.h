/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside src/io: the header of a .npy file, a Python literal such as {'descr': '<f4', 'fortran_order': False, 'shape':
 * (3, 4), }
 */
#ifndef CLATTN_IO_NPY_HEADER_H
#define CLATTN_IO_NPY_HEADER_H

#include "npy.h"

typedef struct npy_header {
  npy_type type;
  int fortran_order; /* 1: the first index varies fastest */
  int rank;
  size_t shape[NPY_MAX_RANK];
} npy_header;

/* Parses a header strictly: the three keys, each once, in any order, and nothing else.
 * text        [length], need not be terminated
 * path        for messages
 * Returns     IO_OK; IO_INVALID (malformed, or a type or rank that is not supported) */
io_status npy_header_parse(const char *text, size_t length, const char *path, npy_header *header, io_error *error);

/* Writes the header of a C-order array, without its padding.
 * out         [size]; 256 bytes are enough for every header
 * Returns     bytes written, without the terminator */
size_t npy_header_format(const npy_header *header, char *out, size_t size);

#endif
