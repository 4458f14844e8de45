/* SPDX-License-Identifier: Apache-2.0
 *
 * property [--seed N] [--case M | --from M] [--seconds S] [--threads N] [--small]: random calls on the device that
 * CLATTN_DEVICE chooses, each run twice between guards and compared with the scalar reference. Case M of seed N is the
 * same on all devices that have float64, and on all that lack it; a failure, a crash and a hang each print the line
 * that reruns exactly that case. With several threads each works on a context of its own, and contexts go from thread
 * to thread. */
#define _POSIX_C_SOURCE 200809L
#include "draw.h"

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
  MAX_THREADS = 8,
  CASE_SECONDS = 300,               /* a case that takes longer hangs */
  CONTEXT_CASES = 16 * DRAW_FAMILY, /* a new context after that many, so that kernels do not pile up */
  MAX_FAILURES = 20                 /* and no more: they are one defect by then */
};

typedef struct settings {
  const char *program;
  uint64_t seed, number;
  int single; /* 1: only case `number` */
  int small;
  uint64_t threads;
  double seconds;
} settings;

/* A context with the cases that it has run. */
typedef struct used_context {
  clattn_context *context;
  int cases;
} used_context;

/* What the threads share; all but the settings under the lock. */
typedef struct session {
  const settings *settings;
  double end;
  pthread_mutex_t lock;
  uint64_t next, run, failed;
  used_context idle[MAX_THREADS]; /* first in, first out */
  size_t idle_count;
} session;

/* ------------------------------------------------------------------------------------------------------------ rerun */

/* The lines that rerun the cases in work, kept ready for signal handlers; "" where a thread has none. */
static char rerun_lines[MAX_THREADS][512];

static void write_text(const char *text) {
  if (write(STDERR_FILENO, text, strlen(text)) < 0) return; /* nobody is left to be told */
}

static void end_by_signal(int number) {
  for (int n = 0; n < MAX_THREADS; n++) {
    if (rerun_lines[n][0] == '\0') continue;
    write_text(number == SIGALRM ? "FAILED, hangs: " : "FAILED, crashed: ");
    write_text(rerun_lines[n]);
    write_text("\n");
  }
  _exit(1);
}

static void watch_signals(void) {
  const int numbers[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGALRM};
  struct sigaction action = {.sa_handler = end_by_signal, .sa_flags = (int)SA_RESETHAND};
  sigemptyset(&action.sa_mask);
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) sigaction(numbers[i], &action, NULL);
}

static void name_case(const settings *s, uint64_t number, char line[512]) {
  const char *device = getenv("CLATTN_DEVICE");
  snprintf(line, 512, "%s%s%s%.256s --seed %" PRIu64 " --case %" PRIu64 "%s", device ? "CLATTN_DEVICE='" : "",
           device ? device : "", device ? "' " : "", s->program, s->seed, number, s->small ? " --small" : "");
}

/* ---------------------------------------------------------------------------------------------------------- running */

static int run_case(clattn_context *context, const settings *s, uint64_t number, test_line *line) {
  drawn_case drawn;
  const draw_limits limits = {s->small ? 17 : 130, test_has_fp64(context)};
  draw_case(s->seed, number, limits, &drawn);
  if (drawn.is_sliced) drawn.request->scratch_limit = draw_scratch_limit(context, &drawn);
  return drawn.is_layer ? layer_case_check(context, &drawn.layer, line)
                        : attention_case_check(context, &drawn.attention, line);
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* The next case and the context that has waited longest; 0 if there is none to run. */
static int take_case(session *all, uint64_t *number, used_context *used) {
  const settings *s = all->settings;
  (void)pthread_mutex_lock(&all->lock);
  const uint64_t begun = all->next - s->number;
  const int more = s->single ? begun == 0 : begun == 0 || (now() < all->end && all->failed < MAX_FAILURES);
  if (more) {
    *number = all->next++;
    *used = all->idle[0];
    memmove(all->idle, all->idle + 1, --all->idle_count * sizeof *all->idle);
  }
  (void)pthread_mutex_unlock(&all->lock);
  return more;
}

static void put_back(session *all, used_context used, int good, const char *rerun, const test_line *line) {
  (void)pthread_mutex_lock(&all->lock);
  all->idle[all->idle_count++] = used;
  all->run++;
  all->failed += !good;
  if (!good) printf("FAILED: %s\n  %s\n", rerun, line->text);
  (void)pthread_mutex_unlock(&all->lock);
}

typedef struct worker {
  pthread_t thread;
  session *all;
  char *rerun;
} worker;

static void *work(void *user) {
  const worker *w = user;
  uint64_t number = 0;
  used_context used;
  while (take_case(w->all, &number, &used)) {
    test_line line = {{0}};
    if (used.cases++ % CONTEXT_CASES == CONTEXT_CASES - 1) clattn_context_destroy(&used.context);
    if (!used.context) used.context = test_context();
    name_case(w->all->settings, number, w->rerun);
    (void)alarm(CASE_SECONDS);
    const int good = run_case(used.context, w->all->settings, number, &line);
    put_back(w->all, used, good, w->rerun, &line);
    w->rerun[0] = '\0';
  }
  return NULL;
}

/* 1 if all cases passed. */
static int run_all(const settings *s) {
  session all = {.settings = s, .end = now() + s->seconds, .lock = PTHREAD_MUTEX_INITIALIZER, .next = s->number};
  worker workers[MAX_THREADS];
  all.idle_count = (size_t)s->threads;
  for (uint64_t n = 0; n < s->threads; n++) all.idle[n].context = test_context();
  printf("property: %s, seed %" PRIu64 "\n", clattn_context_device_info(all.idle[0].context)->name, s->seed);
  for (uint64_t n = 0; n < s->threads; n++) {
    workers[n] = (worker){.all = &all, .rerun = rerun_lines[n]};
    if (pthread_create(&workers[n].thread, NULL, work, &workers[n]) != 0) abort();
  }
  for (uint64_t n = 0; n < s->threads; n++) (void)pthread_join(workers[n].thread, NULL);
  for (uint64_t n = 0; n < s->threads; n++) clattn_context_destroy(&all.idle[n].context);
  printf("property: %" PRIu64 " cases, %" PRIu64 " failed\n", all.run, all.failed);
  return all.failed == 0;
}

/* ---------------------------------------------------------------------------------------------------------- options */

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
    } else if (strcmp(argv[i], "--threads") == 0) {
      s->threads = number;
    } else {
      return 0;
    }
    i++;
  }
  return s->threads >= 1 && s->threads <= MAX_THREADS;
}

int main(int argc, char **argv) {
  settings s = {.program = argv[0], .seed = 1, .threads = 1, .seconds = 15};
  if (!parse_options(argc, argv, &s)) {
    fprintf(stderr, "usage: %s [--seed N] [--case M | --from M] [--seconds S] [--threads 1 to %d] [--small]\n", argv[0],
            MAX_THREADS);
    return 2;
  }
  setvbuf(stdout, NULL, _IOLBF, 0);
  watch_signals();
  return run_all(&s) ? 0 : 1;
}
