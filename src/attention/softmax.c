/* SPDX-License-Identifier: Apache-2.0 */
#include "attention/masks.h"
#include "attention/stages.h"

/* A window of this size restricts nothing, and its sums with a position stay within 64 bits. */
#define NO_WINDOW ((cl_long)1 << 62)

softmax_shape softmax_choose(const clattn_context *context, const attention_problem *problem) {
  softmax_shape shape = {1, 1};
  if (device_is_vector_cpu(&context->info)) {
    /* One work-item a row: a loop over vectors needs no barrier, and a CPU has no lanes beside it. */
    unsigned width = context->info.vector_width;
    if (problem->compute == CLATTN_FLOAT64) width /= 2;
    shape.vector = width >= 16 ? 16 : width >= 8 ? 8 : width >= 4 ? 4 : 2;
    return shape;
  }
  /* Neighbouring work-items read neighbouring columns. 256 fill a compute unit; short rows need fewer. */
  size_t limit = context->info.max_work_group < 256 ? context->info.max_work_group : 256;
  while (shape.work_group <= limit / 2 && shape.work_group < problem->kv_len) shape.work_group *= 2;
  return shape;
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

static void add_defines(text_builder *options, const attention_problem *problem, softmax_shape shape, size_t terms) {
  const clattn_options *given = &problem->options;
  size_t first = given->mask_count - terms;
  int fp64 = 0;
  for (size_t i = first; i < given->mask_count; i++) fp64 |= given->masks[i].values.type == CLATTN_FLOAT64;
  add_type_defines(options, problem->compute, fp64 ? CLATTN_FLOAT64 : CLATTN_FLOAT32);
  text_add(options, " -D VEC=%u -D WG=%u -D WEIGHTS=%d -D LSE=%d", shape.vector, shape.work_group,
           given->weights != NULL && given->weights->rank == 4, given->log_sum_exp != NULL);
  if (given->kv_lengths != NULL) text_add(options, " -D LENGTHS=%s", clattn_type_name(given->kv_lengths->type));
  masks_add_defines(options, problem, first, terms);
}

/* The kernel with a work-group that it can have: its own limit may be below the device's. */
static clattn_status build(clattn_context *context, const attention_problem *problem, size_t terms,
                           softmax_shape *shape, cl_kernel *kernel) {
  for (;;) {
    char text[768];
    size_t limit = 0;
    text_builder options = text_begin(text, sizeof text);
    add_defines(&options, problem, *shape, terms);
    clattn_status status = program_kernel(context, "softmax", text, kernel);
    if (status == CLATTN_SUCCESS) status = program_work_group(context, *kernel, "softmax", &limit);
    if (status != CLATTN_SUCCESS || shape->work_group <= limit || shape->work_group == 1) return status;
    shape->work_group /= 2;
  }
}

clattn_status softmax(clattn_context *context, const attention_problem *problem, const score_slice *slice,
                      size_t terms) {
  clattn_status status = CLATTN_SUCCESS;
  const clattn_options *given = &problem->options;
  softmax_shape shape = softmax_choose(context, problem);
  cl_kernel kernel = NULL;
  cl_uint index = 0;
  CHECK(build(context, problem, terms, &shape, &kernel));

  /* scores, extent, rule [, lengths, lengths_view] [, weights, weights_view] [, log_sum_exp, lse_view], terms */
  cl_ulong8 extent = slice_extent(problem, slice);
  cl_long4 rule = rule_argument(given);
  SET_ARGUMENT(context, kernel, index++, slice->scores);
  SET_ARGUMENT(context, kernel, index++, extent);
  SET_ARGUMENT(context, kernel, index++, rule);
  if (given->kv_lengths != NULL) {
    cl_ulong8 view = {{given->kv_lengths->offset, given->kv_lengths->stride[0], 0, 0, 0, 0, 0, 0}};
    SET_ARGUMENT(context, kernel, index++, given->kv_lengths->buffer);
    SET_ARGUMENT(context, kernel, index++, view);
  }
  if (given->weights != NULL && given->weights->rank == 4) {
    const clattn_tensor *w = given->weights;
    cl_ulong8 view = {{w->offset, w->stride[0], w->stride[1], w->stride[2], w->stride[3], 0, 0, 0}};
    SET_ARGUMENT(context, kernel, index++, w->buffer);
    SET_ARGUMENT(context, kernel, index++, view);
  }
  if (given->log_sum_exp != NULL) {
    const clattn_tensor *lse = given->log_sum_exp;
    cl_ulong8 view = {{lse->offset, lse->stride[0], lse->stride[1], lse->stride[2], 0, 0, 0, 0}};
    SET_ARGUMENT(context, kernel, index++, lse->buffer);
    SET_ARGUMENT(context, kernel, index++, view);
  }
  CHECK(masks_set_arguments(context, problem, given->mask_count - terms, terms, kernel, &index));
  const size_t global[3] = {shape.work_group, slice->rows, slice->units}, local[3] = {shape.work_group, 1, 1};
  CHECK(program_launch(context, kernel, "softmax", global, local));

cleanup:
  return status;
}
