/* SPDX-License-Identifier: Apache-2.0 */
#include "report.h"

#include <stdio.h>

json_t *cli_json_text(const char *text) {
  io_error printable;
  io_fail(&printable, IO_INVALID, "%s", text);
  return json_string(printable.text);
}

int cli_print_json(cli_state *cli, json_t *object) {
  if (object == NULL) return cli_fail_memory(cli, "the JSON object");
  int written = json_dumpf(object, stdout, JSON_REAL_PRECISION(9));
  json_decref(object);
  putchar('\n');
  int status = cli_flush_stdout(cli);
  if (status == CLI_DONE && written != 0) return cli_fail_memory(cli, "the JSON text");
  return status;
}

const char *cli_device_index(const clattn_device_info *device, char text[DEVICE_INDEX_SIZE]) {
  (void)snprintf(text, DEVICE_INDEX_SIZE, "%u:%u", device->platform_index, device->device_index);
  return text;
}

const char *cli_path_name(clattn_path path) {
  switch (path) {
  case CLATTN_PATH_GEMM:
    return "gemm";
  case CLATTN_PATH_FUSED:
    return "fused";
  case CLATTN_PATH_AUTO:
    break;
  }
  return "auto";
}

static json_t *summary_json(const run_summary *summary) {
  return json_pack("{s:f,s:f,s:f}", "min", summary->min, "median", summary->median, "max", summary->max);
}

static json_t *extents_json(const run_facts *facts) {
  json_t *object = json_object();
  for (size_t i = 0; object != NULL && i < facts->extent_count; i++) {
    if (json_object_set_new(object, facts->extent_names[i], json_integer((json_int_t)facts->extents[i])) != 0) {
      json_decref(object);
      return NULL;
    }
  }
  return object;
}

json_t *cli_run_json(const run_facts *facts) {
  char index[DEVICE_INDEX_SIZE];
  const run_report *report = facts->report;
  uint64_t memory = report->plan.scratch_bytes + report->plan.library_bytes;
  /* "o" takes the reference, and json_pack fails as a whole where one of them could not be made. */
  return json_pack("{s:s,s:s,s:o,s:o,s:o,s:s,s:s,s:s,s:o,s:I,s:I,s:f,s:o,s:o,s:I}", "command", facts->command,
                   "version", clattn_version(), "device", cli_json_text(facts->device->name), "platform",
                   cli_json_text(facts->device->platform_name), "driver", cli_json_text(facts->device->driver), "index",
                   cli_device_index(facts->device, index), "path", cli_path_name(report->plan.path), "compute",
                   facts->compute == CLATTN_FLOAT64 ? "fp64" : "fp32", "shape", extents_json(facts), "slices",
                   (json_int_t)report->plan.slices, "repeat", (json_int_t)facts->repeat, "first_ms", report->first_ms,
                   "wall_ms", summary_json(&report->wall), "device_ms",
                   report->device_known ? summary_json(&report->device) : json_null(), "memory_bytes",
                   (json_int_t)memory);
}

static void print_summary(const char *name, const run_summary *summary) {
  printf("%-8s %12.4f %12.4f %12.4f\n", name, summary->min, summary->median, summary->max);
}

void cli_print_times(const run_facts *facts) {
  const run_report *report = facts->report;
  printf("%s, path %s, %lld run%s after the first (%.4f ms)\n", facts->device->name, cli_path_name(report->plan.path),
         (long long)facts->repeat, facts->repeat == 1 ? "" : "s", report->first_ms);
  printf("%-8s %12s %12s %12s\n", "", "min ms", "median ms", "max ms");
  print_summary("wall", &report->wall);
  if (report->device_known) {
    print_summary("device", &report->device);
  } else {
    printf("%-8s %12s\n", "device", "(the driver has no event times)");
  }
}
