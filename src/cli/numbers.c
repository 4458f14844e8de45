/* SPDX-License-Identifier: Apache-2.0 */
#include "numbers.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* strtoll and its relatives skip blanks and take words; a number here begins with a sign, a digit or a point. */
static bool is_decimal(const char *text) {
  if (*text == '-' || *text == '+') text++;
  return *text != '\0' && strspn(text, "0123456789") == strlen(text);
}

number_status cli_parse_integer(const char *text, int64_t *value) {
  if (!is_decimal(text)) return NUMBER_MALFORMED;
  errno = 0;
  long long parsed = strtoll(text, NULL, 10);
  if (errno == ERANGE) return NUMBER_TOO_LARGE;
  *value = parsed;
  return NUMBER_GOOD;
}

number_status cli_parse_natural(const char *text, uint64_t *value) {
  if (!is_decimal(text) || *text == '-') return NUMBER_MALFORMED;
  errno = 0;
  unsigned long long parsed = strtoull(text, NULL, 10);
  if (errno == ERANGE) return NUMBER_TOO_LARGE;
  *value = parsed;
  return NUMBER_GOOD;
}

number_status cli_parse_real(const char *text, double *value) {
  const char *digits = text + (*text == '-' || *text == '+');
  if (*digits == '\0' || strchr("0123456789.", *digits) == NULL) return NUMBER_MALFORMED;
  char *end = NULL;
  double parsed = strtod(text, &end);
  if (end == text || *end != '\0') return NUMBER_MALFORMED;
  if (isinf(parsed)) return NUMBER_TOO_LARGE;
  *value = parsed;
  return NUMBER_GOOD;
}
