/* SPDX-License-Identifier: Apache-2.0 */
#include "core/workspace.h"

#include "core/context.h"

clattn_status workspace_get(clattn_context *context, scratch_slot slot, uint64_t bytes, cl_mem *buffer) {
  clattn_status status = CLATTN_SUCCESS;
  workspace *pool = &context->workspace;
  *buffer = NULL;
  if (bytes == 0) return CLATTN_SUCCESS;
  if (bytes > pool->bytes[slot]) {
    if (bytes > context->info.max_alloc_bytes || bytes > SIZE_MAX)
      return REFUSE(context, CLATTN_OUT_OF_DEVICE_MEMORY,
                    "scratch memory of %llu bytes in one buffer: the device allows %llu", (unsigned long long)bytes,
                    (unsigned long long)context->info.max_alloc_bytes);
    /* Release first: old and new side by side may not fit. Work in flight keeps its buffer alive. */
    if (pool->buffer[slot] != NULL) (void)clReleaseMemObject(pool->buffer[slot]);
    pool->buffer[slot] = NULL;
    pool->bytes[slot] = 0;
    cl_int error = CL_SUCCESS;
    cl_mem grown = clCreateBuffer(context->cl, CL_MEM_READ_WRITE, (size_t)bytes, NULL, &error);
    CHECK_CL(context_message(context), error, "clCreateBuffer of %llu bytes of scratch memory",
             (unsigned long long)bytes);
    pool->buffer[slot] = grown;
    pool->bytes[slot] = bytes;
  }
  *buffer = pool->buffer[slot];

cleanup:
  return status;
}

void workspace_clear(workspace *pool) {
  for (int slot = 0; slot < SCRATCH_SLOTS; slot++) {
    if (pool->buffer[slot] != NULL) (void)clReleaseMemObject(pool->buffer[slot]);
    pool->buffer[slot] = NULL;
    pool->bytes[slot] = 0;
  }
}
