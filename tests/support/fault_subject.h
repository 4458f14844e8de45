/* SPDX-License-Identifier: Apache-2.0
 *
 * A call of attention or of a layer, for sweeps: its outputs between guards, its events, its memory, and the results
 * that it has without a fault. */
#ifndef CLATTN_TESTS_FAULT_SUBJECT_H
#define CLATTN_TESTS_FAULT_SUBJECT_H

#include "fault_sweep.h"
#include "request.h"

/* Arguments of the library's call, or of its plan. */
typedef struct fault_arguments {
  const clattn_tensor *output;
  const clattn_options *options;
  clattn_plan *plan; /* NULL: the call itself is meant */
} fault_arguments;

typedef struct fault_subject {
  test_call call; /* built by whoever makes the subject */
  clattn_status (*run)(void *user, const fault_arguments *arguments);
  void *user;
  int with_events; /* 1: the call waits for an event, and tells its end by one */
  int in_part;     /* 1: lent scratch memory is a sub-buffer */
  /* The sweeps' own. */
  cl_mem part;         /* the sub-buffer, or NULL */
  cl_event begin, end; /* the events, or NULL */
  clattn_options options;
  void *want[3]; /* bits of output, weights and log-sum-exp without a fault */
  clattn_plan plan, want_plan;
} fault_subject;

/* Sweeps the call, with kernels there and with kernels to be built, and its plan. `name` is in messages only. */
void fault_subject_sweep(fault_subject *subject, const char *name);

/* A number of elements from a normal distribution, in any layout. */
test_guarded fault_draw(clattn_context *context, clattn_type type, const test_shape *shape, const test_layout *layout,
                        test_rng *rng);

#endif
