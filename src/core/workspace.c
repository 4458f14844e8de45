/* SPDX-License-Identifier: Apache-2.0 */
#include "core/workspace.h"

#include "core/context.h"

uint64_t scratch_total(const scratch_need *need) {
  uint64_t total = 0;
  for (int slot = 0; slot < SCRATCH_SLOTS; slot++) total += need->bytes[slot];
  return total;
}

static clattn_status grow(clattn_context *context, int slot, uint64_t bytes) {
  clattn_status status = CLATTN_SUCCESS;
  workspace *pool = &context->workspace;
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

cleanup:
  return status;
}

clattn_status workspace_reserve(clattn_context *context, const scratch_need *need) {
  clattn_status status = CLATTN_SUCCESS;
  for (int slot = 0; slot < SCRATCH_SLOTS; slot++)
    if (need->bytes[slot] > context->workspace.bytes[slot]) CHECK(grow(context, slot, need->bytes[slot]));

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
