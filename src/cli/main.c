/* SPDX-License-Identifier: Apache-2.0
 *
 * clattn [--device SEL] COMMAND [options] */
#define _POSIX_C_SOURCE 200809L
#include "cli.h"
#include "options.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct command {
  const char *name;
  int (*run)(cli_state *cli, int argc, char **argv); /* NULL: not in this version */
  const char *help;
} command;

static const command commands[] = {
    {"devices", command_devices, "list the OpenCL devices of this machine"},
    {"sdpa", command_sdpa, "scaled dot-product attention over .npy files"},
    {"mha", command_mha, "a whole attention layer with the parameters of a model"},
    {"init", command_init, "new parameters for a layer"},
    {"heads", NULL, "look at the heads of a layer (not in this version)"},
    {"bench", NULL, "measure this machine (not in this version)"},
    {"tune", NULL, "find the best settings for this machine (not in this version)"},
    {"verify", command_verify, "check this machine against the reference"},
};

enum { COMMAND_COUNT = sizeof commands / sizeof *commands };

typedef struct global_settings {
  const char *device;
  bool version;
} global_settings;

static const option_row rows[] = {
    {.name = "Options", .kind = OPTION_SECTION},
    {.name = "device",
     .argument = "SEL",
     .kind = OPTION_TEXT,
     .offset = offsetof(global_settings, device),
     .help = "where to run: gpu, cpu, P:D (platform and device index as `clinfo -l` prints them) or a part of the "
             "device's or platform's name; default: the environment variable CLATTN_DEVICE, else the first GPU, else "
             "any accelerator, else the CPU"},
    {.name = "version", .kind = OPTION_FLAG, .offset = offsetof(global_settings, version), .help = "print the version"},
    {.name = "help", .kind = OPTION_HELP, .help = "print this; `clattn COMMAND --help` prints that of a command"},
};

static void print_help(const option_table *table) {
  puts("Usage: clattn [--device SEL] COMMAND [options]\n\n"
       "Multi-head attention on any OpenCL device.\n\n"
       "Commands:");
  for (int i = 0; i < COMMAND_COUNT; i++) printf("  %-10s %s\n", commands[i].name, commands[i].help);
  cli_options_print_help(stdout, table, 1);
  puts("\nExit status: 0 done; 1 the device, the driver or the system failed; 2 the command or its input is wrong.");
}

static int fail_unknown_command(cli_state *cli, const char *name) {
  const char *names[COMMAND_COUNT];
  for (int i = 0; i < COMMAND_COUNT; i++) names[i] = commands[i].name;
  const char *nearest = cli_nearest_name(name, names, COMMAND_COUNT);
  if (nearest != NULL) return cli_fail(cli, CLI_WRONG, "%s: no such command; did you mean '%s'?", name, nearest);
  return cli_fail(cli, CLI_WRONG,
                  "%s: no such command; there are devices, sdpa, mha, init and verify, see clattn --help", name);
}

static int run_command(cli_state *cli, int argc, char **argv) {
  for (int i = 0; i < COMMAND_COUNT; i++) {
    if (strcmp(argv[0], commands[i].name) != 0) continue;
    cli->command = commands[i].name;
    if (commands[i].run == NULL) {
      return cli_fail(cli, CLI_WRONG, "this version of clattn does not have this command yet");
    }
    return commands[i].run(cli, argc, argv);
  }
  return fail_unknown_command(cli, argv[0]);
}

static int run(cli_state *cli, int argc, char **argv) {
  global_settings settings = {NULL, false};
  const option_table table = {rows, sizeof rows / sizeof *rows, &settings};
  bool help = false;
  int command_at = 0;
  int status = cli_options_parse(cli, &table, 1, argc, argv, &help, &command_at);
  if (status != CLI_DONE) return status;
  if (help) {
    print_help(&table);
    return cli_flush_stdout(cli);
  }
  if (settings.version) {
    printf("clattn %s\n", clattn_version());
    return cli_flush_stdout(cli);
  }
  if (command_at >= argc || argv[command_at][0] == '\0') {
    return cli_fail(cli, CLI_WRONG,
                    "no command is given; usage: clattn [--device SEL] COMMAND [options], with COMMAND devices, sdpa, "
                    "mha, init or verify; clattn --help says more");
  }
  cli->device = settings.device;
  return run_command(cli, argc - command_at, argv + command_at);
}

/* A standard stream that the parent closed is opened the wrong way round: no file of ours can take its number, and
 * whoever uses it still meets an error. */
static void guard_standard_streams(void) {
  for (int descriptor = 0; descriptor <= 2; descriptor++) {
    if (fcntl(descriptor, F_GETFD) != -1) continue;
    int opened = open("/dev/null", descriptor == 0 ? O_WRONLY : O_RDONLY);
    if (opened > 2) close(opened);
  }
}

int main(int argc, char **argv) {
  cli_state cli = {.command = NULL, .device = NULL};
  guard_standard_streams();
  /* A reader that went away and a file that may not grow are failed writes, so that temporaries are removed. */
  struct sigaction ignore = {.sa_handler = SIG_IGN};
  sigemptyset(&ignore.sa_mask);
  sigaction(SIGPIPE, &ignore, NULL);
  sigaction(SIGXFSZ, &ignore, NULL);
  int status = run(&cli, argc, argv);
  if (status != CLI_DONE) cli_print_failure(&cli);
  return status;
}
