/* SPDX-License-Identifier: Apache-2.0
 *
 * Views of buffers: arithmetic on extents that cannot overflow unseen, and the checks that every argument passes. */
#ifndef CLATTN_CORE_TENSOR_H
#define CLATTN_CORE_TENSOR_H

#include "core/message.h"

/* 1 and *out = a * b (a + b), or 0 if that passes 64 bits. */
int checked_multiply(uint64_t a, uint64_t b, uint64_t *out);
int checked_add(uint64_t a, uint64_t b, uint64_t *out);

/* Number of elements; 0 if it passes 64 bits in the return value. */
int tensor_count(const clattn_tensor *tensor, uint64_t *count);
int tensor_is_empty(const clattn_tensor *tensor);

/* Index behind the last element, in elements from the buffer's start; the view must not be empty. 0 if it passes 64
 * bits. */
int tensor_end(const clattn_tensor *tensor, uint64_t *end);

/* Row-major without gaps from its offset on. */
int tensor_is_contiguous(const clattn_tensor *tensor);

typedef enum tensor_use { TENSOR_INPUT, TENSOR_OUTPUT } tensor_use;

/* Everything that can be said of one argument alone: type, rank, extents, buffer. `name` is how messages call it. */
clattn_status tensor_check(clattn_context *context, const char *name, const clattn_tensor *tensor, tensor_use use);

/* A named argument, for the check of all against all. */
typedef struct tensor_argument {
  const char *name;
  const clattn_tensor *tensor; /* NULL: not given */
  tensor_use use;
} tensor_argument;

/* No output's byte range may touch that of another argument. All have passed tensor_check. */
clattn_status tensor_check_overlap(clattn_context *context, const tensor_argument *arguments, size_t count);

/* A float type; FLOAT64 only where the device has it. */
clattn_status tensor_check_float(clattn_context *context, const char *name, clattn_type type);

/* float64 goes with float64 only, other float types in any mix. output may be NULL. */
clattn_status tensor_check_mix(clattn_context *context, const clattn_tensor *query, const clattn_tensor *key,
                               const clattn_tensor *value, const clattn_tensor *output);

#endif
