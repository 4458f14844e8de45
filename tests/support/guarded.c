/* SPDX-License-Identifier: Apache-2.0 */
#include "guarded.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { GUARD_ELEMENTS = 67 }; /* before and behind: more than any vector width, and odd */

double type_round(clattn_type type, double value) {
  return ref_round(type, value);
}

/* 16-bit floats: 5 or 8 bits of exponent, biased, over 10 or 7 of mantissa; the lowest exponent holds the subnormals.
 */
typedef struct half_format {
  int mantissa_bits, bias;
} half_format;

static half_format format_of(clattn_type type) {
  return type == CLATTN_FLOAT16 ? (half_format){10, 15} : (half_format){7, 127};
}

/* Bits of a number that the format has: type_round comes first. */
static uint16_t half_bits(half_format format, double value) {
  const uint32_t infinity = (0xFFFFu >> 1) >> format.mantissa_bits << format.mantissa_bits;
  const uint32_t sign = signbit(value) ? 0x8000u : 0;
  int exponent = 0;
  if (isnan(value)) return (uint16_t)(sign | infinity | 1u << (format.mantissa_bits - 1));
  if (isinf(value)) return (uint16_t)(sign | infinity);
  if (value == 0) return (uint16_t)sign;
  (void)frexp(value, &exponent); /* |value| = 0.5 to 1 times 2^exponent */
  const int lowest = 1 - format.bias, power = exponent - 1 > lowest ? exponent - 1 : lowest;
  const uint32_t mantissa = (uint32_t)ldexp(fabs(value), format.mantissa_bits - power);
  /* The leading bit of a normal number's mantissa counts the exponent up by 1. */
  return (uint16_t)(sign | (((uint32_t)(power - lowest) << format.mantissa_bits) + mantissa));
}

static double half_value(half_format format, uint16_t bits) {
  const uint32_t mantissa = bits & ((1u << format.mantissa_bits) - 1);
  const int exponent = (bits & 0x7FFF) >> format.mantissa_bits, largest = 0x7FFF >> format.mantissa_bits;
  double value = mantissa ? (double)NAN : HUGE_VAL;
  if (exponent == 0) value = ldexp(mantissa, 1 - format.bias - format.mantissa_bits);
  if (exponent > 0 && exponent < largest)
    value = ldexp(mantissa + (1u << format.mantissa_bits), exponent - format.bias - format.mantissa_bits);
  return bits & 0x8000 ? -value : value;
}

void type_store(clattn_type type, double value, unsigned char *to) {
  const float f4 = (float)value;
  const int32_t i4 = type == CLATTN_INT32 ? (int32_t)value : 0;
  /* INT64_MAX is no double: what rounds up to 2^63 is meant to be it. */
  const int64_t i8 = type != CLATTN_INT64 ? 0 : value >= 0x1p63 ? INT64_MAX : (int64_t)value;
  const int is_half = type == CLATTN_FLOAT16 || type == CLATTN_BFLOAT16;
  const uint16_t u2 = is_half ? half_bits(format_of(type), type_round(type, value)) : 0;
  if (is_half) memcpy(to, &u2, sizeof u2);
  if (type == CLATTN_FLOAT32) memcpy(to, &f4, sizeof f4);
  if (type == CLATTN_FLOAT64) memcpy(to, &value, sizeof value);
  if (type == CLATTN_BOOL8) *to = (unsigned char)value;
  if (type == CLATTN_INT32) memcpy(to, &i4, sizeof i4);
  if (type == CLATTN_INT64) memcpy(to, &i8, sizeof i8);
}

static double load_element(clattn_type type, const unsigned char *from) {
  float f4;
  double f8 = *from;
  uint16_t u2;
  if (type == CLATTN_FLOAT64) memcpy(&f8, from, sizeof f8);
  if (type == CLATTN_FLOAT16 || type == CLATTN_BFLOAT16) {
    memcpy(&u2, from, sizeof u2);
    return half_value(format_of(type), u2);
  }
  if (type != CLATTN_FLOAT32) return f8;
  memcpy(&f4, from, sizeof f4);
  return (double)f4;
}

size_t type_bytes(clattn_type type) {
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
  return at * type_bytes(view->type);
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
    if (layout->repeat >> d & 1) continue; /* stride 0 */
    view->stride[d] = step + layout->pad[d];
    step = view->stride[d] * (view->shape[d] ? view->shape[d] : 1);
    if (view->shape[d]) span += (view->shape[d] - 1) * view->stride[d];
  }
  view->offset = GUARD_ELEMENTS + layout->offset;
  return view->offset + span + GUARD_ELEMENTS;
}

void layout_repeat(const test_layout *layout, const test_shape *shape, double *values) {
  const size_t count = test_shape_count(shape);
  size_t step = 1;
  for (int d = shape->rank; d-- > 0; step *= shape->extent[d])
    for (size_t i = 0; i < count && layout->repeat >> d & 1; i++)
      values[i] = values[i - i / step % shape->extent[d] * step];
}

test_guarded guarded_create(clattn_context *context, clattn_type type, const test_shape *shape,
                            const test_layout *layout, const double *values) {
  test_guarded guarded = {.view = {.type = type, .rank = shape->rank}, .context = context};
  memcpy(guarded.view.shape, shape->extent, sizeof guarded.view.shape);
  const test_layout plain = {0};
  guarded.bytes = lay_out(&guarded.view, layout ? layout : &plain) * type_bytes(type);
  guarded.image = test_alloc(guarded.bytes, 1);
  guarded.in_view = test_alloc(guarded.bytes, 1);
  memset(guarded.image, 0xFF, guarded.bytes);
  const size_t count = test_shape_count(shape);
  for (size_t i = 0; i < count; i++) {
    const size_t at = position(&guarded.view, i);
    memset(guarded.in_view + at, 1, type_bytes(type));
    if (values) type_store(type, values[i], guarded.image + at);
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
  const size_t count = view_count(guarded), size = type_bytes(guarded->view.type);
  for (size_t i = 0; i < count; i++) {
    const size_t at = position(&guarded->view, i);
    if (values) values[i] = load_element(guarded->view.type, now + at);
    if (bits) memcpy((unsigned char *)bits + i * size, now + at, size);
  }
  free(now);
}

int guarded_check(const test_guarded *guarded, const char *what, int whole, test_line *line) {
  unsigned char *now = fetch(guarded);
  const size_t size = type_bytes(guarded->view.type);
  int good = 1;
  for (size_t i = 0; good && i < guarded->bytes; i++) {
    if (now[i] == guarded->image[i] || (guarded->in_view[i] && !whole)) continue;
    good = test_fail(line, "%s: element %zu of the buffer, %s the view (which begins at %zu), was overwritten", what,
                     i / size, guarded->in_view[i] ? "in" : "outside", guarded->view.offset);
  }
  free(now);
  return good;
}
