/* SPDX-License-Identifier: Apache-2.0
 *
 * Comparing arrays. A number passes only if it is known to be near enough: NaN on either side fails, a bound that is
 * infinite or NaN fails (such a case proves nothing), and so do shapes that differ. */
#ifndef CLATTN_TESTS_COMPARE_H
#define CLATTN_TESTS_COMPARE_H

#include "reference/reference.h"
#include "setup.h"

typedef struct test_shape {
  int rank;
  size_t extent[CLATTN_MAX_RANK];
} test_shape;

size_t test_shape_count(const test_shape *shape);
/* "[2,3,4]" */
void test_shape_text(const test_shape *shape, char text[96]);
/* "[0,1,2]": where element number `index` of a row-major array sits. */
void test_index_text(const test_shape *shape, size_t index, char text[96]);

/* 1 if got and want are equal (infinities included), or |got - want| <= bound. */
int is_near(double got, double want, double bound);

/* 1 if every |got - want.value| <= want.bound; otherwise 0 and a line that starts with `what`. */
int compare_arrays(const char *what, const double *got, const test_shape *got_shape, const ref_array *want,
                   const test_shape *want_shape, test_line *line);

/* The same for closed forms: |got - want| <= bound for all. */
int compare_numbers(const char *what, const double *got, const double *want, size_t count, double bound,
                    test_line *line);

/* 1 if all bytes are equal. */
int compare_bits(const char *what, const void *first, const void *second, size_t bytes, test_line *line);

#endif
