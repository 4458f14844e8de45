/* SPDX-License-Identifier: Apache-2.0 */
#include "options.h"

#include "numbers.h"

#include <stdlib.h>
#include <string.h>

typedef struct found_option {
  const option_row *row;
  void *target;
  size_t index; /* over all tables */
} found_option;

static bool is_option(const option_row *row) {
  return row->kind != OPTION_SECTION;
}

/* `length` bytes of `name` are compared, so that "name=value" can be looked up. */
static found_option find_option(const option_table *tables, size_t table_count, const char *name, size_t length) {
  found_option found = {NULL, NULL, 0};
  size_t index = 0;
  for (size_t t = 0; t < table_count; t++) {
    for (size_t r = 0; r < tables[t].count; r++, index++) {
      const option_row *row = &tables[t].rows[r];
      if (is_option(row) && strlen(row->name) == length && memcmp(row->name, name, length) == 0) {
        found.row = row;
        found.target = tables[t].target;
        found.index = index;
        return found;
      }
    }
  }
  return found;
}

static int fail_unknown(cli_state *cli, const option_table *tables, size_t table_count, const char *argument) {
  enum { MOST_NAMES = 128 };
  const char *names[MOST_NAMES];
  size_t count = 0;
  for (size_t t = 0; t < table_count; t++) {
    for (size_t r = 0; r < tables[t].count; r++) {
      if (is_option(&tables[t].rows[r]) && count < MOST_NAMES) names[count++] = tables[t].rows[r].name;
    }
  }
  char name[64];
  const char *start = argument + strspn(argument, "-");
  size_t length = strcspn(start, "=");
  if (length >= sizeof name) length = sizeof name - 1;
  memcpy(name, start, length);
  name[length] = '\0';
  const char *nearest = cli_nearest_name(name, names, count);
  int shown = (int)strcspn(argument, "=");
  if (nearest != NULL) {
    return cli_fail(cli, CLI_WRONG, "unknown option '%.*s'; did you mean '--%s'?", shown, argument, nearest);
  }
  return cli_fail(cli, CLI_WRONG, "unknown option '%.*s'; --help lists all", shown, argument);
}

static int set_choice(cli_state *cli, const option_row *row, const char *value, int *field) {
  char list[256] = "";
  size_t used = 0;
  for (int i = 0; row->choices[i].name != NULL; i++) {
    const char *name = row->choices[i].name;
    if (strcmp(name, value) == 0) {
      if (row->choices[i].later != NULL) {
        return cli_fail(cli, CLI_WRONG, "--%s %s: this version of clattn does not do %s yet", row->name, value,
                        row->choices[i].later);
      }
      *field = row->choices[i].value;
      return CLI_DONE;
    }
    int written = snprintf(list + used, sizeof list - used, "%s%s", i > 0 ? ", " : "", name);
    if (written > 0 && (size_t)written < sizeof list - used) used += (size_t)written;
  }
  return cli_fail(cli, CLI_WRONG, "--%s: '%s' is none of %s", row->name, value, list);
}

static int set_integer(cli_state *cli, const option_row *row, const char *value, option_integer *field) {
  switch (cli_parse_integer(value, &field->value)) {
  case NUMBER_MALFORMED:
    return cli_fail(cli, CLI_WRONG, "--%s: '%s' is not a whole number", row->name, value);
  case NUMBER_TOO_LARGE:
    return cli_fail(cli, CLI_WRONG, "--%s: %s does not fit into 64 bits", row->name, value);
  case NUMBER_GOOD:
    break;
  }
  if (field->value < row->min) {
    return cli_fail(cli, CLI_WRONG, "--%s: %lld is below %lld", row->name, (long long)field->value,
                    (long long)row->min);
  }
  if (field->value > row->max) {
    return cli_fail(cli, CLI_WRONG, "--%s: %lld is above %lld", row->name, (long long)field->value,
                    (long long)row->max);
  }
  field->given = true;
  return CLI_DONE;
}

static int set_natural(cli_state *cli, const option_row *row, const char *value, option_natural *field) {
  switch (cli_parse_natural(value, &field->value)) {
  case NUMBER_MALFORMED:
    return cli_fail(cli, CLI_WRONG, "--%s: '%s' is not a whole number from 0", row->name, value);
  case NUMBER_TOO_LARGE:
    return cli_fail(cli, CLI_WRONG, "--%s: %s does not fit into 64 bits", row->name, value);
  case NUMBER_GOOD:
    break;
  }
  field->given = true;
  return CLI_DONE;
}

static int check_real_range(cli_state *cli, const option_row *row, const char *text, option_real *field) {
  const double min = (double)row->min, max = (double)row->max, value = field->value;
  const bool has_min = row->min != OPTION_NO_MINIMUM, has_max = row->max != OPTION_NO_MAXIMUM;
  if (has_min && value < min) {
    return cli_fail(cli, CLI_WRONG, "--%s: %s is below %lld", row->name, text, (long long)row->min);
  }
  if (has_max && value > max) {
    return cli_fail(cli, CLI_WRONG, "--%s: %s is above %lld", row->name, text, (long long)row->max);
  }
  /* Equal after rounding to a double, which is the number that counts. */
  if (has_min && row->min_excluded && value == min) {
    return cli_fail(cli, CLI_WRONG, "--%s: %s is not above %lld", row->name, text, (long long)row->min);
  }
  if (has_max && row->max_excluded && value == max) {
    return cli_fail(cli, CLI_WRONG, "--%s: %s is not below %lld", row->name, text, (long long)row->max);
  }
  field->given = true;
  return CLI_DONE;
}

static int set_real(cli_state *cli, const option_row *row, const char *value, option_real *field) {
  switch (cli_parse_real(value, &field->value)) {
  case NUMBER_MALFORMED:
    return cli_fail(cli, CLI_WRONG, "--%s: '%s' is not a finite number", row->name, value);
  case NUMBER_TOO_LARGE:
    return cli_fail(cli, CLI_WRONG, "--%s: %s does not fit into a double", row->name, value);
  case NUMBER_GOOD:
    break;
  }
  return check_real_range(cli, row, value, field);
}

static int append_path(cli_state *cli, const option_row *row, const char *value, option_list *list) {
  struct option_list_item *items = realloc(list->items, (list->count + 1) * sizeof *items);
  if (items == NULL) return cli_fail_memory(cli, "the command's arguments");
  items[list->count] = (struct option_list_item){.id = row->id, .text = value};
  list->items = items;
  list->count++;
  return CLI_DONE;
}

static int set_value(cli_state *cli, const found_option *option, const char *value) {
  const option_row *row = option->row;
  void *field = (char *)option->target + row->offset;
  if ((row->kind == OPTION_PATH || row->kind == OPTION_PATHS) && value[0] == '\0') {
    return cli_fail(cli, CLI_WRONG, "--%s: the file name is empty", row->name);
  }
  switch (row->kind) {
  case OPTION_FLAG:
    *(bool *)field = true;
    return CLI_DONE;
  case OPTION_PATH:
  case OPTION_TEXT:
    *(const char **)field = value;
    return CLI_DONE;
  case OPTION_INTEGER:
    return set_integer(cli, row, value, field);
  case OPTION_NATURAL:
    return set_natural(cli, row, value, field);
  case OPTION_REAL:
    return set_real(cli, row, value, field);
  case OPTION_CHOICE:
    return set_choice(cli, row, value, field);
  case OPTION_PATHS:
    return append_path(cli, row, value, field);
  case OPTION_SECTION:
  case OPTION_HELP:
    break;
  }
  return CLI_DONE;
}

/* The value of the option at argv[*i]: behind its '=' or the next argument, which *i moves on to. An argument that is
 * an option itself is a forgotten value rather than a file of that name. */
static int take_value(cli_state *cli, const option_table *tables, size_t table_count, const option_row *row, int argc,
                      char **argv, int *i, const char **value) {
  const char *equals = strchr(argv[*i], '=');
  *value = equals != NULL ? equals + 1 : NULL;
  if (row->argument == NULL) {
    if (equals == NULL) return CLI_DONE;
    return cli_fail(cli, CLI_WRONG, "--%s takes no value, and was given '%s'", row->name, *value);
  }
  if (equals != NULL) return CLI_DONE;
  const char *next = *i + 1 < argc ? argv[*i + 1] : NULL;
  if (next == NULL) return cli_fail(cli, CLI_WRONG, "--%s needs a value (%s)", row->name, row->argument);
  if (strncmp(next, "--", 2) == 0 && find_option(tables, table_count, next + 2, strcspn(next + 2, "=")).row != NULL) {
    return cli_fail(cli, CLI_WRONG, "--%s needs a value (%s), and the option '%s' follows it", row->name, row->argument,
                    next);
  }
  *value = next;
  (*i)++;
  return CLI_DONE;
}

/* Takes the option at argv[*i]; *seen is whether it was there before, and is set. */
static int take_option(cli_state *cli, const option_table *tables, size_t table_count, int argc, char **argv, int *i,
                       bool *seen, bool *help) {
  const char *argument = argv[*i], *value = NULL;
  found_option option = {NULL, NULL, 0};
  if (strncmp(argument, "--", 2) == 0) {
    option = find_option(tables, table_count, argument + 2, strcspn(argument + 2, "="));
  }
  if (option.row == NULL) return fail_unknown(cli, tables, table_count, argument);
  int status = take_value(cli, tables, table_count, option.row, argc, argv, i, &value);
  if (status != CLI_DONE) return status;
  *help = option.row->kind == OPTION_HELP;
  if (*help) return CLI_DONE;
  if (seen[option.index] && option.row->kind != OPTION_PATHS) {
    return cli_fail(cli, CLI_WRONG, "--%s is given twice", option.row->name);
  }
  seen[option.index] = true;
  return set_value(cli, &option, value);
}

int cli_options_parse(cli_state *cli, const option_table *tables, size_t table_count, int argc, char **argv, bool *help,
                      int *stop) {
  size_t row_count = 0;
  for (size_t t = 0; t < table_count; t++) row_count += tables[t].count;
  bool *seen = calloc(row_count + 1, sizeof *seen);
  if (seen == NULL) return cli_fail_memory(cli, "the command's arguments");
  int status = CLI_DONE, i = 1;
  *help = false;
  for (; i < argc && status == CLI_DONE && !*help; i++) {
    if (argv[i][0] == '-') {
      status = take_option(cli, tables, table_count, argc, argv, &i, seen, help);
    } else if (stop != NULL) {
      break;
    } else {
      status = cli_fail(cli, CLI_WRONG, "unexpected argument '%s': every value has an option before it", argv[i]);
    }
  }
  if (stop != NULL) *stop = i;
  free(seen);
  return status;
}

void cli_option_list_free(option_list *list) {
  free(list->items);
  list->items = NULL;
  list->count = 0;
}
