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
  SCRATCH_ROWS,   /* rows [B*T, width] that a projection wrote */
  SCRATCH_QUERY,  /* [B,H,T,D] */
  SCRATCH_KEY,    /* [B,G,S,D] */
  SCRATCH_VALUE,  /* [B,G,S,Dv] */
  SCRATCH_SCORES, /* a slice of [B,H,T,S] */
  SCRATCH_HEADS,  /* [B,H,T,Dv], attention's output */
  SCRATCH_MERGED, /* [B,T,H*Dv] */
  SCRATCH_SLOTS
} scratch_slot;

typedef struct workspace {
  cl_mem buffer[SCRATCH_SLOTS];
  uint64_t bytes[SCRATCH_SLOTS];
} workspace;

/* Bytes of each slot that a call needs; 0: not needed. */
typedef struct scratch_need {
  uint64_t bytes[SCRATCH_SLOTS];
} scratch_need;

uint64_t scratch_total(const scratch_need *need);

/* Makes every slot large enough, before anything is enqueued. Contents are undefined. */
clattn_status workspace_reserve(clattn_context *context, const scratch_need *need);

void workspace_clear(workspace *pool);

#endif
