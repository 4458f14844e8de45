/* SPDX-License-Identifier: Apache-2.0
 *
 * Options as tables: one row names an option, says what its value may be, where it goes and what the help prints of it,
 * so that parser, messages and help cannot drift apart. */
#ifndef CLATTN_CLI_OPTIONS_H
#define CLATTN_CLI_OPTIONS_H

#include "cli.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Where numbers go. */
typedef struct option_integer {
  bool given;
  int64_t value;
} option_integer;

typedef struct option_natural {
  bool given;
  uint64_t value;
} option_natural;

typedef struct option_real {
  bool given;
  double value;
} option_real;

/* Texts that may be given again, in the order of the command line; `id` is that of the row. */
typedef struct option_list {
  struct option_list_item {
    int id;
    const char *text;
  } * items;
  size_t count;
} option_list;

typedef enum option_kind {
  OPTION_SECTION, /* no option: `name` is a heading of the help */
  OPTION_HELP,    /* --help: ends parsing */
  OPTION_FLAG,    /* bool: true */
  OPTION_PATH,    /* const char *: not empty */
  OPTION_TEXT,    /* const char *: may be empty */
  OPTION_INTEGER, /* option_integer in min to max */
  OPTION_NATURAL, /* option_natural in min to 2^64 - 1 */
  OPTION_REAL,    /* option_real: a finite number in min to max */
  OPTION_CHOICE,  /* int: the value of one of `choices` */
  OPTION_PATHS    /* option_list: may be given again */
} option_kind;

typedef struct option_choice {
  const char *name;
  int value;
  const char *later; /* what this version cannot do, a noun phrase ("the fused path"); NULL if it can */
} option_choice;

#define OPTION_NO_MINIMUM INT64_MIN
#define OPTION_NO_MAXIMUM INT64_MAX

typedef struct option_row {
  const char *name;     /* without the dashes */
  const char *argument; /* what the help calls the value; NULL: the option has none */
  option_kind kind;
  size_t offset; /* of the field in the table's target */
  const char *help;
  int64_t min, max;
  bool min_excluded, max_excluded; /* of OPTION_REAL: the number must be above min, below max */
  const option_choice *choices;    /* ends with a NULL name */
  int id;                          /* for OPTION_PATHS */
} option_row;

typedef struct option_table {
  const option_row *rows;
  size_t count;
  void *target; /* the settings that the rows' offsets count from */
} option_table;

/* Parses argv[1] to argv[argc - 1]: `--name value` or `--name=value`, whole names only, each once unless its kind
 * allows more. The targets have been filled with defaults.
 *
 * argv        kept by the targets
 * help        out: true if --help was met, which ends parsing
 * stop        NULL, or out: index of the first argument that is no option, which ends parsing; with NULL it is an error
 */
int cli_options_parse(cli_state *cli, const option_table *tables, size_t table_count, int argc, char **argv, bool *help,
                      int *stop);

/* Prints the rows of the tables, options aligned and descriptions wrapped. */
void cli_options_print_help(FILE *stream, const option_table *tables, size_t table_count);

void cli_option_list_free(option_list *list);

/* The name closest to `text`, NULL if none is close. */
const char *cli_nearest_name(const char *text, const char *const *names, size_t count);

#endif
