/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads: contexts are independent, and one context goes from thread to thread as long as one at a time uses it. Under
 * ThreadSanitizer this shows that nothing is shared behind their backs. */
#include "support/attention_case.h"
#include "support/layer_case.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(threads, .timeout = 240);

/* What a thread does and how that went; a failed assertion may only be raised by the test's own thread. */
typedef struct worker {
  pthread_t thread;
  clattn_context *context; /* NULL: makes its own */
  uint64_t seed;
  int rounds, good;
  test_line line;
} worker;

static int run_round(clattn_context *context, uint64_t seed, test_line *line) {
  const test_mask mask = {.kind = CLATTN_MASK_BLOCK, .axes = "bs", .share = 0.3};
  const attention_case attention = {.batch = 2,
                                    .heads = 4,
                                    .kv_heads = 2,
                                    .q_len = 9,
                                    .kv_len = 17,
                                    .head_dim = 8,
                                    .seed = seed,
                                    .request = {.masks = {mask}, .weights = TEST_PER_HEAD}};
  const layer_case layer = {.batch = 2,
                            .q_len = 7,
                            .kv_len = 11,
                            .config = {.embed_dim = 12, .heads = 3},
                            .seed = seed,
                            .request = {.causal = CLATTN_CAUSAL_TOP_LEFT}};
  return attention_case_check(context, &attention, line) && layer_case_check(context, &layer, line);
}

/* A failure in words, which must be this context's own. */
static int expect_own_message(clattn_context *context, uint64_t seed, test_line *line) {
  char text[32];
  clattn_options options;
  const size_t shape[4] = {1, 1, 1, 1};
  clattn_tensor tensor;
  clattn_options_init(&options);
  options.dropout = 2 + (double)seed;
  snprintf(text, sizeof text, "dropout is %g,", options.dropout);
  if (clattn_tensor_create(context, CLATTN_FLOAT32, 4, shape, NULL, &tensor) != CLATTN_SUCCESS)
    return test_fail(line, "tensor: %s", clattn_context_message(context));
  clattn_tensor output = tensor;
  const clattn_status status = clattn_sdpa(context, &tensor, &tensor, &tensor, &output, &options);
  const int good = status == CLATTN_INVALID_ARGUMENT && strstr(clattn_context_message(context), text);
  if (!good) (void)test_fail(line, "status %d: %s", (int)status, clattn_context_message(context));
  clattn_tensor_release(&tensor);
  return good;
}

static void *work(void *user) {
  worker *w = user;
  w->good = 1;
  for (int round = 0; w->good && round < w->rounds; round++) {
    clattn_context *own = NULL;
    if (!w->context && clattn_context_create(NULL, &own, w->line.text, sizeof w->line.text) != CLATTN_SUCCESS) {
      w->good = 0;
      break;
    }
    clattn_context *context = w->context ? w->context : own;
    w->good = run_round(context, w->seed + (uint64_t)round, &w->line) && expect_own_message(context, w->seed, &w->line);
    clattn_context_destroy(&own);
  }
  return NULL;
}

static void start(worker *w) {
  cr_assert_eq(pthread_create(&w->thread, NULL, work, w), 0);
}

static void finish(worker *w) {
  cr_assert_eq(pthread_join(w->thread, NULL), 0);
  cr_expect(w->good, "seed %d: %s", (int)w->seed, w->line.text);
}

static void *make(void *user) {
  worker *w = user;
  clattn_context *own = NULL;
  w->good = clattn_context_create(NULL, &own, w->line.text, sizeof w->line.text) == CLATTN_SUCCESS;
  clattn_context_destroy(&own);
  return NULL;
}

/* The first use of drivers and of CLBlast in the process comes from two threads at once. */
Test(threads, contexts_are_made_at_once) {
  worker workers[2] = {{.seed = 1}, {.seed = 2}};
  for (int i = 0; i < 2; i++) cr_assert_eq(pthread_create(&workers[i].thread, NULL, make, &workers[i]), 0);
  for (int i = 0; i < 2; i++) finish(&workers[i]);
}

/* Every kernel once, from one thread. PoCL 3.1 enters a kernel into its cache twice if two threads use it for the first
 * time at once, and aborts when both are done: "pocl_release_dlhandle_cache: Assertion `found->ref_count > 0' failed".
 */
static void use_every_kernel(void) {
  clattn_context *context = test_context();
  test_line line = {{0}};
  cr_assert(run_round(context, 0, &line), "%s", line.text);
  clattn_context_destroy(&context);
}

/* Each thread makes a context, works and ends it, several times: so contexts begin and end while the other one works.
 */
Test(threads, contexts_come_and_go_at_once) {
  use_every_kernel();
  worker workers[2] = {{.seed = 10, .rounds = 4}, {.seed = 20, .rounds = 4}};
  start(&workers[0]);
  start(&workers[1]);
  finish(&workers[0]);
  finish(&workers[1]);
}

Test(threads, two_contexts_work_at_once) {
  use_every_kernel();
  clattn_context *contexts[2] = {test_context(), test_context()};
  worker workers[2] = {{.context = contexts[0], .seed = 30, .rounds = (int)test_size(20, 3)},
                       {.context = contexts[1], .seed = 40, .rounds = (int)test_size(20, 3)}};
  start(&workers[0]);
  start(&workers[1]);
  finish(&workers[0]);
  finish(&workers[1]);
  for (int i = 0; i < 2; i++) clattn_context_destroy(&contexts[i]);
}

/* Made here, used there, then by another thread, and here again. */
Test(threads, one_context_goes_from_thread_to_thread) {
  clattn_context *context = test_context();
  test_line line = {{0}};
  for (uint64_t n = 0; n < 3; n++) {
    worker w = {.context = context, .seed = 50 + n, .rounds = 2};
    start(&w);
    finish(&w);
  }
  cr_expect(run_round(context, 60, &line), "%s", line.text);
  clattn_context_destroy(&context);
}
