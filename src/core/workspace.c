/* SPDX-License-Identifier: Apache-2.0 */
#include "core/workspace.h"

#include "core/context.h"
#include "core/tensor.h"

/* --------------------------------------------------------------------------------------------------------- the pool */

static uint64_t pool_total(const workspace *pool) {
  uint64_t total = 0;
  for (int slot = 0; slot < SCRATCH_SLOTS; slot++) total += pool->pool_bytes[slot];
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
  if (pool->pool[slot] != NULL) (void)clReleaseMemObject(pool->pool[slot]);
  pool->pool[slot] = NULL;
  pool->pool_bytes[slot] = 0;
  cl_int error = CL_SUCCESS;
  cl_mem grown = clCreateBuffer(context->cl, CL_MEM_READ_WRITE, (size_t)bytes, NULL, &error);
  CHECK_CL(context_message(context), error, "clCreateBuffer of %llu bytes of scratch memory",
           (unsigned long long)bytes);
  pool->pool[slot] = grown;
  pool->pool_bytes[slot] = bytes;
  if (pool_total(pool) > pool->peak) pool->peak = pool_total(pool);

cleanup:
  return status;
}

void workspace_clear(workspace *pool) {
  for (int slot = 0; slot < SCRATCH_SLOTS; slot++) {
    if (pool->pool[slot] != NULL) (void)clReleaseMemObject(pool->pool[slot]);
    pool->pool[slot] = NULL;
    pool->pool_bytes[slot] = 0;
  }
}

/* ------------------------------------------------------------------------------------------------------ lent memory */

static uint64_t round_up(const clattn_context *context, uint64_t bytes) {
  uint64_t alignment = context->base_alignment;
  return (bytes + alignment - 1) / alignment * alignment;
}

uint64_t scratch_total(const clattn_context *context, const scratch_need *need) {
  uint64_t total = 0;
  for (int slot = 0; slot < SCRATCH_SLOTS; slot++) total += round_up(context, need->bytes[slot]);
  return total;
}

scratch_need scratch_times(const scratch_need *need, size_t count) {
  scratch_need product;
  for (int slot = 0; slot < SCRATCH_SLOTS; slot++) product.bytes[slot] = need->bytes[slot] * count;
  return product;
}

clattn_status workspace_check_lent(clattn_context *context, const lent_scratch *lent) {
  if (lent->buffer == NULL && (lent->offset != 0 || lent->bytes != 0))
    return REFUSE(context, CLATTN_INVALID_ARGUMENT,
                  "scratch is NULL while scratch_offset is %llu and scratch_bytes %llu",
                  (unsigned long long)lent->offset, (unsigned long long)lent->bytes);
  if (lent->buffer == NULL) return CLATTN_SUCCESS;
  if (lent->offset % context->base_alignment != 0)
    return REFUSE(context, CLATTN_INVALID_ARGUMENT, "scratch_offset is %llu, not a multiple of the device's %llu bytes",
                  (unsigned long long)lent->offset, (unsigned long long)context->base_alignment);
  if (lent->bytes == 0 || lent->bytes > SIZE_MAX || lent->offset > SIZE_MAX)
    return REFUSE(context, CLATTN_INVALID_ARGUMENT, "scratch_bytes is %llu at scratch_offset %llu: no memory to use",
                  (unsigned long long)lent->bytes, (unsigned long long)lent->offset);
  const size_t shape[1] = {(size_t)lent->bytes};
  clattn_tensor view = clattn_tensor_view(lent->buffer, (size_t)lent->offset, CLATTN_BOOL8, 1, shape);
  return tensor_check(context, "scratch", &view, TENSOR_OUTPUT);
}

/* A piece of lent memory. Sub-buffers of sub-buffers do not exist: the piece is cut from the parent. */
static clattn_status cut_piece(clattn_context *context, const lent_scratch *lent, uint64_t at, uint64_t bytes,
                               cl_mem *piece) {
  clattn_status status = CLATTN_SUCCESS;
  message to = context_message(context);
  cl_mem parent = NULL;
  size_t origin = 0;
  cl_int error = CL_SUCCESS;
  CHECK_CL(to, clGetMemObjectInfo(lent->buffer, CL_MEM_ASSOCIATED_MEMOBJECT, sizeof parent, (void *)&parent, NULL),
           "scratch: clGetMemObjectInfo");
  if (parent != NULL)
    CHECK_CL(to, clGetMemObjectInfo(lent->buffer, CL_MEM_OFFSET, sizeof origin, &origin, NULL),
             "scratch: clGetMemObjectInfo");
  cl_buffer_region region = {origin + (size_t)(lent->offset + at), (size_t)bytes};
  *piece = clCreateSubBuffer(parent != NULL ? parent : lent->buffer, CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION,
                             &region, &error);
  CHECK_CL(to, error, "scratch: clCreateSubBuffer of %zu bytes at %zu", region.size, region.origin);

cleanup:
  return status;
}

static clattn_status use_lent(clattn_context *context, const scratch_need *need, const lent_scratch *lent) {
  uint64_t at = 0;
  uint64_t total = scratch_total(context, need);
  if (total > lent->bytes)
    return REFUSE(context, CLATTN_OUT_OF_DEVICE_MEMORY, "scratch_bytes is %llu; the call needs %llu",
                  (unsigned long long)lent->bytes, (unsigned long long)total);
  for (int slot = 0; slot < SCRATCH_SLOTS; slot++) {
    if (need->bytes[slot] == 0) continue;
    clattn_status status = cut_piece(context, lent, at, need->bytes[slot], &context->workspace.buffer[slot]);
    if (status != CLATTN_SUCCESS) return status;
    at += round_up(context, need->bytes[slot]);
  }
  return CLATTN_SUCCESS;
}

/* ------------------------------------------------------------------------------------------------------------ calls */

clattn_status workspace_reserve(clattn_context *context, const scratch_need *need, const lent_scratch *lent) {
  clattn_status status = CLATTN_SUCCESS;
  workspace *pool = &context->workspace;
  if (lent->buffer != NULL) return use_lent(context, need, lent);
  for (int slot = 0; slot < SCRATCH_SLOTS; slot++) {
    if (need->bytes[slot] == 0) continue;
    const uint64_t bytes = round_up(context, need->bytes[slot]); /* as much as in lent memory: what the plan says */
    if (bytes > pool->pool_bytes[slot]) CHECK(grow(context, slot, bytes));
    CHECK_CL(context_message(context), clRetainMemObject(pool->pool[slot]), "clRetainMemObject");
    pool->buffer[slot] = pool->pool[slot];
  }

cleanup:
  return status;
}

void workspace_return(clattn_context *context) {
  for (int slot = 0; slot < SCRATCH_SLOTS; slot++) {
    if (context->workspace.buffer[slot] != NULL) (void)clReleaseMemObject(context->workspace.buffer[slot]);
    context->workspace.buffer[slot] = NULL;
  }
}

uint64_t clattn_context_scratch_bytes(const clattn_context *context) {
  return context != NULL ? pool_total(&context->workspace) : 0;
}

uint64_t clattn_context_scratch_peak(const clattn_context *context) {
  return context != NULL ? context->workspace.peak : 0;
}

void clattn_context_trim(clattn_context *context) {
  if (context != NULL) workspace_clear(&context->workspace);
}
