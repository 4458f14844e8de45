/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside src/io: regular files that are read by position, and writing to a stream.
 */
#ifndef CLATTN_IO_FILE_H
#define CLATTN_IO_FILE_H

#include "error.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* The formats are little-endian and their values are moved as they are. */
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "src/io reads and writes little-endian files on little-endian machines only"
#endif

typedef struct io_file {
  int descriptor; /* -1: not open */
  uint64_t size;  /* bytes, when it was opened */
  char *path;     /* for messages: the end of the path as the user gave it */
} io_file;

/* Opens a regular file for reading. A FIFO, device, socket or folder is refused without waiting for it.
 * file        on success to be closed with io_file_close; on failure closed
 * Returns     IO_OK; IO_INVALID; IO_SYSTEM; IO_NO_MEMORY */
io_status io_file_open(io_file *file, const char *path, io_error *error);

/* Reads exactly `size` bytes that begin `offset` bytes into the file.
 * Returns     IO_OK; IO_INVALID (the file ends before that); IO_SYSTEM; IO_NO_MEMORY */
io_status io_file_read(const io_file *file, uint64_t offset, void *out, size_t size, io_error *error);

/* Closes the file; one that is closed is fine. */
void io_file_close(io_file *file);

/* Writes all of `data` to a stream, also when signals interrupt it. data may be NULL if size is 0.
 * Returns     IO_OK; IO_SYSTEM; IO_NO_MEMORY */
io_status io_write(FILE *file, const void *data, size_t size, io_error *error);

/* The product of the extents, which need not all be positive: the product of the positive ones times `element_size`
 * must fit PTRDIFF_MAX, so that sizes and strides of a shape with an extent of 0 fit as well. Returns     1; 0 if it
 * does not fit (count is then left alone) */
int io_shape_count(const size_t *shape, size_t rank, size_t element_size, size_t *count);

#endif
