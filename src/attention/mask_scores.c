/* SPDX-License-Identifier: Apache-2.0 */
#include "attention/rows.h"

clattn_status mask_scores(clattn_context *context, const attention_problem *problem, const score_slice *slice,
                          size_t first, size_t count) {
  clattn_status status = CLATTN_SUCCESS;
  const row_changes changes = {first == 0, first, count};
  char text[768];
  text_builder options = text_begin(text, sizeof text);
  cl_kernel kernel = NULL;
  cl_uint index = 0;
  size_t local[3];
  rows_add_defines(&options, problem, changes);
  CHECK(program_kernel(context, "mask_scores", text, &kernel));

  /* scores, extent, ROW_PARAMETERS */
  cl_ulong8 extent = rows_extent(problem, slice);
  SET_ARGUMENT(context, kernel, index++, slice->scores);
  SET_ARGUMENT(context, kernel, index++, extent);
  CHECK(rows_set_arguments(context, problem, changes, kernel, &index));
  CHECK(copy_work_group(context, kernel, "mask_scores", problem_columns(problem), local));
  const size_t global[3] = {problem_columns(problem), slice->rows, slice->units};
  CHECK(program_launch(context, kernel, "mask_scores", global, local));

cleanup:
  return status;
}
