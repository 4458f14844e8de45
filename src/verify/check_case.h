/* SPDX-License-Identifier: Apache-2.0
 *
 * A check's arrays on the host: inputs, and what must come out. */
#ifndef CLATTN_VERIFY_CHECK_CASE_H
#define CLATTN_VERIFY_CHECK_CASE_H

#include "verify/battery.h"
#include "verify/reference.h"

/* Where a check keeps its arrays. */
typedef enum check_place {
  AT_QUERY,
  AT_KEY,
  AT_VALUE,
  AT_OUTPUT,
  AT_WEIGHTS,
  AT_LOG_SUM_EXP,
  AT_SLOPES,
  AT_KV_LENGTHS,
  AT_Q_LENGTHS,
  AT_MASKS,
  AT_PARAMETERS = AT_MASKS + CHECK_MASKS,
  AT_COUNT = AT_PARAMETERS + CLATTN_PARAMETER_COUNT
} check_place;

typedef struct check_array {
  clattn_type type;   /* 0: the check does not have it */
  clattn_tensor view; /* of a buffer of `span` elements; the buffer itself comes later */
  size_t span;
  numbers data; /* row-major; inputs are exact, results have their bounds */
} check_array;

typedef struct check_case {
  check_row row; /* every extent filled in */
  clattn_type compute;
  clattn_mha_config config; /* of a layer, every field filled in */
  clattn_options options;   /* what of them is no array */
  check_array arrays[AT_COUNT];
} check_case;

/* Makes inputs and what must come out of them; 0 if the host has no memory. To be freed in any case. */
int check_case_create(check_case *check, const check_row *row, clattn_type compute);
void check_case_free(check_case *check);

/* Replaces what must come out by what the reference says of the inputs; 0 if the host has no memory. */
int check_case_ask_reference(check_case *check);

/* Columns of the weights: the keys and the extra ones. */
size_t check_columns(const check_case *check);

#endif
