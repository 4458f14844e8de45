/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes the n-th OpenCL, CLBlast, memory or file call of the library fail, and keeps account of all that it holds.
 *
 * A test whose file is named test_faults*.c is linked such that these calls go through the wrappers in fault_calls*.c
 * (--wrap of the linker); the build reads the names of the calls from there, so that is the one list of them. Calls
 * that CLBlast, jansson and the drivers make themselves go past the wrappers, but for jansson's memory: see
 * faults_take_jansson. One thread at a time. */
#ifndef CLATTN_TESTS_FAULTS_H
#define CLATTN_TESTS_FAULTS_H

#include "setup.h"

/* Kinds of calls; FAULT_BUILD are those of FAULT_OPENCL that make programs and kernels. FAULT_THIN is no kind: a sweep
 * with it has each call fail in fewer ways. */
enum { FAULT_OPENCL = 1, FAULT_BUILD = 2, FAULT_CLBLAST = 4, FAULT_MEMORY = 8, FAULT_FILE = 16, FAULT_THIN = 32 };

/* Which call is to fail, and how. */
typedef struct fault_plan {
  unsigned kinds; /* calls of these kinds count */
  unsigned nth;   /* the call that fails, from 1; 0: none */
  int lasting;    /* 1: and all of these kinds behind it */
  int code;       /* what OpenCL and CLBlast answer; errno for the others */
} fault_plan;

/* What happened between faults_arm and faults_disarm. Names have static storage. */
typedef struct fault_report {
  int fired;
  const char *call;     /* the first call that failed */
  const char *after;    /* the call before it, of any kind; "" if there was none */
  unsigned kinds;       /* of the call */
  unsigned long detail; /* its param_name, for clGet...Info */
  const void *object;   /* its first argument, for clGet...Info: which device, for one */
  unsigned calls;       /* that counted */
  unsigned writes;      /* calls that went through and may change device memory */
} fault_report;

void faults_arm(const fault_plan *plan);
fault_report faults_disarm(void);

/* From now on jansson takes its memory through the wrappers. */
void faults_take_jansson(void);

/* What is held: references to OpenCL objects, blocks of memory, open descriptors and streams. */
typedef enum fault_holding {
  HELD_CONTEXT,
  HELD_QUEUE,
  HELD_BUFFER,
  HELD_PROGRAM,
  HELD_KERNEL,
  HELD_EVENT,
  HELD_MEMORY,
  HELD_DESCRIPTOR,
  HELD_STREAM,
  HELD_KINDS
} fault_holding;

typedef struct fault_account {
  size_t held[HELD_KINDS];
} fault_account;

/* What the process holds now, as far as it went through the wrappers, the test's own objects among them. */
fault_account faults_held(void);

/* 1 if both are alike and no object was ever released more often than it was held; else 0 and a line. */
int faults_account_is(const fault_account *want, test_line *line);

#endif
