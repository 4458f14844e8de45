/* SPDX-License-Identifier: Apache-2.0
 *
 * Output files: all or nothing, also when the program is interrupted while it writes them. */
#ifndef CLATTN_CLI_RESULTS_H
#define CLATTN_CLI_RESULTS_H

#include "cli.h"
#include "io/npy.h"
#include "io/output.h"

typedef struct result_file {
  const char *option; /* "out" */
  const char *path;   /* NULL: not asked for */
  npy_array array;
} result_file;

/* Whether the files could be written now, so that a long computation need not end with the news; leaves nothing behind.
 */
int cli_results_check(cli_state *cli, const result_file *files, size_t count);

/* Writes the files under temporary names, calls `report` (which may print what goes with them, and whose failure undoes
 * all), then gives them their names. */
int cli_results_write(cli_state *cli, const result_file *files, size_t count,
                      int (*report)(cli_state *cli, const void *user), const void *user);

#endif
