/* SPDX-License-Identifier: Apache-2.0
 *
 * Spares drivers the work of building the same program again: a sweep empties the library's cache of kernels before
 * each of its runs, and a build takes PoCL 0.1 seconds. A program whose sources and options have been built before in
 * the same OpenCL context counts as built, and its kernels are made from the program that was. */
#ifndef CLATTN_TESTS_FAULT_PROGRAMS_H
#define CLATTN_TESTS_FAULT_PROGRAMS_H

#include "setup.h"

/* A program was made from these sources; it was released for the last time. */
void fault_program_made(cl_program program, cl_context context, cl_uint count, const char **texts,
                        const size_t *lengths);
void fault_program_gone(cl_program program);

/* 1 if the program counts as built with these options; else it is to be built, and then this called. */
int fault_program_is_known(cl_program program, const char *options);
void fault_program_built(cl_program program);

/* The program to ask and to make kernels from. */
cl_program fault_program_stand_in(cl_program program);

#endif
