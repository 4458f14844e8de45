/* SPDX-License-Identifier: Apache-2.0 */
#include "core/blas.h"

#include <clblast_c.h>
#include <limits.h>

#include "core/context.h"
#include "core/tensor.h"

void blas_forget_programs(void) {
  (void)CLBlastClearCache(); /* it has no way to fail */
}

/* CLBlast's own codes; those it shares with OpenCL have OpenCL's meaning. */
static const char *clblast_error_name(int error) {
  switch (error) {
  case CLBlastInsufficientMemoryTemp:
    return "temporary buffer too small";
  case CLBlastInvalidBatchCount:
    return "batch count below 1";
  case CLBlastInvalidOverrideKernel:
    return "override of an unknown kernel";
  case CLBlastMissingOverrideParameter:
    return "override lacks a parameter";
  case CLBlastInvalidLocalMemUsage:
    return "not enough local memory on the device";
  case CLBlastNoHalfPrecision:
    return "the device lacks half precision";
  case CLBlastNoDoublePrecision:
    return "the device lacks double precision";
  case CLBlastDatabaseError:
    return "no parameters for the device";
  case CLBlastInvalidMatrixA:
    return "matrix A is no valid buffer";
  case CLBlastInvalidMatrixB:
    return "matrix B is no valid buffer";
  case CLBlastInvalidMatrixC:
    return "matrix C is no valid buffer";
  case CLBlastInvalidDimension:
    return "an extent is 0 or a stride does not fit";
  case CLBlastInvalidLeadDimA:
    return "leading dimension of A too small";
  case CLBlastInvalidLeadDimB:
    return "leading dimension of B too small";
  case CLBlastInvalidLeadDimC:
    return "leading dimension of C too small";
  case CLBlastInsufficientMemoryA:
    return "buffer of A too small";
  case CLBlastInsufficientMemoryB:
    return "buffer of B too small";
  case CLBlastInsufficientMemoryC:
    return "buffer of C too small";
  default:
    return cl_error_name(error);
  }
}

/* Out of memory and build failures are told as such; whatever else goes wrong in there is CLBlast's. */
static clattn_status clblast_status(CLBlastStatusCode code) {
  clattn_status status = cl_error_status((cl_int)code);
  return status == CLATTN_OPENCL_ERROR ? CLATTN_CLBLAST_ERROR : status;
}

static clattn_status check_result(clattn_context *context, const product *what, CLBlastStatusCode code) {
  if (code == CLBlastSuccess) return CLATTN_SUCCESS;
  return REFUSE(context, clblast_status(code), "CLBlast's %s GEMM of %zu times [%zu,%zu,%zu] on %s: %s (%d)",
                clattn_type_name(what->type), what->batch, what->m, what->n, what->k, context->info.name,
                clblast_error_name((int)code), (int)code);
}

/* The size of temporaries needs the table and compiles nothing. */
clattn_status blas_prepare(clattn_context *context, message to) {
  cl_command_queue queue = context->queue;
  size_t bytes = 0;
  CLBlastStatusCode code = CLBlastSGemmTempBufferSize(CLBlastLayoutRowMajor, CLBlastTransposeNo, CLBlastTransposeNo, 1,
                                                      1, 1, 0, 1, 0, 1, 0, 1, &queue, &bytes);
  if (code == CLBlastSuccess) return CLATTN_SUCCESS;
  return message_fail(to, clblast_status(code), "CLBlast does not work on %s: %s (%d)", context->info.name,
                      clblast_error_name((int)code), (int)code);
}

int blas_can_address(const matrix *operand, size_t batch, size_t rows, size_t columns) {
  uint64_t end = operand->offset, reach = 0;
  if (!checked_multiply(batch - 1, operand->stride, &reach) || !checked_add(end, reach, &end)) return 0;
  if (!checked_multiply(rows - 1, operand->ld, &reach) || !checked_add(end, reach, &end)) return 0;
  return checked_add(end, columns, &end) && end <= INT_MAX && operand->stride <= INT_MAX;
}

int blas_batch_is_safe(const matrix *operand, size_t rows, size_t columns) {
  return operand->ld != columns || (operand->offset == 0 && operand->stride == rows * columns);
}

static CLBlastTranspose transpose_of_b(const product *what) {
  return what->b_transposed ? CLBlastTransposeYes : CLBlastTransposeNo;
}

static CLBlastStatusCode multiply_one(clattn_context *context, const product *what, size_t index) {
  cl_command_queue queue = context->queue;
  const matrix *a = &what->a, *b = &what->b, *c = &what->c;
  size_t a_at = a->offset + index * a->stride, b_at = b->offset + index * b->stride,
         c_at = c->offset + index * c->stride;
  if (what->type == CLATTN_FLOAT64)
    return CLBlastDgemm(CLBlastLayoutRowMajor, CLBlastTransposeNo, transpose_of_b(what), what->m, what->n, what->k,
                        what->alpha, a->buffer, a_at, a->ld, b->buffer, b_at, b->ld, 0.0, c->buffer, c_at, c->ld,
                        &queue, NULL);
  return CLBlastSgemm(CLBlastLayoutRowMajor, CLBlastTransposeNo, transpose_of_b(what), what->m, what->n, what->k,
                      (float)what->alpha, a->buffer, a_at, a->ld, b->buffer, b_at, b->ld, 0.0f, c->buffer, c_at, c->ld,
                      &queue, NULL);
}

static CLBlastStatusCode multiply_batch(clattn_context *context, const product *what) {
  cl_command_queue queue = context->queue;
  const matrix *a = &what->a, *b = &what->b, *c = &what->c;
  if (what->type == CLATTN_FLOAT64)
    return CLBlastDgemmStridedBatched(CLBlastLayoutRowMajor, CLBlastTransposeNo, transpose_of_b(what), what->m, what->n,
                                      what->k, what->alpha, a->buffer, a->offset, a->ld, a->stride, b->buffer,
                                      b->offset, b->ld, b->stride, 0.0, c->buffer, c->offset, c->ld, c->stride,
                                      what->batch, &queue, NULL);
  return CLBlastSgemmStridedBatched(CLBlastLayoutRowMajor, CLBlastTransposeNo, transpose_of_b(what), what->m, what->n,
                                    what->k, (float)what->alpha, a->buffer, a->offset, a->ld, a->stride, b->buffer,
                                    b->offset, b->ld, b->stride, 0.0f, c->buffer, c->offset, c->ld, c->stride,
                                    what->batch, &queue, NULL);
}

static int can_batch(const product *what) {
  return blas_batch_is_safe(&what->a, what->m, what->k) && blas_batch_is_safe(&what->c, what->m, what->n) &&
         (what->b_transposed || blas_batch_is_safe(&what->b, what->k, what->n));
}

clattn_status blas_multiply(clattn_context *context, const product *what) {
  size_t b_rows = what->b_transposed ? what->n : what->k, b_columns = what->b_transposed ? what->k : what->n;
  if (what->batch > INT_MAX || what->m > INT_MAX || what->n > INT_MAX || what->k > INT_MAX ||
      !blas_can_address(&what->a, what->batch, what->m, what->k) ||
      !blas_can_address(&what->b, what->batch, b_rows, b_columns) ||
      !blas_can_address(&what->c, what->batch, what->m, what->n))
    return REFUSE(context, CLATTN_UNSUPPORTED,
                  "a product of %zu times [%zu,%zu,%zu] needs indices past 31 bits, which CLBlast does not have",
                  what->batch, what->m, what->n, what->k);
  if (what->batch > 1 && can_batch(what)) return check_result(context, what, multiply_batch(context, what));
  clattn_status status = CLATTN_SUCCESS;
  for (size_t i = 0; i < what->batch && status == CLATTN_SUCCESS; i++)
    status = check_result(context, what, multiply_one(context, what, i));
  return status;
}

clattn_status blas_temporary_bytes(clattn_context *context, const product *what, uint64_t *bytes) {
  cl_command_queue queue = context->queue;
  size_t one = 0;
  /* Asked with offset 0, as batched products behave; single ones with an offset may copy an operand more. */
  CLBlastStatusCode code =
      what->type == CLATTN_FLOAT64
          ? CLBlastDGemmTempBufferSize(CLBlastLayoutRowMajor, CLBlastTransposeNo, transpose_of_b(what), what->m,
                                       what->n, what->k, 0, what->a.ld, 0, what->b.ld, 0, what->c.ld, &queue, &one)
          : CLBlastSGemmTempBufferSize(CLBlastLayoutRowMajor, CLBlastTransposeNo, transpose_of_b(what), what->m,
                                       what->n, what->k, 0, what->a.ld, 0, what->b.ld, 0, what->c.ld, &queue, &one);
  *bytes = (uint64_t)one * what->batch;
  return check_result(context, what, code);
}
