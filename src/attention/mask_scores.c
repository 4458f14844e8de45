/* SPDX-License-Identifier: Apache-2.0 */
#include "attention/masks.h"
#include "attention/stages.h"

clattn_status mask_scores(clattn_context *context, const attention_problem *problem, const score_slice *slice,
                          size_t first, size_t count) {
  clattn_status status = CLATTN_SUCCESS;
  char text[512];
  text_builder options = text_begin(text, sizeof text);
  cl_kernel kernel = NULL;
  cl_uint index = 0;
  size_t local[3];
  int fp64 = 0;
  for (size_t i = 0; i < count; i++) fp64 |= problem->options.masks[first + i].values.type == CLATTN_FLOAT64;
  add_type_defines(&options, problem->compute, fp64 ? CLATTN_FLOAT64 : CLATTN_FLOAT32);
  masks_add_defines(&options, problem, first, count);
  CHECK(program_kernel(context, "mask_scores", text, &kernel));

  /* scores, extent, units, terms */
  cl_ulong8 extent = slice_extent(problem, slice);
  cl_ulong units = slice->units;
  SET_ARGUMENT(context, kernel, index++, slice->scores);
  SET_ARGUMENT(context, kernel, index++, extent);
  SET_ARGUMENT(context, kernel, index++, units);
  CHECK(masks_set_arguments(context, problem, first, count, kernel, &index));
  CHECK(copy_work_group(context, kernel, "mask_scores", problem->kv_len, local));
  const size_t global[3] = {problem->kv_len, slice->rows, slice->units};
  CHECK(program_launch(context, kernel, "mask_scores", global, local));

cleanup:
  return status;
}
