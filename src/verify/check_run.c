/* SPDX-License-Identifier: Apache-2.0 */
#include "verify/check_run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "verify/check_case.h"

/* ------------------------------------------------------------------------------------------------------------ scope */

clattn_status check_scope_enter(clattn_context *context, check_scope *scope) {
  cl_int error = CL_SUCCESS;
  cl_command_queue queue = clCreateCommandQueue(context->cl, context->device, 0, &error);
  if (error != CL_SUCCESS)
    return message_fail_cl(context_message(context), error, "self check: clCreateCommandQueue on %s",
                           context->info.name);
  scope->queue = context->queue;
  scope->workspace = context->workspace;
  scope->scratch_limit = context->scratch_limit;
  scope->unchecked = context->unchecked;
  memcpy(scope->text, context->text, sizeof scope->text);
  context->queue = queue;
  memset(&context->workspace, 0, sizeof context->workspace);
  context->scratch_limit = 0;
  context->unchecked = "a self check that runs"; /* which must not wait for another one */
  return CLATTN_SUCCESS;
}

/* Scratch memory that holds NaN, as long as the small checks need it: what a kernel should have written and has not
 * shows. */
static clattn_status poison_scratch(clattn_context *context) {
  clattn_status status = CLATTN_SUCCESS;
  const size_t bytes = (size_t)1 << 17;
  const cl_uint nan = 0xffffffffu;
  workspace *pool = &context->workspace;
  for (int slot = 0; slot < SCRATCH_SLOTS; slot++) {
    cl_int error = CL_SUCCESS;
    if (pool->pool[slot] == NULL) {
      pool->pool[slot] = clCreateBuffer(context->cl, CL_MEM_READ_WRITE, bytes, NULL, &error);
      CHECK_CL(context_message(context), error, "clCreateBuffer of %zu bytes of scratch memory", bytes);
      pool->pool_bytes[slot] = bytes;
    }
    CHECK_CL(context_message(context),
             clEnqueueFillBuffer(context->queue, pool->pool[slot], &nan, sizeof nan, 0,
                                 (size_t)pool->pool_bytes[slot] / sizeof nan * sizeof nan, 0, NULL, NULL),
             "clEnqueueFillBuffer of %llu bytes", (unsigned long long)pool->pool_bytes[slot]);
  }

cleanup:
  return status;
}

void check_scope_leave(clattn_context *context, check_scope *scope) {
  (void)clFinish(context->queue);
  workspace_clear(&context->workspace);
  (void)clReleaseCommandQueue(context->queue);
  context->queue = scope->queue;
  context->workspace = scope->workspace;
  context->scratch_limit = scope->scratch_limit;
  context->unchecked = scope->unchecked;
  memcpy(context->text, scope->text, sizeof scope->text);
}

/* ----------------------------------------------------------------------------------------------------------- arrays */

static int is_result(int place) {
  return place == AT_OUTPUT || place == AT_WEIGHTS || place == AT_LOG_SUM_EXP;
}

/* Element of the buffer that holds element `index` (row-major) of a view. */
static size_t place_of(const clattn_tensor *view, size_t index) {
  size_t at = view->offset;
  for (int i = view->rank - 1; i >= 0; i--) {
    at += index % view->shape[i] * view->stride[i];
    index /= view->shape[i];
  }
  return at;
}

/* A buffer with the array in it; all that is no input is 0xFF bytes, NaN in a float. */
static clattn_status upload(clattn_context *context, check_array *array, int place) {
  const size_t bytes = array->span * clattn_type_size(array->type);
  clattn_tensor buffer;
  unsigned char *image = malloc(bytes);
  if (image == NULL) return REFUSE(context, CLATTN_OUT_OF_HOST_MEMORY, "no memory for %zu bytes of a check", bytes);
  memset(image, 0xff, bytes);
  for (size_t i = 0; i < array->data.count && !is_result(place); i++)
    number_store(array->type, image, place_of(&array->view, i), array->data.value[i]);
  clattn_status status = clattn_tensor_create(context, CLATTN_BOOL8, 1, &bytes, image, &buffer);
  array->view.buffer = buffer.buffer;
  free(image);
  return status;
}

static clattn_status upload_all(clattn_context *context, check_case *check) {
  for (int place = 0; place < AT_PARAMETERS; place++) {
    if (check->arrays[place].type == 0) continue;
    clattn_status status = upload(context, &check->arrays[place], place);
    if (status != CLATTN_SUCCESS) return status;
  }
  return CLATTN_SUCCESS;
}

static void release_all(check_case *check) {
  for (int place = 0; place < AT_PARAMETERS; place++)
    if (check->arrays[place].view.buffer != NULL) (void)clReleaseMemObject(check->arrays[place].view.buffer);
}

static clattn_status make_layer(clattn_context *context, const check_case *check, clattn_mha **mha) {
  const size_t size = clattn_type_size(check->compute);
  void *arrays[CLATTN_PARAMETER_COUNT] = {NULL};
  clattn_parameters *parameters = NULL;
  clattn_status status = CLATTN_SUCCESS;
  for (int which = 0; which < CLATTN_PARAMETER_COUNT; which++) {
    const numbers *data = &check->arrays[AT_PARAMETERS + which].data;
    if (data->count == 0) continue;
    arrays[which] = malloc(data->count * size);
    if (arrays[which] == NULL) {
      status = REFUSE(context, CLATTN_OUT_OF_HOST_MEMORY, "no memory for %zu parameters of a check", data->count);
      goto cleanup;
    }
    for (size_t i = 0; i < data->count; i++) number_store(check->compute, arrays[which], i, data->value[i]);
  }
  CHECK(clattn_parameters_create(&check->config, check->compute, (const void *const *)arrays, &parameters,
                                 context->text, sizeof context->text));
  CHECK(clattn_mha_create(context, parameters, check->compute, mha));

cleanup:
  clattn_parameters_destroy(&parameters);
  for (int which = 0; which < CLATTN_PARAMETER_COUNT; which++) free(arrays[which]);
  return status;
}

/* ------------------------------------------------------------------------------------------------------------- call */

typedef struct check_call {
  clattn_context *context;
  clattn_mha *mha; /* NULL: attention alone */
  check_case check;
  clattn_mask masks[CHECK_MASKS];
  clattn_tensor scratch;
} check_call;

static const clattn_tensor *view_or_null(const check_case *check, int place) {
  return check->arrays[place].type != 0 ? &check->arrays[place].view : NULL;
}

static void point_options(check_call *call, clattn_path path) {
  clattn_options *options = &call->check.options;
  for (size_t m = 0; m < options->mask_count; m++)
    call->masks[m] = (clattn_mask){call->check.row.masks[m].kind, call->check.arrays[AT_MASKS + m].view};
  options->masks = options->mask_count > 0 ? call->masks : NULL;
  options->alibi_slopes = view_or_null(&call->check, AT_SLOPES);
  options->kv_lengths = view_or_null(&call->check, AT_KV_LENGTHS);
  options->q_lengths = view_or_null(&call->check, AT_Q_LENGTHS);
  options->weights = view_or_null(&call->check, AT_WEIGHTS);
  options->log_sum_exp = view_or_null(&call->check, AT_LOG_SUM_EXP);
  options->path = path;
}

static clattn_status enqueue(check_call *call, clattn_plan *plan) {
  const check_array *a = call->check.arrays;
  const clattn_tensor *q = &a[AT_QUERY].view, *k = &a[AT_KEY].view, *v = &a[AT_VALUE].view, *o = &a[AT_OUTPUT].view;
  const clattn_options *options = &call->check.options;
  if (call->mha != NULL)
    return plan != NULL ? clattn_mha_plan(call->mha, q, k, v, o, options, plan)
                        : clattn_mha_forward(call->mha, q, k, v, o, options);
  return plan != NULL ? clattn_sdpa_plan(call->context, q, k, v, o, options, plan)
                      : clattn_sdpa(call->context, q, k, v, o, options);
}

/* Lends the call what its plan asks for; looks whether a limit had its effect. */
static clattn_status prepare_scratch(check_call *call, clattn_check *result) {
  clattn_status status = CLATTN_SUCCESS;
  clattn_options *options = &call->check.options;
  unsigned char *nan = NULL;
  clattn_plan plan;
  if (options->scratch_limit == 0 && !call->check.row.lent_scratch) return CLATTN_SUCCESS;
  CHECK(enqueue(call, &plan));
  if (options->scratch_limit > 0 && plan.slices < 2) {
    result->result = CLATTN_CHECK_FAIL;
    (void)snprintf(result->detail, sizeof result->detail,
                   "a limit of %llu bytes gave no slices, but %llu bytes at once",
                   (unsigned long long)options->scratch_limit, (unsigned long long)plan.scratch_bytes);
  }
  if (!call->check.row.lent_scratch) return CLATTN_SUCCESS;
  const size_t bytes = (size_t)plan.scratch_bytes;
  nan = malloc(bytes);
  if (nan == NULL) return REFUSE(call->context, CLATTN_OUT_OF_HOST_MEMORY, "no memory for %zu bytes of a check", bytes);
  memset(nan, 0xff, bytes);
  CHECK(clattn_tensor_create(call->context, CLATTN_BOOL8, 1, &bytes, nan, &call->scratch));
  options->scratch = call->scratch.buffer;
  options->scratch_bytes = bytes;

cleanup:
  free(nan);
  return status;
}

/* ---------------------------------------------------------------------------------------------------------- results */

static const char *result_name(int place) {
  return place == AT_OUTPUT ? "output" : place == AT_WEIGHTS ? "weights" : "log_sum_exp";
}

/* "[0,1,4,2]" of a row-major index. */
static void index_text(const clattn_tensor *view, size_t index, char out[SHAPE_TEXT_SIZE]) {
  size_t at[CLATTN_MAX_RANK] = {0};
  for (int i = view->rank - 1; i >= 0; i--) {
    at[i] = index % view->shape[i];
    index /= view->shape[i];
  }
  (void)shape_text(out, view->rank, at);
}

/* Element by element; the first one that is wrong is named. */
static void compare(const check_case *check, int place, const unsigned char *image, clattn_check *result) {
  const check_array *array = &check->arrays[place];
  const clattn_type rounded = array->type != check->compute ? array->type : (clattn_type)0;
  size_t wrong = 0, first = 0;
  for (size_t i = 0; i < array->data.count; i++) {
    const double got = number_load(array->type, image, place_of(&array->view, i));
    const double excess = number_excess(rounded, got, array->data.value[i], array->data.error[i]);
    if (excess > result->worst) result->worst = excess;
    if (excess <= 1) continue;
    if (wrong++ == 0) first = i;
  }
  if (wrong == 0 || result->result == CLATTN_CHECK_FAIL) return;
  char index[SHAPE_TEXT_SIZE];
  index_text(&array->view, first, index);
  result->result = CLATTN_CHECK_FAIL;
  (void)snprintf(result->detail, sizeof result->detail, "%s%s is %.9g, not %.9g +- %.2g (%zu of %zu are wrong)",
                 result_name(place), index, number_load(array->type, image, place_of(&array->view, first)),
                 array->data.value[first], array->data.error[first], wrong, array->data.count);
}

/* What the view does not name must be as it was. */
static void look_around(const check_array *array, int place, unsigned char *image, clattn_check *result) {
  const size_t size = clattn_type_size(array->type), bytes = array->span * size;
  size_t touched = 0, first = 0;
  for (size_t i = 0; i < array->data.count; i++) memset(image + place_of(&array->view, i) * size, 0xff, size);
  for (size_t at = 0; at < bytes; at++)
    if (image[at] != 0xff && touched++ == 0) first = at;
  if (touched == 0 || result->result == CLATTN_CHECK_FAIL) return;
  result->result = CLATTN_CHECK_FAIL;
  result->worst = HUGE_VAL;
  (void)snprintf(result->detail, sizeof result->detail,
                 "%zu bytes beside %s were written, the first at %zu of its buffer's %zu", touched, result_name(place),
                 first, bytes);
}

static clattn_status read_results(check_call *call, clattn_check *result) {
  clattn_status status = CLATTN_SUCCESS;
  unsigned char *image = NULL;
  for (int place = AT_OUTPUT; place <= AT_LOG_SUM_EXP; place++) {
    const check_array *array = &call->check.arrays[place];
    if (array->type == 0) continue;
    const size_t bytes = array->span * clattn_type_size(array->type);
    const clattn_tensor whole = clattn_tensor_view(array->view.buffer, 0, CLATTN_BOOL8, 1, &bytes);
    free(image);
    image = malloc(bytes);
    if (image == NULL)
      return REFUSE(call->context, CLATTN_OUT_OF_HOST_MEMORY, "no memory for %zu bytes of a result", bytes);
    CHECK(clattn_tensor_read(call->context, &whole, image));
    compare(&call->check, place, image, result);
    look_around(array, place, image, result);
  }

cleanup:
  free(image);
  return status;
}

clattn_status check_run(clattn_context *context, clattn_path path, const check_row *row, clattn_type compute,
                        clattn_check *result) {
  clattn_status status = CLATTN_SUCCESS;
  check_call call = {.context = context};
  *result = (clattn_check){.name = battery_name(row, compute), .path = path};
  if (!check_case_create(&call.check, row, compute)) {
    status = REFUSE(context, CLATTN_OUT_OF_HOST_MEMORY, "no memory for the check '%s'", result->name);
    goto cleanup;
  }
  CHECK(upload_all(context, &call.check));
  if (row->embed > 0) CHECK(make_layer(context, &call.check, &call.mha));
  point_options(&call, path);
  CHECK(poison_scratch(context));
  CHECK(prepare_scratch(&call, result));
  CHECK(enqueue(&call, NULL));
  CHECK(read_results(&call, result));
  context_log(context, "self check, %s: %s, error %.3g of its bound%s%s", result->name,
              result->result == CLATTN_CHECK_PASS ? "pass" : "FAIL", result->worst, result->detail[0] ? ": " : "",
              result->detail);

cleanup:
  if (status == CLATTN_UNSUPPORTED) {
    result->result = CLATTN_CHECK_UNSUPPORTED;
    (void)snprintf(result->detail, sizeof result->detail, "%.255s", context->text);
    status = CLATTN_SUCCESS;
  }
  if (status != CLATTN_SUCCESS) (void)clFinish(context->queue); /* nothing may use what is released now */
  clattn_mha_destroy(&call.mha);
  clattn_tensor_release(&call.scratch);
  release_all(&call.check);
  check_case_free(&call.check);
  return status;
}
