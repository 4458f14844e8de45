/* SPDX-License-Identifier: Apache-2.0 */
#include "core/tensor.h"
#include "layer/mha.h"

/* Rows of the heads follow each other at one distance: one matrix. */
static int is_one_matrix(const clattn_tensor *weight) {
  return weight->shape[1] == 1 || weight->stride[1] == weight->shape[2] * weight->stride[2];
}

/* The products take rows of the arithmetic's type that lie densely, within reach of 31-bit indices. */
static int in_place(const clattn_mha *mha, const clattn_tensor *weight) {
  uint64_t end = 0;
  const size_t columns = weight->shape[3];
  return weight->type == mha->compute && (columns == 1 || weight->stride[3] == 1) &&
         (weight->shape[2] == 1 || weight->stride[2] >= columns) && tensor_end(weight, &end) && end <= INT32_MAX;
}

uint64_t weight_copy_bytes(const clattn_mha *mha, clattn_parameter which) {
  const clattn_tensor weight = mha_weight(mha, which);
  if (in_place(mha, &weight)) return 0;
  return (uint64_t)weight.shape[1] * weight.shape[2] * weight.shape[3] * clattn_type_size(mha->compute);
}

/* The weight as it is, or as the copy in `copy`. */
static product make_product(const clattn_mha *mha, clattn_parameter which, matrix from, size_t rows, cl_mem copy,
                            cl_mem to) {
  const clattn_tensor weight = mha_weight(mha, which);
  const size_t heads = weight.shape[1], size = weight.shape[2], in = weight.shape[3], out = heads * size;
  product p = {.type = mha->compute,
               .batch = 1,
               .m = rows,
               .n = out,
               .k = in,
               .b_transposed = 1,
               .alpha = 1.0,
               .a = from,
               .b = {copy, 0, in, out * in},
               .c = {to, 0, out, rows * out}};
  if (!in_place(mha, &weight)) return p;
  p.b = (matrix){weight.buffer, weight.offset, size > 1 || heads > 1 ? weight.stride[size > 1 ? 2 : 1] : in, 0};
  if (is_one_matrix(&weight)) return p;
  p.batch = heads;
  p.n = size;
  p.a.stride = 0;
  p.b.ld = size > 1 ? weight.stride[2] : in;
  p.b.stride = weight.stride[1];
  p.c.stride = size; /* columns of one head within the rows of all */
  return p;
}

clattn_status project(const clattn_mha *mha, clattn_parameter which, matrix from, size_t rows, cl_mem to) {
  clattn_context *context = mha->context;
  const clattn_tensor weight = mha_weight(mha, which);
  const bias_view none = {NULL, CLATTN_FLOAT32, 0, 0, 0};
  const extra_rows no_extra = {0, none};
  cl_mem copy = context->workspace.buffer[SCRATCH_WEIGHT];
  if (!in_place(mha, &weight)) {
    clattn_status status =
        split_heads(context, &weight, copy, mha->compute, 0, weight.shape[1], 1, none, no_extra, NULL);
    if (status != CLATTN_SUCCESS) return status;
  }
  product p = make_product(mha, which, from, rows, copy, to);
  return blas_multiply(context, &p);
}

clattn_status projection_temporary_bytes(const clattn_mha *mha, clattn_parameter which, size_t rows, uint64_t *bytes) {
  size_t out = 0, in = 0;
  config_shape(&mha->config, which, &out, &in);
  matrix from = {NULL, 0, in, 0};
  product p = make_product(mha, which, from, rows, NULL, NULL);
  return blas_temporary_bytes(mha->context, &p, bytes);
}

void projection_explain(const clattn_mha *mha, clattn_parameter which, size_t rows, text_builder *text) {
  size_t out = 0, in = 0;
  config_shape(&mha->config, which, &out, &in);
  const matrix from = {NULL, 0, in, 0};
  const product p = make_product(mha, which, from, rows, NULL, NULL);
  blas_explain(&p, text);
  if (weight_copy_bytes(mha, which) > 0) text_add(text, " on a copy of the weight");
}
