/* SPDX-License-Identifier: Apache-2.0
 *
 * What the host functions of several kernels share. */
#include "attention/stages.h"

#include <math.h>

void add_type_defines(text_builder *options, clattn_type compute, clattn_type other) {
  int fp64 = compute == CLATTN_FLOAT64 || other == CLATTN_FLOAT64;
  text_add(options, "-cl-std=CL1.2 -D COMPUTE=%s -D USE_FP64=%d", clattn_type_name(compute), fp64);
}

clattn_status copy_work_group(clattn_context *context, cl_kernel kernel, const char *name, size_t columns,
                              size_t local[3]) {
  size_t limit = 0, x = 1, y = 1;
  clattn_status status = program_work_group(context, kernel, name, &limit);
  if (status != CLATTN_SUCCESS) return status;
  /* A compute unit of a GPU wants many; a CPU works on them one after the other, and its compiler may copy the kernel for each. */
  const size_t most = device_is_vector_cpu(&context->info) ? 32 : 256;
  if (limit > most) limit = most;
  while (x < columns && x * 2 <= limit) x *= 2;
  while (x * y * 2 <= limit && y < 16) y *= 2;
  local[0] = x;
  local[1] = y;
  local[2] = 1;
  return CLATTN_SUCCESS;
}

clattn_status lengths_set_arguments(clattn_context *context, const clattn_tensor *lengths, cl_kernel kernel,
                                    cl_uint *index) {
  clattn_status status = CLATTN_SUCCESS;
  cl_ulong8 view = {{lengths->offset, lengths->stride[0], 0, 0, 0, 0, 0, 0}};
  SET_ARGUMENT(context, kernel, (*index)++, lengths->buffer);
  SET_ARGUMENT(context, kernel, (*index)++, view);

cleanup:
  return status;
}

clattn_status bias_set_arguments(clattn_context *context, bias_view bias, cl_kernel kernel, cl_uint *index) {
  clattn_status status = CLATTN_SUCCESS;
  cl_ulong8 view = {{bias.offset, bias.head_stride, bias.stride, 0, 0, 0, 0, 0}};
  SET_ARGUMENT(context, kernel, (*index)++, bias.buffer);
  SET_ARGUMENT(context, kernel, (*index)++, view);

cleanup:
  return status;
}

clattn_status set_real_argument(clattn_context *context, cl_kernel kernel, cl_uint index, clattn_type compute,
                                double value) {
  clattn_status status = CLATTN_SUCCESS;
  cl_float value32 = (cl_float)value;
  cl_double value64 = value;
  if (compute == CLATTN_FLOAT64)
    SET_ARGUMENT(context, kernel, index, value64);
  else
    SET_ARGUMENT(context, kernel, index, value32);

cleanup:
  return status;
}

clattn_status dropout_set_arguments(clattn_context *context, dropout_view dropout, clattn_type compute,
                                    cl_kernel kernel, cl_uint *index) {
  clattn_status status = CLATTN_SUCCESS;
  /* A word of 32 bits is below the threshold with probability p, to the nearest 2^-32. */
  double threshold = floor(dropout.probability * 4294967296.0 + 0.5);
  cl_uint4 words = {{(cl_uint)dropout.seed, (cl_uint)(dropout.seed >> 32), dropout.call,
                     threshold < 4294967295.0 ? (cl_uint)threshold : UINT32_MAX}};
  SET_ARGUMENT(context, kernel, (*index)++, words);
  CHECK(set_real_argument(context, kernel, (*index)++, compute, 1 / (1 - dropout.probability)));

cleanup:
  return status;
}
