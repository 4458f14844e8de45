/* SPDX-License-Identifier: Apache-2.0 */
#include "torch_case.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

const torch_name torch_layers[] = {{"self", 3, 0, 0},
                                   {"self_long", 8, 0, 0},
                                   {"one_head", 1, 0, 0},
                                   {"head_dim_one", 5, 0, 0},
                                   {"cross", 4, 0, 0},
                                   {"cross_long", 2, 0, 0},
                                   {"kdim_vdim", 2, 0, 0},
                                   {"kdim_vdim_no_bias", 4, 0, 0},
                                   {"no_bias", 3, 0, 0},
                                   {"key_padding", 4, 0, 0},
                                   {"block", 3, 0, 0},
                                   {"block_per_head", 3, 0, 0},
                                   {"add", 3, 0, 0},
                                   {"add_per_head", 3, 0, 0},
                                   {"block_and_padding", 2, 0, 0},
                                   {"causal", 2, 1, 0},
                                   {"causal_and_padding", 2, 1, 0},
                                   {NULL, 0, 0, 0}};

const torch_name torch_functions[] = {{"f_plain", 0, 0, 0},
                                      {"f_value_dim", 0, 0, 0},
                                      {"f_scale", 0, 0, 1.7},
                                      {"f_negative_scale", 0, 0, -0.3},
                                      {"f_keep", 0, 0, 0},
                                      {"f_keep_broadcast", 0, 0, 0},
                                      {"f_add_broadcast", 0, 0, 0},
                                      {"f_rows_without_keys", 0, 0, 0},
                                      {"f_causal_short", 0, 1, 0},
                                      {"f_causal_square", 0, 1, 0},
                                      {"f_causal_tall", 0, 1, 0},
                                      {"f_grouped", 0, 0, 0},
                                      {NULL, 0, 0, 0}};

/* Lines a dumped mask up with [B,H,T,S]. PyTorch's [B*H,T,S] is the same memory. */
static void add_mask(torch_case *c, clattn_mask_kind kind, const test_dump *dump, int is_key_mask) {
  if (dump->shape.rank == 0) return;
  ref_mask *mask = &c->masks[c->mask_count++];
  const size_t *e = dump->shape.extent;
  const int rank = dump->shape.rank;
  *mask = (ref_mask){.kind = kind, .shape = {1, 1, 1, 1}, .values = dump->values};
  for (int d = 0; d < rank; d++) mask->shape[4 - rank + d] = e[d];
  if (is_key_mask) memcpy(mask->shape, (size_t[4]){e[0], 1, 1, e[1]}, sizeof mask->shape);
  if (rank == 3 && e[0] == c->batch * c->heads && c->name->heads)
    memcpy(mask->shape, (size_t[4]){c->batch, c->heads, e[1], e[2]}, sizeof mask->shape);
}

static void take_extents(torch_case *c) {
  const size_t *q = c->query.shape.extent, *k = c->key.shape.extent, *v = c->value.shape.extent;
  c->batch = q[0];
  if (c->name->heads) {
    c->heads = c->kv_heads = c->name->heads;
    c->q_len = q[1];
    c->kv_len = k[1];
    c->embed_dim = q[2];
    c->kdim = k[2];
    c->vdim = v[2];
    c->head_dim = c->value_head_dim = q[2] / c->heads;
    return;
  }
  c->heads = q[1];
  c->kv_heads = k[1];
  c->q_len = q[2];
  c->kv_len = k[2];
  c->head_dim = q[3];
  c->value_head_dim = v[3];
}

void torch_case_load(const torch_name *name, torch_case *c) {
  static const char *const files[CLATTN_PARAMETER_COUNT] = {"wq", "wk", "wv", "wo", "bq", "bk", "bv", "bo"};
  char folder[128];
  snprintf(folder, sizeof folder, "torch/%s", name->folder);
  *c = (torch_case){.name = name};
  c->query = dump_load(folder, "query", 0);
  c->key = dump_load(folder, "key", name->heads != 0);
  c->self = c->key.shape.rank == 0;
  if (c->self) c->key = dump_load(folder, "query", 0);
  c->value = dump_load(folder, c->self ? "query" : "value", 0);
  for (int p = 0; name->heads && p < CLATTN_PARAMETER_COUNT; p++)
    c->parameter[p] = dump_load(folder, files[p], p >= CLATTN_BQ);
  c->out = dump_load(folder, "out", 0);
  c->weights = dump_load(folder, "weights", name->heads == 0);
  c->mean_weights = dump_load(folder, "mean_weights", name->heads == 0);
  c->block = dump_load(folder, "block", 1);
  c->add = dump_load(folder, "add", 1);
  c->keep = dump_load(folder, "keep", 1);
  c->key_block = dump_load(folder, "key_block", 1);
  take_extents(c);
  add_mask(c, CLATTN_MASK_BLOCK, &c->block, 0);
  add_mask(c, CLATTN_MASK_ADD, &c->add, 0);
  add_mask(c, CLATTN_MASK_KEEP, &c->keep, 0);
  add_mask(c, CLATTN_MASK_BLOCK, &c->key_block, 1);
}

void torch_case_release(torch_case *c) {
  test_dump *dumps[] = {&c->query, &c->key, &c->value,   &c->block,        &c->add,
                        &c->keep,  &c->out, &c->weights, &c->mean_weights, &c->key_block};
  for (size_t i = 0; i < sizeof dumps / sizeof *dumps; i++) dump_release(dumps[i]);
  for (int p = 0; p < CLATTN_PARAMETER_COUNT; p++) dump_release(&c->parameter[p]);
}
