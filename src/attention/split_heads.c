/* SPDX-License-Identifier: Apache-2.0 */
#include "attention/stages.h"

clattn_status split_heads(clattn_context *context, const clattn_tensor *from, cl_mem to, clattn_type compute,
                          size_t first, size_t units, double scale, bias_view bias, extra_rows extra,
                          const clattn_tensor *lengths) {
  clattn_status status = CLATTN_SUCCESS;
  char text[256];
  text_builder options = text_begin(text, sizeof text);
  cl_kernel kernel = NULL;
  cl_uint index = 0;
  size_t local[3];
  add_type_defines(&options, compute, from->type);
  text_add(&options, " -D FROM=%s -D TO=%s -D EXTRA=%zu", clattn_type_name(from->type), clattn_type_name(compute),
           extra.count);
  if (bias.buffer != NULL) text_add(&options, " -D BIAS=%s", clattn_type_name(bias.type));
  if (extra.row.buffer != NULL) text_add(&options, " -D EXTRA_ROW=%s", clattn_type_name(extra.row.type));
  if (lengths != NULL) text_add(&options, " -D LENGTHS=%s", clattn_type_name(lengths->type));
  CHECK(program_kernel(context, "split_heads", text, &kernel));

  /* from, from_view, to, extent, units, scale [, bias, bias_view] [, extra, extra_view] [, lengths, lengths_view]
   */
  cl_ulong8 view = {{from->offset, from->stride[0], from->stride[1], from->stride[2], from->stride[3], 0, 0, 0}};
  cl_ulong4 extent = {{from->shape[1], from->shape[2], from->shape[3], first}};
  cl_ulong count = units;
  SET_ARGUMENT(context, kernel, index++, from->buffer);
  SET_ARGUMENT(context, kernel, index++, view);
  SET_ARGUMENT(context, kernel, index++, to);
  SET_ARGUMENT(context, kernel, index++, extent);
  SET_ARGUMENT(context, kernel, index++, count);
  CHECK(set_real_argument(context, kernel, index++, compute, scale));
  if (bias.buffer != NULL) CHECK(bias_set_arguments(context, bias, kernel, &index));
  if (extra.row.buffer != NULL) CHECK(bias_set_arguments(context, extra.row, kernel, &index));
  if (lengths != NULL) CHECK(lengths_set_arguments(context, lengths, kernel, &index));
  CHECK(copy_work_group(context, kernel, "split_heads", from->shape[3], local));
  const size_t global[3] = {from->shape[3], from->shape[2] + extra.count, units};
  CHECK(program_launch(context, kernel, "split_heads", global, local));

cleanup:
  return status;
}
