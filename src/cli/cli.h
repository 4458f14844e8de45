/* SPDX-License-Identifier: Apache-2.0
 *
 * What every part of the program shares: exit statuses and the one line that a failure prints.
 *
 * A function that can fail returns an exit status, CLI_DONE or that of cli_fail(), which keeps the message in the
 * `cli`. Nobody prints it but main(), so a failure is exactly one line, however deep it happened. */
#ifndef CLATTN_CLI_CLI_H
#define CLATTN_CLI_CLI_H

#include "clattn/clattn.h"
#include "io/error.h"

#include <stdbool.h>

enum {
  CLI_DONE = 0,
  CLI_FAILED = 1, /* the device, the driver or the system */
  CLI_WRONG = 2   /* the command or its input */
};

typedef struct cli_state {
  const char *command; /* for messages; NULL until it is known */
  const char *device;  /* --device, NULL if not given */
  io_error failure;    /* in words; what users and drivers name in it is made printable */
} cli_state;

/* Keeps the message, which may have any text of the user or a driver in it, and returns `status`. */
int cli_fail(cli_state *cli, int status, const char *format, ...) IO_PRINTF(3, 4);

/* The same for an answer of the library; `message` is its text, "" falls back to the status' own. */
int cli_fail_library(cli_state *cli, clattn_status status, const char *message);

/* The same where a file of an option is at fault; its path is put in front unless the message begins with it. */
int cli_fail_file(cli_state *cli, clattn_status status, const char *option, const char *path, const char *message);

/* What has no room in host memory. */
int cli_fail_memory(cli_state *cli, const char *what);

/* The same for an answer of src/io. */
int cli_fail_io(cli_state *cli, io_status status, const io_error *error);

/* Prints the kept message as one line on stderr. */
void cli_print_failure(const cli_state *cli);

/* Flushes stdout; a CLI_FAILED if anything printed there was lost. */
int cli_flush_stdout(cli_state *cli);

/* A file per command. argv[0] is the command's name. */
int command_devices(cli_state *cli, int argc, char **argv);
int command_sdpa(cli_state *cli, int argc, char **argv);
int command_mha(cli_state *cli, int argc, char **argv);
int command_init(cli_state *cli, int argc, char **argv);
int command_verify(cli_state *cli, int argc, char **argv);

#endif
