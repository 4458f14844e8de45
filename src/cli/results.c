/* SPDX-License-Identifier: Apache-2.0 */
#include "results.h"

#include "interrupt.h"

#include <errno.h>
#include <string.h>

static int fail_output(cli_state *cli, io_status status, const char *option, const io_error *error) {
  return cli_fail(cli, status == IO_INVALID ? CLI_WRONG : CLI_FAILED, "--%s: %s", option, error->text);
}

/* files[i].path opened in streams[i], for each that was asked for. */
static int open_all(cli_state *cli, output_set *set, const result_file *files, size_t count, FILE **streams) {
  io_error error;
  for (size_t i = 0; i < count; i++) {
    streams[i] = NULL;
    if (files[i].path == NULL) continue;
    io_status status = output_set_add(set, files[i].path, &streams[i], &error);
    if (status != IO_OK) return fail_output(cli, status, files[i].option, &error);
  }
  return CLI_DONE;
}

static int write_all(cli_state *cli, const result_file *files, size_t count, FILE *const *streams) {
  io_error error;
  for (size_t i = 0; i < count; i++) {
    if (files[i].path == NULL) continue;
    io_status status = npy_save(streams[i], &files[i].array, &error);
    if (status != IO_OK) {
      return cli_fail(cli, CLI_FAILED, "--%s: %s: %s", files[i].option, io_path_tail(files[i].path), error.text);
    }
    /* So that a full disk is known before the report is printed. */
    if (fflush(streams[i]) != 0) {
      return cli_fail(cli, CLI_FAILED, "--%s: %s: cannot be written: %s", files[i].option, io_path_tail(files[i].path),
                      strerror(errno));
    }
  }
  return CLI_DONE;
}

enum { MOST_FILES = 2 };

int cli_results_check(cli_state *cli, const result_file *files, size_t count) {
  output_set *set = NULL;
  FILE *streams[MOST_FILES];
  io_error error;
  io_status created = output_set_create(&set, &error);
  if (created != IO_OK) return cli_fail_io(cli, created, &error);
  cli_interrupt_hold();
  int status = open_all(cli, set, files, count, streams);
  output_set_destroy(&set);
  cli_interrupt_release();
  return status;
}

int cli_results_write(cli_state *cli, const result_file *files, size_t count,
                      int (*report)(cli_state *cli, const void *user), const void *user) {
  output_set *set = NULL;
  FILE *streams[MOST_FILES];
  io_error error;
  io_status io = output_set_create(&set, &error);
  if (io != IO_OK) return cli_fail_io(cli, io, &error);
  cli_interrupt_hold();
  int status = open_all(cli, set, files, count, streams);
  if (status == CLI_DONE) {
    cli_interrupt_abandons(set);
    status = write_all(cli, files, count, streams);
  }
  if (status == CLI_DONE) status = report(cli, user);
  if (status == CLI_DONE) {
    io = output_set_commit(set, &error);
    if (io != IO_OK) status = cli_fail_io(cli, io, &error);
  }
  cli_interrupt_abandons(NULL);
  output_set_destroy(&set);
  cli_interrupt_release();
  return status;
}
