/* SPDX-License-Identifier: Apache-2.0
 *
 * The gemm path: batched products by CLBlast with masks and soft max between them, on heads that lie apart in memory.
 */
#ifndef CLATTN_ATTENTION_GEMM_PATH_H
#define CLATTN_ATTENTION_GEMM_PATH_H

#include "attention/problem.h"
#include "attention/stages.h"
#include "core/blas.h"

/* How a call is cut. A unit is a batch entry and key head with the rows of all heads that read it (stages.h). Heads are
 * brought into scratch memory a chunk of units at a time; scores are worked on in slices of a chunk. */
typedef struct gemm_cut {
  size_t units;       /* B * G */
  size_t unit_rows;   /* (H/G) * T */
  size_t chunk_units; /* all, unless the heads' copies alone would pass the limit */
  size_t slice_units; /* of a chunk */
  size_t slice_rows;  /* unit_rows, unless one unit's scores alone would pass the limit; then slice_units is 1 */
  uint64_t score_bytes;
  uint64_t slices; /* in all */
  uint64_t limit;  /* of heads and scores */
} gemm_cut;

/* Cuts the work so that `fixed_bytes`, `heads` for every `granule` units of a chunk (a chunk holds whole granules, at
 * most `most` of them) and the scores stay within the limit that the call or the context sets. As much memory as the
 * call would take without a limit is enough for the same cut. OUT_OF_DEVICE_MEMORY if a limit that the user set does
 * not allow the smallest cut. */
clattn_status gemm_cut_work(clattn_context *context, const attention_problem *problem, size_t granule, size_t most,
                            const scratch_need *heads, uint64_t fixed_bytes, gemm_cut *cut);

/* The heads of a chunk, one unit after the other. */
typedef struct gemm_heads {
  matrix query;  /* [unit_rows, D] a unit, contiguous; times the scale as far as gemm_query_scale says */
  matrix key;    /* [S, D] */
  matrix value;  /* [S, Dv] */
  matrix output; /* [unit_rows, Dv] a unit, contiguous */
} gemm_heads;

/* The heads of a chunk in scratch memory, contiguous. */
gemm_heads gemm_scratch_heads(const clattn_context *context, const attention_problem *problem);

/* The part of the scale that goes into the query before the product: all of it where it makes scores smaller, so that
 * no score overflows that would not be too large in the end. The rest is a factor of the product. */
double gemm_query_scale(const attention_problem *problem);

/* Enqueues attention for the chunk that begins at unit `first`. S > 0. */
clattn_status gemm_attend(clattn_context *context, const attention_problem *problem, const gemm_cut *cut,
                          const gemm_heads *heads, size_t first, size_t units);

/* S = 0: zeros into `output` (scratch of [units, unit_rows, Dv]; NULL: none) and minus infinity into log_sum_exp. */
clattn_status gemm_attend_nothing(clattn_context *context, const attention_problem *problem, cl_mem output,
                                  size_t first, size_t units);

/* Upper bound of what CLBlast takes for the products of a slice. */
clattn_status gemm_temporary_bytes(clattn_context *context, const attention_problem *problem, const gemm_cut *cut,
                                   const gemm_heads *heads, uint64_t *bytes);

/* Lines of clattn_plan: the path, and why; then each stage from the scores to the heads' output, in the order in which
 * they run, with shapes and reasons. */
void gemm_explain_path(const attention_problem *problem, text_builder *text);
void gemm_explain(const clattn_context *context, const attention_problem *problem, const gemm_cut *cut,
                  const gemm_heads *heads, text_builder *text);

#endif
