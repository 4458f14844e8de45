/* SPDX-License-Identifier: Apache-2.0 */
#include "attention/path.h"

#include <string.h>

#include "attention/masks.h"

/* --------------------------------------------------------------------------------------------------------- features */

unsigned path_tensor_features(const clattn_tensor *tensor, int placed) {
  unsigned features = 0;
  if (tensor == NULL) return 0;
  if (tensor->type == CLATTN_FLOAT16) features |= TRUST_FLOAT16;
  if (tensor->type == CLATTN_BFLOAT16) features |= TRUST_BFLOAT16;
  if (placed && (tensor->offset != 0 || !tensor_is_contiguous(tensor))) features |= TRUST_STRIDES;
  return features;
}

unsigned path_product_features(size_t m, size_t n, size_t k) {
  return (double)m * (double)n * (double)k >= (double)TRUST_LARGE_PRODUCT ? TRUST_LARGE : 0;
}

static unsigned mask_features(const clattn_options *options) {
  unsigned features = options->mask_count > MASKS_PER_KERNEL ? TRUST_MANY_TERMS : 0;
  for (size_t i = 0; i < options->mask_count; i++) {
    const clattn_mask_kind kind = options->masks[i].kind;
    features |= kind == CLATTN_MASK_BLOCK  ? TRUST_BLOCK_MASK
                : kind == CLATTN_MASK_KEEP ? TRUST_KEEP_MASK
                                           : TRUST_ADD_MASK;
    features |= path_tensor_features(&options->masks[i].values, 0);
  }
  return features;
}

static unsigned rule_features(const clattn_options *options) {
  unsigned features = 0;
  if (options->causal == CLATTN_CAUSAL_TOP_LEFT) features |= TRUST_TOP_LEFT;
  if (options->causal == CLATTN_CAUSAL_BOTTOM_RIGHT) features |= TRUST_BOTTOM_RIGHT;
  if (options->causal == CLATTN_CAUSAL_OFFSET) features |= TRUST_OFFSET;
  if (options->window_left != CLATTN_WINDOW_NONE || options->window_right != CLATTN_WINDOW_NONE)
    features |= TRUST_WINDOW;
  if (options->kv_lengths != NULL) features |= TRUST_KV_LENGTHS;
  if (options->q_lengths != NULL) features |= TRUST_Q_LENGTHS;
  if (options->soft_cap > 0) features |= TRUST_SOFT_CAP;
  if (options->alibi_slopes != NULL) features |= TRUST_SLOPES | path_tensor_features(options->alibi_slopes, 0);
  return features;
}

unsigned path_option_features(const attention_problem *problem) {
  const clattn_options *options = &problem->options;
  const size_t rows = problem_group(problem) * problem->q_len;
  unsigned features = mask_features(options) | rule_features(options);
  if (problem->heads != problem->kv_heads) features |= TRUST_GROUPS;
  if (options->add_zero_key) features |= TRUST_ZERO_KEY;
  if (problem->bias_key) features |= TRUST_BIAS_KEY;
  if (!options->inference && options->dropout > 0) features |= TRUST_DROPOUT;
  if (options->weights != NULL) features |= options->weights->rank == 4 ? TRUST_WEIGHTS : TRUST_MEAN_WEIGHTS;
  if (options->log_sum_exp != NULL) features |= TRUST_LOG_SUM_EXP;
  if (options->scratch != NULL) features |= TRUST_LENT_SCRATCH;
  return features | path_product_features(rows, problem_columns(problem), problem->head_dim) |
         path_product_features(rows, problem_columns(problem), problem->value_dim);
}

/* ----------------------------------------------------------------------------------------------------------- choice */

/* From the best to the simplest, which all devices can do. */
static const clattn_path candidates[] = {CLATTN_PATH_GEMM};

clattn_status path_choose(clattn_context *context, const attention_problem *problem, unsigned features,
                          clattn_path *path) {
  clattn_status status = CLATTN_SUCCESS;
  *path = CLATTN_PATH_AUTO;
  for (size_t i = 0; i < sizeof candidates / sizeof *candidates; i++) {
    if (problem->options.path != CLATTN_PATH_AUTO && problem->options.path != candidates[i]) continue;
    const trust_use use = {candidates[i], problem->compute, features};
    status = trust_require(context, use);
    if (status == CLATTN_SUCCESS) {
      *path = candidates[i];
      break;
    }
    context_log(context, "a path is given up: %s", context->text);
  }
  return status;
}

void path_explain_none(const clattn_context *context, clattn_plan *plan) {
  memset(plan, 0, sizeof *plan);
  text_builder text = text_begin(plan->text, sizeof plan->text);
  text_add(&text, "path: none\nself check: %s\n", context->text);
}
