/* SPDX-License-Identifier: Apache-2.0 */
#include "attention_options.h"

static const option_choice causal_choices[] = {
    {"top-left", CLATTN_CAUSAL_TOP_LEFT, NULL}, {"bottom-right", CLATTN_CAUSAL_BOTTOM_RIGHT, NULL}, {NULL, 0, NULL}};
static const option_choice path_choices[] = {{"auto", CLATTN_PATH_AUTO, NULL},
                                             {"gemm", CLATTN_PATH_GEMM, NULL},
                                             {"fused", CLATTN_PATH_FUSED, "the fused path"},
                                             {NULL, 0, NULL}};
static const option_choice compute_choices[] = {
    {"auto", 0, NULL}, {"fp32", CLATTN_FLOAT32, NULL}, {"fp64", CLATTN_FLOAT64, NULL}, {NULL, 0, NULL}};

#define FIELD(name) offsetof(attention_settings, name)

#define MASK_ROW(option, option_id, text)                                                                              \
  { .name = option, .argument = "M.npy", .kind = OPTION_PATHS, .offset = FIELD(masks), .id = option_id, .help = text }

static const option_row score_rows[] = {
    {.name = "Masks (broadcast to [B,H,T,S] as NumPy arrays do; each may be given more than once)",
     .kind = OPTION_SECTION},
    MASK_ROW("block-mask", MASK_OPTION_BLOCK, "bool: true blocks the score"),
    MASK_ROW("keep-mask", MASK_OPTION_KEEP, "bool: false blocks the score"),
    MASK_ROW("add-mask", MASK_OPTION_ADD,
             "float: added to the scaled score; -inf blocks it, a finite number such as -3.4e38 does not"),
    MASK_ROW("key-block", MASK_OPTION_KEY_BLOCK, "bool [B,S]: true blocks the key for all queries and heads"),
    MASK_ROW("key-keep", MASK_OPTION_KEY_KEEP, "bool [B,S]: false blocks the key for all queries and heads"),

    {.name = "Which keys a query may see", .kind = OPTION_SECTION},
    {.name = "token-ids",
     .argument = "I.npy",
     .kind = OPTION_PATH,
     .offset = FIELD(token_ids),
     .help = "integer [B,S]: keys whose token is the --pad-id are blocked"},
    {.name = "pad-id",
     .argument = "N",
     .kind = OPTION_INTEGER,
     .offset = FIELD(pad_id),
     .min = OPTION_NO_MINIMUM,
     .max = OPTION_NO_MAXIMUM,
     .help = "the token that --token-ids blocks"},
    {.name = "kv-lengths",
     .argument = "L.npy",
     .kind = OPTION_PATH,
     .offset = FIELD(kv_lengths),
     .help = "integer [B]: batch entry b has L[b] keys; what lies past them is never read"},
    {.name = "q-lengths",
     .argument = "L.npy",
     .kind = OPTION_PATH,
     .offset = FIELD(q_lengths),
     .help = "integer [B]: queries past L[b] give output and probabilities 0"},
    {.name = "causal",
     .argument = "RULE",
     .kind = OPTION_CHOICE,
     .offset = FIELD(causal),
     .choices = causal_choices,
     .help = "top-left: query i sees keys j <= i; bottom-right: keys j <= i + L - T, where L is the entry's key count"},
    {.name = "causal-offset",
     .argument = "N",
     .kind = OPTION_INTEGER,
     .offset = FIELD(causal_offset),
     .min = OPTION_NO_MINIMUM,
     .max = OPTION_NO_MAXIMUM,
     .help = "query i sees keys j <= i + N, which may be negative; excludes --causal"},
    {.name = "window-left",
     .argument = "N",
     .kind = OPTION_INTEGER,
     .offset = FIELD(window_left),
     .min = 0,
     .max = OPTION_NO_MAXIMUM,
     .help = "only keys within N before the query's position: i plus the offset of the causal rule, if there is one"},
    {.name = "window-right",
     .argument = "N",
     .kind = OPTION_INTEGER,
     .offset = FIELD(window_right),
     .min = 0,
     .max = OPTION_NO_MAXIMUM,
     .help = "only keys within N after the query's position"},

    {.name = "Scores", .kind = OPTION_SECTION},
    {.name = "scale",
     .argument = "X",
     .kind = OPTION_REAL,
     .offset = FIELD(scale),
     .min = OPTION_NO_MINIMUM,
     .max = OPTION_NO_MAXIMUM,
     .help = "factor of the scores; default 1/sqrt(D)"},
    {.name = "softcap",
     .argument = "C",
     .kind = OPTION_REAL,
     .offset = FIELD(soft_cap),
     .min = 0,
     .min_excluded = true,
     .max = OPTION_NO_MAXIMUM,
     .help = "scores become C * tanh(score / C), after scaling and before masks; above 0"},
    {.name = "alibi",
     .argument = "A.npy",
     .kind = OPTION_PATH,
     .offset = FIELD(alibi),
     .help = "slopes [H] or [B,H], float: adds -slope * abs(position of the query - j) to the score of key j"},

    {.name = "Dropout", .kind = OPTION_SECTION},
    {.name = "dropout",
     .argument = "P",
     .kind = OPTION_REAL,
     .offset = FIELD(dropout),
     .min = 0,
     .max = 1,
     .max_excluded = true,
     .help = "drops probabilities after the softmax and scales the kept ones by 1/(1-P); 0 <= P < 1"},
    {.name = "seed",
     .argument = "N",
     .kind = OPTION_NATURAL,
     .offset = FIELD(seed),
     .help = "of all dropout, an unsigned 64-bit number; default 0; the same seed drops the same on every device"},
};

static const option_row run_rows[] = {
    {.name = "Results", .kind = OPTION_SECTION},
    {.name = "out",
     .argument = "Y.npy",
     .kind = OPTION_PATH,
     .offset = FIELD(out),
     .help = "the output, in the type of the query; this or --weights-out must be given"},
    {.name = "weights-out",
     .argument = "W.npy",
     .kind = OPTION_PATH,
     .offset = FIELD(weights_out),
     .help = "probabilities [B,H,T,S] after dropout, float32 (float64 for float64 inputs)"},
    {.name = "average-weights",
     .kind = OPTION_FLAG,
     .offset = FIELD(average_weights),
     .help = "--weights-out gets the mean over heads, [B,T,S]"},

    {.name = "Running", .kind = OPTION_SECTION},
    {.name = "device",
     .argument = "SEL",
     .kind = OPTION_TEXT,
     .offset = FIELD(device),
     .help = "gpu, cpu, P:D or part of a name; the same as before the command"},
    {.name = "path",
     .argument = "PATH",
     .kind = OPTION_CHOICE,
     .offset = FIELD(path),
     .choices = path_choices,
     .help = "auto, gemm or fused (fused: not in this version)"},
    {.name = "compute",
     .argument = "TYPE",
     .kind = OPTION_CHOICE,
     .offset = FIELD(compute),
     .choices = compute_choices,
     .help = "arithmetic: auto (fp64 for float64 inputs, else fp32), fp32 or fp64"},
    {.name = "bf16",
     .kind = OPTION_FLAG,
     .offset = FIELD(bf16),
     .help = "every uint16 array holds bfloat16 numbers, and so does --out if the query does"},
    {.name = "explain",
     .kind = OPTION_FLAG,
     .offset = FIELD(explain),
     .help = "say on stderr which path, kernels, tile shapes and memory were chosen, and why"},
    {.name = "repeat",
     .argument = "N",
     .kind = OPTION_INTEGER,
     .offset = FIELD(repeat),
     .min = 1,
     .max = OPTION_NO_MAXIMUM,
     .help = "run N times more after the first, and print device and wall times"},
    {.name = "json", .kind = OPTION_FLAG, .offset = FIELD(json), .help = "one JSON object on stdout"},
    {.name = "help", .kind = OPTION_HELP, .help = "print this"},
};

option_table cli_attention_score_table(attention_settings *settings) {
  return (option_table){.rows = score_rows, .count = sizeof score_rows / sizeof *score_rows, .target = settings};
}

option_table cli_attention_run_table(attention_settings *settings) {
  return (option_table){.rows = run_rows, .count = sizeof run_rows / sizeof *run_rows, .target = settings};
}

const char *cli_mask_option_name(mask_option option) {
  switch (option) {
  case MASK_OPTION_BLOCK:
    return "block-mask";
  case MASK_OPTION_KEEP:
    return "keep-mask";
  case MASK_OPTION_ADD:
    return "add-mask";
  case MASK_OPTION_KEY_BLOCK:
    return "key-block";
  case MASK_OPTION_KEY_KEEP:
    return "key-keep";
  }
  return "mask";
}

int cli_attention_settings_check(cli_state *cli, const attention_settings *settings) {
  if (cli->device != NULL && settings->device != NULL) return cli_fail(cli, CLI_WRONG, "--device is given twice");
  if (settings->out == NULL && settings->weights_out == NULL) {
    return cli_fail(cli, CLI_WRONG, "no result is asked for: give --out, --weights-out or both");
  }
  if (settings->average_weights && settings->weights_out == NULL) {
    return cli_fail(cli, CLI_WRONG, "--average-weights needs --weights-out");
  }
  if (settings->token_ids != NULL && !settings->pad_id.given) {
    return cli_fail(cli, CLI_WRONG, "--token-ids needs --pad-id, the token that is blocked");
  }
  if (settings->token_ids == NULL && settings->pad_id.given) {
    return cli_fail(cli, CLI_WRONG, "--pad-id needs --token-ids");
  }
  if (settings->causal != CLATTN_CAUSAL_NONE && settings->causal_offset.given) {
    return cli_fail(cli, CLI_WRONG, "--causal %s and --causal-offset %lld exclude each other",
                    settings->causal == CLATTN_CAUSAL_TOP_LEFT ? "top-left" : "bottom-right",
                    (long long)settings->causal_offset.value);
  }
  return CLI_DONE;
}

void cli_attention_settings_free(attention_settings *settings) {
  cli_option_list_free(&settings->masks);
}
