/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers of the self check: values with the bound of their error, and what storing a value in a type makes of it. */
#ifndef CLATTN_VERIFY_NUMBERS_H
#define CLATTN_VERIFY_NUMBERS_H

#include "clattn/clattn.h"

/* Values with the largest distance that a right implementation may have from each. */
typedef struct numbers {
  size_t count;
  double *value; /* owned, and `error` with it */
  double *error;
} numbers;

/* Zeros without error; 0 if there is no memory for them. */
int numbers_create(numbers *out, size_t count);
void numbers_free(numbers *out);

/* The value that is nearest in a type, ties to even, infinity where it is too large. */
double number_nearest(clattn_type type, double value);

/* An element of an array in memory, as the device has it. `value` must be one that the type has. */
double number_load(clattn_type type, const unsigned char *bytes, size_t index);
void number_store(clattn_type type, unsigned char *bytes, size_t index, double value);

/* Error over bound of `got`: above 1 it is wrong, infinity for NaN. type: what the result was rounded to when it was
 * stored, 0 if it was not; then the error is the smallest that explains `got`. */
double number_excess(clattn_type type, double got, double want, double error);

#endif
