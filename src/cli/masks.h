/* SPDX-License-Identifier: Apache-2.0
 *
 * The masks of a command line: files, checked against the shape of the scores, as the terms that the library takes. */
#ifndef CLATTN_CLI_MASKS_H
#define CLATTN_CLI_MASKS_H

#include "arrays.h"
#include "attention_options.h"

/* [B,H,T,S] of the scores. */
typedef struct score_shape {
  size_t batch, heads, q_len, kv_len;
} score_shape;

typedef struct mask_term {
  clattn_mask_kind kind;
  bool per_key;    /* [B,S], not broadcast */
  cli_array array; /* bool or float */
} mask_term;

typedef struct mask_set {
  mask_term *terms;
  clattn_mask *masks; /* [count] as the library takes them; filled by cli_masks_upload */
  size_t count;
} mask_set;

/* Reads and checks the files of the settings, in the order of the command line; the mask from token ids comes last. */
int cli_masks_load(cli_state *cli, const attention_settings *settings, const score_shape *scores, mask_set *set);

/* Puts them on the device, as cli_array_upload does: what overflows when float64 is rounded to float32 blocks. */
int cli_masks_upload(cli_state *cli, clattn_context *context, clattn_type compute, mask_set *set);

void cli_masks_free(mask_set *set);

#endif
