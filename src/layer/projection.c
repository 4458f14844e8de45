/* SPDX-License-Identifier: Apache-2.0 */
#include "layer/mha.h"

product projection_product(const clattn_mha *mha, clattn_parameter weight, matrix from, size_t rows, cl_mem to) {
  size_t out = 0, in = 0;
  config_shape(&mha->config, weight, &out, &in);
  product p = {
      mha->compute, 1, rows, out, in, 1, 1.0, from, {mha->data[weight], 0, in, out * in}, {to, 0, out, rows * out}};
  return p;
}

clattn_status project(const clattn_mha *mha, clattn_parameter weight, matrix from, size_t rows, cl_mem to) {
  product p = projection_product(mha, weight, from, rows, to);
  return blas_multiply(mha->context, &p);
}
