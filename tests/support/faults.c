/* SPDX-License-Identifier: Apache-2.0 */
#include "faults.h"

#include <errno.h>
#include <jansson.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "fault_calls.h"

/* The wrapped functions themselves: the account must not count its own memory. */
void *__real_malloc(size_t size);
void __real_free(void *memory);
void *__wrap_malloc(size_t size);
void __wrap_free(void *memory);

/* ------------------------------------------------------------------------------------------------------------- plan */

static struct {
  int armed;
  fault_plan plan;
  fault_report report;
  const char *last;
} state;

void faults_arm(const fault_plan *plan) {
  state.plan = *plan;
  state.report = (fault_report){.call = "", .after = ""};
  state.last = "";
  state.armed = 1;
}

fault_report faults_disarm(void) {
  state.armed = 0;
  return state.report;
}

int fault_fires(unsigned kinds, const char *call, const void *object, unsigned long detail) {
  if (!state.armed) return 0;
  const char *last = state.last;
  state.last = call;
  if ((state.plan.kinds & kinds) == 0) return 0;
  const unsigned number = ++state.report.calls;
  if (state.plan.nth == 0 || number < state.plan.nth || (number > state.plan.nth && !state.plan.lasting)) return 0;
  if (state.report.fired) return 1;
  state.report.fired = 1;
  state.report.call = call;
  state.report.after = last;
  state.report.kinds = kinds;
  state.report.object = object;
  state.report.detail = detail;
  return 1;
}

int fault_code(void) {
  return state.plan.code;
}

cl_int fault_opencl(unsigned kinds, const char *call, const void *object, unsigned long detail) {
  return fault_fires(kinds, call, object, detail) ? (cl_int)state.plan.code : CL_SUCCESS;
}

int fault_system(unsigned kinds, const char *call) {
  if (!fault_fires(kinds, call, NULL, 0)) return 0;
  errno = state.plan.code;
  return 1;
}

void fault_wrote(void) {
  if (state.armed) state.report.writes++;
}

static void *jansson_malloc(size_t size) {
  return __wrap_malloc(size);
}

static void jansson_free(void *memory) {
  __wrap_free(memory);
}

void faults_take_jansson(void) {
  json_set_alloc_funcs(jansson_malloc, jansson_free);
}

/* ---------------------------------------------------------------------------------------------------------- account */

typedef struct entry {
  struct entry *next;
  const void *handle;
  fault_holding kind;
  size_t references;
} entry;

enum { BUCKETS = 4096 };

static entry *buckets[BUCKETS];
static fault_account account;
static test_line misuse; /* the first release too many */

static const char *const holding_names[HELD_KINDS] = {
    "references to contexts", "references to queues",  "references to buffers",
    "references to programs", "references to kernels", "references to events",
    "blocks of memory",       "open descriptors",      "open streams",
};

static entry **find(fault_holding kind, const void *handle) {
  entry **at = &buckets[((uintptr_t)handle >> 4) % BUCKETS];
  while (*at != NULL && ((*at)->handle != handle || (*at)->kind != kind)) at = &(*at)->next;
  return at;
}

void fault_hold(fault_holding kind, const void *handle) {
  entry **at = find(kind, handle);
  if (*at == NULL) {
    entry *made = __real_malloc(sizeof *made);
    if (made == NULL) {
      test_fail(&misuse, "no memory for the account of what is held");
      return;
    }
    *made = (entry){NULL, handle, kind, 0};
    *at = made;
  }
  (*at)->references++;
  account.held[kind]++;
}

size_t fault_drop(fault_holding kind, const void *handle) {
  entry **at = find(kind, handle), *found = *at;
  if (found == NULL) {
    if (kind < HELD_MEMORY && misuse.text[0] == '\0')
      test_fail(&misuse, "released once too often: one of the %s (%p)", holding_names[kind], handle);
    return 0;
  }
  account.held[kind]--;
  if (--found->references > 0) return found->references;
  *at = found->next;
  __real_free(found);
  return 0;
}

fault_account faults_held(void) {
  return account;
}

int faults_account_is(const fault_account *want, test_line *line) {
  if (misuse.text[0] != '\0') return test_fail(line, "%s", misuse.text);
  for (int kind = 0; kind < HELD_KINDS; kind++)
    if (account.held[kind] != want->held[kind])
      return test_fail(line, "%zu %s, not %zu", account.held[kind], holding_names[kind], want->held[kind]);
  return 1;
}
