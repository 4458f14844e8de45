/* SPDX-License-Identifier: Apache-2.0
 *
 * The matrix products that everything else stands on: core/blas.c alone, against sums in double. */
#include <clblast_c.h>
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

#include "core/blas.h"
#include "core/context.h"
#include "support/rng.h"
#include "support/setup.h"

/* An operand and its place: elements in front, from row to row and from matrix to matrix. */
typedef struct layout {
  size_t offset, ld, stride;
} layout;

typedef struct product_case {
  size_t batch, m, n, k;
  int b_transposed;
  layout a, b, c;
} product_case;

static size_t extent(const layout *place, size_t batch, size_t rows, size_t columns) {
  return place->offset + (batch - 1) * place->stride + (rows - 1) * place->ld + columns;
}

/* The whole buffer of C afterwards, with what lay between and around the matrices. */
static void check_case(clattn_context *context, const product_case *p) {
  const size_t b_rows = p->b_transposed ? p->n : p->k, b_columns = p->b_transposed ? p->k : p->n;
  const size_t sizes[3] = {extent(&p->a, p->batch, p->m, p->k), extent(&p->b, p->batch, b_rows, b_columns),
                           extent(&p->c, p->batch, p->m, p->n) + 7};
  float *host[3];
  clattn_tensor tensor[3];
  test_rng rng = {p->m * 1000003 + p->n * 1009 + p->k + (size_t)p->b_transposed};
  for (int i = 0; i < 3; i++) {
    host[i] = malloc(sizes[i] * sizeof(float));
    cr_assert_not_null(host[i]);
    for (size_t e = 0; e < sizes[i]; e++) host[i][e] = i < 2 ? (float)rng_normal(&rng) : -77.0f;
    cr_assert_eq(clattn_tensor_create(context, CLATTN_FLOAT32, 1, &sizes[i], host[i], &tensor[i]), CLATTN_SUCCESS);
  }
  product what = {CLATTN_FLOAT32,
                  p->batch,
                  p->m,
                  p->n,
                  p->k,
                  p->b_transposed,
                  1.0,
                  0.0,
                  {tensor[0].buffer, p->a.offset, p->a.ld, p->a.stride},
                  {tensor[1].buffer, p->b.offset, p->b.ld, p->b.stride},
                  {tensor[2].buffer, p->c.offset, p->c.ld, p->c.stride}};
  cr_assert_eq(blas_multiply(context, &what), CLATTN_SUCCESS, "%s", clattn_context_message(context));
  float *got = malloc(sizes[2] * sizeof(float));
  cr_assert_not_null(got);
  cr_assert_eq(clattn_tensor_read(context, &tensor[2], got), CLATTN_SUCCESS);
  for (size_t x = 0; x < p->batch; x++)
    for (size_t i = 0; i < p->m; i++)
      for (size_t j = 0; j < p->n; j++) {
        double want = 0, magnitude = 0;
        for (size_t k = 0; k < p->k; k++) {
          double a = host[0][p->a.offset + x * p->a.stride + i * p->a.ld + k];
          double b = host[1][p->b.offset + x * p->b.stride + (p->b_transposed ? j * p->b.ld + k : k * p->b.ld + j)];
          want += a * b;
          magnitude += fabs(a * b);
        }
        /* k products and sums in float, in any order: gamma(k + 1) times the sum of magnitudes. */
        double bound = (double)(p->k + 1) * 5.9604645e-8 * 1.01 * magnitude;
        size_t at = p->c.offset + x * p->c.stride + i * p->c.ld + j;
        cr_assert(fabs((double)got[at] - want) <= bound, "batch %zu [%zu,%zu] of [%zu,%zu,%zu]: %g, not %g +- %g", x, i,
                  j, p->m, p->n, p->k, (double)got[at], want, bound);
        got[at] = -77.0f;
      }
  for (size_t e = 0; e < sizes[2]; e++)
    cr_assert_eq(got[e], -77.0f, "element %zu, which belongs to no matrix, became %g", e, (double)got[e]);
  free(got);
  for (int i = 0; i < 3; i++) {
    clattn_tensor_release(&tensor[i]);
    free(host[i]);
  }
}

/* Dense matrices of the sizes at hand, `offset` elements into their buffers and with `gap` elements between them. */
static product_case dense_case(size_t batch, size_t size, int b_transposed, size_t offset, size_t gap) {
  layout place = {offset, size, size * size + gap};
  product_case p = {batch, size, size, size, b_transposed, place, place, place};
  return p;
}

/* CLBlast's batched kernel for large products reads and writes operands that need no padding and no transpose at the
 * start of their buffers, whatever the offset and the stride. Sizes that are multiples of every tile, made "large" by
 * an override. */
Test(blas, offsets_and_strides_of_tile_sized_operands_count_in_batches) {
  clattn_context *context = test_context();
  const char *names[] = {"XGEMM_MIN_INDIRECT_SIZE"};
  const size_t values[] = {1};
  cr_assert_eq(CLBlastOverrideParameters(clattn_context_device(context), "GemmRoutine", CLBlastPrecisionSingle, 1,
                                         names, values),
               CLBlastSuccess);
  for (int b_transposed = 0; b_transposed <= 1; b_transposed++)
    for (size_t offset = 0; offset <= 64; offset += 64)
      for (size_t gap = 0; gap <= 128; gap += 128) {
        product_case p = dense_case(3, 128, b_transposed, offset, gap);
        check_case(context, &p);
      }
  clattn_context_destroy(&context);
}

/* The direct kernel, for small products: any size, offset, row length and distance; the same matrix for all with stride
 * 0. */
Test(blas, odd_sizes_and_places) {
  clattn_context *context = test_context();
  const product_case cases[] = {
      {1, 1, 1, 1, 1, {0, 1, 1}, {0, 1, 1}, {0, 1, 1}},
      {261, 1, 1, 40, 1, {0, 40, 40}, {0, 40, 40}, {0, 1, 1}},
      {5, 17, 31, 3, 1, {1, 3, 51}, {2, 3, 93}, {3, 31, 527}},
      {5, 17, 31, 3, 0, {1, 3, 51}, {2, 31, 93}, {3, 31, 527}},
      {4, 7, 9, 33, 1, {5, 40, 300}, {7, 35, 0}, {11, 13, 100}},
      {4, 7, 9, 33, 0, {5, 40, 0}, {7, 12, 400}, {11, 13, 100}},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) check_case(context, &cases[i]);
  clattn_context_destroy(&context);
}

Test(blas, indices_past_31_bits_are_refused) {
  clattn_context *context = test_context();
  const size_t one = 1;
  clattn_tensor tensor;
  cr_assert_eq(clattn_tensor_create(context, CLATTN_FLOAT32, 1, &one, NULL, &tensor), CLATTN_SUCCESS);
  matrix near = {tensor.buffer, 0, 4, 16}, far = {tensor.buffer, (size_t)1 << 31, 4, 16};
  const product bad[] = {{CLATTN_FLOAT32, 1, 4, 4, 4, 1, 1.0, 0.0, far, near, near},
                         {CLATTN_FLOAT32, 1, 4, 4, 4, 1, 1.0, 0.0, near, far, near},
                         {CLATTN_FLOAT32, 1, 4, 4, 4, 1, 1.0, 0.0, near, near, far},
                         {CLATTN_FLOAT32, (size_t)1 << 28, 4, 4, 4, 1, 1.0, 0.0, near, near, near}};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
    cr_expect_eq(blas_multiply(context, &bad[i]), CLATTN_UNSUPPORTED, "case %zu", i);
  clattn_tensor_release(&tensor);
  clattn_context_destroy(&context);
}
