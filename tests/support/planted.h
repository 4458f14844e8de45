/* SPDX-License-Identifier: Apache-2.0
 *
 * Plants faults in kernels: a program that links this file makes its OpenCL programs by the clCreateProgramWithSource
 * in it, which changes a piece of the text on its way to the driver, as a driver that compiles it wrongly would in
 * effect. */
#ifndef CLATTN_TESTS_PLANTED_H
#define CLATTN_TESTS_PLANTED_H

#include <stddef.h>

/* From now on `text` becomes `fault` wherever it stands in a source; NULL: nothing does. Both must outlive it. */
void planted_fault(const char *text, const char *fault);

/* Pieces of text that were changed since then. */
size_t planted_count(void);

#endif
