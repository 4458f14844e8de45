/* SPDX-License-Identifier: Apache-2.0
 *
 * A layer on a device. */
#ifndef CLATTN_LAYER_MHA_H
#define CLATTN_LAYER_MHA_H

#include "attention/stages.h"
#include "core/blas.h"
#include "layer/parameters.h"

struct clattn_mha {
  clattn_context *context; /* retained */
  clattn_mha_config config;
  clattn_type compute;
  clattn_tensor parameter[CLATTN_PARAMETER_COUNT]; /* views of retained buffers; buffer NULL: none */
};

/* A weight as [1, heads, size, columns], whichever way its view is given: rows of head h are size rows from (h, 0) on.
 */
clattn_tensor mha_weight(const clattn_mha *mha, clattn_parameter which);
bias_view mha_bias(const clattn_mha *mha, clattn_parameter which);

/* Bytes that a copy of the weight needs; 0 if the products take it where it is. */
uint64_t weight_copy_bytes(const clattn_mha *mha, clattn_parameter which);

/* One projection by CLBlast: to [rows, out] = from [rows, in] W^T, W = WQ, WK, WV or WO. The bias comes with the copy
 * that follows. A weight whose heads lie apart is multiplied head by head in one batch; one of another type is copied
 * first. */
clattn_status project(const clattn_mha *mha, clattn_parameter which, matrix from, size_t rows, cl_mem to);

/* What CLBlast takes for it. */
clattn_status projection_temporary_bytes(const clattn_mha *mha, clattn_parameter which, size_t rows, uint64_t *bytes);

/* How it is multiplied, in words. */
void projection_explain(const clattn_mha *mha, clattn_parameter which, size_t rows, text_builder *text);

#endif
