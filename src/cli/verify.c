/* SPDX-License-Identifier: Apache-2.0
 *
 * `clattn verify`: does this machine compute what it should? The report is for people and for bug reports: it names all
 * that the result may depend on. */
#define _POSIX_C_SOURCE 200809L
#include "cli.h"
#include "options.h"
#include "report.h"

#include <math.h>
#include <stdio.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

typedef struct verify_settings {
  const char *device;
  bool json;
} verify_settings;

#define FIELD(name) offsetof(verify_settings, name)

static const option_row rows[] = {
    {.name = "Options", .kind = OPTION_SECTION},
    {.name = "device",
     .argument = "SEL",
     .kind = OPTION_TEXT,
     .offset = FIELD(device),
     .help = "check this one; gpu, cpu, P:D or part of a name"},
    {.name = "json", .kind = OPTION_FLAG, .offset = FIELD(json), .help = "one JSON object on stdout"},
    {.name = "help", .kind = OPTION_HELP, .help = "print this"},
};

static void print_help(const option_table *table) {
  puts(
      "Usage: clattn [--device SEL] verify [--json]\n\n"
      "Runs every feature on small odd shapes and compares with a scalar reference in double; then cases with answers\n"
      "in closed form. A row each: pass with its largest error over its bound, fail with the numbers, unsupported "
      "with\n"
      "its reason. What is found is remembered and decides which calls are trusted. A report of a fault should carry "
      "it.");
  cli_options_print_help(stdout, table, 1);
  puts("\nExit status: 0 nothing failed; 1 a check failed, or the device or the system did; 2 the command is wrong.");
}

/* ---------------------------------------------------------------------------------------------------------- machine */

enum { HOST_TEXT_SIZE = 256 };

/* "Linux 6.1.0 x86_64, 2 processors" */
static const char *host_text(char text[HOST_TEXT_SIZE]) {
  struct utsname name;
  long processors = sysconf(_SC_NPROCESSORS_ONLN);
  if (uname(&name) != 0) return "unknown";
  (void)snprintf(text, HOST_TEXT_SIZE, "%.64s %.64s %.64s, %ld processor%s", name.sysname, name.release, name.machine,
                 processors, processors == 1 ? "" : "s");
  return text;
}

/* Text of a driver, on one line. */
static void print_field(const char *name, const char *a, const char *b) {
  io_error printable;
  io_fail(&printable, IO_INVALID, "%s%s%s", a, b[0] != '\0' ? ", " : "", b);
  printf("%-8s  %s\n", name, printable.text);
}

static void print_machine(const clattn_device_info *device) {
  char index[DEVICE_INDEX_SIZE], host[HOST_TEXT_SIZE];
  printf("%-8s  %s, CLBlast %s\n", "clattn", clattn_version(), CLATTN_CLBLAST_VERSION);
  print_field("platform", device->platform_name, device->platform_version);
  printf("%-8s  %s\n", "index", cli_device_index(device, index));
  print_field("device", device->name, device->version);
  print_field("driver", device->driver, "");
  print_field("host", host_text(host), "");
  putchar('\n');
}

static json_t *machine_json(const clattn_device_info *device) {
  char index[DEVICE_INDEX_SIZE], host[HOST_TEXT_SIZE];
  return json_pack("{s:s,s:s,s:s,s:o,s:o,s:s,s:o,s:o,s:o,s:o}", "command", "verify", "version", clattn_version(),
                   "clblast", CLATTN_CLBLAST_VERSION, "platform", cli_json_text(device->platform_name),
                   "platform_version", cli_json_text(device->platform_version), "index",
                   cli_device_index(device, index), "device", cli_json_text(device->name), "device_version",
                   cli_json_text(device->version), "driver", cli_json_text(device->driver), "host",
                   cli_json_text(host_text(host)));
}

/* ----------------------------------------------------------------------------------------------------------- checks */

typedef struct verify_report {
  bool json;
  json_t *checks;  /* NULL without --json, or if there was no memory */
  size_t count[3]; /* by clattn_check_result */
} verify_report;

static const char *const result_names[3] = {"pass", "fail", "unsupported"};

static void add_json(verify_report *report, const clattn_check *check) {
  json_t *worst = isfinite(check->worst) ? json_real(check->worst) : json_null();
  json_t *row = json_pack("{s:s,s:s,s:s,s:o,s:o}", "name", check->name, "path", cli_path_name(check->path), "result",
                          result_names[check->result], "worst", worst, "detail", cli_json_text(check->detail));
  if (report->checks == NULL || json_array_append_new(report->checks, row) == 0) return;
  json_decref(report->checks);
  report->checks = NULL;
}

static void print_row(const clattn_check *check) {
  io_error printable;
  io_fail(&printable, IO_INVALID, "%s", check->detail);
  char worst[32] = "-";
  if (check->result != CLATTN_CHECK_UNSUPPORTED) (void)snprintf(worst, sizeof worst, "%.3g", check->worst);
  printf("%-11s  %-5s  %9s  %s%s%s\n", result_names[check->result], cli_path_name(check->path), worst, check->name,
         check->detail[0] != '\0' ? ": " : "", check->detail[0] != '\0' ? printable.text : "");
  (void)fflush(stdout); /* a row when it is known; what goes wrong here shows at the end */
}

static void take_check(void *user, const clattn_check *check) {
  verify_report *report = user;
  report->count[check->result]++;
  if (report->json)
    add_json(report, check);
  else
    print_row(check);
}

static double now_s(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static int print_summary(cli_state *cli, const clattn_device_info *device, const verify_report *report,
                         double seconds) {
  const size_t *count = report->count;
  if (!report->json) {
    printf("\n%zu passed, %zu failed, %zu unsupported in %.1f s\n", count[CLATTN_CHECK_PASS], count[CLATTN_CHECK_FAIL],
           count[CLATTN_CHECK_UNSUPPORTED], seconds);
    return cli_flush_stdout(cli);
  }
  json_t *object = machine_json(device);
  json_t *more = json_pack("{s:I,s:I,s:I,s:f,s:O}", "passed", (json_int_t)count[CLATTN_CHECK_PASS], "failed",
                           (json_int_t)count[CLATTN_CHECK_FAIL], "unsupported",
                           (json_int_t)count[CLATTN_CHECK_UNSUPPORTED], "seconds", seconds, "checks", report->checks);
  if (object == NULL || more == NULL || json_object_update(object, more) != 0) {
    json_decref(object);
    object = NULL;
  }
  json_decref(more);
  return cli_print_json(cli, object);
}

static int verify(cli_state *cli, const verify_settings *settings, const char *selector) {
  char message[sizeof cli->failure.text];
  clattn_context *context = NULL;
  clattn_context_options options;
  clattn_context_options_init(&options);
  options.device = selector;
  clattn_status status = clattn_context_create(&options, &context, message, sizeof message);
  if (status != CLATTN_SUCCESS) return cli_fail_library(cli, status, message);
  const clattn_device_info *device = clattn_context_device_info(context);
  verify_report report = {.json = settings->json, .checks = settings->json ? json_array() : NULL};
  if (!settings->json) print_machine(device);
  const double begin = now_s();
  status = clattn_verify(context, take_check, &report);
  int exit_status = CLI_DONE;
  /* A device that could not be checked at all has no summary. */
  if (status == CLATTN_SUCCESS || status == CLATTN_SELF_CHECK_FAILED)
    exit_status = print_summary(cli, device, &report, now_s() - begin);
  if (status != CLATTN_SUCCESS && exit_status == CLI_DONE)
    exit_status = cli_fail_library(cli, status, clattn_context_message(context));
  json_decref(report.checks);
  clattn_context_destroy(&context);
  return exit_status;
}

int command_verify(cli_state *cli, int argc, char **argv) {
  verify_settings settings = {NULL, false};
  option_table table = {rows, sizeof rows / sizeof *rows, &settings};
  bool help = false;
  int status = cli_options_parse(cli, &table, 1, argc, argv, &help, NULL);
  if (status != CLI_DONE) return status;
  if (help) {
    print_help(&table);
    return cli_flush_stdout(cli);
  }
  if (cli->device != NULL && settings.device != NULL) return cli_fail(cli, CLI_WRONG, "--device is given twice");
  return verify(cli, &settings, settings.device != NULL ? settings.device : cli->device);
}
