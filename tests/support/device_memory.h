/* SPDX-License-Identifier: Apache-2.0
 *
 * Counts the bytes of all buffers that this process makes, CLBlast's temporary ones included: a program that links this
 * file calls the clCreateBuffer in it, and so do all shared libraries that it loads. */
#ifndef CLATTN_TESTS_DEVICE_MEMORY_H
#define CLATTN_TESTS_DEVICE_MEMORY_H

#include <stddef.h>

/* Bytes of the buffers that exist now; a buffer is gone when the driver says that its memory is free. */
size_t device_memory_now(void);
/* The same, once the driver has had the time to free all but this many bytes. */
size_t device_memory_settled(size_t most);
/* The most there has been since the last call of device_memory_reset. */
size_t device_memory_peak(void);
void device_memory_reset(void);
/* How many buffers have been made. */
size_t device_memory_buffers(void);

#endif
