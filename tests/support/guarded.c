/* SPDX-License-Identifier: Apache-2.0 */
#include "guarded.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { GUARD_ELEMENTS = 67 }; /* before and behind: more than any vector width, and odd */

double type_round(clattn_type type, double value) {
  return type == CLATTN_FLOAT32 ? (double)(float)value : value;
}

static void store_element(clattn_type type, double value, unsigned char *to) {
  const float f4 = (float)value;
  const int32_t i4 = type == CLATTN_INT32 ? (int32_t)value : 0;
  /* INT64_MAX is no double: what rounds up to 2^63 is meant to be it. */
  const int64_t i8 = type != CLATTN_INT64 ? 0 : value >= 0x1p63 ? INT64_MAX : (int64_t)value;
  if (type == CLATTN_FLOAT32) memcpy(to, &f4, sizeof f4);
  if (type == CLATTN_FLOAT64) memcpy(to, &value, sizeof value);
  if (type == CLATTN_BOOL8) *to = (unsigned char)value;
  if (type == CLATTN_INT32) memcpy(to, &i4, sizeof i4);
  if (type == CLATTN_INT64) memcpy(to, &i8, sizeof i8);
}

static double load_element(clattn_type type, const unsigned char *from) {
  float f4;
  double f8 = *from;
  if (type == CLATTN_FLOAT64) memcpy(&f8, from, sizeof f8);
  if (type != CLATTN_FLOAT32) return f8;
  memcpy(&f4, from, sizeof f4);
  return (double)f4;
}

static size_t element_size(clattn_type type) {
  switch (type) {
  case CLATTN_BOOL8:
    return 1;
  case CLATTN_FLOAT64:
  case CLATTN_INT64:
    return 8;
  case CLATTN_FLOAT16:
  case CLATTN_BFLOAT16:
    return 2;
  default:
    return 4;
  }
}

/* Byte position in the buffer of element number `index`, counted row-major. */
static size_t position(const clattn_tensor *view, size_t index) {
  size_t at = view->offset;
  for (int d = view->rank; d-- > 0; index /= view->shape[d]) at += index % view->shape[d] * view->stride[d];
  return at * element_size(view->type);
}

test_shape guarded_shape(const test_guarded *guarded) {
  test_shape shape = {.rank = guarded->view.rank};
  memcpy(shape.extent, guarded->view.shape, sizeof shape.extent);
  return shape;
}

static size_t view_count(const test_guarded *guarded) {
  const test_shape shape = guarded_shape(guarded);
  return test_shape_count(&shape);
}

/* Sets offset and strides, and returns how many elements the buffer needs. */
static size_t lay_out(clattn_tensor *view, const test_layout *layout) {
  size_t step = 1, span = 1;
  for (int n = view->rank; n-- > 0;) {
    const int d = layout->order ? layout->order[n] - '0' : n;
    view->stride[d] = step + layout->pad[d];
    step = view->stride[d] * (view->shape[d] ? view->shape[d] : 1);
    if (view->shape[d]) span += (view->shape[d] - 1) * view->stride[d];
  }
  view->offset = GUARD_ELEMENTS + layout->offset;
  return view->offset + span + GUARD_ELEMENTS;
}

test_guarded guarded_create(clattn_context *context, clattn_type type, const test_shape *shape,
                            const test_layout *layout, const double *values) {
  test_guarded guarded = {.view = {.type = type, .rank = shape->rank}, .context = context};
  memcpy(guarded.view.shape, shape->extent, sizeof guarded.view.shape);
  const test_layout plain = {0};
  guarded.bytes = lay_out(&guarded.view, layout ? layout : &plain) * element_size(type);
  guarded.image = test_alloc(guarded.bytes, 1);
  guarded.in_view = test_alloc(guarded.bytes, 1);
  memset(guarded.image, 0xFF, guarded.bytes);
  const size_t count = test_shape_count(shape);
  for (size_t i = 0; i < count; i++) {
    const size_t at = position(&guarded.view, i);
    memset(guarded.in_view + at, 1, element_size(type));
    if (values) store_element(type, values[i], guarded.image + at);
  }
  cl_int error;
  guarded.view.buffer = clCreateBuffer(clattn_context_cl(context), CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR,
                                       guarded.bytes, guarded.image, &error);
  cr_assert_eq(error, CL_SUCCESS, "clCreateBuffer of %zu bytes: %d", guarded.bytes, error);
  return guarded;
}

void guarded_release(test_guarded *guarded) {
  if (guarded->view.buffer) clReleaseMemObject(guarded->view.buffer);
  free(guarded->image);
  free(guarded->in_view);
  *guarded = (test_guarded){0};
}

void guarded_reset(test_guarded *guarded) {
  memset(guarded->image, 0xFF, guarded->bytes);
  const cl_int error = clEnqueueWriteBuffer(clattn_context_queue(guarded->context), guarded->view.buffer, CL_TRUE, 0,
                                            guarded->bytes, guarded->image, 0, NULL, NULL);
  cr_assert_eq(error, CL_SUCCESS, "clEnqueueWriteBuffer: %d", error);
}

/* The whole buffer as it is now; to be freed. */
static unsigned char *fetch(const test_guarded *guarded) {
  unsigned char *now = test_alloc(guarded->bytes, 1);
  const cl_int error = clEnqueueReadBuffer(clattn_context_queue(guarded->context), guarded->view.buffer, CL_TRUE, 0,
                                           guarded->bytes, now, 0, NULL, NULL);
  cr_assert_eq(error, CL_SUCCESS, "clEnqueueReadBuffer: %d", error);
  return now;
}

void guarded_read(const test_guarded *guarded, double *values, void *bits) {
  unsigned char *now = fetch(guarded);
  const size_t count = view_count(guarded), size = element_size(guarded->view.type);
  for (size_t i = 0; i < count; i++) {
    const size_t at = position(&guarded->view, i);
    if (values) values[i] = load_element(guarded->view.type, now + at);
    if (bits) memcpy((unsigned char *)bits + i * size, now + at, size);
  }
  free(now);
}

int guarded_check(const test_guarded *guarded, const char *what, int whole, test_line *line) {
  unsigned char *now = fetch(guarded);
  const size_t size = element_size(guarded->view.type);
  int good = 1;
  for (size_t i = 0; good && i < guarded->bytes; i++) {
    if (now[i] == guarded->image[i] || (guarded->in_view[i] && !whole)) continue;
    good = test_fail(line, "%s: element %zu of the buffer, %s the view (which begins at %zu), was overwritten", what,
                     i / size, guarded->in_view[i] ? "in" : "outside", guarded->view.offset);
  }
  free(now);
  return good;
}
