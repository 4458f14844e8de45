/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers as users write them, to the last letter: no blanks, nothing behind the number, no silent wrap or cut. They
 * read the same in every locale, since the program never leaves the locale "C". */
#ifndef CLATTN_CLI_NUMBERS_H
#define CLATTN_CLI_NUMBERS_H

#include <stdint.h>

typedef enum number_status { NUMBER_GOOD, NUMBER_MALFORMED, NUMBER_TOO_LARGE } number_status;

/* Decimal, with or without a sign. */
number_status cli_parse_integer(const char *text, int64_t *value);

/* Decimal, without a minus sign. */
number_status cli_parse_natural(const char *text, uint64_t *value);

/* What strtod takes, except infinities and NaN; what is too small becomes the nearest number, 0 at last. */
number_status cli_parse_real(const char *text, double *value);

#endif
