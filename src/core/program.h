/* SPDX-License-Identifier: Apache-2.0
 *
 * The one place that builds OpenCL programs, and the context's cache of what it built. */
#ifndef CLATTN_CORE_PROGRAM_H
#define CLATTN_CORE_PROGRAM_H

#include "core/message.h"

typedef struct built_kernel built_kernel;

typedef struct program_cache {
  built_kernel *first;
} program_cache;

/* The kernel `name` of kernels/<name>.cl, built with `options` ("-D SRC=float32 ..."). It belongs to the cache; whoever
 * asks sets all its arguments before each launch. */
clattn_status program_kernel(clattn_context *context, const char *name, const char *options, cl_kernel *kernel);

/* The largest work-group of this kernel on the context's device. */
clattn_status program_work_group(clattn_context *context, cl_kernel kernel, const char *name, size_t *size);

void program_cache_clear(program_cache *cache);

/* Arguments in order: SET_ARGUMENT(context, kernel, index++, value) needs `status` and `cleanup`. */
#define SET_ARGUMENT(context, kernel, index, value)                                                                    \
  CHECK_CL(context_message(context), clSetKernelArg(kernel, index, sizeof(value), &(value)),                           \
           "clSetKernelArg %u of %zu bytes", (unsigned)(index), sizeof(value))

/* Enqueues `kernel` over `global` work-items, rounded up to whole work-groups of `local`. */
clattn_status program_launch(clattn_context *context, cl_kernel kernel, const char *name, const size_t global[3],
                             const size_t local[3]);

#endif
