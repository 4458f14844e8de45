/* SPDX-License-Identifier: Apache-2.0 */
#include "core/context.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/blas.h"
#include "core/first_use.h"

const char *clattn_version(void) {
  return STRINGIFY(CLATTN_VERSION_MAJOR) "." STRINGIFY(CLATTN_VERSION_MINOR) "." STRINGIFY(CLATTN_VERSION_PATCH);
}

message context_message(clattn_context *context) {
  message to = {context->text, sizeof context->text};
  return to;
}

clattn_status context_begin(clattn_context *context) {
  if (context == NULL) return CLATTN_INVALID_ARGUMENT;
  message_clear(context_message(context));
  return CLATTN_SUCCESS;
}

void context_log(clattn_context *context, const char *format, ...) {
  if (context->log == NULL) return;
  char line[2048];
  va_list args;
  va_start(args, format);
  (void)vsnprintf(line, sizeof line, format, args);
  va_end(args);
  context->log(context->log_user, line);
}

/* --------------------------------------------------------------------------------------------------------- creation */

static clattn_status adopt_queue(clattn_context *context, cl_command_queue queue, message to) {
  clattn_status status = CLATTN_SUCCESS;
  cl_command_queue_properties properties = 0;
  cl_platform_id platform = NULL;
  CHECK_CL(to, clGetCommandQueueInfo(queue, CL_QUEUE_PROPERTIES, sizeof properties, &properties, NULL),
           "options->queue: clGetCommandQueueInfo");
  if (properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE) {
    status = message_fail(to, CLATTN_INVALID_ARGUMENT,
                          "options->queue executes out of order (properties 0x%llx): clattn needs an in-order queue, "
                          "since the matrix products take no list of events to wait for",
                          (unsigned long long)properties);
    goto cleanup;
  }
  CHECK_CL(to, clGetCommandQueueInfo(queue, CL_QUEUE_DEVICE, sizeof context->device, &context->device, NULL),
           "options->queue: clGetCommandQueueInfo");
  cl_context cl = NULL;
  CHECK_CL(to, clGetCommandQueueInfo(queue, CL_QUEUE_CONTEXT, sizeof cl, &cl, NULL),
           "options->queue: clGetCommandQueueInfo");
  CHECK_CL(to, clGetDeviceInfo(context->device, CL_DEVICE_PLATFORM, sizeof platform, &platform, NULL),
           "options->queue: clGetDeviceInfo");
  CHECK_CL(to, clRetainContext(cl), "options->queue: clRetainContext");
  context->cl = cl;
  CHECK_CL(to, clRetainCommandQueue(queue), "options->queue: clRetainCommandQueue");
  context->queue = queue;
  CHECK(device_info_read(platform, context->device, &context->info, to));
  device_indices_read(platform, context->device, &context->info);
  context->info.selected = 1;

cleanup:
  return status;
}

static clattn_status open_device(clattn_context *context, const char *selector, int profiling, message to) {
  clattn_status status = CLATTN_SUCCESS;
  device_list list = {NULL, 0};
  size_t index = 0;
  cl_int error = CL_SUCCESS;
  CHECK(device_list_load(&list, to));
  CHECK(device_list_select(&list, selector, &index, to));
  const device_entry *entry = &list.entries[index];
  context->device = entry->device;
  context->info = entry->info;
  context->info.selected = 1;
  cl_context_properties properties[] = {CL_CONTEXT_PLATFORM, (cl_context_properties)entry->platform, 0};
  context->cl = clCreateContext(properties, 1, &context->device, NULL, NULL, &error);
  CHECK_CL(to, error, "clCreateContext on %s", context->info.name);
  context->queue = clCreateCommandQueue(context->cl, context->device,
                                        profiling ? (cl_command_queue_properties)CL_QUEUE_PROFILING_ENABLE : 0, &error);
  CHECK_CL(to, error, "clCreateCommandQueue on %s", context->info.name);

cleanup:
  device_list_free(&list);
  return status;
}

static clattn_status open_context(clattn_context *context, const clattn_context_options *given, message to) {
  clattn_status status = CLATTN_SUCCESS;
  if (given->queue != NULL) {
    CHECK(adopt_queue(context, given->queue, to));
  } else {
    CHECK(open_device(context, given->device, given->profiling, to));
  }
  if (context->info.status != CLATTN_SUCCESS)
    return message_fail(to, context->info.status, "%s: %s", context->info.name, context->info.reason);
  cl_uint alignment_bits = 0;
  CHECK_CL(
      to, clGetDeviceInfo(context->device, CL_DEVICE_MEM_BASE_ADDR_ALIGN, sizeof alignment_bits, &alignment_bits, NULL),
      "clGetDeviceInfo(CL_DEVICE_MEM_BASE_ADDR_ALIGN)");
  context->base_alignment = alignment_bits > 8 ? alignment_bits / 8 : 1;
  CHECK(blas_prepare(context, to));

cleanup:
  return status;
}

void clattn_context_options_init_sized(clattn_context_options *options, size_t struct_size) {
  if (options == NULL || struct_size > sizeof *options) struct_size = options == NULL ? 0 : sizeof *options;
  if (struct_size == 0) return;
  memset(options, 0, struct_size);
  options->struct_size = struct_size;
}

static const char *who_disabled_checks(const clattn_context_options *options) {
  const char *variable = getenv("CLATTN_SELF_CHECK");
  if (options->no_self_check) return "no_self_check of the context's options";
  return variable != NULL && strcmp(variable, "off") == 0 ? "CLATTN_SELF_CHECK=off" : NULL;
}

clattn_status clattn_context_create(const clattn_context_options *options, clattn_context **out, char *text,
                                    size_t text_size) {
  clattn_status status = CLATTN_SUCCESS;
  message to = {text, text_size};
  clattn_context_options given;
  clattn_context *context = NULL;
  message_clear(to);
  if (out == NULL) return message_fail(to, CLATTN_INVALID_ARGUMENT, "context is NULL");
  *out = NULL;
  clattn_context_options_init(&given);
  if (options != NULL) {
    if (options->struct_size == 0 || options->struct_size > sizeof given)
      return message_fail(to, CLATTN_INVALID_ARGUMENT,
                          "options->struct_size is %zu, not 1 to %zu: set up with clattn_context_options_init",
                          options->struct_size, sizeof given);
    memcpy(&given, options, options->struct_size);
  }
  if (given.queue != NULL && given.device != NULL)
    return message_fail(to, CLATTN_INVALID_ARGUMENT, "options has both a queue and the device '%.64s'", given.device);

  context = calloc(1, sizeof *context);
  if (context == NULL) return message_fail(to, CLATTN_OUT_OF_HOST_MEMORY, "no memory for a context");
  context->references = 1;
  context->log = given.log;
  context->log_user = given.log_user;
  context->scratch_limit = given.scratch_limit;
  context->unchecked = who_disabled_checks(&given);
  first_use_lock();
  status = open_context(context, &given, to);
  first_use_unlock();
  if (status != CLATTN_SUCCESS) {
    context_release(context);
    return status;
  }
  *out = context;
  return CLATTN_SUCCESS;
}

void context_retain(clattn_context *context) {
  context->references++;
}

void context_release(clattn_context *context) {
  if (--context->references > 0) return;
  /* Kernels of ours may still run; nobody is left to be told how they end. */
  if (context->queue != NULL) (void)clFinish(context->queue);
  program_cache_clear(&context->programs);
  workspace_clear(&context->workspace);
  trust_state_free(context->trust);
  blas_forget_programs();
  if (context->queue != NULL) (void)clReleaseCommandQueue(context->queue);
  if (context->cl != NULL) (void)clReleaseContext(context->cl);
  free(context);
}

void clattn_context_destroy(clattn_context **context) {
  if (context == NULL || *context == NULL) return;
  if ((*context)->queue != NULL) (void)clFinish((*context)->queue);
  context_release(*context);
  *context = NULL;
}

/* -------------------------------------------------------------------------------------------------------- questions */

const char *clattn_context_message(const clattn_context *context) {
  return context != NULL ? context->text : "the context is NULL";
}

cl_context clattn_context_cl(const clattn_context *context) {
  return context != NULL ? context->cl : NULL;
}

cl_command_queue clattn_context_queue(const clattn_context *context) {
  return context != NULL ? context->queue : NULL;
}

cl_device_id clattn_context_device(const clattn_context *context) {
  return context != NULL ? context->device : NULL;
}

const clattn_device_info *clattn_context_device_info(const clattn_context *context) {
  return context != NULL ? &context->info : NULL;
}

/* A quarter of the device's memory at most, and no more than pays: score matrices beyond that size are worked on in
 * slices that still fill the device. */
uint64_t context_default_scratch(const clattn_context *context) {
  const uint64_t enough = (uint64_t)256 << 20;
  uint64_t quarter = context->info.global_bytes / 4;
  return quarter < enough && quarter > 0 ? quarter : enough;
}

clattn_status context_enqueue_wait(clattn_context *context, cl_uint count, const cl_event *list) {
  clattn_status status = CLATTN_SUCCESS;
  if (count == 0) return status;
  CHECK_CL(context_message(context), clEnqueueBarrierWithWaitList(context->queue, count, list, NULL),
           "clEnqueueBarrierWithWaitList of %u events", (unsigned)count);

cleanup:
  return status;
}

clattn_status context_enqueue_event(clattn_context *context, cl_event *event) {
  clattn_status status = CLATTN_SUCCESS;
  if (event == NULL) return status;
  CHECK_CL(context_message(context), clEnqueueMarkerWithWaitList(context->queue, 0, NULL, event),
           "clEnqueueMarkerWithWaitList");

cleanup:
  return status;
}

clattn_status clattn_finish(clattn_context *context) {
  clattn_status status = context_begin(context);
  if (status != CLATTN_SUCCESS) return status;
  CHECK_CL(context_message(context), clFinish(context->queue), "clFinish");

cleanup:
  return status;
}
