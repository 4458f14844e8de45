/* SPDX-License-Identifier: Apache-2.0 */
#include "attention/masks.h"

#include <stdio.h>

static const char *kind_name(clattn_mask_kind kind) {
  return kind == CLATTN_MASK_BLOCK ? "block" : kind == CLATTN_MASK_KEEP ? "keep" : "add";
}

static clattn_status check_one(clattn_context *context, const attention_problem *problem, size_t index) {
  const clattn_mask *mask = &problem->options.masks[index];
  const clattn_tensor *values = &mask->values;
  const size_t scores[4] = {problem->batch, problem->heads, problem->q_len, problem->kv_len};
  char name[48], have[SHAPE_TEXT_SIZE], want[SHAPE_TEXT_SIZE];
  if (mask->kind != CLATTN_MASK_BLOCK && mask->kind != CLATTN_MASK_KEEP && mask->kind != CLATTN_MASK_ADD)
    return REFUSE(context, CLATTN_INVALID_ARGUMENT, "masks[%zu].kind is %d, which is none", index, (int)mask->kind);
  (void)snprintf(name, sizeof name, "masks[%zu].values", index);
  clattn_status status = tensor_check(context, name, values, TENSOR_INPUT);
  if (status != CLATTN_SUCCESS) return status;
  if (mask->kind == CLATTN_MASK_ADD) {
    status = tensor_check_float(context, name, values->type);
    if (status != CLATTN_SUCCESS) return status;
  } else if (values->type != CLATTN_BOOL8) {
    return REFUSE(context, CLATTN_INVALID_TYPE, "%s of a %s mask is %s, not bool8", name, kind_name(mask->kind),
                  clattn_type_name(values->type));
  }
  for (int i = 0; i < values->rank; i++) {
    size_t extent = values->shape[i];
    if (extent == 1 || extent == scores[4 - values->rank + i]) continue;
    return REFUSE(context, CLATTN_INVALID_SHAPE, "%s has shape %s, which does not broadcast to the scores %s", name,
                  shape_text(have, values->rank, values->shape), shape_text(want, 4, scores));
  }
  return CLATTN_SUCCESS;
}

clattn_status masks_check(clattn_context *context, const attention_problem *problem) {
  const clattn_options *options = &problem->options;
  if (options->mask_count > 0 && options->masks == NULL)
    return REFUSE(context, CLATTN_INVALID_ARGUMENT, "masks is NULL while mask_count is %zu", options->mask_count);
  for (size_t i = 0; i < options->mask_count; i++) {
    clattn_status status = check_one(context, problem, i);
    if (status != CLATTN_SUCCESS) return status;
  }
  return CLATTN_SUCCESS;
}

void masks_add_defines(text_builder *options, const attention_problem *problem, size_t first, size_t count) {
  text_add(options, " -D TERMS=%zu", count);
  for (size_t n = 0; n < count; n++) {
    const clattn_mask *mask = &problem->options.masks[first + n];
    text_add(options, " -D TERM%zu_KIND=%d -D TERM%zu_TYPE=%s", n, (int)mask->kind, n,
             clattn_type_name(mask->values.type));
  }
}

clattn_status masks_set_arguments(clattn_context *context, const attention_problem *problem, size_t first, size_t count,
                                  cl_kernel kernel, cl_uint *index) {
  clattn_status status = CLATTN_SUCCESS;
  for (size_t n = 0; n < count; n++) {
    const clattn_tensor *values = &problem->options.masks[first + n].values;
    cl_ulong8 view = {{values->offset, 0, 0, 0, 0, 0, 0, 0}};
    for (int i = 0; i < values->rank; i++) /* right-aligned; an extent of 1 repeats */
      view.s[1 + 4 - values->rank + i] = values->shape[i] == 1 ? 0 : values->stride[i];
    SET_ARGUMENT(context, kernel, (*index)++, values->buffer);
    SET_ARGUMENT(context, kernel, (*index)++, view);
  }

cleanup:
  return status;
}
