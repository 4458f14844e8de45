/* SPDX-License-Identifier: Apache-2.0 */
#include "compare.h"

#include <stdio.h>
#include <string.h>

size_t test_shape_count(const test_shape *shape) {
  size_t count = 1;
  for (int d = 0; d < shape->rank; d++) count *= shape->extent[d];
  return count;
}

static void list_text(const size_t *numbers, int count, char text[96]) {
  size_t used = (size_t)snprintf(text, 96, "[");
  for (int d = 0; d < count && used < 96; d++)
    used += (size_t)snprintf(text + used, 96 - used, d ? ",%zu" : "%zu", numbers[d]);
  if (used < 96) snprintf(text + used, 96 - used, "]");
}

void test_shape_text(const test_shape *shape, char text[96]) {
  list_text(shape->extent, shape->rank, text);
}

void test_index_text(const test_shape *shape, size_t index, char text[96]) {
  size_t at[CLATTN_MAX_RANK] = {0};
  for (int d = shape->rank; d-- > 0; index /= shape->extent[d]) at[d] = index % shape->extent[d];
  list_text(at, shape->rank, text);
}

int is_near(double got, double want, double bound) {
  return got == want || (isfinite(bound) && fabs(got - want) <= bound);
}

int compare_arrays(const char *what, const double *got, const test_shape *got_shape, const ref_array *want,
                   const test_shape *want_shape, test_line *line) {
  char first[96], second[96];
  int same = got_shape->rank == want_shape->rank;
  for (int d = 0; same && d < got_shape->rank; d++) same = got_shape->extent[d] == want_shape->extent[d];
  test_shape_text(got_shape, first);
  test_shape_text(want_shape, second);
  if (!same || test_shape_count(want_shape) != want->count)
    return test_fail(line, "%s: shape %s instead of %s with %zu numbers", what, first, second, want->count);
  for (size_t i = 0; i < want->count; i++) {
    if (!isnan(want->value[i]) && isfinite(want->bound[i]) && is_near(got[i], want->value[i], want->bound[i])) continue;
    test_index_text(got_shape, i, first);
    return test_fail(line, "%s%s = %.9g, want %.9g +- %.3g (off by %.3g)", what, first, got[i], want->value[i],
                     want->bound[i], got[i] - want->value[i]);
  }
  return 1;
}

int compare_numbers(const char *what, const double *got, const double *want, size_t count, double bound,
                    test_line *line) {
  for (size_t i = 0; i < count; i++)
    if (!is_near(got[i], want[i], bound))
      return test_fail(line, "%s[%zu] = %.9g, want %.9g +- %.3g", what, i, got[i], want[i], bound);
  return 1;
}

int compare_bits(const char *what, const void *first, const void *second, size_t bytes, test_line *line) {
  const unsigned char *a = first, *b = second;
  for (size_t i = 0; i < bytes; i++)
    if (a[i] != b[i]) return test_fail(line, "%s: byte %zu of %zu is %02x, then %02x", what, i, bytes, a[i], b[i]);
  return 1;
}
