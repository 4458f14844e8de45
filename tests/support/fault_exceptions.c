/* SPDX-License-Identifier: Apache-2.0 */
#include "fault_exceptions.h"

#include <clblast_c.h>
#include <errno.h>
#include <string.h>

/* ------------------------------------------------------------------------------------------------------- exceptions */

enum whose { ANYTHING, OWN, FOREIGN }; /* the device or platform that the operation works with, or another */

typedef struct exception {
  const char *operation; /* NULL: all */
  const char *call;
  fault_outcome outcome;
  struct {
    const char *after; /* the call before it */
    int code;
    enum whose whose;
    unsigned long detail;
  } when; /* 0: whatever it is */
  const char *reason;
} exception;

/* The calls that may fail without the operation failing, each with its reason. All others must fail it. The first row
 * that applies counts. */
static const exception exceptions[] = {
    /* Giving back. */
    {NULL, "clReleaseContext", FAULT_SURVIVED, {0}, "what is given up is gone; there is no second way to give it up"},
    {NULL, "clReleaseCommandQueue", FAULT_SURVIVED, {0}, "alike"},
    {NULL, "clReleaseMemObject", FAULT_SURVIVED, {0}, "alike"},
    {NULL, "clReleaseProgram", FAULT_SURVIVED, {0}, "alike"},
    {NULL, "clReleaseKernel", FAULT_SURVIVED, {0}, "alike"},
    {NULL, "CLBlastClearCache", FAULT_SURVIVED, {0}, "it only gives up what CLBlast can build again"},
    {"destroy a context", "clFinish", FAULT_SURVIVED, {0}, "the end has no status to tell by"},
    {"destroy a layer", "clFinish", FAULT_SURVIVED, {0}, "alike"},

    /* Building. */
    {NULL, "clGetProgramBuildInfo", FAULT_SURVIVED, {0}, "the log is for people to read"},
    {NULL, "malloc", FAULT_SURVIVED, {.after = "clGetProgramBuildInfo"}, "the log's memory"},

    /* Devices: a driver that fails must not hide those of other drivers. */
    {NULL, "clGetDeviceInfo", FAULT_SURVIVED, {.detail = CL_DEVICE_DOUBLE_FP_CONFIG}, "no float64, then"},
    {"list devices", "clGetDeviceIDs", FAULT_PARTIAL, {0}, "the platform's row says that it fails"},
    {"list devices", "clGetPlatformInfo", FAULT_PARTIAL, {0}, "alike"},
    {"list devices", "clGetDeviceInfo", FAULT_PARTIAL, {0}, "the device's row says that it fails"},
    {"create a context", "clGetDeviceIDs", FAULT_SURVIVED, {.whose = FOREIGN}, "another platform's trouble"},
    {"create a context", "clGetPlatformInfo", FAULT_SURVIVED, {.whose = FOREIGN}, "alike"},
    {"create a context", "clGetDeviceInfo", FAULT_SURVIVED, {.whose = FOREIGN}, "another device's trouble"},
    {"create a context", "clGetDeviceIDs", FAULT_NO_DEVICE, {0}, "there is no other device to take"},
    {"create a context", "clGetPlatformInfo", FAULT_NO_DEVICE, {0}, "alike"},
    {"create a context",
     "clGetDeviceInfo",
     FAULT_FAILS,
     {.detail = CL_DEVICE_MEM_BASE_ADDR_ALIGN},
     "it is chosen by then"},
    {"create a context", "clGetDeviceInfo", FAULT_NO_DEVICE, {0}, "there is no other device to take"},
    {"adopt a queue", "clGetPlatformIDs", FAULT_SURVIVED, {0}, "the indices P:D are for reports, which can do without"},
    {"adopt a queue", "clGetDeviceIDs", FAULT_SURVIVED, {0}, "alike"},
    {"adopt a queue", "calloc", FAULT_SURVIVED, {.after = "clGetPlatformIDs"}, "alike"},
    {"adopt a queue", "calloc", FAULT_SURVIVED, {.after = "clGetDeviceIDs"}, "alike"},

    /* The self check's results on disk, which may be lost at any time. */
    {"check, then attend", "clFinish", FAULT_SURVIVED, {0}, "what the checks found is known by then"},
    {"check, then attend", "open", FAULT_SURVIVED, {0}, "the checks run again"},
    {"check, then attend", "fstat", FAULT_SURVIVED, {0}, "alike"},
    {"check, then attend", "read", FAULT_SURVIVED, {0}, "alike"},
    {"check, then attend", "malloc", FAULT_SURVIVED, {.after = "fstat"}, "alike"},
    {"check, then attend", "malloc", FAULT_SURVIVED, {.after = "clReleaseCommandQueue"}, "alike, in another process"},
    {"check, then attend", "mkdir", FAULT_SURVIVED, {0}, "alike"},
    {"check, then attend", "mkstemp", FAULT_SURVIVED, {0}, "alike"},
    {"check, then attend", "write", FAULT_SURVIVED, {0}, "alike"},
    {"check, then attend", "close", FAULT_SURVIVED, {0}, "alike"},
    {"check, then attend", "rename", FAULT_SURVIVED, {0}, "alike"},

    /* Files. A call that a signal interrupted is made again. */
    {NULL, "open", FAULT_SURVIVED, {.code = EINTR}, "made again"},
    {NULL, "pread", FAULT_SURVIVED, {.code = EINTR}, "made again"},
    {NULL, "fwrite", FAULT_SURVIVED, {.code = EINTR}, "made again"},
    {NULL, "fflush", FAULT_SURVIVED, {.code = EINTR}, "made again"},
    {NULL, "fsync", FAULT_SURVIVED, {.code = EINTR}, "made again"},
    {"load parameters", "close", FAULT_SURVIVED, {0}, "the file was only read"},
    {"load an array", "close", FAULT_SURVIVED, {0}, "the file was only read"},
    {NULL, "clock_gettime", FAULT_SURVIVED, {0}, "a counter and O_EXCL make the name unique as well"},
    {NULL, "fchown", FAULT_SURVIVED, {0}, "the owner is kept where the system allows it"},
    {NULL, "stat", FAULT_SURVIVED, {.after = "strdup"}, "whether an output is a device: lstat is asked as well"},
    {NULL, "lstat", FAULT_SURVIVED, {.after = "fclose"}, "whether the name is still a file's: rename decides"},
    {NULL, "lstat", FAULT_SURVIVED, {.after = "rename"}, "alike"},
    {NULL, "link", FAULT_SURVIVED, {0}, "the file is renamed instead"},
    {"write outputs", "unlink", FAULT_PARTIAL, {0}, "a backup that cannot be removed stays"},
};

static enum whose whose(const fault_operation *operation, const fault_report *report) {
  return report->object == (const void *)operation->device || report->object == (const void *)operation->platform
             ? OWN
             : FOREIGN;
}

static int applies(const exception *row, const fault_operation *operation, const fault_report *report, int code) {
  return (row->operation == NULL || strcmp(row->operation, operation->name) == 0) &&
         strcmp(row->call, report->call) == 0 &&
         (row->when.after == NULL || strcmp(row->when.after, report->after) == 0) &&
         (row->when.code == 0 || row->when.code == code) &&
         (row->when.detail == 0 || row->when.detail == report->detail) &&
         (row->when.whose == ANYTHING || row->when.whose == whose(operation, report));
}

enum { EXCEPTION_COUNT = sizeof exceptions / sizeof exceptions[0] };

static int was_used[EXCEPTION_COUNT];

fault_outcome fault_expected_outcome(const fault_operation *operation, const fault_report *report, int code) {
  for (size_t i = 0; i < EXCEPTION_COUNT; i++) {
    if (!applies(&exceptions[i], operation, report, code)) continue;
    was_used[i] = 1;
    return exceptions[i].outcome;
  }
  return FAULT_FAILS;
}

int fault_exceptions_were_used(const char *operation, test_line *line) {
  for (size_t i = 0; i < EXCEPTION_COUNT; i++) {
    const exception *row = &exceptions[i];
    if (row->operation == NULL || strcmp(row->operation, operation) != 0 || was_used[i]) continue;
    if (row->when.whose == FOREIGN) continue; /* not on every machine */
    return test_fail(line, "the exception of %s after %s in '%s' was of no use", row->call,
                     row->when.after != NULL ? row->when.after : "any call", operation);
  }
  return 1;
}

/* ------------------------------------------------------------------------------------------------------------ rules */

static int is_about_names(const char *call) {
  static const char *const calls[] = {"open", "stat", "lstat", "fstat", "faccessat", "readlink", "rename"};
  for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++)
    if (strcmp(call, calls[i]) == 0) return 1;
  return 0;
}

clattn_status fault_expected_status(const fault_report *report, int code) {
  if (report->kinds & FAULT_MEMORY) return CLATTN_OUT_OF_HOST_MEMORY;
  if (report->kinds & FAULT_FILE) {
    if (code == ENOMEM) return CLATTN_OUT_OF_HOST_MEMORY;
    /* A name that may not be used is the user's mistake; a file that is open already is not. */
    return code == EACCES && is_about_names(report->call) ? CLATTN_INVALID_FILE : CLATTN_FILE_ERROR;
  }
  switch (code) {
  case CL_OUT_OF_RESOURCES:
  case CL_MEM_OBJECT_ALLOCATION_FAILURE:
    return CLATTN_OUT_OF_DEVICE_MEMORY;
  case CL_OUT_OF_HOST_MEMORY:
    return CLATTN_OUT_OF_HOST_MEMORY;
  case CL_BUILD_PROGRAM_FAILURE:
    return CLATTN_BUILD_FAILED;
  default:
    return report->kinds & FAULT_CLBLAST ? CLATTN_CLBLAST_ERROR : CLATTN_OPENCL_ERROR;
  }
}

const char *fault_expected_name(const fault_report *report) {
  if (report->kinds & FAULT_CLBLAST) return "CLBlast's float";
  if (report->kinds & FAULT_MEMORY) return "memory";
  if (report->kinds & FAULT_FILE) return "file-of-the-test"; /* the name that the tests give to files */
  if (strcmp(report->call, "clEnqueueNDRangeKernel") == 0) return "launch of ";
  if (strcmp(report->call, "clBuildProgram") == 0) return "does not build kernel ";
  return report->call;
}

const char *fault_expected_error(const fault_report *report, int code) {
  if (report->kinds & FAULT_MEMORY) return "memory";
  if (report->kinds & FAULT_FILE) return strerror(code);
  switch (code) {
  case CL_OUT_OF_RESOURCES:
    return "CL_OUT_OF_RESOURCES (-5)";
  case CL_MEM_OBJECT_ALLOCATION_FAILURE:
    return "CL_MEM_OBJECT_ALLOCATION_FAILURE (-4)";
  case CL_OUT_OF_HOST_MEMORY:
    return "CL_OUT_OF_HOST_MEMORY (-6)";
  case CL_DEVICE_NOT_AVAILABLE:
    return "CL_DEVICE_NOT_AVAILABLE (-2)";
  case CL_BUILD_PROGRAM_FAILURE:
    return "CL_BUILD_PROGRAM_FAILURE (-11)";
  case CLBlastInvalidLocalMemUsage:
    return "local memory";
  default:
    return "?"; /* no message has that alone: a code that this table lacks fails the test */
  }
}
