/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L
#include "interrupt.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

static const int signals[] = {SIGINT, SIGTERM, SIGHUP};

enum { SIGNAL_COUNT = sizeof signals / sizeof *signals };

/* A handler finds nothing but static objects. It may run on any thread, since drivers start their own. */
static _Atomic(output_set *) abandoned_set;
static atomic_int kept_signal;
static atomic_int handlers_running;

/* Ends the program by the signal, as its parent expects it of an interrupted program. */
static void end_by(int signal_number) {
  struct sigaction standard = {.sa_handler = SIG_DFL};
  sigemptyset(&standard.sa_mask);
  sigaction(signal_number, &standard, NULL);
  sigset_t only; /* a handler runs with its signal blocked */
  sigemptyset(&only);
  sigaddset(&only, signal_number);
  pthread_sigmask(SIG_UNBLOCK, &only, NULL);
  raise(signal_number);
}

static void handle(int signal_number) {
  atomic_fetch_add(&handlers_running, 1);
  output_set *set = atomic_load(&abandoned_set);
  atomic_store(&kept_signal, signal_number);
  if (set != NULL && output_set_abandon(set)) end_by(signal_number);
  atomic_fetch_sub(&handlers_running, 1);
}

static bool is_ignored(int signal_number) {
  struct sigaction current;
  return sigaction(signal_number, NULL, &current) == 0 && current.sa_handler == SIG_IGN;
}

static void install(void (*handler)(int)) {
  struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
  sigemptyset(&action.sa_mask);
  for (int i = 0; i < SIGNAL_COUNT; i++) {
    /* What the parent ignores (nohup) stays ignored. */
    if (!is_ignored(signals[i])) sigaction(signals[i], &action, NULL);
  }
}

void cli_interrupt_hold(void) {
  atomic_store(&kept_signal, 0);
  install(handle);
}

void cli_interrupt_release(void) {
  install(SIG_DFL);
  int signal_number = atomic_load(&kept_signal);
  if (signal_number != 0) end_by(signal_number);
}

void cli_interrupt_abandons(output_set *set) {
  atomic_store(&abandoned_set, set);
  /* A handler on another thread may still have the set that is destroyed next. */
  while (atomic_load(&handlers_running) > 0) continue;
  int signal_number = atomic_load(&kept_signal);
  if (set != NULL && signal_number != 0 && output_set_abandon(set)) end_by(signal_number);
}
