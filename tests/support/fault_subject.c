/* SPDX-License-Identifier: Apache-2.0 */
#include "fault_subject.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "core/context.h"

enum { RESULTS = 3 };

static test_guarded *result(fault_subject *s, int which) {
  test_guarded *const results[RESULTS] = {&s->call.output, &s->call.weights, &s->call.log_sum_exp};
  return results[which]->view.buffer != NULL ? results[which] : NULL;
}

static const char *const result_names[RESULTS] = {"output", "weights", "log_sum_exp"};

static const char *text_of(const void *user) {
  return clattn_context_message(((const fault_subject *)user)->call.context);
}

/* ------------------------------------------------------------------------------------------------------------- call */

static void prepare(void *user) {
  fault_subject *s = user;
  for (int r = 0; r < RESULTS; r++)
    if (result(s, r) != NULL) guarded_reset(result(s, r));
  s->end = NULL;
}

/* No scratch memory in the pool. */
static void empty_pool(void *user) {
  clattn_context_trim(((fault_subject *)user)->call.context);
}

/* No kernels, either. */
static void empty_caches(void *user) {
  empty_pool(user);
  program_cache_clear(&((fault_subject *)user)->call.context->programs);
}

static clattn_status run(void *user) {
  fault_subject *s = user;
  const fault_arguments arguments = {call_output(&s->call), &s->options, NULL};
  return s->run(s->user, &arguments);
}

static int untouched(void *user, test_line *line) {
  fault_subject *s = user;
  for (int r = 0; r < RESULTS; r++)
    if (result(s, r) != NULL && !guarded_check(result(s, r), result_names[r], 1, line)) return 0;
  return s->end == NULL || test_fail(line, "an event came out");
}

static int result_right(fault_subject *s, int r, test_line *line) {
  test_guarded *guarded = result(s, r);
  const test_shape shape = guarded_shape(guarded);
  const size_t count = test_shape_count(&shape), bytes = count * type_bytes(guarded->view.type);
  double *values = test_alloc(count, sizeof *values);
  void *bits = test_alloc(bytes, 1);
  guarded_read(guarded, values, bits);
  int good = guarded_check(guarded, result_names[r], 0, line);
  if (s->want[r] != NULL)
    good = good && compare_bits(result_names[r], bits, s->want[r], bytes, line);
  else
    s->want[r] = bits; /* the first run of all */
  if (bits != s->want[r]) free(bits);
  free(values);
  return good;
}

static int right(void *user, test_line *line) {
  fault_subject *s = user;
  if (clattn_finish(s->call.context) != CLATTN_SUCCESS) return test_fail(line, "clattn_finish: %s", text_of(s));
  if (s->with_events && (s->end == NULL || clWaitForEvents(1, &s->end) != CL_SUCCESS))
    return test_fail(line, "the event that came out is none");
  for (int r = 0; r < RESULTS; r++)
    if (result(s, r) != NULL && !result_right(s, r, line)) return 0;
  return 1;
}

static void release(void *user) {
  fault_subject *s = user;
  if (s->end != NULL) clReleaseEvent(s->end);
  s->end = NULL;
}

/* ------------------------------------------------------------------------------------------------------------- plan */

static void prepare_plan(void *user) {
  fault_subject *s = user;
  memset(&s->plan, 0xEE, sizeof s->plan);
}

static clattn_status run_plan(void *user) {
  fault_subject *s = user;
  const fault_arguments arguments = {call_output(&s->call), &s->options, &s->plan};
  return s->run(s->user, &arguments);
}

static int plan_right(void *user, test_line *line) {
  const fault_subject *s = user;
  return compare_bits("plan", &s->plan, &s->want_plan, sizeof s->plan, line);
}

/* ------------------------------------------------------------------------------------------------------------ sweep */

/* An event that is done already: what comes of waiting for it is not in question here. */
static void make_event(fault_subject *s) {
  cl_int error = CL_SUCCESS;
  s->begin = clCreateUserEvent(clattn_context_cl(s->call.context), &error);
  cr_assert_eq(error, CL_SUCCESS);
  cr_assert_eq(clSetUserEventStatus(s->begin, CL_COMPLETE), CL_SUCCESS);
  s->options.wait_count = 1;
  s->options.wait_list = &s->begin;
  s->options.event = &s->end;
}

static void lend(fault_subject *s) {
  fault_arguments arguments = {call_output(&s->call), &s->options, &s->plan};
  cr_assert_eq(s->run(s->user, &arguments), CLATTN_SUCCESS, "%s", text_of(s));
  call_lend(&s->call, &s->plan);
  s->options = call_options(&s->call);
  if (!s->in_part) return;
  const cl_buffer_region region = {(size_t)s->options.scratch_offset, (size_t)s->options.scratch_bytes};
  cl_int error = CL_SUCCESS;
  s->part = clCreateSubBuffer(s->options.scratch, 0, CL_BUFFER_CREATE_TYPE_REGION, &region, &error);
  cr_assert_eq(error, CL_SUCCESS);
  s->options.scratch = s->part;
  s->options.scratch_offset = 0;
}

static void sweep_call(fault_subject *s, const char *name) {
  fault_operation operation = {.name = name,
                               .user = s,
                               .prepare = prepare,
                               .cool = empty_pool,
                               .run = run,
                               .message = text_of,
                               .untouched = untouched,
                               .right = right,
                               .release = release};
  EXPECT_SWEEP(&operation, FAULT_OPENCL | FAULT_CLBLAST);
  operation.cool = empty_caches;
  EXPECT_SWEEP(&operation, FAULT_BUILD | FAULT_MEMORY);
}

static void sweep_plan(fault_subject *s, const char *name) {
  const fault_operation operation = {.name = name,
                                     .user = s,
                                     .prepare = prepare_plan,
                                     .run = run_plan,
                                     .message = text_of,
                                     .untouched = untouched,
                                     .right = plan_right};
  prepare(s);
  prepare_plan(s);
  cr_assert_eq(run_plan(s), CLATTN_SUCCESS, "%s", text_of(s));
  s->want_plan = s->plan;
  EXPECT_SWEEP(&operation, FAULT_OPENCL | FAULT_CLBLAST | FAULT_MEMORY);
}

void fault_subject_sweep(fault_subject *subject, const char *name) {
  subject->options = call_options(&subject->call);
  if (subject->call.request->lends) lend(subject);
  if (subject->with_events) make_event(subject);
  sweep_call(subject, name);
  sweep_plan(subject, name);
  for (int r = 0; r < RESULTS; r++) free(subject->want[r]);
  if (subject->begin != NULL) clReleaseEvent(subject->begin);
  if (subject->part != NULL) clReleaseMemObject(subject->part);
}

test_guarded fault_draw(clattn_context *context, clattn_type type, const test_shape *shape, const test_layout *layout,
                        test_rng *rng) {
  const size_t count = test_shape_count(shape);
  double *values = test_alloc(count, sizeof *values);
  for (size_t i = 0; i < count; i++) values[i] = type_round(type, rng_normal(rng));
  test_guarded drawn = guarded_create(context, type, shape, layout, values);
  free(values);
  return drawn;
}
