/* SPDX-License-Identifier: Apache-2.0 */
#include "attention/rows.h"

clattn_status average_weights(clattn_context *context, const attention_problem *problem, const score_slice *slice) {
  clattn_status status = CLATTN_SUCCESS;
  const clattn_tensor *weights = problem->options.weights;
  char text[256];
  text_builder options = text_begin(text, sizeof text);
  cl_kernel kernel = NULL;
  cl_uint index = 0;
  size_t local[3];
  add_type_defines(&options, problem->compute, problem->compute);
  CHECK(program_kernel(context, "average_weights", text, &kernel));

  /* scores, weights, view, extent, entries */
  cl_ulong8 view = {{weights->offset, weights->stride[0], weights->stride[1], weights->stride[2], 0, 0, 0, 0}};
  cl_ulong8 extent = rows_extent(problem, slice);
  size_t last = (slice->first_unit + slice->units - 1) / problem->kv_heads;
  cl_ulong entries = last - slice->first_unit / problem->kv_heads + 1;
  SET_ARGUMENT(context, kernel, index++, slice->scores);
  SET_ARGUMENT(context, kernel, index++, weights->buffer);
  SET_ARGUMENT(context, kernel, index++, view);
  SET_ARGUMENT(context, kernel, index++, extent);
  SET_ARGUMENT(context, kernel, index++, entries);
  CHECK(copy_work_group(context, kernel, "average_weights", problem_columns(problem), local));
  const size_t global[3] = {problem_columns(problem), problem->q_len, (size_t)entries};
  CHECK(program_launch(context, kernel, "average_weights", global, local));

cleanup:
  return status;
}
