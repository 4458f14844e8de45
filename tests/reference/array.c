/* SPDX-License-Identifier: Apache-2.0
 *
 * Arrays of the reference, and the arithmetics whose error it bounds. */
#include "reference.h"

#include <float.h>
#include <stdio.h>
#include <stdlib.h>

static double *allocate(size_t count) {
  double *memory = calloc(count ? count : 1, sizeof *memory);
  if (!memory) {
    fprintf(stderr, "reference: no memory for %zu numbers\n", count);
    abort();
  }
  return memory;
}

ref_array ref_array_create(size_t count) {
  return (ref_array){.count = count, .value = allocate(count), .bound = allocate(count)};
}

ref_array ref_array_from(const double *values, size_t count, double relative) {
  ref_array array = ref_array_create(count);
  for (size_t i = 0; i < count; i++) {
    array.value[i] = values[i];
    array.bound[i] = relative * fabs(values[i]);
  }
  return array;
}

void ref_array_release(ref_array *array) {
  free(array->value);
  free(array->bound);
  *array = (ref_array){0};
}

/* To `digits` bits; the last bit counts 2^lowest at least, which makes subnormals. */
static double round_to(double value, int digits, int lowest, double largest) {
  int exponent = 0;
  if (!isfinite(value) || value == 0) return value;
  (void)frexp(value, &exponent);
  const int last = exponent - digits > lowest ? exponent - digits : lowest;
  const double rounded = ldexp(nearbyint(ldexp(value, -last)), last); /* the default rounding is to nearest even */
  return fabs(rounded) > largest ? copysign(HUGE_VAL, value) : rounded;
}

double ref_round(clattn_type type, double value) {
  switch (type) {
  case CLATTN_FLOAT32:
    return (double)(float)value;
  case CLATTN_FLOAT16:
    return round_to(value, 11, -24, 65504);
  case CLATTN_BFLOAT16:
    return round_to(value, 8, -133, 0x1.FEp127);
  default:
    return value;
  }
}

/* Rounding is monotonous: what lies between two numbers lies between them rounded. OpenCL 1.2, section 6.1.1.1, forbids
 * to flush subnormals of half. */
void ref_array_store(ref_array *array, clattn_type type) {
  const double tiny = type == CLATTN_FLOAT32 ? FLT_MIN : 0;
  for (size_t i = 0; i < array->count; i++) {
    const double want = array->value[i], error = array->bound[i];
    if (!isfinite(want) || (want == 0 && error == 0)) continue; /* these are stored as they are */
    const double stored = ref_round(type, want), above = ref_round(type, want + error),
                 below = ref_round(type, want - error);
    array->value[i] = stored;
    array->bound[i] = above == below ? tiny : fmax(above - stored, stored - below) + tiny;
  }
}

ref_arithmetic ref_float32(void) {
  return (ref_arithmetic){.unit = ldexp(1, -24) + ldexp(1, -53), .tiny = FLT_MIN, .single = 1};
}

ref_arithmetic ref_float64(void) {
  return (ref_arithmetic){.unit = ldexp(1, -53) + ldexp(1, -53), .tiny = DBL_MIN, .single = 0};
}

double ref_gamma(double n, double unit) {
  return n * unit < 1 ? n * unit / (1 - n * unit) : HUGE_VAL;
}
