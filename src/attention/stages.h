/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernels of the gemm path, a host function each; a file each, named as the kernel. */
#ifndef CLATTN_ATTENTION_STAGES_H
#define CLATTN_ATTENTION_STAGES_H

#include "attention/problem.h"

/* Bias of a projection: [heads, size] in any float type; buffer NULL: none. */
typedef struct bias_view {
  cl_mem buffer;
  clattn_type type;
  size_t offset, head_stride, stride;
} bias_view;

/* Extra keys and values behind those of the view: `count` rows, the first of them `row` (a bias; buffer NULL: zeros),
 * others zero. */
typedef struct extra_rows {
  size_t count;
  bias_view row;
} extra_rows;

/* Dropout of a stream: probability (0: none), seed and call of the options. */
typedef struct dropout_view {
  double probability;
  uint64_t seed;
  uint32_t call;
} dropout_view;

/* from [B,H,T,D] (any strides) -> to [units,T + extra,D] contiguous, type `compute`: (from + bias) * scale; 0 behind
 * `lengths` (NULL: none), whose entries count T. Units first .. first + units - 1 of the B*H. */
clattn_status split_heads(clattn_context *context, const clattn_tensor *from, cl_mem to, clattn_type compute,
                          size_t first, size_t units, double scale, bias_view bias, extra_rows extra,
                          const clattn_tensor *lengths);

/* from [units,T,D] contiguous, type `compute` -> to [B,H,T,D] (any strides): from + bias, 0 behind `q_lengths` (NULL:
 * none). Dropout is for views with H = 1. */
clattn_status merge_heads(clattn_context *context, cl_mem from, const clattn_tensor *to, clattn_type compute,
                          size_t first, size_t units, bias_view bias, const clattn_tensor *q_lengths,
                          dropout_view dropout);

/* A piece of the score matrix that lies in scratch memory as [units, rows, columns]. A unit is a batch entry and key
 * head, b*G + g; its rows are those of the H/G heads that read it, (h % (H/G)) * T + i. */
typedef struct score_slice {
  cl_mem scores;
  size_t first_unit, units;
  size_t first_row, rows; /* of each unit; all (H/G)*T of them unless units is 1 */
} score_slice;

/* Applies mask terms first .. first + count - 1 (1 to MASKS_PER_KERNEL of them) in place; soft cap and slopes before
 * term 0. */
clattn_status mask_scores(clattn_context *context, const attention_problem *problem, const score_slice *slice,
                          size_t first, size_t count);

/* Applies the rules, soft cap and slopes (unless mask_scores had them) and the last `terms` mask terms, then the soft
 * max, in place; writes weights per head and log-sum-exp if asked for. */
clattn_status softmax(clattn_context *context, const attention_problem *problem, const score_slice *slice,
                      size_t terms);

/* Columns that a work-item of softmax takes side by side, and work-items a row. */
typedef struct softmax_shape {
  unsigned vector, work_group;
} softmax_shape;
softmax_shape softmax_choose(const clattn_context *context, const attention_problem *problem);

/* Adds the slice to the weights averaged over heads. */
clattn_status average_weights(clattn_context *context, const attention_problem *problem, const score_slice *slice);

/* "-D COMPUTE=float64 -D USE_FP64=1"; `other` is any further element type in use. */
void add_type_defines(text_builder *options, clattn_type compute, clattn_type other);

/* Arguments of LENGTHS_PARAMETERS or Q_LENGTHS_PARAMETERS, and of DROPOUT_PARAMETERS. */
clattn_status lengths_set_arguments(clattn_context *context, const clattn_tensor *lengths, cl_kernel kernel,
                                    cl_uint *index);
clattn_status dropout_set_arguments(clattn_context *context, dropout_view dropout, clattn_type compute,
                                    cl_kernel kernel, cl_uint *index);

/* Arguments of a bias: buffer and view. */
clattn_status bias_set_arguments(clattn_context *context, bias_view bias, cl_kernel kernel, cl_uint *index);

/* A number in the type of the arithmetic. */
clattn_status set_real_argument(clattn_context *context, cl_kernel kernel, cl_uint index, clattn_type compute,
                                double value);

/* A work-group for a copy over rows of `columns`, within what the kernel allows. */
clattn_status copy_work_group(clattn_context *context, cl_kernel kernel, const char *name, size_t columns,
                              size_t local[3]);

#endif
