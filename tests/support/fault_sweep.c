/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L
#include "fault_sweep.h"

#include <clblast_c.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fault_exceptions.h"

/* More calls than any operation makes: a sweep that comes this far is one that never ends. */
enum { CALL_LIMIT = 4000 };

/* The ways in which calls fail. */
typedef struct variant {
  unsigned kinds;
  int code, lasting;
  int thin; /* 1: belongs to thin sweeps, too */
} variant;

static const variant variants[] = {
    {FAULT_OPENCL, CL_OUT_OF_RESOURCES, 0, 1},
    {FAULT_OPENCL, CL_OUT_OF_HOST_MEMORY, 0, 0},
    {FAULT_OPENCL, CL_DEVICE_NOT_AVAILABLE, 0, 0},
    {FAULT_OPENCL, CL_MEM_OBJECT_ALLOCATION_FAILURE, 0, 0},
    {FAULT_OPENCL | FAULT_CLBLAST, CL_DEVICE_NOT_AVAILABLE, 1, 1}, /* a device that is lost stays lost */
    {FAULT_BUILD, CL_OUT_OF_RESOURCES, 0, 0},
    {FAULT_BUILD, CL_OUT_OF_HOST_MEMORY, 0, 0},
    {FAULT_BUILD, CL_DEVICE_NOT_AVAILABLE, 0, 0},
    {FAULT_BUILD, CL_BUILD_PROGRAM_FAILURE, 0, 1},
    {FAULT_CLBLAST, CL_OUT_OF_RESOURCES, 0, 1},
    {FAULT_CLBLAST, CL_OUT_OF_HOST_MEMORY, 0, 0},
    {FAULT_CLBLAST, CL_DEVICE_NOT_AVAILABLE, 0, 0},
    {FAULT_CLBLAST, CL_MEM_OBJECT_ALLOCATION_FAILURE, 0, 0},
    {FAULT_CLBLAST, CL_BUILD_PROGRAM_FAILURE, 0, 0},
    {FAULT_CLBLAST, CLBlastInvalidLocalMemUsage, 0, 0},
    {FAULT_MEMORY, ENOMEM, 0, 1},
    {FAULT_MEMORY, ENOMEM, 1, 0},
    {FAULT_FILE, EIO, 0, 1},
    {FAULT_FILE, ENOSPC, 0, 0},
    {FAULT_FILE, EACCES, 0, 0},
    {FAULT_FILE, ENOMEM, 0, 0},
    {FAULT_FILE, EINTR, 0, 0},
};

/* One run with a fault. */
typedef struct attempt {
  const fault_operation *operation;
  const variant *variant;
  fault_report report;
  clattn_status status;
  char message[1024];
} attempt;

static const char *message_of(const fault_operation *operation) {
  return operation->message != NULL ? operation->message(operation->user) : "";
}

/* Puts in front of a line which fault it speaks of. */
static int explain(const attempt *a, unsigned nth, test_line *line) {
  const test_line wrong = *line;
  return test_fail(
      line, "%s: call %u of kinds 0x%x, %s (after %s, detail 0x%lx) answers %d%s: status %s, message '%.300s': %.400s",
      a->operation->name, nth, a->variant->kinds, a->report.call, a->report.after, a->report.detail, a->variant->code,
      a->variant->lasting ? ", and all behind it" : "", clattn_status_name(a->status), message_of(a->operation),
      wrong.text);
}

static int has(const char *message, const char *part, test_line *line) {
  return strstr(message, part) != NULL || test_fail(line, "the message lacks '%s'", part);
}

/* A failure's message, and its outputs. A lasting fault may show at a later call than the first. */
static int failure_holds(const attempt *a, test_line *line) {
  const fault_operation *operation = a->operation;
  if (operation->message != NULL) {
    if (!has(a->message, fault_expected_error(&a->report, a->variant->code), line)) return 0;
    if (!a->variant->lasting && !has(a->message, fault_expected_name(&a->report), line)) return 0;
  }
  if (operation->failed != NULL && !operation->failed(operation->user, line)) return 0;
  return a->report.writes > 0 || operation->untouched == NULL || operation->untouched(operation->user, line);
}

static int success_holds(const attempt *a, fault_outcome outcome, test_line *line) {
  const fault_operation *operation = a->operation;
  if (a->message[0] != '\0') return test_fail(line, "a message in spite of success");
  if (outcome == FAULT_SURVIVED) return operation->right(operation->user, line);
  return operation->partial != NULL ? operation->partial(operation->user, &a->report, line)
                                    : test_fail(line, "nothing says what is missing");
}

static int status_fits(const attempt *a, fault_outcome outcome) {
  if (outcome == FAULT_NO_DEVICE && (a->status == CLATTN_NO_DEVICE || a->status == CLATTN_INVALID_DEVICE)) return 1;
  if (a->variant->lasting && (a->variant->kinds & FAULT_CLBLAST) && a->status == CLATTN_CLBLAST_ERROR) return 1;
  return (outcome == FAULT_FAILS || a->variant->lasting) &&
         a->status == fault_expected_status(&a->report, a->variant->code);
}

/* What became of a run with a fault is what was to become of it. */
static int outcome_holds(const attempt *a, test_line *line) {
  const fault_outcome outcome = fault_expected_outcome(a->operation, &a->report, a->variant->code);
  if (a->status == CLATTN_SUCCESS) {
    if (outcome == FAULT_SURVIVED || outcome == FAULT_PARTIAL) return success_holds(a, outcome, line);
    return test_fail(line, "the fault was swallowed");
  }
  if (!status_fits(a, outcome))
    return test_fail(line, "not the status expected: %s",
                     outcome == FAULT_FAILS ? clattn_status_name(fault_expected_status(&a->report, a->variant->code))
                                            : "the fault is one to survive");
  return failure_holds(a, line);
}

/* A run without a fault: right, and nothing held behind it but `steady` (NULL: not known yet). */
static int clean_run(const fault_operation *operation, const fault_account *steady, test_line *line) {
  if (operation->prepare != NULL) operation->prepare(operation->user);
  const clattn_status status = operation->run(operation->user);
  if (status != CLATTN_SUCCESS)
    return test_fail(line, "without a fault: %s: %.300s", clattn_status_name(status), message_of(operation));
  const int right = operation->right(operation->user, line);
  if (operation->release != NULL) operation->release(operation->user);
  return right && (steady == NULL || faults_account_is(steady, line));
}

/* One run with a fault at the n-th call and one without. *fired: 0 if there was no n-th call. */
static int attempt_holds(const fault_operation *operation, const variant *v, unsigned nth, const fault_account *steady,
                         int *fired, test_line *line) {
  attempt a = {.operation = operation, .variant = v};
  const fault_plan plan = {.kinds = v->kinds, .nth = nth, .lasting = v->lasting, .code = v->code};
  if (operation->cool != NULL) operation->cool(operation->user);
  if (operation->prepare != NULL) operation->prepare(operation->user);
  faults_arm(&plan);
  a.status = operation->run(operation->user);
  a.report = faults_disarm();
  snprintf(a.message, sizeof a.message, "%s", message_of(operation));
  *fired = a.report.fired;
  int good = 1;
  if (*fired)
    good = outcome_holds(&a, line);
  else if (a.status != CLATTN_SUCCESS)
    good = test_fail(line, "fails without a fault");
  if (good && a.status == CLATTN_SUCCESS && operation->release != NULL) operation->release(operation->user);
  if (!good) return explain(&a, nth, line);
  return clean_run(operation, steady, line) || explain(&a, nth, line);
}

void fault_sweep_begin(void) {
  cr_assert_eq(setenv("CLATTN_SELF_CHECK", "off", 1), 0);
}

unsigned fault_sweep(const fault_operation *operation, unsigned kinds, test_line *line) {
  unsigned faults = 0;
  /* The second run finds every cache as later ones do. */
  if (!clean_run(operation, NULL, line) || !clean_run(operation, NULL, line)) return 0;
  const fault_account steady = faults_held();
  for (size_t v = 0; v < sizeof variants / sizeof variants[0]; v++) {
    if ((variants[v].kinds & kinds) == 0 || ((kinds & FAULT_THIN) && !variants[v].thin)) continue;
    int fired = 1;
    for (unsigned nth = 1; fired; nth++) {
      if (nth > CALL_LIMIT) return (unsigned)test_fail(line, "%s: more than %d calls", operation->name, CALL_LIMIT);
      if (!attempt_holds(operation, &variants[v], nth, &steady, &fired, line)) return 0;
      faults += (unsigned)fired;
    }
  }
  if (faults == 0) test_fail(line, "%s: makes no call of kinds 0x%x", operation->name, kinds);
  return faults;
}
