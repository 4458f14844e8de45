/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs a call, measures it, and tells about it. */
#ifndef CLATTN_CLI_RUN_H
#define CLATTN_CLI_RUN_H

#include "cli.h"

#include <stddef.h>
#include <stdint.h>

/* The call, ready to be made any number of times. */
typedef struct run_call {
  clattn_context *context;
  clattn_mha *mha; /* NULL: clattn_sdpa */
  const clattn_tensor *query, *key, *value, *output;
  clattn_options *options;   /* the event is set and taken by the run */
  const char *device_reason; /* why it runs on the context's device */
} run_call;

/* Milliseconds. */
typedef struct run_summary {
  double min, median, max;
} run_summary;

typedef struct run_report {
  clattn_plan plan;
  double first_ms;   /* plan and first run, kernels built on the way included */
  bool device_known; /* the driver has event times */
  run_summary wall, device;
} run_report;

/* Plans and runs the call once, then `repeat` times more, which the summaries speak of (without any, of the first run).
 *
 * explain     device and plan are printed on stderr before the first run
 * measured    the context records event times, which are wanted
 * The call's work has ended when it returns. */
int cli_run(cli_state *cli, const run_call *call, bool explain, bool measured, int64_t repeat, run_report *report);

#endif
