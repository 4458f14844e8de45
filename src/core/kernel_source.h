/* SPDX-License-Identifier: Apache-2.0
 *
 * The OpenCL C sources in kernels/, put into the library at build time by kernels/embed.cmake. */
#ifndef CLATTN_CORE_KERNEL_SOURCE_H
#define CLATTN_CORE_KERNEL_SOURCE_H

#include <stddef.h>

typedef struct clattn_kernel_source {
  const char *name; /* of softmax.cl: "softmax"; of a common file, common.clh: "common.clh" */
  const char *text; /* ends with a NUL that `length` does not count */
  size_t length;    /* bytes */
} clattn_kernel_source;

/* Sorted by name of file. */
extern const clattn_kernel_source clattn_kernel_sources[];
extern const size_t clattn_kernel_source_count;

#endif
