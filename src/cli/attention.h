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
  size_t head_dim, value_head_dim;
  npy_type file_type;  /* of the inputs, and so of the output */
  clattn_type compute; /* of everything on the device */

  /* query, key, value; key or value without a path are not given (they default to the one before). */
  cli_array inputs[3];
  mask_set masks;
  cli_array kv_lengths; /* no path: not given */

  clattn_context *context;
  clattn_mha *mha; /* NULL: scaled dot-product attention */
  clattn_tensor tensors[3];
  clattn_tensor lengths, output, weights; /* no buffer: not wanted */
  bool sequence_first;                    /* inputs and output are [T,B,E] */
  clattn_options options;
  run_report report;
} attention;

enum { INPUT_QUERY, INPUT_KEY, INPUT_VALUE };

/* The floats of the three inputs are of types that go together; sets file_type and compute. */
int cli_attention_check_types(cli_state *cli, attention *job);

/* Reads masks and key lengths and checks them against job->scores. */
int cli_attention_load_masks(cli_state *cli, attention *job);

/* The outputs can be written, as far as that can be known before they are. */
int cli_attention_check_outputs(cli_state *cli, const attention *job);

/* Opens the device that was asked for. */
int cli_attention_open(cli_state *cli, attention *job);

/* Uploads inputs, masks and lengths, runs and repeats the call, and writes the results.
 * output_shape    of the output file: [B,H,T,Dv], [B,T,E] or [T,B,E] */
int cli_attention_run(cli_state *cli, attention *job, int output_rank, const size_t *output_shape);

void cli_attention_free(attention *job);

#endif
