/* SPDX-License-Identifier: Apache-2.0
 *
 * `clattn sdpa`: scaled dot-product attention over three files. */
#include "attention.h"

#include <string.h>

typedef struct sdpa_settings {
  const char *files[3];
  attention_settings attention;
} sdpa_settings;

static const char *const input_names[3] = {"q", "k", "v"};

static const option_row rows[] = {
    {.name = "Inputs (.npy; float16, float32 or, with --bf16, bfloat16 in any mix; or float64)",
     .kind = OPTION_SECTION},
    {.name = "q",
     .argument = "Q.npy",
     .kind = OPTION_PATH,
     .offset = offsetof(sdpa_settings, files[INPUT_QUERY]),
     .help = "queries [B,H,T,D]"},
    {.name = "k",
     .argument = "K.npy",
     .kind = OPTION_PATH,
     .offset = offsetof(sdpa_settings, files[INPUT_KEY]),
     .help = "keys [B,G,S,D]; G divides H: head h reads key head h / (H/G)"},
    {.name = "v",
     .argument = "V.npy",
     .kind = OPTION_PATH,
     .offset = offsetof(sdpa_settings, files[INPUT_VALUE]),
     .help = "values [B,G,S,Dv]"},
};

enum { TABLE_COUNT = 3 };

static void print_help(const option_table *tables) {
  puts("Usage: clattn [--device SEL] sdpa --q Q.npy --k K.npy --v V.npy [--out Y.npy] [--weights-out W.npy] [options]\n"
       "\n"
       "Scaled dot-product attention: softmax(scale * Q K^T + masks) V, a head at a time.\n"
       "A query whose keys are all blocked has probabilities 0 and output 0.");
  cli_options_print_help(stdout, tables, TABLE_COUNT);
}

static int load_inputs(cli_state *cli, const sdpa_settings *settings, attention *job) {
  for (int i = 0; i < 3; i++) {
    int status = cli_array_load(cli, input_names[i], settings->files[i], settings->attention.bf16, &job->inputs[i]);
    if (status != CLI_DONE) return status;
  }
  return cli_attention_check_types(cli, job);
}

/* Q [B,H,T,D], K [B,G,S,D], V [B,G,S,Dv]. */
static int check_shapes(cli_state *cli, attention *job) {
  static const char *const layouts[3] = {"[B,H,T,D]", "[B,G,S,D]", "[B,G,S,Dv]"};
  const cli_array *q = &job->inputs[INPUT_QUERY], *k = &job->inputs[INPUT_KEY], *v = &job->inputs[INPUT_VALUE];
  for (int i = 0; i < 3; i++) {
    int status = cli_array_expect_rank(cli, &job->inputs[i], 4, layouts[i]);
    if (status == CLI_DONE) status = cli_array_expect_positive(cli, &job->inputs[i], 1, "number of heads");
    if (status == CLI_DONE) status = cli_array_expect_positive(cli, &job->inputs[i], 3, "head size");
    if (status != CLI_DONE) return status;
  }
  const size_t *shape = q->npy.shape;
  size_t heads = shape[1], kv_heads = k->npy.shape[1];
  if (heads % kv_heads != 0) {
    return cli_fail(cli, CLI_WRONG, "--k: %s has %zu heads, which do not divide the %zu of --q", k->path, kv_heads,
                    heads);
  }
  const size_t k_shape[4] = {shape[0], kv_heads, k->npy.shape[2], shape[3]};
  const size_t v_shape[4] = {shape[0], kv_heads, k->npy.shape[2], v->npy.shape[3]};
  int status = cli_array_expect_shape(cli, k, 4, k_shape, layouts[INPUT_KEY]);
  if (status == CLI_DONE) status = cli_array_expect_shape(cli, v, 4, v_shape, layouts[INPUT_VALUE]);
  job->scores = (score_shape){.batch = shape[0], .heads = heads, .q_len = shape[2], .kv_len = k->npy.shape[2]};
  job->kv_heads = kv_heads;
  job->head_dim = shape[3];
  job->value_head_dim = v->npy.shape[3];
  return status;
}

static int run(cli_state *cli, const sdpa_settings *settings) {
  attention job;
  memset(&job, 0, sizeof job);
  job.settings = &settings->attention;
  int status = load_inputs(cli, settings, &job);
  if (status == CLI_DONE) status = check_shapes(cli, &job);
  if (status == CLI_DONE) status = cli_attention_load_modifiers(cli, &job);
  const size_t output_shape[4] = {job.scores.batch, job.scores.heads, job.scores.q_len,
                                  job.inputs[INPUT_VALUE].npy.shape[3]};
  if (status == CLI_DONE) status = cli_attention_check_outputs(cli, &job);
  if (status == CLI_DONE) status = cli_attention_open(cli, &job);
  if (status == CLI_DONE) status = cli_attention_run(cli, &job, 4, output_shape);
  cli_attention_free(&job);
  return status;
}

int command_sdpa(cli_state *cli, int argc, char **argv) {
  sdpa_settings settings;
  memset(&settings, 0, sizeof settings);
  const option_table tables[TABLE_COUNT] = {{rows, sizeof rows / sizeof *rows, &settings},
                                            cli_attention_score_table(&settings.attention),
                                            cli_attention_run_table(&settings.attention)};
  bool help = false;
  int status = cli_options_parse(cli, tables, TABLE_COUNT, argc, argv, &help, NULL);
  if (status == CLI_DONE && help) {
    print_help(tables);
    status = cli_flush_stdout(cli);
  } else if (status == CLI_DONE) {
    for (int i = 0; i < 3 && status == CLI_DONE; i++) {
      if (settings.files[i] == NULL) status = cli_fail(cli, CLI_WRONG, "--%s is missing", input_names[i]);
    }
    if (status == CLI_DONE) status = cli_attention_settings_check(cli, &settings.attention);
    if (status == CLI_DONE) status = run(cli, &settings);
  }
  cli_attention_settings_free(&settings.attention);
  return status;
}
