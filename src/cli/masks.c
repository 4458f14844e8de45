/* SPDX-License-Identifier: Apache-2.0 */
#include "masks.h"

#include <stdlib.h>

static clattn_mask_kind kind_of(mask_option option) {
  switch (option) {
  case MASK_OPTION_BLOCK:
  case MASK_OPTION_KEY_BLOCK:
    return CLATTN_MASK_BLOCK;
  case MASK_OPTION_KEEP:
  case MASK_OPTION_KEY_KEEP:
    return CLATTN_MASK_KEEP;
  case MASK_OPTION_ADD:
    return CLATTN_MASK_ADD;
  }
  return CLATTN_MASK_BLOCK;
}

/* NumPy's rule: aligned at the right, an extent of 1 or a missing one repeats. */
static int check_broadcast(cli_state *cli, const cli_array *array, const score_shape *scores) {
  const size_t full[4] = {scores->batch, scores->heads, scores->q_len, scores->kv_len};
  int rank = array->npy.rank;
  bool fits = rank <= 4;
  for (int i = 0; fits && i < rank; i++) {
    size_t extent = array->npy.shape[i];
    fits = extent == 1 || extent == full[4 - rank + i];
  }
  if (fits) return CLI_DONE;
  char seen[SHAPE_TEXT_SIZE], expected[SHAPE_TEXT_SIZE];
  return cli_fail(cli, CLI_WRONG, "--%s: %s has shape %s, which does not broadcast to [B,H,T,S] = %s", array->option,
                  array->path, cli_shape_text(rank, array->npy.shape, seen), cli_shape_text(4, full, expected));
}

static int load_term(cli_state *cli, mask_option option, const char *path, bool bf16, const score_shape *scores,
                     mask_term *term) {
  const size_t keys[2] = {scores->batch, scores->kv_len};
  term->kind = kind_of(option);
  term->per_key = option == MASK_OPTION_KEY_BLOCK || option == MASK_OPTION_KEY_KEEP;
  int status = cli_array_load(cli, cli_mask_option_name(option), path, bf16, &term->array);
  if (status != CLI_DONE) return status;
  status = term->kind == CLATTN_MASK_ADD ? cli_array_expect_float(cli, &term->array)
                                         : cli_array_expect_bool(cli, &term->array);
  if (status != CLI_DONE) return status;
  return term->per_key ? cli_array_expect_shape(cli, &term->array, 2, keys, "[B,S]")
                       : check_broadcast(cli, &term->array, scores);
}

/* A mask that blocks the keys whose token is the padding. */
static int load_token_ids(cli_state *cli, const attention_settings *settings, const score_shape *scores,
                          mask_term *term) {
  const size_t keys[2] = {scores->batch, scores->kv_len};
  term->kind = CLATTN_MASK_BLOCK;
  term->per_key = true;
  int status = cli_array_load(cli, "token-ids", settings->token_ids, settings->bf16, &term->array);
  if (status == CLI_DONE) status = cli_array_expect_integer(cli, &term->array);
  if (status == CLI_DONE) status = cli_array_expect_shape(cli, &term->array, 2, keys, "[B,S]");
  if (status != CLI_DONE) return status;

  npy_array *npy = &term->array.npy;
  unsigned char *blocked = malloc(npy->count > 0 ? npy->count : 1);
  if (blocked == NULL) return cli_fail_memory(cli, "the mask of --token-ids");
  for (size_t i = 0; i < npy->count; i++) {
    blocked[i] = cli_array_integer_at(&term->array, i) == settings->pad_id.value;
  }
  free(npy->data);
  npy->data = blocked;
  npy->type = NPY_BOOL;
  return CLI_DONE;
}

int cli_masks_load(cli_state *cli, const attention_settings *settings, const score_shape *scores, mask_set *set) {
  const option_list *list = &settings->masks;
  size_t count = list->count + (settings->token_ids != NULL ? 1 : 0);
  if (count == 0) return CLI_DONE;
  set->terms = calloc(count, sizeof *set->terms);
  set->masks = calloc(count, sizeof *set->masks);
  if (set->terms == NULL || set->masks == NULL) return cli_fail_memory(cli, "the masks");
  set->count = count;
  for (size_t i = 0; i < list->count; i++) {
    int status =
        load_term(cli, (mask_option)list->items[i].id, list->items[i].text, settings->bf16, scores, &set->terms[i]);
    if (status != CLI_DONE) return status;
  }
  return settings->token_ids != NULL ? load_token_ids(cli, settings, scores, &set->terms[list->count]) : CLI_DONE;
}

int cli_masks_upload(cli_state *cli, clattn_context *context, clattn_type compute, mask_set *set) {
  for (size_t i = 0; i < set->count; i++) {
    mask_term *term = &set->terms[i];
    clattn_tensor *values = &set->masks[i].values;
    int status = cli_array_upload(cli, context, &term->array, compute, values);
    if (status != CLI_DONE) return status;
    set->masks[i].kind = term->kind;
    if (term->per_key) {
      const size_t shape[4] = {values->shape[0], 1, 1, values->shape[1]};
      *values = clattn_tensor_view(values->buffer, 0, CLATTN_BOOL8, 4, shape);
    }
  }
  return CLI_DONE;
}

void cli_masks_free(mask_set *set) {
  for (size_t i = 0; i < set->count; i++) {
    cli_array_free(&set->terms[i].array);
    clattn_tensor_release(&set->masks[i].values);
  }
  free(set->terms);
  free(set->masks);
  *set = (mask_set){NULL, NULL, 0};
}
