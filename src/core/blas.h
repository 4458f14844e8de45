/* SPDX-License-Identifier: Apache-2.0
 *
 * Matrix products: the one file that talks to CLBlast. */
#ifndef CLATTN_CORE_BLAS_H
#define CLATTN_CORE_BLAS_H

#include "core/message.h"

/* `batch` row-major matrices in one buffer; all in elements. */
typedef struct matrix {
  cl_mem buffer;
  size_t offset; /* of the first matrix */
  size_t ld;     /* from row to row */
  size_t stride; /* from matrix to matrix; 0 reads the same one each time (not for C) */
} matrix;

/* For each of `batch`: C[m,n] = A[m,k] B^T with B [n,k], or C[m,n] = A[m,k] B with B [k,n]. No extent may be 0. */
typedef struct product {
  clattn_type type; /* FLOAT32 or FLOAT64, of all three */
  size_t batch, m, n, k;
  int b_transposed;
  double alpha; /* factor of the product */
  matrix a, b, c;
} product;

/* Makes CLBlast fill its table of tuned parameters, on the first use in the process; under the lock of first_use.h. */
clattn_status blas_prepare(clattn_context *context, message to);

/* Drops the programs that CLBlast keeps for the whole process, and with them its hold on the OpenCL context; called
 * when a context of ours ends. Other users of CLBlast in the process lose nothing but the time to build theirs again.
 */
void blas_forget_programs(void);

/* Enqueues it. An extent or index past 31 bits, which CLBlast's kernels cannot address, is refused with UNSUPPORTED. */
clattn_status blas_multiply(clattn_context *context, const product *what);

/* Device memory that CLBlast takes for itself while the product runs. */
clattn_status blas_temporary_bytes(clattn_context *context, const product *what, uint64_t *bytes);

/* 1 if every element of the operand can be addressed by CLBlast's kernels. */
int blas_can_address(const matrix *operand, size_t batch, size_t rows, size_t columns);

/* 1 if a batched product reads (or writes) an operand that is not transposed where it is told to. CLBlast (1.5.3
 * to 1.7.0) takes matrices whose extents are multiples of its tiles and whose rows lie densely (ld == columns) straight
 * from the buffer's start, one behind the other, whatever offset and stride say; other operands are copied, and copied
 * right. Which extents are multiples depends on the tuned parameters of the device, so only the layout is asked.
 * blas_multiply runs one product after the other for such operands. */
int blas_batch_is_safe(const matrix *operand, size_t rows, size_t columns);

#endif
