/* SPDX-License-Identifier: Apache-2.0
 *
 * The command line's parser on the options that attention commands share and on one of each kind. An input is a command
 * line, an argument a line. */
#include "cli/attention_options.h"
#include "cli/numbers.h"
#include "fuzz_input.h"

#include <math.h>
#include <string.h>

enum { MAX_ARGUMENTS = 48, TABLE_COUNT = 3, LOWEST = -5, HIGHEST = 1000 };

typedef struct kinds {
  bool flag;
  const char *path, *text;
  option_integer integer;
  option_natural natural;
  option_real real;
  int choice;
  option_list paths;
} kinds;

static const option_choice choices[] = {{"one", 1, NULL}, {"two", 2, NULL}, {"later", 3, "that"}, {NULL, 0, NULL}};

#define ROW(option, value, its_kind, field)                                                                            \
  { .name = option, .argument = value, .kind = its_kind, .offset = offsetof(kinds, field), .help = "help" }

static const option_row rows[] = {
    {.name = "Section", .kind = OPTION_SECTION},
    ROW("a-flag", NULL, OPTION_FLAG, flag),
    ROW("a-path", "P", OPTION_PATH, path),
    ROW("a-text", "T", OPTION_TEXT, text),
    {.name = "an-integer",
     .argument = "N",
     .kind = OPTION_INTEGER,
     .offset = offsetof(kinds, integer),
     .min = LOWEST,
     .max = HIGHEST,
     .help = "help"},
    ROW("a-natural", "N", OPTION_NATURAL, natural),
    ROW("a-real", "X", OPTION_REAL, real),
    {.name = "a-choice",
     .argument = "C",
     .kind = OPTION_CHOICE,
     .offset = offsetof(kinds, choice),
     .choices = choices,
     .help = "help"},
    ROW("paths", "P", OPTION_PATHS, paths),
};

/* -------------------------------------------------------------------------------------------------------- arguments */

/* argv[0] is the command; the copy of the text that argv leads into is to be freed. */
static char *split_lines(const uint8_t *data, size_t size, char *argv[MAX_ARGUMENTS], int *argc) {
  static char command[] = "command";
  char *text = malloc(size + 1);
  FUZZ_CHECK(text != NULL);
  memcpy(text, data, size);
  text[size] = '\0';
  argv[0] = command;
  *argc = 1;
  for (char *at = text; at != NULL && *argc < MAX_ARGUMENTS - 1;) {
    char *end = strchr(at, '\n');
    if (end != NULL) *end++ = '\0';
    argv[(*argc)++] = at;
    at = end;
  }
  argv[*argc] = NULL;
  return text;
}

/* ---------------------------------------------------------------------------------------------------------- numbers */

/* A number that was taken is the one that its digits say, printed and parsed again. */
static void check_numbers(const char *text) {
  char again[64];
  int64_t integer = 0, integer_again = 0;
  uint64_t natural = 0, natural_again = 0;
  double real = 0, real_again = 0;
  if (cli_parse_integer(text, &integer) == NUMBER_GOOD) {
    snprintf(again, sizeof again, "%lld", (long long)integer);
    FUZZ_CHECK(cli_parse_integer(again, &integer_again) == NUMBER_GOOD && integer == integer_again);
    FUZZ_CHECK(strspn(text, "+-0123456789") == strlen(text));
    FUZZ_CHECK(cli_parse_real(text, &real) == NUMBER_GOOD && real == (double)integer);
  }
  if (cli_parse_natural(text, &natural) == NUMBER_GOOD) {
    snprintf(again, sizeof again, "%llu", (unsigned long long)natural);
    FUZZ_CHECK(cli_parse_natural(again, &natural_again) == NUMBER_GOOD && natural == natural_again);
    FUZZ_CHECK(text[0] != '-' && (natural > INT64_MAX || cli_parse_integer(text, &integer) == NUMBER_GOOD));
  }
  if (cli_parse_real(text, &real) == NUMBER_GOOD) {
    FUZZ_CHECK(isfinite(real));
    snprintf(again, sizeof again, "%.17g", real);
    FUZZ_CHECK(cli_parse_real(again, &real_again) == NUMBER_GOOD && real == real_again);
  }
}

/* ---------------------------------------------------------------------------------------------------------- parsing */

static void check_values(const kinds *values, const attention_settings *settings) {
  FUZZ_CHECK(!values->integer.given || (values->integer.value >= LOWEST && values->integer.value <= HIGHEST));
  FUZZ_CHECK(!values->real.given || isfinite(values->real.value));
  FUZZ_CHECK(values->choice >= 0 && values->choice <= 2);
  FUZZ_CHECK(values->path == NULL || values->path[0] != '\0');
  for (size_t i = 0; i < values->paths.count; i++) FUZZ_CHECK(values->paths.items[i].text[0] != '\0');
  FUZZ_CHECK(!settings->window_left.given || settings->window_left.value >= 0);
  FUZZ_CHECK(!settings->repeat.given || settings->repeat.value >= 1);
  for (size_t i = 0; i < settings->masks.count; i++)
    FUZZ_CHECK(strcmp(cli_mask_option_name((mask_option)settings->masks.items[i].id), "mask") != 0);
}

static void parse(int argc, char **argv, int *stop) {
  kinds values;
  attention_settings settings;
  cli_state cli = {.command = "command"};
  memset(&values, 0, sizeof values);
  memset(&settings, 0, sizeof settings);
  const option_table tables[TABLE_COUNT] = {{rows, sizeof rows / sizeof *rows, &values},
                                            cli_attention_score_table(&settings),
                                            cli_attention_run_table(&settings)};
  bool help = false;
  int status = cli_options_parse(&cli, tables, TABLE_COUNT, argc, argv, &help, stop);
  if (status == CLI_DONE) {
    check_values(&values, &settings);
    FUZZ_CHECK(stop == NULL || (*stop >= 1 && *stop <= argc));
    FUZZ_CHECK(stop == NULL || help || *stop == argc || argv[*stop][0] != '-');
    if (!help) status = cli_attention_settings_check(&cli, &settings);
  }
  FUZZ_CHECK(status == CLI_DONE || status == CLI_WRONG);
  if (status != CLI_DONE) fuzz_check_line(cli.failure.text, sizeof cli.failure.text);
  cli_option_list_free(&values.paths);
  cli_attention_settings_free(&settings);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char *argv[MAX_ARGUMENTS];
  int argc = 0, stop = 0;
  char *text = split_lines(data, size, argv, &argc);
  for (int i = 1; i < argc; i++) check_numbers(argv[i]);
  parse(argc, argv, NULL);
  parse(argc, argv, &stop);
  free(text);
  return 0;
}
