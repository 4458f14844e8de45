/* SPDX-License-Identifier: Apache-2.0
 *
 * Wrappers of CLBlast's entry points. */
#include "fault_calls.h"

#include <clblast_c.h>

#define WRAP_BLAS(call, parameters, arguments, after)                                                                  \
  CLBlastStatusCode __real_##call parameters;                                                                          \
  CLBlastStatusCode __wrap_##call parameters;                                                                          \
  CLBlastStatusCode __wrap_##call parameters {                                                                         \
    if (fault_fires(FAULT_CLBLAST, #call, NULL, 0)) return (CLBlastStatusCode)fault_code();                            \
    const CLBlastStatusCode code = __real_##call arguments;                                                            \
    if (code == CLBlastSuccess) after;                                                                                 \
    return code;                                                                                                       \
  }

#define GEMM_PARAMETERS(number)                                                                                        \
  (CLBlastLayout layout, CLBlastTranspose ta, CLBlastTranspose tb, size_t m, size_t n, size_t k, number alpha,         \
   cl_mem a, size_t a_at, size_t lda, cl_mem b, size_t b_at, size_t ldb, number beta, cl_mem c, size_t c_at,           \
   size_t ldc, cl_command_queue * queue, cl_event * event)
#define GEMM_ARGUMENTS (layout, ta, tb, m, n, k, alpha, a, a_at, lda, b, b_at, ldb, beta, c, c_at, ldc, queue, event)

#define BATCHED_PARAMETERS(number)                                                                                     \
  (CLBlastLayout layout, CLBlastTranspose ta, CLBlastTranspose tb, size_t m, size_t n, size_t k, number alpha,         \
   cl_mem a, size_t a_at, size_t lda, size_t a_stride, cl_mem b, size_t b_at, size_t ldb, size_t b_stride,             \
   number beta, cl_mem c, size_t c_at, size_t ldc, size_t c_stride, size_t batch, cl_command_queue * queue,            \
   cl_event * event)
#define BATCHED_ARGUMENTS                                                                                              \
  (layout, ta, tb, m, n, k, alpha, a, a_at, lda, a_stride, b, b_at, ldb, b_stride, beta, c, c_at, ldc, c_stride,       \
   batch, queue, event)

#define TEMPORARY_PARAMETERS                                                                                           \
  (CLBlastLayout layout, CLBlastTranspose ta, CLBlastTranspose tb, size_t m, size_t n, size_t k, size_t a_at,          \
   size_t lda, size_t b_at, size_t ldb, size_t c_at, size_t ldc, cl_command_queue * queue, size_t * bytes)
#define TEMPORARY_ARGUMENTS (layout, ta, tb, m, n, k, a_at, lda, b_at, ldb, c_at, ldc, queue, bytes)

WRAP_BLAS(CLBlastSgemm, GEMM_PARAMETERS(float), GEMM_ARGUMENTS, fault_wrote())
WRAP_BLAS(CLBlastDgemm, GEMM_PARAMETERS(double), GEMM_ARGUMENTS, fault_wrote())
WRAP_BLAS(CLBlastSgemmStridedBatched, BATCHED_PARAMETERS(float), BATCHED_ARGUMENTS, fault_wrote())
WRAP_BLAS(CLBlastDgemmStridedBatched, BATCHED_PARAMETERS(double), BATCHED_ARGUMENTS, fault_wrote())
WRAP_BLAS(CLBlastSGemmTempBufferSize, TEMPORARY_PARAMETERS, TEMPORARY_ARGUMENTS, (void)0)
WRAP_BLAS(CLBlastDGemmTempBufferSize, TEMPORARY_PARAMETERS, TEMPORARY_ARGUMENTS, (void)0)
WRAP_BLAS(CLBlastClearCache, (void), (), (void)0)
