/* SPDX-License-Identifier: Apache-2.0 */
#include "attention/rows.h"

#include "attention/masks.h"

/* A window of this size restricts nothing, and its sums with a position stay within 64 bits. */
#define NO_WINDOW ((cl_long)1 << 62)

cl_ulong8 rows_extent(const attention_problem *problem, const score_slice *slice) {
  cl_ulong8 extent = {{slice->first_unit, slice->first_row, slice->rows, problem->q_len, problem->kv_heads,
                       problem_group(problem), problem_columns(problem), slice->units}};
  return extent;
}

static cl_long window_or_none(int64_t window) {
  return window == CLATTN_WINDOW_NONE || window > NO_WINDOW ? NO_WINDOW : (cl_long)window;
}

/* (causal: 0 none, 1 offset, 2 bottom-right; offset; window_left; window_right) */
static cl_long4 rule_argument(const clattn_options *options) {
  cl_long causal = options->causal == CLATTN_CAUSAL_NONE ? 0 : options->causal == CLATTN_CAUSAL_BOTTOM_RIGHT ? 2 : 1;
  cl_long4 rule = {
      {causal, options->causal_offset, window_or_none(options->window_left), window_or_none(options->window_right)}};
  return rule;
}

void rows_add_defines(text_builder *options, const attention_problem *problem, row_changes changes) {
  const clattn_options *given = &problem->options;
  const clattn_tensor *slopes = changes.modifiers ? given->alibi_slopes : NULL;
  int fp64 = slopes != NULL && slopes->type == CLATTN_FLOAT64;
  for (size_t i = 0; i < changes.terms; i++) fp64 |= given->masks[changes.first_term + i].values.type == CLATTN_FLOAT64;
  add_type_defines(options, problem->compute, fp64 ? CLATTN_FLOAT64 : CLATTN_FLOAT32);
  text_add(options, " -D EXTRA=%zu -D CAP=%d", problem->extra_keys, changes.modifiers && given->soft_cap > 0);
  if (given->kv_lengths != NULL) text_add(options, " -D LENGTHS=%s", clattn_type_name(given->kv_lengths->type));
  if (given->q_lengths != NULL) text_add(options, " -D Q_LENGTHS=%s", clattn_type_name(given->q_lengths->type));
  if (slopes != NULL) text_add(options, " -D SLOPES=%s", clattn_type_name(slopes->type));
  masks_add_defines(options, problem, changes.first_term, changes.terms);
}

clattn_status rows_set_arguments(clattn_context *context, const attention_problem *problem, row_changes changes,
                                 cl_kernel kernel, cl_uint *index) {
  clattn_status status = CLATTN_SUCCESS;
  const clattn_options *given = &problem->options;
  cl_long4 rule = rule_argument(given);
  SET_ARGUMENT(context, kernel, (*index)++, rule);
  if (given->kv_lengths != NULL) CHECK(lengths_set_arguments(context, given->kv_lengths, kernel, index));
  if (given->q_lengths != NULL) CHECK(lengths_set_arguments(context, given->q_lengths, kernel, index));
  if (changes.modifiers && given->soft_cap > 0)
    CHECK(set_real_argument(context, kernel, (*index)++, problem->compute, given->soft_cap));
  if (changes.modifiers && given->alibi_slopes != NULL) {
    const clattn_tensor *slopes = given->alibi_slopes;
    int per_entry = slopes->rank == 2;
    cl_ulong8 view = {{slopes->offset, per_entry ? slopes->stride[0] : 0, slopes->stride[per_entry], 0, 0, 0, 0, 0}};
    SET_ARGUMENT(context, kernel, (*index)++, slopes->buffer);
    SET_ARGUMENT(context, kernel, (*index)++, view);
  }
  CHECK(masks_set_arguments(context, problem, changes.first_term, changes.terms, kernel, index));

cleanup:
  return status;
}
