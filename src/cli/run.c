/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L
#include "run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static double now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

/* ------------------------------------------------------------------------------------------------------------ times */

/* Milliseconds of many runs. */
typedef struct run_times {
  double *ms;
  size_t count, capacity;
} run_times;

static int add_time(cli_state *cli, run_times *times, double ms) {
  if (times->count == times->capacity) {
    size_t capacity = times->capacity > 0 ? 2 * times->capacity : 64;
    double *grown = capacity <= SIZE_MAX / sizeof *grown ? realloc(times->ms, capacity * sizeof *grown) : NULL;
    if (grown == NULL) return cli_fail_memory(cli, "the times of the runs");
    times->ms = grown;
    times->capacity = capacity;
  }
  times->ms[times->count++] = ms;
  return CLI_DONE;
}

static int compare_times(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static run_summary summarize(run_times *times) {
  size_t n = times->count;
  if (n == 0) return (run_summary){0, 0, 0};
  qsort(times->ms, n, sizeof *times->ms, compare_times);
  return (run_summary){.min = times->ms[0],
                       .median = n % 2 == 1 ? times->ms[n / 2] : 0.5 * (times->ms[n / 2 - 1] + times->ms[n / 2]),
                       .max = times->ms[n - 1]};
}

/* ------------------------------------------------------------------------------------------------------------ a run */

static clattn_status make_plan(const run_call *call, clattn_plan *plan) {
  return call->mha != NULL
             ? clattn_mha_plan(call->mha, call->query, call->key, call->value, call->output, call->options, plan)
             : clattn_sdpa_plan(call->context, call->query, call->key, call->value, call->output, call->options, plan);
}

static clattn_status enqueue(const run_call *call) {
  return call->mha != NULL
             ? clattn_mha_forward(call->mha, call->query, call->key, call->value, call->output, call->options)
             : clattn_sdpa(call->context, call->query, call->key, call->value, call->output, call->options);
}

/* Milliseconds from the end of `before` to the end of `after`; false if the driver does not say. */
static bool elapsed(cl_event before, cl_event after, double *ms) {
  cl_ulong begin = 0, end = 0;
  if (before == NULL || after == NULL) return false;
  if (clGetEventProfilingInfo(before, CL_PROFILING_COMMAND_END, sizeof begin, &begin, NULL) != CL_SUCCESS) return false;
  if (clGetEventProfilingInfo(after, CL_PROFILING_COMMAND_END, sizeof end, &end, NULL) != CL_SUCCESS) return false;
  if (begin == 0 || end <= begin) return false; /* some drivers answer with times that stand still */
  *ms = (double)(end - begin) * 1e-6;
  return true;
}

/* One run, to its end. The marker in front of it has the time at which the idle device could begin. */
static int run_once(cli_state *cli, const run_call *call, double *wall_ms, double *device_ms, bool *device_known) {
  cl_event before = NULL, after = NULL;
  cl_command_queue queue = clattn_context_queue(call->context);
  if (*device_known) {
    *device_known = clEnqueueMarkerWithWaitList(queue, 0, NULL, &before) == CL_SUCCESS && clFlush(queue) == CL_SUCCESS;
    call->options->event = &after;
  }
  double begin = now_ms();
  clattn_status status = enqueue(call);
  if (status == CLATTN_SUCCESS) status = clattn_finish(call->context);
  *wall_ms = now_ms() - begin;
  call->options->event = NULL;
  if (status == CLATTN_SUCCESS && *device_known) *device_known = elapsed(before, after, device_ms);
  if (before != NULL) clReleaseEvent(before);
  if (after != NULL) clReleaseEvent(after);
  return status == CLATTN_SUCCESS ? CLI_DONE : cli_fail_library(cli, status, clattn_context_message(call->context));
}

/* -------------------------------------------------------------------------------------------------------- many runs */

/* A line that overwrites itself, for people who wait at a terminal. */
typedef struct progress {
  bool shown, terminal;
  double last_ms;
} progress;

static void show_progress(progress *bar, int64_t done, int64_t total) {
  enum { WIDTH = 40, PERIOD_MS = 200 };
  double now = now_ms();
  if (!bar->terminal || now - bar->last_ms < PERIOD_MS) return;
  int filled = (int)((double)done / (double)total * WIDTH);
  fprintf(stderr, "\r[%.*s%*s] run %lld of %lld", filled, "########################################", WIDTH - filled,
          "", (long long)done, (long long)total);
  bar->shown = true;
  bar->last_ms = now;
}

static void clear_progress(const progress *bar) {
  if (bar->shown) fputs("\r\033[K", stderr);
}

static int run_again(cli_state *cli, const run_call *call, int64_t repeat, run_report *report) {
  run_times wall = {NULL, 0, 0}, device = {NULL, 0, 0};
  progress bar = {.shown = false, .terminal = isatty(STDERR_FILENO) == 1, .last_ms = now_ms()};
  int status = CLI_DONE;
  for (int64_t i = 0; i < repeat && status == CLI_DONE; i++) {
    double wall_ms = 0, device_ms = 0;
    status = run_once(cli, call, &wall_ms, &device_ms, &report->device_known);
    if (status == CLI_DONE) status = add_time(cli, &wall, wall_ms);
    if (status == CLI_DONE && report->device_known) status = add_time(cli, &device, device_ms);
    show_progress(&bar, i + 1, repeat);
  }
  clear_progress(&bar);
  report->wall = summarize(&wall);
  report->device = summarize(&device);
  free(wall.ms);
  free(device.ms);
  return status;
}

static void print_plan(const run_call *call, const char *text) {
  const clattn_device_info *device = clattn_context_device_info(call->context);
  size_t length = strlen(text);
  bool ended = length == 0 || text[length - 1] == '\n';
  fprintf(stderr, "device: %u:%u %s on %s, driver %s (%s)\n%s%s", device->platform_index, device->device_index,
          device->name, device->platform_name, device->driver, call->device_reason, text, ended ? "" : "\n");
}

int cli_run(cli_state *cli, const run_call *call, bool explain, bool measured, int64_t repeat, run_report *report) {
  double begin = now_ms();
  clattn_status planned = make_plan(call, &report->plan);
  if (planned != CLATTN_SUCCESS) return cli_fail_library(cli, planned, clattn_context_message(call->context));
  double plan_ms = now_ms() - begin;
  if (explain) print_plan(call, report->plan.text);
  double wall_ms = 0, device_ms = 0;
  report->device_known = measured;
  int status = run_once(cli, call, &wall_ms, &device_ms, &report->device_known);
  if (status != CLI_DONE) return status;
  report->first_ms = plan_ms + wall_ms;
  report->wall = (run_summary){wall_ms, wall_ms, wall_ms};
  report->device = (run_summary){device_ms, device_ms, device_ms};
  return repeat > 0 ? run_again(cli, call, repeat, report) : CLI_DONE;
}
