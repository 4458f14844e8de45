/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int cli_fail(cli_state *cli, int status, const char *format, ...) {
  char text[sizeof cli->failure.text];
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  io_fail(&cli->failure, IO_INVALID, "%s", length < 0 ? format : text);
  return status;
}

static int exit_status_of(clattn_status status) {
  switch (status) {
  case CLATTN_SUCCESS:
    return CLI_DONE;
  case CLATTN_INVALID_ARGUMENT:
  case CLATTN_INVALID_SHAPE:
  case CLATTN_INVALID_TYPE:
  case CLATTN_INVALID_BUFFER:
  case CLATTN_INVALID_OVERLAP:
  case CLATTN_INVALID_FILE:
  case CLATTN_INVALID_DEVICE:
  case CLATTN_UNSUPPORTED:
    return CLI_WRONG;
  case CLATTN_NO_DEVICE:
  case CLATTN_OUT_OF_HOST_MEMORY:
  case CLATTN_OUT_OF_DEVICE_MEMORY:
  case CLATTN_BUILD_FAILED:
  case CLATTN_OPENCL_ERROR:
  case CLATTN_CLBLAST_ERROR:
  case CLATTN_FILE_ERROR:
  case CLATTN_SELF_CHECK_FAILED:
    return CLI_FAILED;
  }
  return CLI_FAILED;
}

int cli_fail_library(cli_state *cli, clattn_status status, const char *message) {
  return cli_fail(cli, exit_status_of(status), "%s",
                  message != NULL && message[0] != '\0' ? message : clattn_status_text(status));
}

int cli_fail_file(cli_state *cli, clattn_status status, const char *option, const char *path, const char *message) {
  const char *shown = io_path_tail(path);
  const char *words = message[0] != '\0' ? message : clattn_status_text(status);
  bool named = strncmp(words, shown, strlen(shown)) == 0;
  return cli_fail(cli, exit_status_of(status), "--%s: %s%s%s", option, named ? "" : shown, named ? "" : ": ", words);
}

int cli_fail_memory(cli_state *cli, const char *what) {
  return cli_fail(cli, CLI_FAILED, "out of host memory for %s", what);
}

int cli_fail_io(cli_state *cli, io_status status, const io_error *error) {
  return cli_fail(cli, status == IO_INVALID ? CLI_WRONG : CLI_FAILED, "%s", error->text);
}

void cli_print_failure(const cli_state *cli) {
  bool named = cli->command != NULL;
  fprintf(stderr, "clattn: %s%s%s\n", named ? cli->command : "", named ? ": " : "", cli->failure.text);
}

int cli_flush_stdout(cli_state *cli) {
  errno = 0;
  bool lost = ferror(stdout) != 0;
  if (fflush(stdout) == 0 && !lost) return CLI_DONE;
  return cli_fail(cli, CLI_FAILED, "cannot write to standard output: %s",
                  errno != 0 ? strerror(errno) : "an earlier write failed");
}
