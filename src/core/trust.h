/* SPDX-License-Identifier: Apache-2.0
 *
 * Which paths may be used for which features on this device: they are checked against the reference before. The checks
 * are calls of the public interface, so what is declared here is done above all other parts, in src/verify. */
#ifndef CLATTN_CORE_TRUST_H
#define CLATTN_CORE_TRUST_H

#include "core/message.h"

/* What a call uses beyond the plain thing; a set of bits. */
typedef enum trust_feature {
  TRUST_BLOCK_MASK = 1 << 0,
  TRUST_KEEP_MASK = 1 << 1,
  TRUST_ADD_MASK = 1 << 2,
  TRUST_MANY_TERMS = 1 << 3, /* more than the soft max takes itself */
  TRUST_TOP_LEFT = 1 << 4,
  TRUST_BOTTOM_RIGHT = 1 << 5,
  TRUST_OFFSET = 1 << 6,
  TRUST_WINDOW = 1 << 7,
  TRUST_KV_LENGTHS = 1 << 8,
  TRUST_Q_LENGTHS = 1 << 9,
  TRUST_SOFT_CAP = 1 << 10,
  TRUST_SLOPES = 1 << 11,
  TRUST_GROUPS = 1 << 12,
  TRUST_ZERO_KEY = 1 << 13,
  TRUST_BIAS_KEY = 1 << 14,
  TRUST_DROPOUT = 1 << 15,
  TRUST_OUTPUT_DROPOUT = 1 << 16,
  TRUST_WEIGHTS = 1 << 17,
  TRUST_MEAN_WEIGHTS = 1 << 18,
  TRUST_LOG_SUM_EXP = 1 << 19,
  TRUST_FLOAT16 = 1 << 20, /* any array of that type */
  TRUST_BFLOAT16 = 1 << 21,
  TRUST_STRIDES = 1 << 22, /* an input or output that does not lie densely from its buffer's start */
  TRUST_SLICES = 1 << 23,
  TRUST_LENT_SCRATCH = 1 << 24,
  TRUST_LARGE = 1 << 25, /* a product of at least TRUST_LARGE_PRODUCT multiplications */
  TRUST_LAYER = 1 << 26
} trust_feature;

/* CLBlast has other kernels for large products. From which size on depends on the device: the cube of 128 on some GPUs,
 * of 704 where it knows nothing better. The check costs as much as a few such products, so that smaller calls do not
 * wait for it. */
#define TRUST_LARGE_PRODUCT ((uint64_t)1 << 29)

typedef struct trust_use {
  clattn_path path;
  clattn_type compute;
  unsigned features; /* of trust_feature */
} trust_use;

/* Runs the checks that are new to this context, and reads and writes what is kept on disk. SUCCESS: the path may be
 * used; SELF_CHECK_FAILED: it may not; others: a check could not be run. Leaves queue, workspace and message of the
 * running call as they are. */
clattn_status trust_require(clattn_context *context, trust_use use);

/* A line of clattn_plan about what trust_require found. */
void trust_explain(const clattn_context *context, trust_use use, text_builder *text);

/* What the context remembers. */
typedef struct trust_state trust_state;
void trust_state_free(trust_state *state);

#endif
