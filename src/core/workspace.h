/* SPDX-License-Identifier: Apache-2.0
 *
 * Scratch memory on the device, kept between calls. One buffer a purpose, each beginning at offset 0: batched products
 * by CLBlast read a tile-sized operand from the start of its buffer, whatever offset they are given (see core/blas.h).
 * The queue is in order, so the next call may use a buffer while the last one still runs. */
#ifndef CLATTN_CORE_WORKSPACE_H
#define CLATTN_CORE_WORKSPACE_H

#include "core/message.h"

typedef enum scratch_slot {
  SCRATCH_INPUT,  /* a layer's input rows, made contiguous */
  SCRATCH_WEIGHT, /* a layer's weight, made contiguous in the type of the arithmetic */
  SCRATCH_ROWS,   /* rows [B*T, width] that a projection wrote */
  SCRATCH_QUERY,  /* [B,H,T,D] */
  SCRATCH_KEY,    /* [B,G,S,D] */
  SCRATCH_VALUE,  /* [B,G,S,Dv] */
  SCRATCH_SCORES, /* a slice of [B,H,T,S] */
  SCRATCH_HEADS,  /* [B,H,T,Dv], attention's output */
  SCRATCH_MERGED, /* [B,T,H*Dv] */
  SCRATCH_SLOTS
} scratch_slot;

/* Memory of the caller's that a call works in instead of the pool. */
typedef struct lent_scratch {
  cl_mem buffer; /* NULL: none */
  uint64_t offset, bytes;
} lent_scratch;

typedef struct workspace {
  cl_mem buffer[SCRATCH_SLOTS]; /* what the running call uses: the pool's buffers or pieces of lent memory */
  cl_mem pool[SCRATCH_SLOTS];
  uint64_t pool_bytes[SCRATCH_SLOTS];
  uint64_t peak; /* the most that the pool ever held */
} workspace;

/* Bytes of each slot that a call needs; 0: not needed. */
typedef struct scratch_need {
  uint64_t bytes[SCRATCH_SLOTS];
} scratch_need;

/* In all, each slot rounded up to where the next may begin. */
uint64_t scratch_total(const clattn_context *context, const scratch_need *need);

/* The same for `count` of what `need` is for. */
scratch_need scratch_times(const scratch_need *need, size_t count);

/* Checks lent memory by itself: a buffer of the context, large enough and aligned. */
clattn_status workspace_check_lent(clattn_context *context, const lent_scratch *lent);

/* Gives every slot its buffer, before anything is enqueued. Contents are undefined. To be followed by workspace_return
 * when all is enqueued, whether the call went well or not. */
clattn_status workspace_reserve(clattn_context *context, const scratch_need *need, const lent_scratch *lent);
void workspace_return(clattn_context *context);

/* Releases the pool. */
void workspace_clear(workspace *pool);

#endif
