/* SPDX-License-Identifier: Apache-2.0
 *
 * `clattn devices`: what there is to run on, and what would be chosen. */
#include "cli.h"
#include "options.h"
#include "report.h"

#include <stdlib.h>
#include <string.h>

typedef struct devices_settings {
  const char *device;
  bool json;
} devices_settings;

#define FIELD(name) offsetof(devices_settings, name)

static const option_row rows[] = {
    {.name = "Options", .kind = OPTION_SECTION},
    {.name = "device",
     .argument = "SEL",
     .kind = OPTION_TEXT,
     .offset = FIELD(device),
     .help = "mark this one; gpu, cpu, P:D or part of a name"},
    {.name = "json", .kind = OPTION_FLAG, .offset = FIELD(json), .help = "one JSON object on stdout"},
    {.name = "help", .kind = OPTION_HELP, .help = "print this"},
};

static void print_help(const option_table *table) {
  puts("Usage: clattn [--device SEL] devices [--json]\n\n"
       "Lists every OpenCL device of every platform, a row each, and marks with * the one that commands use.\n"
       "A platform without devices, or one that fails, is a row with its reason.");
  cli_options_print_help(stdout, table, 1);
}

/* ------------------------------------------------------------------------------------------------------------ table */

enum { COLUMN_COUNT = 14, CELL_SIZE = 280, PLATFORM_COLUMN = 3 };

/* A platform without devices fills the columns up to its name and has the reason behind them. */
typedef struct table_row {
  char cells[COLUMN_COUNT][CELL_SIZE];
  char reason[CELL_SIZE];
} table_row;

static const char *const headings[COLUMN_COUNT] = {
    "",      "index", "name", "platform",   "type",  "class", "compute units", "global", "largest allocation",
    "local", "fp64",  "fp16", "sub-groups", "driver"};

static bool is_device(const clattn_device_info *info) {
  return info->name[0] != '\0';
}

static const char *type_name(cl_device_type type) {
  if ((type & CL_DEVICE_TYPE_GPU) != 0) return "GPU";
  if ((type & CL_DEVICE_TYPE_ACCELERATOR) != 0) return "accelerator";
  if ((type & CL_DEVICE_TYPE_CPU) != 0) return "CPU";
  return "other";
}

/* "31.1 GiB", "32 KiB". */
static void format_bytes(char *cell, cl_ulong bytes) {
  static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = (double)bytes;
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < sizeof units / sizeof *units; unit++) value /= 1024;
  int decimals = value < 100 && value != (double)(cl_ulong)value;
  (void)snprintf(cell, CELL_SIZE, "%.*f %s", decimals, value, units[unit]);
}

/* Text of a driver, without what would break the table. */
static void format_text(char *cell, const char *text) {
  io_error printable;
  io_fail(&printable, IO_INVALID, "%s", text);
  (void)snprintf(cell, CELL_SIZE, "%.*s", CELL_SIZE - 1, printable.text);
}

static void fill_row(table_row *row, const clattn_device_info *info) {
  char(*cells)[CELL_SIZE] = row->cells;
  memset(row, 0, sizeof *row);
  format_text(cells[PLATFORM_COLUMN], info->platform_name);
  if (info->status != CLATTN_SUCCESS) format_text(row->reason, info->reason);
  if (!is_device(info)) {
    (void)snprintf(cells[1], CELL_SIZE, "%u:-", info->platform_index);
    (void)snprintf(cells[2], CELL_SIZE, "-");
    return;
  }
  const char *const answers[2] = {"no", "yes"};
  (void)snprintf(cells[0], CELL_SIZE, "%s", info->selected ? "*" : "");
  cli_device_index(info, cells[1]);
  format_text(cells[2], info->name);
  (void)snprintf(cells[4], CELL_SIZE, "%s", type_name(info->type));
  (void)snprintf(cells[5], CELL_SIZE, "%s", info->kind);
  (void)snprintf(cells[6], CELL_SIZE, "%u", (unsigned)info->compute_units);
  format_bytes(cells[7], info->global_bytes);
  format_bytes(cells[8], info->max_alloc_bytes);
  format_bytes(cells[9], info->local_bytes);
  (void)snprintf(cells[10], CELL_SIZE, "%s", answers[info->fp64 != 0]);
  (void)snprintf(cells[11], CELL_SIZE, "%s", answers[info->fp16 != 0]);
  (void)snprintf(cells[12], CELL_SIZE, "%s", answers[info->sub_groups != 0]);
  format_text(cells[13], info->driver);
}

static void print_row(const table_row *row, const size_t *widths) {
  int last = row->cells[COLUMN_COUNT - 1][0] != '\0' ? COLUMN_COUNT - 1 : PLATFORM_COLUMN;
  for (int c = 0; c <= last; c++) {
    bool padded = c < last || row->reason[0] != '\0';
    printf("%s%-*s", c > 0 ? "  " : "", padded ? (int)widths[c] : 0, row->cells[c]);
  }
  if (row->reason[0] != '\0') printf("  %s", row->reason);
  putchar('\n');
}

static int print_table(cli_state *cli, const clattn_device_info *devices, size_t count) {
  size_t widths[COLUMN_COUNT] = {0};
  table_row *table = calloc(count + 1, sizeof *table);
  if (table == NULL) return cli_fail_memory(cli, "the table of devices");
  for (int c = 0; c < COLUMN_COUNT; c++) (void)snprintf(table[0].cells[c], CELL_SIZE, "%s", headings[c]);
  for (size_t i = 0; i < count; i++) fill_row(&table[i + 1], &devices[i]);
  for (size_t i = 0; i <= count; i++) {
    for (int c = 0; c < COLUMN_COUNT; c++) {
      size_t length = strlen(table[i].cells[c]);
      if (length > widths[c]) widths[c] = length;
    }
  }
  for (size_t i = 0; i <= count; i++) print_row(&table[i], widths);
  free(table);
  return cli_flush_stdout(cli);
}

/* ------------------------------------------------------------------------------------------------------------- JSON */

static json_t *device_json(const clattn_device_info *info) {
  char index[DEVICE_INDEX_SIZE];
  bool device = is_device(info);
  json_t *row = json_pack(
      "{s:o,s:I,s:o,s:o,s:b,s:b,s:o}", "index", device ? json_string(cli_device_index(info, index)) : json_null(),
      "platform_index", (json_int_t)info->platform_index, "platform", cli_json_text(info->platform_name),
      "platform_version", cli_json_text(info->platform_version), "usable", info->status == CLATTN_SUCCESS, "selected",
      info->selected, "reason", info->status == CLATTN_SUCCESS ? json_null() : cli_json_text(info->reason));
  if (row == NULL || !device) return row;
  json_t *more = json_pack(
      "{s:o,s:o,s:o,s:o,s:s,s:s,s:I,s:I,s:I,s:I,s:I,s:I,s:b,s:b,s:b}", "name", cli_json_text(info->name), "vendor",
      cli_json_text(info->vendor), "version", cli_json_text(info->version), "driver", cli_json_text(info->driver),
      "type", type_name(info->type), "class", info->kind, "compute_units", (json_int_t)info->compute_units,
      "vector_width", (json_int_t)info->vector_width, "global_bytes", (json_int_t)info->global_bytes, "max_alloc_bytes",
      (json_int_t)info->max_alloc_bytes, "local_bytes", (json_int_t)info->local_bytes, "max_work_group",
      (json_int_t)info->max_work_group, "fp64", info->fp64, "fp16", info->fp16, "sub_groups", info->sub_groups);
  if (more == NULL || json_object_update(row, more) != 0) {
    json_decref(row);
    row = NULL;
  }
  json_decref(more);
  return row;
}

static int print_json(cli_state *cli, const clattn_device_info *devices, size_t count) {
  json_t *list = json_array();
  for (size_t i = 0; list != NULL && i < count; i++) {
    if (json_array_append_new(list, device_json(&devices[i])) != 0) {
      json_decref(list);
      list = NULL;
    }
  }
  return cli_print_json(cli, json_pack("{s:s,s:o}", "version", clattn_version(), "devices", list));
}

/* ---------------------------------------------------------------------------------------------------------- command */

/* All rows, to be freed. */
static int list_devices(cli_state *cli, const char *selector, clattn_device_info **devices, size_t *count) {
  char message[1024];
  size_t capacity = 0;
  do {
    capacity = *count;
    free(*devices);
    *devices = calloc(capacity > 0 ? capacity : 1, sizeof **devices);
    if (*devices == NULL) return cli_fail_memory(cli, "the list of devices");
    clattn_status status = clattn_list_devices(selector, *devices, capacity, count, message, sizeof message);
    if (status != CLATTN_SUCCESS) return cli_fail_library(cli, status, message);
  } while (*count > capacity);
  return CLI_DONE;
}

/* A selector that chooses nothing is a mistake here as everywhere, and is told in the same words. */
static int check_selector(cli_state *cli, const char *selector, const clattn_device_info *devices, size_t count) {
  bool usable = false, selected = false;
  for (size_t i = 0; i < count; i++) {
    usable = usable || devices[i].status == CLATTN_SUCCESS;
    selected = selected || devices[i].selected;
  }
  if (selected || !usable) return CLI_DONE;
  char message[1024];
  clattn_context *context = NULL;
  clattn_context_options options;
  clattn_context_options_init(&options);
  options.device = selector;
  clattn_status status = clattn_context_create(&options, &context, message, sizeof message);
  clattn_context_destroy(&context);
  return status == CLATTN_SUCCESS ? CLI_DONE : cli_fail_library(cli, status, message);
}

int command_devices(cli_state *cli, int argc, char **argv) {
  devices_settings settings = {NULL, false};
  option_table table = {rows, sizeof rows / sizeof *rows, &settings};
  bool help = false;
  int status = cli_options_parse(cli, &table, 1, argc, argv, &help, NULL);
  if (status != CLI_DONE) return status;
  if (help) {
    print_help(&table);
    return cli_flush_stdout(cli);
  }
  if (cli->device != NULL && settings.device != NULL) return cli_fail(cli, CLI_WRONG, "--device is given twice");
  const char *selector = settings.device != NULL ? settings.device : cli->device;
  clattn_device_info *devices = NULL;
  size_t count = 0;
  status = list_devices(cli, selector, &devices, &count);
  if (status == CLI_DONE) status = check_selector(cli, selector, devices, count);
  if (status == CLI_DONE) {
    status = settings.json ? print_json(cli, devices, count) : print_table(cli, devices, count);
  }
  free(devices);
  return status;
}
