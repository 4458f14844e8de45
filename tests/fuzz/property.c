/* SPDX-License-Identifier: Apache-2.0
 *
 * property [--seed N] [--case M | --from M] [--seconds S] [--small]: random calls on the device that CLATTN_DEVICE
 * chooses, each run twice between guards and compared with the scalar reference. Case M of seed N is the same
 * everywhere; a failure, a crash and a hang each print the line that reruns exactly that case. */
#define _POSIX_C_SOURCE 200809L
#include "draw.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
  CASE_SECONDS = 300,    /* a case that takes longer hangs */
  CONTEXT_FAMILIES = 16, /* a new context after that many, so that kernels do not pile up */
  MAX_FAILURES = 20      /* and no more: they are one defect by then */
};

typedef struct settings {
  uint64_t seed, number;
  int single; /* 1: only case `number` */
  int small;
  double seconds;
} settings;

typedef struct counts {
  uint64_t run, failed;
} counts;

/* ------------------------------------------------------------------------------------------------------------- rerun
 */

/* The line that reruns the case, kept ready for signal handlers. */
static char rerun_line[512];

static void write_text(const char *text) {
  if (write(STDERR_FILENO, text, strlen(text)) < 0) return; /* nobody is left to be told */
}

static void end_by_signal(int number) {
  write_text(number == SIGALRM ? "\nproperty: hangs: " : "\nproperty: crashed: ");
  write_text(rerun_line);
  write_text("\n");
  _exit(1);
}

static void name_case(const char *program, const settings *s, uint64_t number) {
  const char *device = getenv("CLATTN_DEVICE");
  snprintf(rerun_line, sizeof rerun_line, "%s%s%s%.256s --seed %" PRIu64 " --case %" PRIu64 "%s",
           device ? "CLATTN_DEVICE='" : "", device ? device : "", device ? "' " : "", program, s->seed, number,
           s->small ? " --small" : "");
}

static void watch_signals(void) {
  const int numbers[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGALRM};
  struct sigaction action = {.sa_handler = end_by_signal, .sa_flags = (int)SA_RESETHAND};
  sigemptyset(&action.sa_mask);
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) sigaction(numbers[i], &action, NULL);
}

/* ------------------------------------------------------------------------------------------------------------ running
 */

static void run_case(clattn_context *context, const settings *s, uint64_t number, counts *c) {
  drawn_case drawn;
  test_line line = {{0}};
  const draw_limits limits = {s->small ? 17 : 130, test_has_fp64(context)};
  draw_case(s->seed, number, limits, &drawn);
  if (drawn.is_sliced) drawn.request->scratch_limit = draw_scratch_limit(context, &drawn);
  const int good = drawn.is_layer ? layer_case_check(context, &drawn.layer, &line)
                                  : attention_case_check(context, &drawn.attention, &line);
  c->run++;
  if (good) return;
  c->failed++;
  printf("FAILED: %s\n  %s\n", rerun_line, line.text);
  fflush(stdout);
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void run_all(const char *program, const settings *s, counts *c) {
  const double end = now() + s->seconds;
  clattn_context *context = NULL;
  uint64_t number = s->number;
  do {
    if (number % (DRAW_FAMILY * CONTEXT_FAMILIES) == 0) clattn_context_destroy(&context);
    if (!context) context = test_context();
    if (c->run == 0) printf("property: %s, seed %" PRIu64 "\n", clattn_context_device_info(context)->name, s->seed);
    name_case(program, s, number);
    (void)alarm(CASE_SECONDS);
    run_case(context, s, number, c);
    (void)alarm(0);
    number++;
  } while (!s->single && now() < end && c->failed < MAX_FAILURES);
  clattn_context_destroy(&context);
}

/* ------------------------------------------------------------------------------------------------------------ options
 */

static int parse_number(const char *text, uint64_t *number) {
  char *end = NULL;
  if (!text || text[0] < '0' || text[0] > '9') return 0;
  *number = strtoull(text, &end, 10);
  return *end == '\0';
}

static int parse_options(int argc, char **argv, settings *s) {
  for (int i = 1; i < argc; i++) {
    uint64_t number = 0;
    if (strcmp(argv[i], "--small") == 0) {
      s->small = 1;
      continue;
    }
    if (!parse_number(argv[i + 1 < argc ? i + 1 : argc], &number)) return 0;
    if (strcmp(argv[i], "--seed") == 0) {
      s->seed = number;
    } else if (strcmp(argv[i], "--case") == 0) {
      s->number = number;
      s->single = 1;
    } else if (strcmp(argv[i], "--from") == 0) {
      s->number = number;
    } else if (strcmp(argv[i], "--seconds") == 0) {
      s->seconds = (double)number;
    } else {
      return 0;
    }
    i++;
  }
  return 1;
}

int main(int argc, char **argv) {
  settings s = {.seed = 1, .seconds = 15};
  counts c = {0};
  if (!parse_options(argc, argv, &s)) {
    fprintf(stderr, "usage: %s [--seed N] [--case M | --from M] [--seconds S] [--small]\n", argv[0]);
    return 2;
  }
  watch_signals();
  run_all(argv[0], &s, &c);
  printf("property: %" PRIu64 " cases, %" PRIu64 " failed\n", c.run, c.failed);
  return c.failed == 0 ? 0 : 1;
}
