/* SPDX-License-Identifier: Apache-2.0
 *
 * `clattn mha`: a whole attention layer with the parameters of a model. */
#include "attention.h"
#include "naming.h"

#include <string.h>

typedef struct mha_settings {
  const char *params, *prefix;
  int naming; /* a clattn_naming */
  option_integer heads, kv_heads;
  const char *files[3];
  bool sequence_first, add_zero_attn;
  option_real out_dropout;
  int projection; /* all choices are one today */
  attention_settings attention;
} mha_settings;

static const char *const input_names[3] = {"query", "key", "value"};

static const option_choice projection_choices[] = {
    {"auto", 0, NULL}, {"clblast", 0, NULL}, {"packed", 0, "the packed projection engine"}, {NULL, 0, NULL}};

#define FIELD(name) offsetof(mha_settings, name)

static const option_row rows[] = {
    {.name = "The layer", .kind = OPTION_SECTION},
    {.name = "params",
     .argument = "P.safetensors",
     .kind = OPTION_PATH,
     .offset = FIELD(params),
     .help = "the layer's tensors, F64, F32, F16 or BF16; those that are not needed are ignored"},
    {.name = "prefix",
     .argument = "STR",
     .kind = OPTION_TEXT,
     .offset = FIELD(prefix),
     .help = "put before each tensor's name as it stands: encoder.layer.0.attention."},
    {.name = "naming",
     .argument = "NAMES",
     .kind = OPTION_CHOICE,
     .offset = FIELD(naming),
     .choices = cli_naming_choices,
     .help = "auto (the one that fits), torch (in_proj_weight, ...), bert (self.query.weight, ...), llama "
             "(q_proj.weight, ...) or wq (w_q.weight or W_q.weight, ...)"},
    {.name = "heads",
     .argument = "H",
     .kind = OPTION_INTEGER,
     .offset = FIELD(heads),
     .min = 1,
     .max = OPTION_NO_MAXIMUM,
     .help = "number of heads; must divide the projected width"},
    {.name = "kv-heads",
     .argument = "G",
     .kind = OPTION_INTEGER,
     .offset = FIELD(kv_heads),
     .min = 1,
     .max = OPTION_NO_MAXIMUM,
     .help = "number of key and value heads, which must divide H; default H"},
    {.name = "add-zero-attn",
     .kind = OPTION_FLAG,
     .offset = FIELD(add_zero_attn),
     .help =
         "one more key and value of zeros, behind the S keys and the bias_k and bias_v that the parameters may have; "
         "no mask, rule or length touches these, and the weights have a column for each"},
    {.name = "projection",
     .argument = "ENGINE",
     .kind = OPTION_CHOICE,
     .offset = FIELD(projection),
     .choices = projection_choices,
     .help = "auto, clblast or packed (packed: not in this version)"},
    {.name = "out-dropout",
     .argument = "P",
     .kind = OPTION_REAL,
     .offset = FIELD(out_dropout),
     .min = 0,
     .max = 1,
     .max_excluded = true,
     .help = "dropout on the layer's output; 0 <= P < 1"},

    {.name = "Inputs (.npy; float16, float32 or, with --bf16, bfloat16 in any mix; or float64)",
     .kind = OPTION_SECTION},
    {.name = "query",
     .argument = "X.npy",
     .kind = OPTION_PATH,
     .offset = offsetof(mha_settings, files[INPUT_QUERY]),
     .help = "[B,T,E]"},
    {.name = "key",
     .argument = "Y.npy",
     .kind = OPTION_PATH,
     .offset = offsetof(mha_settings, files[INPUT_KEY]),
     .help = "[B,S,Ek]; default: the query"},
    {.name = "value",
     .argument = "Z.npy",
     .kind = OPTION_PATH,
     .offset = offsetof(mha_settings, files[INPUT_VALUE]),
     .help = "[B,S,Ev]; default: the key"},
    {.name = "sequence-first",
     .kind = OPTION_FLAG,
     .offset = FIELD(sequence_first),
     .help = "inputs and output are [T,B,E]; masks, lengths and weights stay as they are"},
};

enum { TABLE_COUNT = 3 };

static void print_help(const option_table *tables) {
  puts("Usage: clattn [--device SEL] mha --params P.safetensors --heads H --query X.npy [--out Y.npy]\n"
       "                    [--weights-out W.npy] [options]\n"
       "\n"
       "A multi-head attention layer: projections, attention, out-projection.\n"
       "A query whose keys are all blocked has probabilities 0 and gives the out-projection's bias.");
  cli_options_print_help(stdout, tables, TABLE_COUNT);
}

static int check_settings(cli_state *cli, const mha_settings *settings) {
  if (settings->params == NULL) return cli_fail(cli, CLI_WRONG, "--params is missing");
  if (!settings->heads.given) return cli_fail(cli, CLI_WRONG, "--heads is missing");
  if (settings->files[INPUT_QUERY] == NULL) return cli_fail(cli, CLI_WRONG, "--query is missing");
  int64_t heads = settings->heads.value, kv_heads = settings->kv_heads.value;
  if (settings->kv_heads.given && heads % kv_heads != 0) {
    return cli_fail(cli, CLI_WRONG, "--kv-heads %lld does not divide --heads %lld", (long long)kv_heads,
                    (long long)heads);
  }
  return cli_attention_settings_check(cli, &settings->attention);
}

static int load_parameters(cli_state *cli, const mha_settings *settings, clattn_parameters **parameters) {
  char message[sizeof cli->failure.text];
  size_t heads = (size_t)settings->heads.value;
  clattn_status status =
      clattn_parameters_load(settings->params, settings->prefix, (clattn_naming)settings->naming, heads,
                             (size_t)settings->kv_heads.value, parameters, message, sizeof message);
  return status == CLATTN_SUCCESS ? CLI_DONE : cli_fail_file(cli, status, "params", settings->params, message);
}

static int load_inputs(cli_state *cli, const mha_settings *settings, attention *job) {
  const char *layout = settings->sequence_first ? "[T,B,E]" : "[B,T,E]";
  for (int i = 0; i < 3; i++) {
    if (settings->files[i] == NULL) continue;
    int status = cli_array_load(cli, input_names[i], settings->files[i], settings->attention.bf16, &job->inputs[i]);
    if (status == CLI_DONE) status = cli_array_expect_rank(cli, &job->inputs[i], 3, layout);
    if (status != CLI_DONE) return status;
  }
  return cli_attention_check_types(cli, job);
}

/* What stands for an input that is not given: key for value, query for key. */
static const cli_array *given_input(const attention *job, int input) {
  while (job->inputs[input].path == NULL) input--;
  return &job->inputs[input];
}

static int check_width(cli_state *cli, const mha_settings *settings, const cli_array *array, const char *role,
                       size_t width) {
  char text[SHAPE_TEXT_SIZE];
  if (array->npy.shape[2] == width) return CLI_DONE;
  return cli_fail(cli, CLI_WRONG, "--%s: %s has shape %s, but the layer in %s takes %s of width %zu", array->option,
                  array->path, cli_shape_text(3, array->npy.shape, text), settings->params, role, width);
}

/* Query [B,T,E], key [B,S,Ek], value [B,S,Ev], or their first two extents exchanged. */
static int check_shapes(cli_state *cli, const mha_settings *settings, const clattn_mha_config *config, attention *job) {
  const cli_array *query = given_input(job, INPUT_QUERY), *key = given_input(job, INPUT_KEY),
                  *value = given_input(job, INPUT_VALUE);
  int batch = settings->sequence_first ? 1 : 0, length = 1 - batch;
  int status = check_width(cli, settings, query, "queries", config->embed_dim);
  if (status == CLI_DONE) status = check_width(cli, settings, key, "keys", config->kdim);
  if (status == CLI_DONE) status = check_width(cli, settings, value, "values", config->vdim);
  if (status != CLI_DONE) return status;
  job->scores = (score_shape){.batch = query->npy.shape[batch],
                              .heads = config->heads,
                              .q_len = query->npy.shape[length],
                              .kv_len = key->npy.shape[length]};
  job->kv_heads = config->kv_heads;
  job->extra_keys = (size_t)(config->bias_kv != 0) + (settings->add_zero_attn ? 1 : 0);
  job->head_dim = config->head_dim;
  job->value_head_dim = config->value_head_dim;
  size_t key_shape[3] = {job->scores.batch, job->scores.kv_len, config->kdim};
  size_t value_shape[3] = {job->scores.batch, job->scores.kv_len, config->vdim};
  if (settings->sequence_first) {
    key_shape[0] = value_shape[0] = job->scores.kv_len;
    key_shape[1] = value_shape[1] = job->scores.batch;
  }
  status = cli_array_expect_shape(cli, key, 3, key_shape, settings->sequence_first ? "[S,B,Ek]" : "[B,S,Ek]");
  if (status != CLI_DONE) return status;
  return cli_array_expect_shape(cli, value, 3, value_shape, settings->sequence_first ? "[S,B,Ev]" : "[B,S,Ev]");
}

/* Opens the device and puts the layer on it. */
static int create_layer(cli_state *cli, const clattn_parameters *parameters, attention *job) {
  int status = cli_attention_open(cli, job);
  if (status != CLI_DONE) return status;
  clattn_status created = clattn_mha_create(job->context, parameters, job->compute, &job->mha);
  return created == CLATTN_SUCCESS ? CLI_DONE : cli_fail_library(cli, created, clattn_context_message(job->context));
}

static int run(cli_state *cli, const mha_settings *settings) {
  attention job;
  memset(&job, 0, sizeof job);
  job.settings = &settings->attention;
  job.sequence_first = settings->sequence_first;
  job.add_zero_key = settings->add_zero_attn;
  job.output_dropout = settings->out_dropout.value;
  clattn_parameters *parameters = NULL;
  clattn_mha_config config;
  clattn_mha_config_init(&config);
  int status = load_parameters(cli, settings, &parameters);
  if (status == CLI_DONE) {
    clattn_parameters_config(parameters, &config);
    status = load_inputs(cli, settings, &job);
  }
  if (status == CLI_DONE) status = check_shapes(cli, settings, &config, &job);
  if (status == CLI_DONE) status = cli_attention_load_modifiers(cli, &job);
  if (status == CLI_DONE) status = cli_attention_check_outputs(cli, &job);
  if (status == CLI_DONE) status = create_layer(cli, parameters, &job);
  clattn_parameters_destroy(&parameters);
  if (status == CLI_DONE) {
    size_t batch = job.scores.batch, q_len = job.scores.q_len;
    const size_t output_shape[3] = {job.sequence_first ? q_len : batch, job.sequence_first ? batch : q_len,
                                    config.out_dim};
    status = cli_attention_run(cli, &job, 3, output_shape);
  }
  cli_attention_free(&job);
  return status;
}

int command_mha(cli_state *cli, int argc, char **argv) {
  mha_settings settings;
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
    status = check_settings(cli, &settings);
    if (status == CLI_DONE) status = run(cli, &settings);
  }
  cli_attention_settings_free(&settings.attention);
  return status;
}
