/* SPDX-License-Identifier: Apache-2.0
 *
 * The options that `sdpa` and `mha` have in common. */
#ifndef CLATTN_CLI_ATTENTION_OPTIONS_H
#define CLATTN_CLI_ATTENTION_OPTIONS_H

#include "options.h"

/* What a term of `masks` is; the names of the options are cli_mask_option_name(). */
typedef enum mask_option {
  MASK_OPTION_BLOCK,
  MASK_OPTION_KEEP,
  MASK_OPTION_ADD,
  MASK_OPTION_KEY_BLOCK,
  MASK_OPTION_KEY_KEEP
} mask_option;

const char *cli_mask_option_name(mask_option option);

typedef struct attention_settings {
  const char *device; /* --device behind the command */
  const char *out, *weights_out;
  bool average_weights;
  option_list masks; /* ids are of mask_option */
  const char *token_ids;
  option_integer pad_id;
  const char *kv_lengths, *q_lengths;
  int causal; /* a clattn_causal */
  option_integer causal_offset, window_left, window_right;
  option_real scale, soft_cap;
  const char *alibi;
  option_real dropout;
  option_natural seed; /* of all dropout */
  int path;            /* a clattn_path */
  int compute;         /* a clattn_type; 0: that of the inputs */
  bool bf16;           /* uint16 arrays hold bfloat16 */
  option_integer repeat;
  bool explain, json;
} attention_settings;

/* The rows, to be parsed into `settings`: what the scores are, and what is done with the results. */
option_table cli_attention_score_table(attention_settings *settings);
option_table cli_attention_run_table(attention_settings *settings);

/* What no single option can check: options that need or exclude each other. */
int cli_attention_settings_check(cli_state *cli, const attention_settings *settings);

void cli_attention_settings_free(attention_settings *settings);

#endif
