/* SPDX-License-Identifier: Apache-2.0
 *
 * Which path a call takes: the best one that passes its self check with what the call uses. */
#ifndef CLATTN_ATTENTION_PATH_H
#define CLATTN_ATTENTION_PATH_H

#include "attention/problem.h"

/* What options and extents use, as bits of trust_feature. */
unsigned path_option_features(const attention_problem *problem);

/* What an array uses by its type and, where `placed`, by how it lies in its buffer. NULL: nothing. */
unsigned path_tensor_features(const clattn_tensor *tensor, int placed);

/* TRUST_LARGE for a product of [m,k] and [k,n]. */
unsigned path_product_features(size_t m, size_t n, size_t k);

/* The path that is asked for, or the first that may be used. SELF_CHECK_FAILED or what kept a check from running if
 * there is none; then it is AUTO. */
clattn_status path_choose(clattn_context *context, const attention_problem *problem, unsigned features,
                          clattn_path *path);

/* clattn_plan of a call that no path may do: says why. */
void path_explain_none(const clattn_context *context, clattn_plan *plan);

#endif
