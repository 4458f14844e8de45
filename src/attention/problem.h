/* SPDX-License-Identifier: Apache-2.0
 *
 * One attention call, checked and with every default filled in: what plan, paths and stages work from. */
#ifndef CLATTN_ATTENTION_PROBLEM_H
#define CLATTN_ATTENTION_PROBLEM_H

#include "core/context.h"
#include "core/tensor.h"

typedef struct attention_problem {
  size_t batch, heads, kv_heads, q_len, kv_len, head_dim, value_dim;
  size_t extra_keys; /* bias_k and the zero key: behind the kv_len, touched by no rule and no mask */
  int bias_key;      /* 1: the first of them is bias_k */
  clattn_type compute;
  double scale;
  int wants_output;           /* 0: only weights or log-sum-exp are asked for */
  clattn_options options;     /* a copy, every field valid */
  clattn_tensor scratch_view; /* of options.scratch, for the check of overlaps */
} attention_problem;

/* Query heads that read one key head. */
size_t problem_group(const attention_problem *problem);

/* Scratch memory that the options lend. */
lent_scratch problem_lent(const attention_problem *problem);

/* Columns of the score matrix: all keys. */
size_t problem_columns(const attention_problem *problem);

/* A copy of the caller's options (NULL: defaults), whatever version of the struct they were built with. */
clattn_status options_read(clattn_context *context, const clattn_options *given, clattn_options *options);

/* Sets compute and scale from the options, for inputs of the given type. head_dim must be set. */
clattn_status problem_set_arithmetic(clattn_context *context, attention_problem *problem, clattn_type inputs);

/* Checks the options against the extents, which must be set. */
clattn_status problem_check_options(clattn_context *context, const attention_problem *problem);

/* Number of arguments that the options name: outputs, lengths and masks; and the arguments, for tensor_check_overlap.
 */
size_t problem_option_arguments(attention_problem *problem, tensor_argument *arguments);

/* Without keys masks have no values: kernels are not told of them. For a problem that is checked. */
void problem_drop_empty_masks(attention_problem *problem);

/* Extents of the score matrix whose byte count fits 64 bits. */
clattn_status problem_check_extents(clattn_context *context, const attention_problem *problem);

#endif
