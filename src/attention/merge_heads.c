/* SPDX-License-Identifier: Apache-2.0 */
#include "attention/stages.h"

clattn_status merge_heads(clattn_context *context, cl_mem from, const clattn_tensor *to, clattn_type compute,
                          size_t first, size_t units, bias_view bias, const clattn_tensor *q_lengths,
                          dropout_view dropout) {
  clattn_status status = CLATTN_SUCCESS;
  char text[256];
  text_builder options = text_begin(text, sizeof text);
  cl_kernel kernel = NULL;
  cl_uint index = 0;
  size_t local[3];
  add_type_defines(&options, compute, to->type);
  text_add(&options, " -D FROM=%s -D TO=%s -D DROPOUT=%d", clattn_type_name(compute), clattn_type_name(to->type),
           dropout.probability > 0);
  if (bias.buffer != NULL) text_add(&options, " -D BIAS=%s", clattn_type_name(bias.type));
  if (q_lengths != NULL) text_add(&options, " -D Q_LENGTHS=%s", clattn_type_name(q_lengths->type));
  CHECK(program_kernel(context, "merge_heads", text, &kernel));

  /* from, to, to_view, extent, units [, bias, bias_view] [, q_lengths, q_lengths_view] [, dropout, dropout_scale] */
  cl_ulong8 view = {{to->offset, to->stride[0], to->stride[1], to->stride[2], to->stride[3], 0, 0, 0}};
  cl_ulong4 extent = {{to->shape[1], to->shape[2], to->shape[3], first}};
  cl_ulong count = units;
  SET_ARGUMENT(context, kernel, index++, from);
  SET_ARGUMENT(context, kernel, index++, to->buffer);
  SET_ARGUMENT(context, kernel, index++, view);
  SET_ARGUMENT(context, kernel, index++, extent);
  SET_ARGUMENT(context, kernel, index++, count);
  if (bias.buffer != NULL) CHECK(bias_set_arguments(context, bias, kernel, &index));
  if (q_lengths != NULL) CHECK(lengths_set_arguments(context, q_lengths, kernel, &index));
  if (dropout.probability > 0) CHECK(dropout_set_arguments(context, dropout, compute, kernel, &index));
  CHECK(copy_work_group(context, kernel, "merge_heads", to->shape[3], local));
  const size_t global[3] = {to->shape[3], to->shape[2], units};
  CHECK(program_launch(context, kernel, "merge_heads", global, local));

cleanup:
  return status;
}
