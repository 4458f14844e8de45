/* SPDX-License-Identifier: Apache-2.0 */
#include "core/tensor.h"

#include <stdlib.h>
#include <string.h>

#include "core/context.h"

/* ------------------------------------------------------------------------------------------------------------ types */

size_t clattn_type_size(clattn_type type) {
  switch (type) {
  case CLATTN_FLOAT32:
    return 4;
  case CLATTN_FLOAT64:
    return 8;
  case CLATTN_FLOAT16:
    return 2;
  case CLATTN_BFLOAT16:
    return 2;
  case CLATTN_BOOL8:
    return 1;
  case CLATTN_INT32:
    return 4;
  case CLATTN_INT64:
    return 8;
  }
  return 0;
}

const char *clattn_type_name(clattn_type type) {
  switch (type) {
  case CLATTN_FLOAT32:
    return "float32";
  case CLATTN_FLOAT64:
    return "float64";
  case CLATTN_FLOAT16:
    return "float16";
  case CLATTN_BFLOAT16:
    return "bfloat16";
  case CLATTN_BOOL8:
    return "bool8";
  case CLATTN_INT32:
    return "int32";
  case CLATTN_INT64:
    return "int64";
  }
  return "no type";
}

/* ------------------------------------------------------------------------------------------------------- arithmetic */

int checked_multiply(uint64_t a, uint64_t b, uint64_t *out) {
  if (a != 0 && b > UINT64_MAX / a) return 0;
  *out = a * b;
  return 1;
}

int checked_add(uint64_t a, uint64_t b, uint64_t *out) {
  if (b > UINT64_MAX - a) return 0;
  *out = a + b;
  return 1;
}

int tensor_is_empty(const clattn_tensor *tensor) {
  for (int i = 0; i < tensor->rank; i++)
    if (tensor->shape[i] == 0) return 1;
  return 0;
}

int tensor_count(const clattn_tensor *tensor, uint64_t *count) {
  *count = tensor_is_empty(tensor) ? 0 : 1;
  for (int i = 0; i < tensor->rank; i++)
    if (*count != 0 && !checked_multiply(*count, tensor->shape[i], count)) return 0;
  return 1;
}

int tensor_end(const clattn_tensor *tensor, uint64_t *end) {
  uint64_t last = tensor->offset, reach = 0;
  for (int i = 0; i < tensor->rank; i++)
    if (!checked_multiply(tensor->shape[i] - 1, tensor->stride[i], &reach) || !checked_add(last, reach, &last))
      return 0;
  return checked_add(last, 1, end);
}

int tensor_is_contiguous(const clattn_tensor *tensor) {
  size_t expected = 1;
  for (int i = tensor->rank - 1; i >= 0; i--) {
    if (tensor->shape[i] != 1 && tensor->stride[i] != expected) return 0;
    expected *= tensor->shape[i];
  }
  return 1;
}

/* ----------------------------------------------------------------------------------------------------------- checks */

static clattn_status check_buffer(clattn_context *context, const char *name, const clattn_tensor *tensor,
                                  tensor_use use) {
  clattn_status status = CLATTN_SUCCESS;
  message to = context_message(context);
  cl_mem_object_type kind = 0;
  cl_context owner = NULL;
  cl_mem_flags flags = 0;
  size_t bytes = 0;
  uint64_t end = 0, needed = 0;
  char shape[SHAPE_TEXT_SIZE], stride[SHAPE_TEXT_SIZE];
  CHECK_CL(to, clGetMemObjectInfo(tensor->buffer, CL_MEM_TYPE, sizeof kind, &kind, NULL), "%s: clGetMemObjectInfo",
           name);
  CHECK_CL(to, clGetMemObjectInfo(tensor->buffer, CL_MEM_CONTEXT, sizeof owner, (void *)&owner, NULL),
           "%s: clGetMemObjectInfo", name);
  CHECK_CL(to, clGetMemObjectInfo(tensor->buffer, CL_MEM_FLAGS, sizeof flags, &flags, NULL), "%s: clGetMemObjectInfo",
           name);
  CHECK_CL(to, clGetMemObjectInfo(tensor->buffer, CL_MEM_SIZE, sizeof bytes, &bytes, NULL), "%s: clGetMemObjectInfo",
           name);
  if (kind != CL_MEM_OBJECT_BUFFER)
    return message_fail(to, CLATTN_INVALID_BUFFER, "%s is no buffer (memory object type 0x%x)", name, (unsigned)kind);
  if (owner != context->cl)
    return message_fail(to, CLATTN_INVALID_BUFFER, "%s is a buffer of another OpenCL context (%p, not %p)", name,
                        (void *)owner, (void *)context->cl);
  if (use == TENSOR_OUTPUT && (flags & CL_MEM_READ_ONLY))
    return message_fail(to, CLATTN_INVALID_BUFFER, "%s is an output in a buffer made with CL_MEM_READ_ONLY", name);
  if (use == TENSOR_INPUT && (flags & CL_MEM_WRITE_ONLY))
    return message_fail(to, CLATTN_INVALID_BUFFER, "%s is an input in a buffer made with CL_MEM_WRITE_ONLY", name);
  if (!tensor_end(tensor, &end) || !checked_multiply(end, clattn_type_size(tensor->type), &needed))
    return message_fail(to, CLATTN_INVALID_SHAPE, "%s of shape %s and strides %s at offset %zu passes 64 bits", name,
                        shape_text(shape, tensor->rank, tensor->shape),
                        shape_text(stride, tensor->rank, tensor->stride), tensor->offset);
  if (needed > bytes)
    return message_fail(to, CLATTN_INVALID_BUFFER,
                        "%s of shape %s, strides %s, offset %zu, type %s needs %llu bytes; its buffer has %zu", name,
                        shape_text(shape, tensor->rank, tensor->shape),
                        shape_text(stride, tensor->rank, tensor->stride), tensor->offset,
                        clattn_type_name(tensor->type), (unsigned long long)needed, bytes);

cleanup:
  return status;
}

/* Sorted by stride, each dimension must step over all that the smaller ones span. */
static int overlaps_itself(const clattn_tensor *tensor) {
  int order[CLATTN_MAX_RANK], used = 0;
  for (int i = 0; i < tensor->rank; i++) {
    if (tensor->shape[i] < 2) continue;
    int at = used++;
    for (; at > 0 && tensor->stride[order[at - 1]] > tensor->stride[i]; at--) order[at] = order[at - 1];
    order[at] = i;
  }
  uint64_t span = 0; /* cannot overflow: tensor_end has passed */
  for (int k = 0; k < used; k++) {
    if (tensor->stride[order[k]] <= span) return 1;
    span += (uint64_t)(tensor->shape[order[k]] - 1) * tensor->stride[order[k]];
  }
  return 0;
}

clattn_status tensor_check(clattn_context *context, const char *name, const clattn_tensor *tensor, tensor_use use) {
  char shape[SHAPE_TEXT_SIZE], stride[SHAPE_TEXT_SIZE];
  uint64_t count = 0, bytes = 0;
  if (tensor == NULL) return REFUSE(context, CLATTN_INVALID_ARGUMENT, "%s is NULL", name);
  if (clattn_type_size(tensor->type) == 0)
    return REFUSE(context, CLATTN_INVALID_TYPE, "%s has type %d, which is none", name, (int)tensor->type);
  if (tensor->rank < 1 || tensor->rank > CLATTN_MAX_RANK)
    return REFUSE(context, CLATTN_INVALID_SHAPE, "%s has rank %d, not 1 to %d", name, tensor->rank, CLATTN_MAX_RANK);
  if (!tensor_count(tensor, &count) || !checked_multiply(count, clattn_type_size(tensor->type), &bytes))
    return REFUSE(context, CLATTN_INVALID_SHAPE, "%s of shape %s and type %s passes 64 bits", name,
                  shape_text(shape, tensor->rank, tensor->shape), clattn_type_name(tensor->type));
  if (count == 0) return CLATTN_SUCCESS; /* nothing is read or written: the buffer does not matter */
  if (tensor->buffer == NULL) return REFUSE(context, CLATTN_INVALID_ARGUMENT, "%s has no buffer (NULL)", name);
  clattn_status status = check_buffer(context, name, tensor, use);
  if (status != CLATTN_SUCCESS) return status;
  if (use == TENSOR_OUTPUT && overlaps_itself(tensor))
    return REFUSE(context, CLATTN_INVALID_OVERLAP, "%s of shape %s overlaps itself with strides %s", name,
                  shape_text(shape, tensor->rank, tensor->shape), shape_text(stride, tensor->rank, tensor->stride));
  return CLATTN_SUCCESS;
}

clattn_status tensor_check_float(clattn_context *context, const char *name, clattn_type type) {
  switch (type) {
  case CLATTN_FLOAT32:
  case CLATTN_FLOAT16:
  case CLATTN_BFLOAT16:
    return CLATTN_SUCCESS;
  case CLATTN_FLOAT64:
    if (context->info.fp64) return CLATTN_SUCCESS;
    return REFUSE(context, CLATTN_UNSUPPORTED, "%s is float64, which the device %s does not have", name,
                  context->info.name);
  default:
    return REFUSE(context, CLATTN_INVALID_TYPE, "%s is %s, not a float type", name, clattn_type_name(type));
  }
}

clattn_status tensor_check_mix(clattn_context *context, const clattn_tensor *query, const clattn_tensor *key,
                               const clattn_tensor *value, const clattn_tensor *output) {
  int doubles = query->type == CLATTN_FLOAT64;
  if ((key->type == CLATTN_FLOAT64) == doubles && (value->type == CLATTN_FLOAT64) == doubles &&
      (output == NULL || (output->type == CLATTN_FLOAT64) == doubles))
    return CLATTN_SUCCESS;
  return REFUSE(context, CLATTN_INVALID_TYPE,
                "query is %s, key %s, value %s, output %s: float64 goes with float64 only",
                clattn_type_name(query->type), clattn_type_name(key->type), clattn_type_name(value->type),
                output != NULL ? clattn_type_name(output->type) : "not given");
}

/* Bytes [begin, end) of an argument within the buffer that owns the memory: a sub-buffer counts as its parent. */
typedef struct byte_range {
  cl_mem root;
  uint64_t begin, end;
} byte_range;

static clattn_status find_range(clattn_context *context, const tensor_argument *argument, byte_range *range) {
  clattn_status status = CLATTN_SUCCESS;
  const clattn_tensor *tensor = argument->tensor;
  message to = context_message(context);
  cl_mem parent = NULL;
  size_t origin = 0;
  uint64_t end = 0, size = clattn_type_size(tensor->type);
  CHECK_CL(to, clGetMemObjectInfo(tensor->buffer, CL_MEM_ASSOCIATED_MEMOBJECT, sizeof parent, (void *)&parent, NULL),
           "%s: clGetMemObjectInfo", argument->name);
  if (parent != NULL)
    CHECK_CL(to, clGetMemObjectInfo(tensor->buffer, CL_MEM_OFFSET, sizeof origin, &origin, NULL),
             "%s: clGetMemObjectInfo", argument->name);
  (void)tensor_end(tensor, &end);
  range->root = parent != NULL ? parent : tensor->buffer;
  range->begin = origin + tensor->offset * size;
  range->end = origin + end * size;

cleanup:
  return status;
}

clattn_status tensor_check_overlap(clattn_context *context, const tensor_argument *arguments, size_t count) {
  clattn_status status = CLATTN_SUCCESS;
  for (size_t i = 0; i < count; i++) {
    if (arguments[i].use != TENSOR_OUTPUT || arguments[i].tensor == NULL || tensor_is_empty(arguments[i].tensor))
      continue;
    byte_range output, other;
    CHECK(find_range(context, &arguments[i], &output));
    for (size_t j = 0; j < count; j++) {
      int seen = j <= i && arguments[j].use == TENSOR_OUTPUT;
      if (seen || arguments[j].tensor == NULL || tensor_is_empty(arguments[j].tensor)) continue;
      CHECK(find_range(context, &arguments[j], &other));
      if (output.root != other.root || output.begin >= other.end || other.begin >= output.end) continue;
      return REFUSE(context, CLATTN_INVALID_OVERLAP,
                    "%s (bytes %llu to %llu of its buffer) overlaps %s (bytes %llu to %llu)", arguments[i].name,
                    (unsigned long long)output.begin, (unsigned long long)output.end, arguments[j].name,
                    (unsigned long long)other.begin, (unsigned long long)other.end);
    }
  }

cleanup:
  return status;
}

/* ------------------------------------------------------------------------------------------------------------ views */

clattn_tensor clattn_tensor_view(cl_mem buffer, size_t offset, clattn_type type, int rank, const size_t *shape) {
  clattn_tensor view;
  memset(&view, 0, sizeof view);
  view.buffer = buffer;
  view.offset = offset;
  view.type = type;
  if (rank < 1 || rank > CLATTN_MAX_RANK || shape == NULL) return view;
  view.rank = rank;
  size_t stride = 1;
  for (int i = rank - 1; i >= 0; i--) {
    view.shape[i] = shape[i];
    view.stride[i] = stride;
    stride *= shape[i];
  }
  return view;
}

clattn_tensor clattn_tensor_transposed(clattn_tensor tensor, int i, int j) {
  clattn_tensor view = tensor;
  if (i < 0 || j < 0 || i >= tensor.rank || j >= tensor.rank) {
    view.rank = 0; /* refused wherever it is used */
    return view;
  }
  view.shape[i] = tensor.shape[j];
  view.stride[i] = tensor.stride[j];
  view.shape[j] = tensor.shape[i];
  view.stride[j] = tensor.stride[i];
  return view;
}

void clattn_tensor_release(clattn_tensor *tensor) {
  if (tensor == NULL) return;
  if (tensor->buffer != NULL) (void)clReleaseMemObject(tensor->buffer);
  memset(tensor, 0, sizeof *tensor);
}

clattn_status clattn_tensor_create(clattn_context *context, clattn_type type, int rank, const size_t *shape,
                                   const void *host, clattn_tensor *tensor) {
  clattn_status status = context_begin(context);
  uint64_t count = 0, bytes = 0;
  char text[SHAPE_TEXT_SIZE];
  cl_int error = CL_SUCCESS;
  if (status != CLATTN_SUCCESS) return status;
  if (tensor == NULL || shape == NULL)
    return REFUSE(context, CLATTN_INVALID_ARGUMENT, "%s is NULL", tensor == NULL ? "tensor" : "shape");
  memset(tensor, 0, sizeof *tensor);
  if (rank < 1 || rank > CLATTN_MAX_RANK)
    return REFUSE(context, CLATTN_INVALID_SHAPE, "rank is %d, not 1 to %d", rank, CLATTN_MAX_RANK);
  if (clattn_type_size(type) == 0) return REFUSE(context, CLATTN_INVALID_TYPE, "type %d is none", (int)type);
  clattn_tensor view = clattn_tensor_view(NULL, 0, type, rank, shape);
  if (!tensor_count(&view, &count) || !checked_multiply(count, clattn_type_size(type), &bytes) || bytes > SIZE_MAX)
    return REFUSE(context, CLATTN_INVALID_SHAPE, "a tensor of shape %s and type %s passes 64 bits",
                  shape_text(text, rank, shape), clattn_type_name(type));
  if (bytes > context->info.max_alloc_bytes)
    return REFUSE(context, CLATTN_OUT_OF_DEVICE_MEMORY, "a tensor of shape %s needs %llu bytes; the device allows %llu",
                  shape_text(text, rank, shape), (unsigned long long)bytes,
                  (unsigned long long)context->info.max_alloc_bytes);
  /* OpenCL has no buffers of size 0. */
  view.buffer = clCreateBuffer(context->cl, CL_MEM_READ_WRITE, bytes > 0 ? (size_t)bytes : 1, NULL, &error);
  CHECK_CL(context_message(context), error, "clCreateBuffer of %llu bytes", (unsigned long long)bytes);
  if (host != NULL && bytes > 0)
    CHECK_CL(context_message(context),
             clEnqueueWriteBuffer(context->queue, view.buffer, CL_TRUE, 0, (size_t)bytes, host, 0, NULL, NULL),
             "clEnqueueWriteBuffer of %llu bytes", (unsigned long long)bytes);
  *tensor = view;
  view.buffer = NULL;

cleanup:
  if (view.buffer != NULL) (void)clReleaseMemObject(view.buffer);
  return status;
}

/* Copies between the bytes that a view spans (`span`, from its first element on) and a row-major array, one element
 * after the other. */
static void copy_elements(const clattn_tensor *tensor, unsigned char *span, unsigned char *host, int to_host) {
  size_t size = clattn_type_size(tensor->type), index[CLATTN_MAX_RANK] = {0}, at = 0;
  for (;;) {
    if (to_host)
      memcpy(host, span + at * size, size);
    else
      memcpy(span + at * size, host, size);
    host += size;
    int i = tensor->rank - 1;
    for (; i >= 0; i--) {
      at += tensor->stride[i];
      if (++index[i] < tensor->shape[i]) break;
      at -= tensor->shape[i] * tensor->stride[i];
      index[i] = 0;
    }
    if (i < 0) return;
  }
}

/* Both directions. A view with gaps travels through a copy of all that it spans, so that what lies between survives. */
static clattn_status transfer(clattn_context *context, const clattn_tensor *tensor, void *to_host,
                              const void *from_host) {
  clattn_status status = CLATTN_SUCCESS;
  unsigned char *span = NULL;
  uint64_t end = 0;
  size_t size = clattn_type_size(tensor->type);
  message to = context_message(context);
  if (tensor_is_empty(tensor)) return clattn_finish(context);
  (void)tensor_end(tensor, &end);
  size_t bytes = (size_t)(end - tensor->offset) * size, begin = tensor->offset * size;
  if (tensor_is_contiguous(tensor)) {
    if (to_host != NULL)
      CHECK_CL(to, clEnqueueReadBuffer(context->queue, tensor->buffer, CL_TRUE, begin, bytes, to_host, 0, NULL, NULL),
               "clEnqueueReadBuffer of %zu bytes", bytes);
    else
      CHECK_CL(to,
               clEnqueueWriteBuffer(context->queue, tensor->buffer, CL_TRUE, begin, bytes, from_host, 0, NULL, NULL),
               "clEnqueueWriteBuffer of %zu bytes", bytes);
    return CLATTN_SUCCESS;
  }
  span = malloc(bytes);
  if (span == NULL) return REFUSE(context, CLATTN_OUT_OF_HOST_MEMORY, "no memory for a copy of %zu bytes", bytes);
  CHECK_CL(to, clEnqueueReadBuffer(context->queue, tensor->buffer, CL_TRUE, begin, bytes, span, 0, NULL, NULL),
           "clEnqueueReadBuffer of %zu bytes", bytes);
  if (to_host != NULL) {
    copy_elements(tensor, span, to_host, 1);
  } else {
    /* copy_elements reads `host` only in this direction. */
    copy_elements(tensor, span, (unsigned char *)(uintptr_t)from_host, 0);
    CHECK_CL(to, clEnqueueWriteBuffer(context->queue, tensor->buffer, CL_TRUE, begin, bytes, span, 0, NULL, NULL),
             "clEnqueueWriteBuffer of %zu bytes", bytes);
  }

cleanup:
  free(span);
  return status;
}

clattn_status clattn_tensor_read(clattn_context *context, const clattn_tensor *tensor, void *host) {
  clattn_status status = context_begin(context);
  if (status != CLATTN_SUCCESS) return status;
  status = tensor_check(context, "tensor", tensor, TENSOR_INPUT);
  if (status != CLATTN_SUCCESS) return status;
  if (host == NULL && !tensor_is_empty(tensor)) return REFUSE(context, CLATTN_INVALID_ARGUMENT, "host is NULL");
  return transfer(context, tensor, host, NULL);
}

clattn_status clattn_tensor_write(clattn_context *context, const clattn_tensor *tensor, const void *host) {
  clattn_status status = context_begin(context);
  if (status != CLATTN_SUCCESS) return status;
  status = tensor_check(context, "tensor", tensor, TENSOR_OUTPUT);
  if (status != CLATTN_SUCCESS) return status;
  if (host == NULL && !tensor_is_empty(tensor)) return REFUSE(context, CLATTN_INVALID_ARGUMENT, "host is NULL");
  return transfer(context, tensor, NULL, host);
}
