/* SPDX-License-Identifier: Apache-2.0
 *
 * What the parts of the reference share. */
#ifndef CLATTN_VERIFY_REFERENCE_PARTS_H
#define CLATTN_VERIFY_REFERENCE_PARTS_H

#include "verify/reference.h"

/* Unit roundoff u, the reference's own included, and gamma(n). */
double reference_unit(clattn_type compute);
double reference_gamma(double n, double unit);

/* Dropout of a number in `row` and `column` of a stream: b*H + h for probabilities, b + 2^31 for a layer's output. */
int reference_drops(double probability, const clattn_options *options, uint32_t stream, size_t row, size_t column);
void reference_drop(double probability, const clattn_options *options, double unit, uint32_t stream, size_t row,
                    size_t column, double *value, double *error);

#endif
