/* SPDX-License-Identifier: Apache-2.0
 *
 * A layer on a device. */
#ifndef CLATTN_LAYER_MHA_H
#define CLATTN_LAYER_MHA_H

#include "core/blas.h"
#include "core/context.h"
#include "layer/parameters.h"

struct clattn_mha {
  clattn_context *context; /* retained */
  clattn_mha_config config;
  clattn_type compute;
  cl_mem data[CLATTN_PARAMETER_COUNT]; /* of type compute; biases NULL without bias */
};

/* One projection by CLBlast: to [rows, out] = from [rows, in] W^T, W = WQ, WK, WV or WO. The bias comes with the copy
 * that follows. */
clattn_status project(const clattn_mha *mha, clattn_parameter weight, matrix from, size_t rows, cl_mem to);
product projection_product(const clattn_mha *mha, clattn_parameter weight, matrix from, size_t rows, cl_mem to);

#endif
