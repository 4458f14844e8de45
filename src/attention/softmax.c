/* SPDX-License-Identifier: Apache-2.0 */
#include "attention/masks.h"
#include "attention/rows.h"

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
  while (shape.work_group <= limit / 2 && shape.work_group < problem_columns(problem)) shape.work_group *= 2;
  return shape;
}

/* The last terms; cap and slopes, too, unless an earlier pass had the first terms. */
static row_changes last_changes(const attention_problem *problem, size_t terms) {
  row_changes changes = {terms == problem->options.mask_count, problem->options.mask_count - terms, terms};
  return changes;
}

static dropout_view probability_dropout(const clattn_options *options) {
  dropout_view dropout = {options->inference ? 0 : options->dropout, options->dropout_seed, options->dropout_call};
  return dropout;
}

static void add_defines(text_builder *options, const attention_problem *problem, softmax_shape shape, size_t terms) {
  const clattn_options *given = &problem->options;
  rows_add_defines(options, problem, last_changes(problem, terms));
  text_add(options, " -D VEC=%u -D WG=%u -D WEIGHTS=%d -D LSE=%d -D DROPOUT=%d", shape.vector, shape.work_group,
           given->weights != NULL && given->weights->rank == 4, given->log_sum_exp != NULL,
           probability_dropout(given).probability > 0);
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

  /* scores, extent [, weights, weights_view] [, log_sum_exp, lse_view] [, dropout, dropout_scale], ROW_PARAMETERS */
  cl_ulong8 extent = rows_extent(problem, slice);
  const dropout_view dropout = probability_dropout(given);
  SET_ARGUMENT(context, kernel, index++, slice->scores);
  SET_ARGUMENT(context, kernel, index++, extent);
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
  if (dropout.probability > 0) CHECK(dropout_set_arguments(context, dropout, problem->compute, kernel, &index));
  CHECK(rows_set_arguments(context, problem, last_changes(problem, terms), kernel, &index));
  const size_t global[3] = {shape.work_group, slice->rows, slice->units}, local[3] = {shape.work_group, 1, 1};
  CHECK(program_launch(context, kernel, "softmax", global, local));

cleanup:
  return status;
}
