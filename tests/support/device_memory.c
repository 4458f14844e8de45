/* SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* RTLD_NEXT */
#endif
#include "device_memory.h"

#include "setup.h"

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <dlfcn.h>
#include <stdatomic.h>
#include <string.h>

/* A driver may free memory on a thread of its own. */
static atomic_size_t now, peak, buffers;

size_t device_memory_now(void) {
  return atomic_load(&now);
}

static size_t read_now(void *unused) {
  (void)unused;
  return device_memory_now();
}

size_t device_memory_settled(size_t most) {
  return test_settled(read_now, NULL, most);
}

size_t device_memory_peak(void) {
  return atomic_load(&peak);
}

size_t device_memory_buffers(void) {
  return atomic_load(&buffers);
}

void device_memory_reset(void) {
  atomic_store(&peak, atomic_load(&now));
}

static void CL_CALLBACK forget(cl_mem buffer, void *bytes) {
  (void)buffer;
  atomic_fetch_sub(&now, (size_t)bytes);
}

static void count_buffer(cl_mem buffer, size_t bytes) {
  const size_t total = atomic_fetch_add(&now, bytes) + bytes;
  atomic_fetch_add(&buffers, 1);
  size_t most = atomic_load(&peak);
  while (total > most && !atomic_compare_exchange_weak(&peak, &most, total)) {
  }
  /* Without the callback the buffer counts for ever: then a test fails that should pass, not the other way round. */
  clSetMemObjectDestructorCallback(buffer, forget, (void *)bytes);
}

typedef cl_mem(CL_API_CALL *create_buffer)(cl_context, cl_mem_flags, size_t, void *, cl_int *);

/* The driver's function of the same name. A function pointer cannot be cast from void *, but it can be copied. */
static create_buffer next_create_buffer(void) {
  void *symbol = dlsym(RTLD_NEXT, "clCreateBuffer");
  create_buffer function;
  memcpy(&function, &symbol, sizeof function);
  return function;
}

/* Must be seen by the libraries of this process: they are to find it before the driver's. */
__attribute__((visibility("default"))) CL_API_ENTRY cl_mem CL_API_CALL clCreateBuffer(cl_context context,
                                                                                      cl_mem_flags flags, size_t size,
                                                                                      void *host, cl_int *error) {
  cl_mem buffer = next_create_buffer()(context, flags, size, host, error);
  if (buffer) count_buffer(buffer, size);
  return buffer;
}
