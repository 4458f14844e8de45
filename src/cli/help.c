/* SPDX-License-Identifier: Apache-2.0
 *
 * What the option tables say to people: help pages, and the name that was probably meant. */
#include "options.h"

#include <string.h>

enum { TEXT_COLUMN = 30, LINE_WIDTH = 100, LONGEST_NAME = 63 };

/* Words from `column` on, wrapped at LINE_WIDTH and indented to TEXT_COLUMN. */
static void print_wrapped(FILE *stream, const char *text, size_t column) {
  if (column + 2 > TEXT_COLUMN) {
    putc('\n', stream);
    column = 0;
  }
  for (; column < TEXT_COLUMN; column++) putc(' ', stream);
  bool first = true;
  while (*text != '\0') {
    size_t length = strcspn(text, " ");
    if (!first && column + 1 + length > LINE_WIDTH) {
      fprintf(stream, "\n%*s", TEXT_COLUMN, "");
      column = TEXT_COLUMN;
    } else if (!first) {
      putc(' ', stream);
      column++;
    }
    fprintf(stream, "%.*s", (int)length, text);
    column += length;
    text += length;
    text += strspn(text, " ");
    first = false;
  }
  putc('\n', stream);
}

static void print_row(FILE *stream, const option_row *row) {
  if (row->kind == OPTION_SECTION) {
    fprintf(stream, "\n%s:\n", row->name);
    return;
  }
  int column = fprintf(stream, "  --%s%s%s", row->name, row->argument != NULL ? " " : "",
                       row->argument != NULL ? row->argument : "");
  print_wrapped(stream, row->help, column > 0 ? (size_t)column : 0);
}

void cli_options_print_help(FILE *stream, const option_table *tables, size_t table_count) {
  for (size_t t = 0; t < table_count; t++) {
    for (size_t r = 0; r < tables[t].count; r++) print_row(stream, &tables[t].rows[r]);
  }
}

static size_t smallest(size_t a, size_t b, size_t c) {
  size_t ab = a < b ? a : b;
  return ab < c ? ab : c;
}

/* Letters to insert, delete or replace until the words are equal (Levenshtein, 1966). */
static size_t edit_distance(const char *a, const char *b) {
  size_t length = strlen(b);
  size_t row[LONGEST_NAME + 1];
  if (length > LONGEST_NAME) return SIZE_MAX;
  for (size_t j = 0; j <= length; j++) row[j] = j;
  for (size_t i = 0; a[i] != '\0'; i++) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < length; j++) {
      size_t above = row[j + 1];
      row[j + 1] = smallest(above + 1, row[j] + 1, diagonal + (a[i] == b[j] ? 0 : 1));
      diagonal = above;
    }
  }
  return row[length];
}

const char *cli_nearest_name(const char *text, const char *const *names, size_t count) {
  const char *nearest = NULL;
  size_t length = strlen(text);
  size_t best = length < 3 ? 1 : 2 + length / 6;
  for (size_t i = 0; i < count; i++) {
    size_t distance = edit_distance(text, names[i]);
    if (distance <= best && distance < length) {
      if (nearest != NULL && distance == best) continue;
      nearest = names[i];
      best = distance;
    }
  }
  /* A cut-off name is further away than a misspelled one. */
  for (size_t i = 0; nearest == NULL && length >= 2 && i < count; i++) {
    if (strncmp(names[i], text, length) == 0) nearest = names[i];
  }
  return nearest;
}
