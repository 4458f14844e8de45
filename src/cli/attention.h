/* SPDX-License-Identifier: Apache-2.0
 *
 * One attention call of the command line, from checked arrays to written results; `sdpa` and `mha` differ in what they
 * load and in the function of the library that they call. */
#ifndef CLATTN_CLI_ATTENTION_H
#define CLATTN_CLI_ATTENTION_H

#include "arrays.h"
#include "attention_options.h"
#include "masks.h"
#include "run.h"

typedef struct attention {
  const attention_settings *settings;
  score_shape scores;
  size_t kv_heads, head_dim, value_head_dim;
  size_t extra_keys;   /* behind the S of `scores`: columns of the weights */
  npy_type file_type;  /* of the query, and so of the output */
  clattn_type compute; /* of the arithmetic, and so of the weights on the device */

  /* query, key, value; key or value without a path are not given (they default to the one before). */
  cli_array inputs[3];
  mask_set masks;
  cli_array kv_lengths, q_lengths, slopes; /* no path: not given */

  clattn_context *context;
  clattn_mha *mha; /* NULL: scaled dot-product attention */
  clattn_tensor tensors[3];
  clattn_tensor kv_lengths_tensor, q_lengths_tensor, slopes_tensor; /* no buffer: not given */
  clattn_tensor output, weights;                                    /* no buffer: not wanted */
  bool sequence_first;                                              /* inputs and output are [T,B,E] */
  bool add_zero_key;
  double output_dropout;
  clattn_options options;
  run_report report;
} attention;

enum { INPUT_QUERY, INPUT_KEY, INPUT_VALUE };

/* The floats of the three inputs are of types that go together; sets file_type and compute. */
int cli_attention_check_types(cli_state *cli, attention *job);

/* Reads masks, lengths and slopes and checks them against job->scores. */
int cli_attention_load_modifiers(cli_state *cli, attention *job);

/* The outputs can be written, as far as that can be known before they are. */
int cli_attention_check_outputs(cli_state *cli, const attention *job);

/* Opens the device that was asked for. */
int cli_attention_open(cli_state *cli, attention *job);

/* Uploads what was loaded, runs and repeats the call, and writes the results.
 * output_shape    of the output file: [B,H,T,Dv], [B,T,E] or [T,B,E] */
int cli_attention_run(cli_state *cli, attention *job, int output_rank, const size_t *output_shape);

void cli_attention_free(attention *job);

#endif
