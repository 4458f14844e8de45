/* SPDX-License-Identifier: Apache-2.0 */
#include "attention/problem.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "attention/masks.h"

/* Offsets and windows up to here cannot overflow in the kernels' 64-bit sums. */
#define OFFSET_LIMIT ((int64_t)1 << 61)

size_t problem_group(const attention_problem *problem) {
  return problem->heads / problem->kv_heads;
}

lent_scratch problem_lent(const attention_problem *problem) {
  const clattn_options *options = &problem->options;
  lent_scratch lent = {options->scratch, options->scratch_offset, options->scratch_bytes};
  return lent;
}

size_t problem_columns(const attention_problem *problem) {
  return problem->kv_len + problem->extra_keys;
}

void clattn_options_init_sized(clattn_options *options, size_t struct_size) {
  clattn_options defaults;
  if (options == NULL || struct_size == 0) return;
  if (struct_size > sizeof defaults) struct_size = sizeof defaults;
  memset(&defaults, 0, sizeof defaults);
  defaults.struct_size = struct_size;
  defaults.scale = CLATTN_SCALE_AUTO;
  defaults.window_left = CLATTN_WINDOW_NONE;
  defaults.window_right = CLATTN_WINDOW_NONE;
  memcpy(options, &defaults, struct_size);
}

clattn_status options_read(clattn_context *context, const clattn_options *given, clattn_options *options) {
  clattn_options_init(options);
  if (given == NULL) return CLATTN_SUCCESS;
  if (given->struct_size == 0 || given->struct_size > sizeof *options)
    return REFUSE(context, CLATTN_INVALID_ARGUMENT,
                  "options->struct_size is %zu, not 1 to %zu: set up with clattn_options_init", given->struct_size,
                  sizeof *options);
  memcpy(options, given, given->struct_size);
  return CLATTN_SUCCESS;
}

clattn_status problem_set_arithmetic(clattn_context *context, attention_problem *problem, clattn_type inputs) {
  const clattn_options *options = &problem->options;
  problem->compute = inputs == CLATTN_FLOAT64 ? CLATTN_FLOAT64 : CLATTN_FLOAT32;
  if (options->compute != 0) {
    if (options->compute != CLATTN_FLOAT32 && options->compute != CLATTN_FLOAT64)
      return REFUSE(context, CLATTN_INVALID_TYPE, "compute is %s (%d), not float32 or float64",
                    clattn_type_name(options->compute), (int)options->compute);
    clattn_status status = tensor_check_float(context, "compute", options->compute);
    if (status != CLATTN_SUCCESS) return status;
    problem->compute = options->compute;
  }
  problem->scale = options->scale;
  /* HUGE_VAL is the default's name; a negative or missing number is none. */
  if (isinf(options->scale) && options->scale > 0) problem->scale = 1 / sqrt((double)problem->head_dim);
  return CLATTN_SUCCESS;
}

/* ------------------------------------------------------------------------------------------------------------ rules */

static clattn_status check_rules(clattn_context *context, const attention_problem *problem) {
  const clattn_options *options = &problem->options;
  if (!isfinite(problem->scale))
    return REFUSE(context, CLATTN_INVALID_ARGUMENT, "scale is %g, not a finite number", problem->scale);
  if (problem->compute == CLATTN_FLOAT32 && fabs(problem->scale) > (double)FLT_MAX)
    return REFUSE(context, CLATTN_INVALID_ARGUMENT, "scale is %g, which float32 arithmetic does not hold",
                  problem->scale);
  if ((int)options->causal < CLATTN_CAUSAL_NONE || (int)options->causal > CLATTN_CAUSAL_OFFSET)
    return REFUSE(context, CLATTN_INVALID_ARGUMENT, "causal is %d, which is no rule", (int)options->causal);
  if (options->causal != CLATTN_CAUSAL_OFFSET && options->causal_offset != 0)
    return REFUSE(context, CLATTN_INVALID_ARGUMENT,
                  "causal_offset is %lld while causal is %d, not CLATTN_CAUSAL_OFFSET",
                  (long long)options->causal_offset, (int)options->causal);
  if (options->causal_offset > OFFSET_LIMIT || options->causal_offset < -OFFSET_LIMIT)
    return REFUSE(context, CLATTN_INVALID_ARGUMENT, "causal_offset is %lld, beyond +-2^61",
                  (long long)options->causal_offset);
  if (options->window_left < CLATTN_WINDOW_NONE || options->window_right < CLATTN_WINDOW_NONE)
    return REFUSE(
        context, CLATTN_INVALID_ARGUMENT, "%s is %lld, not 0 or more, nor CLATTN_WINDOW_NONE",
        options->window_left < CLATTN_WINDOW_NONE ? "window_left" : "window_right",
        (long long)(options->window_left < CLATTN_WINDOW_NONE ? options->window_left : options->window_right));
  if ((int)options->path < CLATTN_PATH_AUTO || (int)options->path > CLATTN_PATH_FUSED)
    return REFUSE(context, CLATTN_INVALID_ARGUMENT, "path is %d, which is none", (int)options->path);
  if (options->path == CLATTN_PATH_FUSED)
    return REFUSE(context, CLATTN_UNSUPPORTED, "the fused path is not in this version: use CLATTN_PATH_GEMM or _AUTO");
  return CLATTN_SUCCESS;
}

static clattn_status check_dropout(clattn_context *context, const char *name, double p) {
  if (p >= 0 && p < 1) return CLATTN_SUCCESS;
  return REFUSE(context, CLATTN_INVALID_ARGUMENT, "%s is %g, not 0 <= p < 1", name, p);
}

/* Scores are divided by the cap, so that the arithmetic must hold it as a normal number. */
static clattn_status check_soft_cap(clattn_context *context, const attention_problem *problem) {
  const double cap = problem->options.soft_cap;
  const int fp64 = problem->compute == CLATTN_FLOAT64;
  const double smallest = fp64 ? DBL_MIN : (double)FLT_MIN, largest = fp64 ? DBL_MAX : (double)FLT_MAX;
  if (cap == 0 || (cap >= smallest && cap <= largest)) return CLATTN_SUCCESS;
  return REFUSE(context, CLATTN_INVALID_ARGUMENT, "soft_cap is %g, not 0 or %g to %g, which %s arithmetic holds", cap,
                smallest, largest, clattn_type_name(problem->compute));
}

static clattn_status check_numbers(clattn_context *context, const attention_problem *problem) {
  const clattn_options *options = &problem->options;
  clattn_status status = check_soft_cap(context, problem);
  if (status == CLATTN_SUCCESS) status = check_dropout(context, "dropout", options->dropout);
  if (status == CLATTN_SUCCESS) status = check_dropout(context, "output_dropout", options->output_dropout);
  if (status != CLATTN_SUCCESS) return status;
  if ((options->wait_count > 0) != (options->wait_list != NULL))
    return REFUSE(context, CLATTN_INVALID_ARGUMENT, "wait_count is %u while wait_list is %s",
                  (unsigned)options->wait_count, options->wait_list != NULL ? "given" : "NULL");
  return CLATTN_SUCCESS;
}

/* ---------------------------------------------------------------------------------------------------------- tensors */

static clattn_status check_lengths(clattn_context *context, const attention_problem *problem, const char *name,
                                   const clattn_tensor *lengths) {
  if (lengths == NULL) return CLATTN_SUCCESS;
  clattn_status status = tensor_check(context, name, lengths, TENSOR_INPUT);
  if (status != CLATTN_SUCCESS) return status;
  char shape[SHAPE_TEXT_SIZE];
  if (lengths->type != CLATTN_INT32 && lengths->type != CLATTN_INT64)
    return REFUSE(context, CLATTN_INVALID_TYPE, "%s is %s, not int32 or int64", name, clattn_type_name(lengths->type));
  if (lengths->rank != 1 || lengths->shape[0] != problem->batch)
    return REFUSE(context, CLATTN_INVALID_SHAPE, "%s has shape %s, not [%zu]", name,
                  shape_text(shape, lengths->rank, lengths->shape), problem->batch);
  return CLATTN_SUCCESS;
}

static clattn_status check_slopes(clattn_context *context, const attention_problem *problem) {
  const clattn_tensor *slopes = problem->options.alibi_slopes;
  if (slopes == NULL) return CLATTN_SUCCESS;
  clattn_status status = tensor_check(context, "alibi_slopes", slopes, TENSOR_INPUT);
  if (status == CLATTN_SUCCESS) status = tensor_check_float(context, "alibi_slopes", slopes->type);
  if (status != CLATTN_SUCCESS) return status;
  char shape[SHAPE_TEXT_SIZE];
  int fits = slopes->rank == 1   ? slopes->shape[0] == problem->heads
             : slopes->rank == 2 ? slopes->shape[0] == problem->batch && slopes->shape[1] == problem->heads
                                 : 0;
  if (fits) return CLATTN_SUCCESS;
  return REFUSE(context, CLATTN_INVALID_SHAPE, "alibi_slopes has shape %s, not [%zu] or [%zu,%zu]",
                shape_text(shape, slopes->rank, slopes->shape), problem->heads, problem->batch, problem->heads);
}

/* A result must have the type of the arithmetic and one of two shapes (`averaged` NULL: only the first). */
static clattn_status check_result(clattn_context *context, const attention_problem *problem, const char *name,
                                  const clattn_tensor *result, int rank, const size_t *shape, const size_t *averaged) {
  if (result == NULL) return CLATTN_SUCCESS;
  clattn_status status = tensor_check(context, name, result, TENSOR_OUTPUT);
  if (status != CLATTN_SUCCESS) return status;
  char have[SHAPE_TEXT_SIZE], want[SHAPE_TEXT_SIZE], other[SHAPE_TEXT_SIZE];
  if (result->type != problem->compute)
    return REFUSE(context, CLATTN_INVALID_TYPE, "%s is %s while the arithmetic is %s", name,
                  clattn_type_name(result->type), clattn_type_name(problem->compute));
  if (result->rank == rank && memcmp(result->shape, shape, (size_t)rank * sizeof *shape) == 0) return CLATTN_SUCCESS;
  if (averaged != NULL && result->rank == 3 && memcmp(result->shape, averaged, 3 * sizeof *averaged) == 0)
    return CLATTN_SUCCESS;
  return REFUSE(context, CLATTN_INVALID_SHAPE, "%s has shape %s, not %s%s%s", name,
                shape_text(have, result->rank, result->shape), shape_text(want, rank, shape),
                averaged != NULL ? " or averaged over heads " : "",
                averaged != NULL ? shape_text(other, 3, averaged) : "");
}

static clattn_status check_results(clattn_context *context, const attention_problem *problem) {
  const size_t scores[4] = {problem->batch, problem->heads, problem->q_len, problem_columns(problem)};
  const size_t averaged[3] = {problem->batch, problem->q_len, problem_columns(problem)};
  clattn_status status = check_result(context, problem, "weights", problem->options.weights, 4, scores, averaged);
  if (status != CLATTN_SUCCESS) return status;
  return check_result(context, problem, "log_sum_exp", problem->options.log_sum_exp, 3, scores, NULL);
}

/* 1 if the product of n extents and the size of the largest type fits 64 bits. An extent of 0 counts as 1: the others
 * must make sense without it. */
static int fits(const size_t *extents, int n) {
  uint64_t bytes = sizeof(double);
  for (int i = 0; i < n; i++)
    if (extents[i] != 0 && !checked_multiply(bytes, extents[i], &bytes)) return 0;
  return 1;
}

clattn_status problem_check_extents(clattn_context *context, const attention_problem *problem) {
  size_t width = problem->head_dim > problem->value_dim ? problem->head_dim : problem->value_dim;
  size_t length = problem->q_len > problem_columns(problem) ? problem->q_len : problem_columns(problem);
  const size_t scores[] = {problem->batch, problem->heads, problem->q_len, problem_columns(problem)};
  const size_t heads[] = {problem->batch, problem->heads, length, width};
  if (fits(scores, 4) && fits(heads, 4)) return CLATTN_SUCCESS;
  return REFUSE(context, CLATTN_INVALID_SHAPE,
                "sizes pass 64 bits: batch %zu, heads %zu, queries %zu, keys %zu, head sizes %zu and %zu",
                problem->batch, problem->heads, problem->q_len, problem->kv_len, problem->head_dim, problem->value_dim);
}

clattn_status problem_check_options(clattn_context *context, const attention_problem *problem) {
  clattn_status status = CLATTN_SUCCESS;
  if (!problem->wants_output && problem->options.weights == NULL && problem->options.log_sum_exp == NULL)
    return REFUSE(context, CLATTN_INVALID_ARGUMENT, "output, weights and log_sum_exp are all NULL: nothing to compute");
  CHECK(problem_check_extents(context, problem));
  CHECK(check_rules(context, problem));
  CHECK(check_numbers(context, problem));
  lent_scratch lent = problem_lent(problem);
  CHECK(workspace_check_lent(context, &lent));
  CHECK(check_lengths(context, problem, "kv_lengths", problem->options.kv_lengths));
  CHECK(check_lengths(context, problem, "q_lengths", problem->options.q_lengths));
  CHECK(check_slopes(context, problem));
  CHECK(masks_check(context, problem));
  CHECK(check_results(context, problem));

cleanup:
  return status;
}

void problem_drop_empty_masks(attention_problem *problem) {
  if (problem->kv_len == 0) problem->options.mask_count = 0;
}

size_t problem_option_arguments(attention_problem *problem, tensor_argument *arguments) {
  const clattn_options *options = &problem->options;
  size_t count = 6 + options->mask_count;
  if (arguments == NULL) return count;
  arguments[0] = (tensor_argument){"weights", options->weights, TENSOR_OUTPUT};
  arguments[1] = (tensor_argument){"log_sum_exp", options->log_sum_exp, TENSOR_OUTPUT};
  arguments[2] = (tensor_argument){"kv_lengths", options->kv_lengths, TENSOR_INPUT};
  arguments[3] = (tensor_argument){"q_lengths", options->q_lengths, TENSOR_INPUT};
  arguments[4] = (tensor_argument){"alibi_slopes", options->alibi_slopes, TENSOR_INPUT};
  const size_t bytes[1] = {(size_t)options->scratch_bytes};
  problem->scratch_view = clattn_tensor_view(options->scratch, (size_t)options->scratch_offset, CLATTN_BOOL8, 1, bytes);
  arguments[5] = (tensor_argument){"scratch", options->scratch != NULL ? &problem->scratch_view : NULL, TENSOR_OUTPUT};
  for (size_t i = 0; i < options->mask_count; i++)
    arguments[6 + i] = (tensor_argument){"a mask", &options->masks[i].values, TENSOR_INPUT};
  return count;
}
