/* SPDX-License-Identifier: Apache-2.0
 *
 * What is to come of a call that failed. */
#ifndef CLATTN_TESTS_FAULT_EXCEPTIONS_H
#define CLATTN_TESTS_FAULT_EXCEPTIONS_H

#include "fault_sweep.h"

typedef enum fault_outcome {
  FAULT_FAILS,    /* the operation fails with the status of the fault */
  FAULT_SURVIVED, /* it goes well, with right results */
  FAULT_PARTIAL,  /* it goes well, and its results say what is missing */
  FAULT_NO_DEVICE /* the device cannot be used: NO_DEVICE or, if another was asked for by name, INVALID_DEVICE */
} fault_outcome;

fault_outcome fault_expected_outcome(const fault_operation *operation, const fault_report *report, int code);

/* The status that fits a failed call. */
clattn_status fault_expected_status(const fault_report *report, int code);

/* What a message about the call must have in it: a name for the call, and how it failed. */
const char *fault_expected_name(const fault_report *report);
const char *fault_expected_error(const fault_report *report, int code);

#endif
