/* SPDX-License-Identifier: Apache-2.0
 *
 * What the host functions of several kernels share. */
#include "attention/stages.h"

cl_ulong8 slice_extent(const attention_problem *problem, const score_slice *slice) {
  cl_ulong8 extent = {{slice->first_unit, slice->first_row, slice->rows, problem->q_len, problem->kv_heads,
                       problem_group(problem), problem->kv_len, slice->units}};
  return extent;
}

void add_type_defines(text_builder *options, clattn_type compute, clattn_type other) {
  int fp64 = compute == CLATTN_FLOAT64 || other == CLATTN_FLOAT64;
  text_add(options, "-cl-std=CL1.2 -D COMPUTE=%s -D USE_FP64=%d", clattn_type_name(compute), fp64);
}

clattn_status copy_work_group(clattn_context *context, cl_kernel kernel, const char *name, size_t columns,
                              size_t local[3]) {
  size_t limit = 0, x = 1, y = 1;
  clattn_status status = program_work_group(context, kernel, name, &limit);
  if (status != CLATTN_SUCCESS) return status;
  if (limit > 256) limit = 256;
  while (x < columns && x * 2 <= limit) x *= 2;
  while (x * y * 2 <= limit && y < 16) y *= 2;
  local[0] = x;
  local[1] = y;
  local[2] = 1;
  return CLATTN_SUCCESS;
}
