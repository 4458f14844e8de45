/* SPDX-License-Identifier: Apache-2.0
 *
 * What kernels on rows of scores are told of a call: extents, rules, lengths, soft cap, slopes and mask terms
 * (kernels/common.clh, ROW_PARAMETERS). */
#ifndef CLATTN_ATTENTION_ROWS_H
#define CLATTN_ATTENTION_ROWS_H

#include "attention/stages.h"

/* What of it one kernel applies. */
typedef struct row_changes {
  int modifiers;            /* 1: soft cap and slopes */
  size_t first_term, terms; /* at most MASKS_PER_KERNEL */
} row_changes;

/* (first_unit, first_row, R, T, G, H/G, columns, units) */
cl_ulong8 rows_extent(const attention_problem *problem, const score_slice *slice);

/* Types and row defines, behind what is in the builder. */
void rows_add_defines(text_builder *options, const attention_problem *problem, row_changes changes);

/* Sets the arguments of ROW_PARAMETERS from *index on, and moves it. */
clattn_status rows_set_arguments(clattn_context *context, const attention_problem *problem, row_changes changes,
                                 cl_kernel kernel, cl_uint *index);

#endif
