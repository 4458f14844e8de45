/* SPDX-License-Identifier: Apache-2.0 */
#include "verify/numbers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "io/half.h"

int numbers_create(numbers *out, size_t count) {
  *out = (numbers){0};
  double *memory = count <= SIZE_MAX / (2 * sizeof *memory) ? calloc(count > 0 ? 2 * count : 1, sizeof *memory) : NULL;
  if (memory == NULL) return 0;
  *out = (numbers){count, memory, memory + count};
  return 1;
}

void numbers_free(numbers *out) {
  free(out->value);
  *out = (numbers){0};
}

/* A binary type narrower than double: significant bits, exponents of the smallest normal and the largest number. */
typedef struct format {
  int digits, lowest, highest;
} format;

static int find_format(clattn_type type, format *out) {
  static const format half = {11, -14, 15}, bfloat16 = {8, -126, 127}, single = {24, -126, 127};
  if (type != CLATTN_FLOAT16 && type != CLATTN_BFLOAT16 && type != CLATTN_FLOAT32) return 0;
  *out = type == CLATTN_FLOAT16 ? half : type == CLATTN_BFLOAT16 ? bfloat16 : single;
  return 1;
}

/* Distance between the numbers of the type in [2^e, 2^(e+1)), which contains `size`. */
static double spacing(const format *f, double size) {
  int exponent = f->lowest + 1;
  if (size > 0) (void)frexp(size, &exponent); /* size in [2^(exponent-1), 2^exponent) */
  if (exponent - 1 < f->lowest) exponent = f->lowest + 1;
  return ldexp(1, exponent - f->digits);
}

/* Powers of 2 scale exactly, and rint() rounds ties to even: it is the mode that programs start in. */
double number_nearest(clattn_type type, double value) {
  format f;
  if (type == CLATTN_FLOAT32) return (double)(float)value;
  if (!find_format(type, &f) || !isfinite(value) || value == 0) return value;
  const double step = spacing(&f, fabs(value)), rounded = rint(value / step) * step;
  return fabs(rounded) < ldexp(1, f.highest + 1) ? rounded : copysign(HUGE_VAL, value);
}

static uint16_t half_bits(double value) {
  const uint16_t sign = signbit(value) ? 0x8000 : 0;
  int exponent = 0;
  if (isnan(value)) return 0x7e00;
  if (isinf(value)) return sign | 0x7c00;
  const double size = fabs(value);
  if (size < ldexp(1, -14)) return sign | (uint16_t)ldexp(size, 24);
  const double fraction = frexp(size, &exponent);
  return (uint16_t)(sign | (unsigned)(exponent + 14) << 10 | ((unsigned)ldexp(fraction, 11) & 0x3ffu));
}

static uint16_t bfloat16_bits(double value) {
  const float narrow = (float)value;
  uint32_t bits = 0;
  memcpy(&bits, &narrow, sizeof bits);
  return (uint16_t)(bits >> 16);
}

double number_load(clattn_type type, const unsigned char *bytes, size_t index) {
  union {
    float f;
    double d;
    uint16_t half;
    int32_t i;
    int64_t l;
  } element;
  memcpy(&element, bytes + index * clattn_type_size(type), clattn_type_size(type));
  switch (type) {
  case CLATTN_FLOAT32:
    return (double)element.f;
  case CLATTN_FLOAT64:
    return element.d;
  case CLATTN_FLOAT16:
    return (double)io_half_to_float(element.half);
  case CLATTN_BFLOAT16:
    return (double)io_bfloat16_to_float(element.half);
  case CLATTN_INT32:
    return element.i;
  case CLATTN_INT64:
    return (double)element.l;
  case CLATTN_BOOL8:
    break;
  }
  return bytes[index];
}

void number_store(clattn_type type, unsigned char *bytes, size_t index, double value) {
  union {
    float f;
    double d;
    uint16_t half;
    int32_t i;
    int64_t l;
    unsigned char byte;
  } element = {.d = value};
  switch (type) {
  case CLATTN_FLOAT32:
    element.f = (float)value;
    break;
  case CLATTN_FLOAT64:
    break;
  case CLATTN_FLOAT16:
    element.half = half_bits(value);
    break;
  case CLATTN_BFLOAT16:
    element.half = bfloat16_bits(value);
    break;
  case CLATTN_INT32:
    element.i = (int32_t)value;
    break;
  case CLATTN_INT64:
    element.l = (int64_t)value;
    break;
  case CLATTN_BOOL8:
    element.byte = (unsigned char)value;
    break;
  }
  memcpy(bytes + index * clattn_type_size(type), &element, clattn_type_size(type));
}

/* The number between `got` and its neighbour on the side of `want`: what lies between the two is rounded to `got`. */
static double rounding_edge(const format *f, double got, double want) {
  const double number = isinf(got) ? copysign(ldexp(1, f->highest + 1), got) : got, size = fabs(number);
  const int inwards = (number > 0) == (got > want); /* the neighbour is nearer to 0 */
  const double step = spacing(f, inwards ? nextafter(size, 0) : size);
  return got > want ? number - step / 2 : number + step / 2;
}

double number_excess(clattn_type type, double got, double want, double error) {
  format f;
  if (isnan(got) || isnan(want) || !isfinite(error)) return HUGE_VAL; /* without a bound nothing is shown */
  if (got == want) return 0;
  const double seen = find_format(type, &f) ? rounding_edge(&f, got, want) : got;
  const double off = got > want ? seen - want : want - seen;
  return off <= 0 ? 0 : off / error;
}
