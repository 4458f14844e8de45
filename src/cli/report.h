/* SPDX-License-Identifier: Apache-2.0
 *
 * What is printed on stdout: a JSON object for machines, lines for people. */
#ifndef CLATTN_CLI_REPORT_H
#define CLATTN_CLI_REPORT_H

#include "cli.h"
#include "run.h"

#include <jansson.h>

/* A JSON string of any bytes: those that are no UTF-8 and control characters are spelled out. NULL: out of memory. */
json_t *cli_json_text(const char *text);

/* Prints `object` (NULL: it could not be made) as one line and releases it; stdout is flushed. */
int cli_print_json(cli_state *cli, json_t *object);

/* "P:D". */
enum { DEVICE_INDEX_SIZE = 32 };
const char *cli_device_index(const clattn_device_info *device, char text[DEVICE_INDEX_SIZE]);

/* "gemm". */
const char *cli_path_name(clattn_path path);

/* What every command that ran something says: device, path, times, memory. */
typedef struct run_facts {
  const char *command;
  const clattn_device_info *device;
  clattn_type compute;
  int64_t repeat; /* 0: not asked for */
  const run_report *report;
  const char *const *extent_names; /* "B", "H", ... */
  const size_t *extents;
  size_t extent_count;
} run_facts;

json_t *cli_run_json(const run_facts *facts);

/* Times, a row each. */
void cli_print_times(const run_facts *facts);

#endif
