/* SPDX-License-Identifier: Apache-2.0
 *
 * What the wrappers in fault_calls*.c are made from. A definition begins a line with WRAP_...(name: the build looks for
 * that and passes --wrap=name, upon which the linker leads each use of `name` to __wrap_name, and __real_name to it. */
#ifndef CLATTN_TESTS_FAULT_CALLS_H
#define CLATTN_TESTS_FAULT_CALLS_H

#include "faults.h"

/* 1 if this call is to fail. */
int fault_fires(unsigned kinds, const char *call, const void *object, unsigned long detail);

/* The plan's code; as what an OpenCL call answers: CL_SUCCESS if the call is not to fail. */
int fault_code(void);
cl_int fault_opencl(unsigned kinds, const char *call, const void *object, unsigned long detail);

/* 1, with errno set, if this call is to fail. */
int fault_system(unsigned kinds, const char *call);

/* Something that may change device memory has been enqueued. */
void fault_wrote(void);

/* The account: one more reference to a handle, one less. Handles that are not in it do not count: they came from
 * elsewhere. An OpenCL object must be in it. fault_drop returns how many references are left. */
void fault_hold(fault_holding kind, const void *handle);
size_t fault_drop(fault_holding kind, const void *handle);

#endif
