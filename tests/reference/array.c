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

void ref_array_round(ref_array *array, double unit, double tiny) {
  for (size_t i = 0; i < array->count; i++) {
    double want = array->value[i];
    if (!isfinite(want) || (want == 0 && array->bound[i] == 0)) continue; /* these are stored as they are */
    array->bound[i] += unit * (fabs(want) + array->bound[i]) + tiny;
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
