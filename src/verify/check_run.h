/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs a check on a device. */
#ifndef CLATTN_VERIFY_CHECK_RUN_H
#define CLATTN_VERIFY_CHECK_RUN_H

#include "core/context.h"
#include "verify/battery.h"

/* What the calls of checks change on a context, put aside: they have a queue, scratch memory and messages of their own,
 * so that the running call finds its own as they were, and waits for nothing that its caller enqueued. */
typedef struct check_scope {
  cl_command_queue queue;
  workspace workspace;
  uint64_t scratch_limit;
  const char *unchecked;
  char text[sizeof((clattn_context *)0)->text];
} check_scope;

/* Leave only what was entered. Failures are in the context's message. */
clattn_status check_scope_enter(clattn_context *context, check_scope *scope);
void check_scope_leave(clattn_context *context, check_scope *scope);

/* Runs one row within a scope. SUCCESS: `result` has it, with worst and detail; others: it could not be run, and the
 * context's message says why. */
clattn_status check_run(clattn_context *context, clattn_path path, const check_row *row, clattn_type compute,
                        clattn_check *result);

#endif
