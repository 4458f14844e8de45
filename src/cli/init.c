/* SPDX-License-Identifier: Apache-2.0
 *
 * `clattn init`: a new layer's parameters, drawn at random. Needs no device. */
#include "cli.h"
#include "interrupt.h"
#include "naming.h"
#include "options.h"
#include "report.h"
#include "results.h"

#include <inttypes.h>
#include <string.h>

typedef struct init_settings {
  option_integer embed, heads, kv_heads, kdim, vdim;
  bool no_bias, json;
  option_real gain_qk;
  option_natural seed;
  int naming; /* a clattn_naming; AUTO: not given */
  const char *out;
} init_settings;

#define FIELD(name) offsetof(init_settings, name)

#define WIDTH_ROW(option, placeholder, field, text)                                                                    \
  {                                                                                                                    \
    .name = option, .argument = placeholder, .kind = OPTION_INTEGER, .offset = FIELD(field), .min = 1,                 \
    .max = OPTION_NO_MAXIMUM, .help = text                                                                             \
  }

static const option_row rows[] = {
    {.name = "The layer", .kind = OPTION_SECTION},
    WIDTH_ROW("embed", "E", embed, "width of queries and output"),
    WIDTH_ROW("heads", "H", heads, "number of heads; must divide E"),
    WIDTH_ROW("kv-heads", "G", kv_heads, "number of key and value heads, which must divide H; default H"),
    WIDTH_ROW("kdim", "K", kdim, "width of the keys; default E"),
    WIDTH_ROW("vdim", "V", vdim, "width of the values; default E"),
    {.name = "no-bias", .kind = OPTION_FLAG, .offset = FIELD(no_bias), .help = "no biases; otherwise they are zero"},
    {.name = "gain-qk",
     .argument = "X",
     .kind = OPTION_REAL,
     .offset = FIELD(gain_qk),
     .min = 0,
     .max = OPTION_NO_MAXIMUM,
     .help = "gain of the weights of queries and keys, not below 0; default 1; 0.70710678 is what three stacked "
             "matrices give"},
    {.name = "seed",
     .argument = "N",
     .kind = OPTION_NATURAL,
     .offset = FIELD(seed),
     .help = "an unsigned 64-bit number; default 0; the same seed gives the same bits everywhere"},

    {.name = "Result", .kind = OPTION_SECTION},
    {.name = "naming",
     .argument = "NAMES",
     .kind = OPTION_CHOICE,
     .offset = FIELD(naming),
     .choices = cli_naming_choices + 1,
     .help = "torch (default), bert, llama (default with grouped queries, which torch has no place for) or wq"},
    {.name = "out", .argument = "P.safetensors", .kind = OPTION_PATH, .offset = FIELD(out), .help = "the new file"},
    {.name = "json",
     .kind = OPTION_FLAG,
     .offset = FIELD(json),
     .help = "one JSON object on stdout instead of the parameter count"},
    {.name = "help", .kind = OPTION_HELP, .help = "print this"},
};

static void print_help(const option_table *table) {
  puts("Usage: clattn init --embed E --heads H --out P.safetensors [options]\n\n"
       "New parameters of a layer: Xavier uniform weights, zero biases. Prints how many numbers they are.");
  cli_options_print_help(stdout, table, 1);
}

static bool is_grouped(const init_settings *settings) {
  return settings->kv_heads.given && settings->kv_heads.value != settings->heads.value;
}

static clattn_naming chosen_naming(const init_settings *settings) {
  if (settings->naming != CLATTN_NAMING_AUTO) return (clattn_naming)settings->naming;
  return is_grouped(settings) ? CLATTN_NAMING_LLAMA : CLATTN_NAMING_TORCH;
}

static int check_settings(cli_state *cli, const init_settings *settings) {
  if (!settings->embed.given) return cli_fail(cli, CLI_WRONG, "--embed is missing");
  if (!settings->heads.given) return cli_fail(cli, CLI_WRONG, "--heads is missing");
  if (settings->out == NULL) return cli_fail(cli, CLI_WRONG, "--out is missing");
  int64_t embed = settings->embed.value, heads = settings->heads.value, kv_heads = settings->kv_heads.value;
  if (embed % heads != 0) {
    return cli_fail(cli, CLI_WRONG, "--heads %" PRId64 " does not divide --embed %" PRId64, heads, embed);
  }
  if (settings->kv_heads.given && heads % kv_heads != 0) {
    return cli_fail(cli, CLI_WRONG, "--kv-heads %" PRId64 " does not divide --heads %" PRId64, kv_heads, heads);
  }
  if (is_grouped(settings) && settings->naming == CLATTN_NAMING_TORCH) {
    return cli_fail(cli, CLI_WRONG,
                    "--naming torch has no place for --kv-heads %" PRId64 " of %" PRId64
                    " heads; bert, llama and wq have",
                    kv_heads, heads);
  }
  return CLI_DONE;
}

static int print_count(cli_state *cli, const init_settings *settings, uint64_t count) {
  if (settings->json) {
    return cli_print_json(cli, json_pack("{s:s,s:s,s:I,s:o}", "command", "init", "version", clattn_version(),
                                         "parameters", (json_int_t)count, "out", cli_json_text(settings->out)));
  }
  printf("%" PRIu64 " parameters\n", count);
  return cli_flush_stdout(cli);
}

static int run(cli_state *cli, const init_settings *settings) {
  char message[sizeof cli->failure.text];
  uint64_t count = 0;
  clattn_parameters *parameters = NULL;
  clattn_mha_config config;
  clattn_mha_config_init(&config);
  config.embed_dim = (size_t)settings->embed.value;
  config.heads = (size_t)settings->heads.value;
  config.kv_heads = (size_t)settings->kv_heads.value;
  config.kdim = (size_t)settings->kdim.value;
  config.vdim = (size_t)settings->vdim.value;
  config.bias = !settings->no_bias;
  double gain_qk = settings->gain_qk.given ? settings->gain_qk.value : 1;
  const double gain[4] = {gain_qk, gain_qk, 1, 1};
  clattn_status status = clattn_parameter_count(&config, &count, message, sizeof message);
  if (status == CLATTN_SUCCESS) {
    status = clattn_parameters_random(&config, gain, settings->seed.value, &parameters, message, sizeof message);
  }
  int exit_status = status == CLATTN_SUCCESS ? CLI_DONE : cli_fail_library(cli, status, message);
  /* The count comes before the file, since a count that gets lost must leave the file as it was. */
  const result_file file = {.option = "out", .path = settings->out};
  if (exit_status == CLI_DONE) exit_status = cli_results_check(cli, &file, 1);
  if (exit_status == CLI_DONE) exit_status = print_count(cli, settings, count);
  if (exit_status == CLI_DONE) {
    cli_interrupt_hold();
    status = clattn_parameters_save(parameters, settings->out, NULL, chosen_naming(settings), message, sizeof message);
    cli_interrupt_release();
    if (status != CLATTN_SUCCESS) exit_status = cli_fail_file(cli, status, "out", settings->out, message);
  }
  clattn_parameters_destroy(&parameters);
  return exit_status;
}

int command_init(cli_state *cli, int argc, char **argv) {
  init_settings settings;
  memset(&settings, 0, sizeof settings);
  option_table table = {rows, sizeof rows / sizeof *rows, &settings};
  bool help = false;
  int status = cli_options_parse(cli, &table, 1, argc, argv, &help, NULL);
  if (status != CLI_DONE) return status;
  if (help) {
    print_help(&table);
    return cli_flush_stdout(cli);
  }
  status = check_settings(cli, &settings);
  return status == CLI_DONE ? run(cli, &settings) : status;
}
