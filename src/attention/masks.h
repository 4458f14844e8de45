/* SPDX-License-Identifier: Apache-2.0
 *
 * Mask terms as kernels take them: which defines and which arguments (kernels/common.clh, TERM_...). */
#ifndef CLATTN_ATTENTION_MASKS_H
#define CLATTN_ATTENTION_MASKS_H

#include "attention/problem.h"

/* Terms that one kernel takes; the defines stop there. */
enum { MASKS_PER_KERNEL = 4 };

/* Kinds, types, shapes and buffers of all terms. */
clattn_status masks_check(clattn_context *context, const attention_problem *problem);

/* "-D TERMS=2 -D TERM0_KIND=1 ..." for terms first .. first + count - 1, behind what is in the builder. */
void masks_add_defines(text_builder *options, const attention_problem *problem, size_t first, size_t count);

/* Sets the terms' arguments from *index on, and moves it. */
clattn_status masks_set_arguments(clattn_context *context, const attention_problem *problem, size_t first, size_t count,
                                  cl_kernel kernel, cl_uint *index);

#endif
