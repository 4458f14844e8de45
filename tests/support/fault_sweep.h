/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes each call below an operation fail in turn, in each way that such a call can fail, and holds the operation to
 * what the header promises: a status that fits, a message that names the call, outputs untouched unless work had been
 * enqueued, nothing leaked, and the same bits as ever when it is called again. */
#ifndef CLATTN_TESTS_FAULT_SWEEP_H
#define CLATTN_TESTS_FAULT_SWEEP_H

#include "faults.h"

/* An operation of the library. Functions that check return 1, or 0 and a line. */
typedef struct fault_operation {
  const char *name; /* as in the table of exceptions */
  void *user;
  void (*prepare)(void *user);                   /* before each run: fresh outputs; may be NULL */
  void (*cool)(void *user);                      /* before a run with a fault: empty caches; may be NULL. The run behind
                                                    it finds them as the fault left them */
  clattn_status (*run)(void *user);              /* what the faults are for */
  const char *(*message)(const void *user);      /* of the last run; NULL: the calls have no way to say anything */
  int (*untouched)(void *user, test_line *line); /* the outputs are what they were before the run */
  int (*failed)(void *user, test_line *line);    /* what else holds after every failure; may be NULL */
  int (*right)(void *user, test_line *line);     /* the results are those of a run without a fault */
  /* The results of a run that went well but could not do all: they say what is missing. NULL: there is no such thing.
   */
  int (*partial)(void *user, const fault_report *report, test_line *line);
  void (*release)(void *user); /* gives back what a run that went well has made; may be NULL */
  cl_platform_id platform;     /* what the operation works with, if the exceptions ask for it */
  cl_device_id device;
} fault_operation;

/* To be called before the first context is made: turns the library's check of new devices off, which is an operation of
 * its own. */
void fault_sweep_begin(void);

/* Sweeps all calls of these kinds. Returns how many runs had a fault, or 0 and a line with the first that went wrong:
 * an operation that makes no such call is wrong, too. */
unsigned fault_sweep(const fault_operation *operation, unsigned kinds, test_line *line);

/* 1 if every exception that the table makes for an operation of this name was called for by the sweeps of this process.
 */
int fault_exceptions_were_used(const char *operation, test_line *line);

#define EXPECT_EXCEPTIONS(operation)                                                                                   \
  do {                                                                                                                 \
    test_line line_ = {{0}};                                                                                           \
    cr_expect(fault_exceptions_were_used((operation), &line_), "%s", line_.text);                                      \
  } while (0)

#define EXPECT_SWEEP(operation, kinds)                                                                                 \
  do {                                                                                                                 \
    test_line line_ = {{0}};                                                                                           \
    const unsigned faults_ = fault_sweep((operation), (kinds), &line_);                                                \
    cr_log_info("%s: %u faults", (operation)->name, faults_);                                                          \
    cr_expect(faults_ > 0, "%s", line_.text);                                                                          \
  } while (0)

#endif
