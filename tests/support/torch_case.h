/* SPDX-License-Identifier: Apache-2.0
 *
 * The cases of tests/data/torch, which PyTorch computed in float64: see make_torch_cases.py there. */
#ifndef CLATTN_TESTS_TORCH_CASE_H
#define CLATTN_TESTS_TORCH_CASE_H

#include "dump.h"

typedef struct torch_name {
  const char *folder;
  size_t heads; /* of a layer; 0: a case of the function, whose arrays say it */
  int causal;
  double scale; /* 0: the default */
} torch_name;

extern const torch_name torch_layers[], torch_functions[]; /* end with a folder of NULL */

typedef struct torch_case {
  const torch_name *name;
  size_t batch, heads, kv_heads, q_len, kv_len, head_dim, value_head_dim;
  size_t embed_dim, kdim, vdim; /* of layers */
  int self;                     /* a layer with one input */
  test_dump query, key, value, parameter[CLATTN_PARAMETER_COUNT];
  test_dump block, add, keep, key_block;
  test_dump out, weights, mean_weights;
  /* The masks of the case, lined up with [B,H,T,S]. */
  ref_mask masks[2];
  size_t mask_count;
} torch_case;

void torch_case_load(const torch_name *name, torch_case *c);
void torch_case_release(torch_case *c);

#endif
