/* SPDX-License-Identifier: Apache-2.0 */
#include "attention/gemm_path.h"

#include <limits.h>
#include <math.h>

#include "attention/masks.h"

/* ---------------------------------------------------------------------------------------------------------- cutting */

static size_t smaller(uint64_t a, uint64_t b) {
  return (size_t)(a < b ? a : b);
}

static size_t divide_up(size_t a, size_t b) {
  return a / b + (a % b != 0);
}

/* What the call may take: the user's word, or the default, raised to what the smallest cut of this problem needs. No
 * limit is worth more than two of the largest buffers, nor more elements than CLBlast can address. */
static clattn_status find_limit(clattn_context *context, const attention_problem *problem, uint64_t smallest,
                                uint64_t *limit) {
  const uint64_t addressable = (uint64_t)INT_MAX * 4, some_rows = (uint64_t)64 << 20;
  const clattn_options *options = &problem->options;
  uint64_t set = options->scratch_limit ? options->scratch_limit : context->scratch_limit;
  if (options->scratch != NULL && (set == 0 || options->scratch_bytes < set)) set = options->scratch_bytes;
  if (set != 0 && smallest > set)
    return REFUSE(context, CLATTN_OUT_OF_DEVICE_MEMORY,
                  "scratch memory: one row of scores and its heads need %llu bytes; the limit is %llu",
                  (unsigned long long)smallest, (unsigned long long)set);
  *limit = set != 0 ? set : context_default_scratch(context);
  if (set == 0 && smallest + some_rows > *limit) *limit = smallest + some_rows;
  if (*limit / 2 > context->info.max_alloc_bytes) *limit = 2 * context->info.max_alloc_bytes;
  if (*limit > addressable && addressable > smallest) *limit = addressable;
  return CLATTN_SUCCESS;
}

static uint64_t heads_bytes(const clattn_context *context, const scratch_need *heads, size_t granules) {
  const scratch_need all = scratch_times(heads, granules);
  return scratch_total(context, &all);
}

/* Granules of a chunk: all, or as many as half of the memory holds, which leaves the rest for scores. */
static size_t chunk_granules(const clattn_context *context, const gemm_cut *cut, size_t granules, size_t most,
                             const scratch_need *heads, uint64_t all_scores) {
  const uint64_t all_heads = heads_bytes(context, heads, granules);
  size_t chunk = granules;
  if (all_heads > cut->limit || cut->limit - all_heads < all_scores) {
    if (all_heads > cut->limit / 2) chunk = (size_t)(cut->limit / 2 / scratch_total(context, heads));
    if (chunk == 0) chunk = 1;
  }
  if (chunk > most) chunk = most;
  return divide_up(granules, divide_up(granules, chunk)); /* equal chunks */
}

clattn_status gemm_cut_work(clattn_context *context, const attention_problem *problem, size_t granule, size_t most,
                            const scratch_need *heads, uint64_t fixed_bytes, gemm_cut *cut) {
  const uint64_t element = clattn_type_size(problem->compute), alignment = context->base_alignment;
  const uint64_t row_bytes = problem_columns(problem) * element, granule_bytes = scratch_total(context, heads);
  cut->units = problem->batch * problem->kv_heads;
  cut->unit_rows = problem_group(problem) * problem->q_len;
  const uint64_t unit_bytes = cut->unit_rows * row_bytes;
  const size_t granules = cut->units / granule;
  uint64_t sum = 0, unused = 0;
  if (!checked_add(granule_bytes, row_bytes + alignment, &sum) || !checked_add(sum, fixed_bytes, &sum) ||
      !checked_multiply(granules, granule_bytes, &unused))
    return REFUSE(context, CLATTN_INVALID_SHAPE, "the heads of [B,H,T,S] = [%zu,%zu,%zu,%zu] pass 64 bits",
                  problem->batch, problem->heads, problem->q_len, problem->kv_len);
  scratch_need smallest = *heads;
  smallest.bytes[SCRATCH_SCORES] = row_bytes;
  clattn_status status = find_limit(context, problem, scratch_total(context, &smallest) + fixed_bytes, &cut->limit);
  if (status != CLATTN_SUCCESS) return status;
  cut->limit -= fixed_bytes;

  const size_t chunk = chunk_granules(context, cut, granules, most, heads, cut->units * unit_bytes);
  cut->chunk_units = chunk * granule;
  const uint64_t taken = heads_bytes(context, heads, chunk);
  uint64_t room = taken < cut->limit ? cut->limit - taken : 0;
  room -= room % alignment; /* so that the scores, rounded up, stay within it */
  if (room < row_bytes) room = row_bytes;
  if (room > context->info.max_alloc_bytes) room = context->info.max_alloc_bytes;
  cut->slice_units = cut->chunk_units;
  cut->slice_rows = cut->unit_rows;
  if (unit_bytes > room) {
    cut->slice_units = 1;
    size_t rows = smaller(room / row_bytes, cut->unit_rows);
    cut->slice_rows = divide_up(cut->unit_rows, divide_up(cut->unit_rows, rows > 0 ? rows : 1));
  } else if (unit_bytes > 0) {
    size_t fit = smaller(room / unit_bytes, cut->chunk_units);
    cut->slice_units = divide_up(cut->chunk_units, divide_up(cut->chunk_units, fit));
  }
  cut->score_bytes = (uint64_t)cut->slice_units * cut->slice_rows * row_bytes;
  cut->slices = (uint64_t)divide_up(granules, chunk) * divide_up(cut->chunk_units, cut->slice_units) *
                divide_up(cut->unit_rows, cut->slice_rows);
  return CLATTN_SUCCESS;
}

/* ---------------------------------------------------------------------------------------------------------- running */

gemm_heads gemm_scratch_heads(const clattn_context *context, const attention_problem *problem) {
  const cl_mem *scratch = context->workspace.buffer;
  const size_t rows = problem_group(problem) * problem->q_len, columns = problem_columns(problem);
  const size_t d = problem->head_dim, dv = problem->value_dim;
  gemm_heads heads = {{scratch[SCRATCH_QUERY], 0, d, rows * d},
                      {scratch[SCRATCH_KEY], 0, d, columns * d},
                      {scratch[SCRATCH_VALUE], 0, dv, columns * dv},
                      {scratch[SCRATCH_HEADS], 0, dv, rows * dv}};
  return heads;
}

double gemm_query_scale(const attention_problem *problem) {
  return fabs(problem->scale) < 1 ? problem->scale : 1;
}

/* Scores of a slice: [rows, S] = query [rows, D] times key^T, for each unit. */
static product score_product(const attention_problem *problem, const gemm_cut *cut, const gemm_heads *heads,
                             const score_slice *slice, size_t unit) {
  const size_t columns = problem_columns(problem);
  product p = {.type = problem->compute,
               .batch = slice->units,
               .m = slice->rows,
               .n = columns,
               .k = problem->head_dim,
               .b_transposed = 1,
               .alpha = fabs(problem->scale) >= 1 ? problem->scale : 1.0,
               .a = heads->query,
               .b = heads->key,
               .c = {slice->scores, 0, columns, slice->rows * columns}};
  p.a.offset += (unit * cut->unit_rows + slice->first_row) * problem->head_dim;
  p.b.offset += unit * heads->key.stride;
  return p;
}

/* Keys that one product sums over. CLBlast adds in order: n terms round n times, and where all are alike every rounding
 * goes the same way. Blocks keep that within n / KEY_BLOCK + KEY_BLOCK roundings, at the cost of a product a block. */
#define KEY_BLOCK 2048

/* Output of a slice, keys `first` to first + KEY_BLOCK: [rows, Dv] = (what the keys before gave) + probabilities times
 * value. */
static product output_product(const attention_problem *problem, const gemm_cut *cut, const gemm_heads *heads,
                              const score_slice *slice, size_t unit, size_t first) {
  const size_t columns = problem_columns(problem);
  product p = {.type = problem->compute,
               .batch = slice->units,
               .m = slice->rows,
               .n = problem->value_dim,
               .k = smaller(columns - first, KEY_BLOCK),
               .b_transposed = 0,
               .alpha = 1.0,
               .beta = first > 0 ? 1.0 : 0.0,
               .a = {slice->scores, first, columns, slice->rows * columns},
               .b = heads->value,
               .c = heads->output};
  p.b.offset += unit * heads->value.stride + first * heads->value.ld;
  p.c.offset += (unit * cut->unit_rows + slice->first_row) * problem->value_dim;
  return p;
}

/* One slice; `unit` counts from the chunk's first. */
static clattn_status attend_slice(clattn_context *context, const attention_problem *problem, const gemm_cut *cut,
                                  const gemm_heads *heads, const score_slice *slice, size_t unit) {
  clattn_status status = CLATTN_SUCCESS;
  const clattn_options *options = &problem->options;
  product scores = score_product(problem, cut, heads, slice, unit);
  CHECK(blas_multiply(context, &scores));
  size_t left = options->mask_count;
  while (left > MASKS_PER_KERNEL) {
    size_t count = left - MASKS_PER_KERNEL < MASKS_PER_KERNEL ? left - MASKS_PER_KERNEL : MASKS_PER_KERNEL;
    CHECK(mask_scores(context, problem, slice, options->mask_count - left, count));
    left -= count;
  }
  CHECK(softmax(context, problem, slice, left));
  if (options->weights != NULL && options->weights->rank == 3) CHECK(average_weights(context, problem, slice));
  if (!problem->wants_output) return CLATTN_SUCCESS;
  for (size_t key = 0; key < problem_columns(problem); key += KEY_BLOCK) {
    product output = output_product(problem, cut, heads, slice, unit, key);
    CHECK(blas_multiply(context, &output));
  }

cleanup:
  return status;
}

clattn_status gemm_attend(clattn_context *context, const attention_problem *problem, const gemm_cut *cut,
                          const gemm_heads *heads, size_t first, size_t units) {
  clattn_status status = CLATTN_SUCCESS;
  for (size_t unit = 0; unit < units; unit += cut->slice_units)
    for (size_t row = 0; row < cut->unit_rows; row += cut->slice_rows) {
      score_slice slice = {context->workspace.buffer[SCRATCH_SCORES], first + unit,
                           smaller(cut->slice_units, units - unit), row,
                           smaller(cut->slice_rows, cut->unit_rows - row)};
      CHECK(attend_slice(context, problem, cut, heads, &slice, unit));
      /* CLBlast's own buffers live until their work is done: without a wait those of all slices would pile up. */
      if (cut->slices > 1) CHECK_CL(context_message(context), clFinish(context->queue), "clFinish after a slice");
    }

cleanup:
  return status;
}

clattn_status gemm_attend_nothing(clattn_context *context, const attention_problem *problem, cl_mem output,
                                  size_t first, size_t units) {
  clattn_status status = CLATTN_SUCCESS;
  const size_t unit_rows = problem_group(problem) * problem->q_len;
  const cl_uint zero = 0;
  if (output != NULL)
    CHECK_CL(context_message(context),
             clEnqueueFillBuffer(context->queue, output, &zero, sizeof zero, 0,
                                 units * unit_rows * problem->value_dim * clattn_type_size(problem->compute), 0, NULL,
                                 NULL),
             "clEnqueueFillBuffer of %zu rows", units * unit_rows);
  if (problem->options.log_sum_exp == NULL) return CLATTN_SUCCESS;
  score_slice slice = {NULL, first, units, 0, unit_rows};
  CHECK(softmax(context, problem, &slice, 0));

cleanup:
  return status;
}

/* ------------------------------------------------------------------------------------------------------- explaining */

clattn_status gemm_temporary_bytes(clattn_context *context, const attention_problem *problem, const gemm_cut *cut,
                                   const gemm_heads *heads, uint64_t *bytes) {
  clattn_status status = CLATTN_SUCCESS;
  uint64_t one = 0;
  *bytes = 0;
  if (problem_columns(problem) == 0) return CLATTN_SUCCESS;
  score_slice slice = {NULL, 0, cut->slice_units, 0, cut->slice_rows};
  product scores = score_product(problem, cut, heads, &slice, 0),
          output = output_product(problem, cut, heads, &slice, 0, 0);
  CHECK(blas_temporary_bytes(context, &scores, &one));
  *bytes = one;
  if (problem->wants_output) CHECK(blas_temporary_bytes(context, &output, &one));
  if (one > *bytes) *bytes = one;

cleanup:
  return status;
}

void gemm_explain_path(const attention_problem *problem, text_builder *text) {
  text_add(text, "path: gemm (%s)\n",
           problem->options.path == CLATTN_PATH_GEMM ? "asked for" : "auto: the only path of this version");
}

/* What a score goes through between the products. */
static void explain_softmax(const clattn_context *context, const attention_problem *problem, const gemm_cut *cut,
                            text_builder *text) {
  const clattn_options *options = &problem->options;
  const softmax_shape shape = softmax_choose(context, problem);
  const size_t terms = options->mask_count, columns = problem_columns(problem);
  char modifiers[32];
  const size_t early = terms > MASKS_PER_KERNEL ? terms - MASKS_PER_KERNEL : 0;
  text_builder changes = text_begin(modifiers, sizeof modifiers);
  if (options->soft_cap > 0) text_add(&changes, ", soft cap");
  if (options->alibi_slopes != NULL) text_add(&changes, ", slopes");
  if (early > 0)
    text_add(text, "mask_scores: mask terms 0 to %zu%s, up to %d terms a pass (softmax takes no more than %d)\n",
             early - 1, modifiers, MASKS_PER_KERNEL, MASKS_PER_KERNEL);
  text_add(text, "softmax: [%zu,%zu,%zu], %zu mask terms%s%s; %u work-item%s a row, %u column%s each at a time",
           cut->slice_units, cut->slice_rows, columns, terms - early, early == 0 ? modifiers : "",
           options->dropout > 0 && !options->inference ? ", dropout" : "", shape.work_group,
           shape.work_group > 1 ? "s" : "", shape.vector, shape.vector > 1 ? "s" : "");
  text_add(text, " (class %s: float vectors of %u)\n", context->info.kind, context->info.vector_width);
  if (options->weights != NULL && options->weights->rank == 3)
    text_add(text, "average_weights: %zu heads into [%zu,%zu,%zu]\n", problem->heads, problem->batch, problem->q_len,
             columns);
}

void gemm_explain(const clattn_context *context, const attention_problem *problem, const gemm_cut *cut,
                  const gemm_heads *heads, text_builder *text) {
  const clattn_options *options = &problem->options;
  if (problem_columns(problem) == 0) {
    text_add(text, "scores: none, there is no key; the output is filled with zeros\n");
    return;
  }
  const score_slice slice = {NULL, 0, cut->slice_units, 0, cut->slice_rows};
  const product scores = score_product(problem, cut, heads, &slice, 0),
                output = output_product(problem, cut, heads, &slice, 0, 0);
  text_add(text, "scores: ");
  blas_explain(&scores, text);
  text_add(text,
           ", %zu of %zu units (batch entry, key head) by %zu of %zu rows: %llu slice%s (%s limit of %llu bytes)\n",
           cut->slice_units, cut->units, cut->slice_rows, cut->unit_rows, (unsigned long long)cut->slices,
           cut->slices > 1 ? "s" : "",
           options->scratch_limit || context->scratch_limit || options->scratch ? "given" : "default",
           (unsigned long long)cut->limit);
  explain_softmax(context, problem, cut, text);
  if (!problem->wants_output) return;
  text_add(text, "values: ");
  blas_explain(&output, text);
  text_add(text, "\n");
}
