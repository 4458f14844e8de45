/* SPDX-License-Identifier: Apache-2.0
 *
 * The context: all state of the library hangs on it. */
#ifndef CLATTN_CORE_CONTEXT_H
#define CLATTN_CORE_CONTEXT_H

#include "core/device.h"
#include "core/message.h"
#include "core/program.h"
#include "core/trust.h"
#include "core/workspace.h"

struct clattn_context {
  unsigned references; /* the owner's, and one per layer */
  cl_context cl;
  cl_command_queue queue;
  cl_device_id device;
  clattn_device_info info;
  uint64_t scratch_limit; /* bytes a call may take from the workspace, as the user set it; 0: the default */
  clattn_log_callback log;
  void *log_user;
  uint64_t base_alignment; /* bytes: where sub-buffers may begin */
  program_cache programs;
  workspace workspace;
  const char *unchecked; /* who turned the self check off, NULL if it is on */
  trust_state *trust;    /* NULL until the first check */
  char text[1024];       /* the last failure */
};

/* Where failures of calls on this context go. */
message context_message(clattn_context *context);

/* Begins a public call: no failure yet. NULL context: INVALID_ARGUMENT. */
clattn_status context_begin(clattn_context *context);

/* What a call may take when nobody set a limit. */
uint64_t context_default_scratch(const clattn_context *context);

/* Puts a wait for the events in front of what the call enqueues, and an event behind it; both optional. */
clattn_status context_enqueue_wait(clattn_context *context, cl_uint count, const cl_event *list);
clattn_status context_enqueue_event(clattn_context *context, cl_event *event);

void context_retain(clattn_context *context);
void context_release(clattn_context *context);

/* One line to the user's log callback, if there is one. */
void context_log(clattn_context *context, const char *format, ...) CLATTN_PRINTF(2, 3);

/* REFUSE(context, CLATTN_INVALID_SHAPE, "...", values): the failed status with its text. */
#define REFUSE(context, ...) message_fail(context_message(context), __VA_ARGS__)

#endif
