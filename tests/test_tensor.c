/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensors as views: types, strides, copies between device and host. */
#include "support/guarded.h"
#include "support/rng.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

Test(tensor, types) {
  static const struct {
    clattn_type type;
    size_t size;
    const char *name;
  } types[] = {{CLATTN_FLOAT32, 4, "float32"},   {CLATTN_FLOAT64, 8, "float64"}, {CLATTN_FLOAT16, 2, "float16"},
               {CLATTN_BFLOAT16, 2, "bfloat16"}, {CLATTN_BOOL8, 1, "bool8"},     {CLATTN_INT32, 4, "int32"},
               {CLATTN_INT64, 8, "int64"}};
  for (size_t n = 0; n < sizeof types / sizeof *types; n++) {
    cr_expect_eq(clattn_type_size(types[n].type), types[n].size);
    cr_expect_str_eq(clattn_type_name(types[n].type), types[n].name);
  }
  const int none[] = {0, -1, 8, 1000};
  for (size_t n = 0; n < sizeof none / sizeof *none; n++) {
    cr_expect_eq(clattn_type_size((clattn_type)none[n]), 0);
    cr_assert_not_null(clattn_type_name((clattn_type)none[n]));
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
      cr_expect_str_neq(clattn_type_name((clattn_type)none[n]), types[t].name);
  }
}

Test(tensor, views) {
  const size_t shape[4] = {2, 3, 4, 5};
  const clattn_tensor view = clattn_tensor_view((cl_mem)0, 7, CLATTN_FLOAT32, 4, shape);
  const size_t strides[4] = {60, 20, 5, 1};
  cr_expect(view.rank == 4 && view.offset == 7 && view.type == CLATTN_FLOAT32 && view.buffer == NULL);
  cr_expect_arr_eq(view.shape, shape, sizeof shape);
  cr_expect_arr_eq(view.stride, strides, sizeof strides);
  const clattn_tensor one = clattn_tensor_view((cl_mem)0, 0, CLATTN_BOOL8, 1, shape);
  cr_expect(one.rank == 1 && one.shape[0] == 2 && one.stride[0] == 1 && one.type == CLATTN_BOOL8);
  cr_expect_eq(clattn_tensor_view((cl_mem)0, 0, CLATTN_FLOAT32, 5, shape).rank, 0);
  cr_expect_eq(clattn_tensor_view((cl_mem)0, 0, CLATTN_FLOAT32, 1000, shape).rank, 0);

  const clattn_tensor turned = clattn_tensor_transposed(view, 0, 2);
  const size_t turned_shape[4] = {4, 3, 2, 5}, turned_strides[4] = {5, 20, 60, 1};
  cr_expect_arr_eq(turned.shape, turned_shape, sizeof turned_shape);
  cr_expect_arr_eq(turned.stride, turned_strides, sizeof turned_strides);
  cr_expect(turned.offset == 7 && turned.rank == 4);
  const clattn_tensor back = clattn_tensor_transposed(turned, 2, 0);
  cr_expect_arr_eq(back.shape, shape, sizeof shape);
  const clattn_tensor same = clattn_tensor_transposed(view, 1, 1);
  cr_expect_arr_eq(same.stride, strides, sizeof strides);
}

/* What is created with host data reads back the same, in every type. */
Test(tensor, create_and_read) {
  static const clattn_type types[] = {CLATTN_FLOAT32, CLATTN_FLOAT64, CLATTN_FLOAT16, CLATTN_BFLOAT16,
                                      CLATTN_BOOL8,   CLATTN_INT32,   CLATTN_INT64};
  clattn_context *context = test_context();
  unsigned char host[8 * 30], got[8 * 30];
  test_rng rng = {1};
  for (size_t n = 0; n < sizeof host; n++) host[n] = (unsigned char)rng_next(&rng);
  for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
    const size_t shape[3] = {2, 3, 5}, bytes = 30 * clattn_type_size(types[t]);
    clattn_tensor tensor;
    EXPECT_SUCCESS(context, clattn_tensor_create(context, types[t], 3, shape, host, &tensor));
    cr_expect(tensor.rank == 3 && tensor.offset == 0 && tensor.type == types[t]);
    cr_expect(tensor.stride[0] == 15 && tensor.stride[1] == 5 && tensor.stride[2] == 1);
    memset(got, 0, sizeof got);
    EXPECT_SUCCESS(context, clattn_tensor_read(context, &tensor, got));
    cr_expect_arr_eq(got, host, bytes);
    clattn_tensor_release(&tensor);
    cr_expect_null(tensor.buffer);
    cr_expect_eq(tensor.rank, 0);
    clattn_tensor_release(&tensor);
  }
  clattn_tensor_release(NULL);
  clattn_context_destroy(&context);
}

/* The host array may be gone as soon as the call is back. */
Test(tensor, host_data_are_copied) {
  clattn_context *context = test_context();
  const size_t shape[1] = {1 << 18};
  float *host = test_alloc(shape[0], sizeof *host);
  for (size_t n = 0; n < shape[0]; n++) host[n] = (float)n;
  clattn_tensor tensor;
  EXPECT_SUCCESS(context, clattn_tensor_create(context, CLATTN_FLOAT32, 1, shape, host, &tensor));
  for (size_t n = 0; n < shape[0]; n++) host[n] = -1;
  EXPECT_SUCCESS(context, clattn_tensor_read(context, &tensor, host));
  for (size_t n = 0; n < shape[0]; n++) cr_assert_eq(host[n], (float)n);
  for (size_t n = 0; n < shape[0]; n++) host[n] = (float)(2 * n);
  EXPECT_SUCCESS(context, clattn_tensor_write(context, &tensor, host));
  for (size_t n = 0; n < shape[0]; n++) host[n] = -1;
  EXPECT_SUCCESS(context, clattn_tensor_read(context, &tensor, host));
  for (size_t n = 0; n < shape[0]; n++) cr_assert_eq(host[n], (float)(2 * n));
  clattn_tensor_release(&tensor);
  free(host);
  clattn_context_destroy(&context);
}

Test(tensor, extents_of_zero) {
  clattn_context *context = test_context();
  const size_t shapes[][4] = {{0, 1, 1, 1}, {2, 0, 3, 4}, {5, 6, 7, 0}, {0, 0, 0, 0}};
  for (size_t n = 0; n < 4; n++)
    for (int rank = 1; rank <= 4; rank++) {
      clattn_tensor tensor;
      float untouched[1] = {42};
      EXPECT_SUCCESS(context, clattn_tensor_create(context, CLATTN_FLOAT32, rank, shapes[n], NULL, &tensor));
      cr_expect_eq(tensor.rank, rank);
      size_t count = 1;
      for (int d = 0; d < rank; d++) count *= shapes[n][d];
      if (count == 0) EXPECT_SUCCESS(context, clattn_tensor_read(context, &tensor, untouched));
      if (count == 0) EXPECT_SUCCESS(context, clattn_tensor_write(context, &tensor, untouched));
      cr_expect_eq(untouched[0], 42);
      clattn_tensor_release(&tensor);
    }
  clattn_context_destroy(&context);
}

/* Views of every kind are read and written row-major, and nothing between their elements changes. */
Test(tensor, strided_copies) {
  static const test_layout layouts[] = {{.offset = 0},
                                        {.order = "0213"},
                                        {.order = "3210", .offset = 5},
                                        {.pad = {0, 0, 0, 1}},
                                        {.pad = {0, 0, 3, 0}},
                                        {.pad = {11, 7, 5, 3}, .offset = 2},
                                        {.order = "2013", .pad = {0, 4, 0, 0}}};
  static const clattn_type types[] = {CLATTN_FLOAT32, CLATTN_FLOAT64, CLATTN_BOOL8, CLATTN_INT32, CLATTN_INT64};
  clattn_context *context = test_context();
  const test_shape shape = {4, {2, 3, 4, 5}};
  enum { COUNT = 120 };
  double values[COUNT], seen[COUNT];
  for (size_t n = 0; n < COUNT; n++) values[n] = (double)(n + 1);
  for (size_t t = 0; t < sizeof types / sizeof *types; t++)
    for (size_t n = 0; n < sizeof layouts / sizeof *layouts; n++) {
      unsigned char host[COUNT * 8], again[COUNT * 8];
      test_line line = {{0}};
      const size_t bytes = COUNT * clattn_type_size(types[t]);
      /* Reading: the bytes of the view, in order. */
      test_guarded full = guarded_create(context, types[t], &shape, &layouts[n], values);
      EXPECT_SUCCESS(context, clattn_tensor_read(context, &full.view, host));
      guarded_read(&full, seen, again);
      cr_expect(compare_bits("read", again, host, bytes, &line), "layout %zu: %s", n, line.text);
      cr_expect(guarded_check(&full, "reading", 1, &line), "layout %zu: %s", n, line.text);
      /* Writing the same bytes elsewhere. */
      test_guarded empty = guarded_create(context, types[t], &shape, &layouts[n], NULL);
      EXPECT_SUCCESS(context, clattn_tensor_write(context, &empty.view, host));
      guarded_read(&empty, NULL, again);
      cr_expect(compare_bits("written", host, again, bytes, &line), "layout %zu: %s", n, line.text);
      cr_expect(guarded_check(&empty, "writing", 0, &line), "layout %zu: %s", n, line.text);
      guarded_release(&full);
      guarded_release(&empty);
    }
  clattn_context_destroy(&context);
}

/* A view with stride 0 reads the same element over and over; a transposed one reads columns. */
Test(tensor, repeated_and_transposed_reads) {
  clattn_context *context = test_context();
  const size_t shape[2] = {2, 3};
  const float host[6] = {1, 2, 3, 4, 5, 6}, columns[6] = {1, 4, 2, 5, 3, 6}, rows[6] = {1, 2, 3, 1, 2, 3};
  float got[6];
  clattn_tensor tensor;
  EXPECT_SUCCESS(context, clattn_tensor_create(context, CLATTN_FLOAT32, 2, shape, host, &tensor));
  const clattn_tensor turned = clattn_tensor_transposed(tensor, 0, 1);
  EXPECT_SUCCESS(context, clattn_tensor_read(context, &turned, got));
  cr_expect_arr_eq(got, columns, sizeof got);
  clattn_tensor repeated = tensor;
  repeated.stride[0] = 0;
  EXPECT_SUCCESS(context, clattn_tensor_read(context, &repeated, got));
  cr_expect_arr_eq(got, rows, sizeof got);
  clattn_tensor_release(&tensor);
  clattn_context_destroy(&context);
}
