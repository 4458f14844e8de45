/* SPDX-License-Identifier: Apache-2.0 */
#include "core/message.h"

#include <stdarg.h>
#include <stdio.h>

const char *clattn_status_name(clattn_status status) {
  switch ((int)status) {
#define STATUS_CASE(name, value, text)                                                                                 \
  case value:                                                                                                          \
    return "CLATTN_" #name;
    CLATTN_STATUS_LIST(STATUS_CASE)
#undef STATUS_CASE
  }
  return "unknown status";
}

const char *clattn_status_text(clattn_status status) {
  switch ((int)status) {
#define STATUS_CASE(name, value, text)                                                                                 \
  case value:                                                                                                          \
    return text;
    CLATTN_STATUS_LIST(STATUS_CASE)
#undef STATUS_CASE
  }
  return "unknown status";
}

void message_clear(message to) {
  if (to.text != NULL && to.size > 0) to.text[0] = '\0';
}

clattn_status message_fail(message to, clattn_status status, const char *format, ...) {
  if (to.text != NULL && to.size > 0) {
    va_list args;
    va_start(args, format);
    (void)vsnprintf(to.text, to.size, format, args);
    va_end(args);
  }
  return status;
}

clattn_status message_fail_cl(message to, cl_int error, const char *format, ...) {
  clattn_status status = cl_error_status(error);
  if (to.text == NULL || to.size == 0) return status;
  char what[512];
  va_list args;
  va_start(args, format);
  (void)vsnprintf(what, sizeof what, format, args);
  va_end(args);
  return message_fail(to, status, "%s: %s (%d)", what, cl_error_name(error), (int)error);
}

/* Code, and which status it is; all that is not listed is CLATTN_OPENCL_ERROR. */
#define CL_ERROR_LIST(X)                                                                                               \
  X(CL_DEVICE_NOT_FOUND, NO_DEVICE)                                                                                    \
  X(CL_DEVICE_NOT_AVAILABLE, OPENCL_ERROR)                                                                             \
  X(CL_COMPILER_NOT_AVAILABLE, BUILD_FAILED)                                                                           \
  X(CL_MEM_OBJECT_ALLOCATION_FAILURE, OUT_OF_DEVICE_MEMORY)                                                            \
  X(CL_OUT_OF_RESOURCES, OUT_OF_DEVICE_MEMORY)                                                                         \
  X(CL_OUT_OF_HOST_MEMORY, OUT_OF_HOST_MEMORY)                                                                         \
  X(CL_PROFILING_INFO_NOT_AVAILABLE, OPENCL_ERROR)                                                                     \
  X(CL_MEM_COPY_OVERLAP, OPENCL_ERROR)                                                                                 \
  X(CL_BUILD_PROGRAM_FAILURE, BUILD_FAILED)                                                                            \
  X(CL_MISALIGNED_SUB_BUFFER_OFFSET, OPENCL_ERROR)                                                                     \
  X(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST, OPENCL_ERROR)                                                        \
  X(CL_INVALID_VALUE, OPENCL_ERROR)                                                                                    \
  X(CL_INVALID_DEVICE_TYPE, OPENCL_ERROR)                                                                              \
  X(CL_INVALID_PLATFORM, OPENCL_ERROR)                                                                                 \
  X(CL_INVALID_DEVICE, OPENCL_ERROR)                                                                                   \
  X(CL_INVALID_CONTEXT, OPENCL_ERROR)                                                                                  \
  X(CL_INVALID_QUEUE_PROPERTIES, OPENCL_ERROR)                                                                         \
  X(CL_INVALID_COMMAND_QUEUE, OPENCL_ERROR)                                                                            \
  X(CL_INVALID_MEM_OBJECT, OPENCL_ERROR)                                                                               \
  X(CL_INVALID_BINARY, OPENCL_ERROR)                                                                                   \
  X(CL_INVALID_BUILD_OPTIONS, BUILD_FAILED)                                                                            \
  X(CL_INVALID_PROGRAM, OPENCL_ERROR)                                                                                  \
  X(CL_INVALID_PROGRAM_EXECUTABLE, BUILD_FAILED)                                                                       \
  X(CL_INVALID_KERNEL_NAME, OPENCL_ERROR)                                                                              \
  X(CL_INVALID_KERNEL, OPENCL_ERROR)                                                                                   \
  X(CL_INVALID_ARG_INDEX, OPENCL_ERROR)                                                                                \
  X(CL_INVALID_ARG_VALUE, OPENCL_ERROR)                                                                                \
  X(CL_INVALID_ARG_SIZE, OPENCL_ERROR)                                                                                 \
  X(CL_INVALID_KERNEL_ARGS, OPENCL_ERROR)                                                                              \
  X(CL_INVALID_WORK_DIMENSION, OPENCL_ERROR)                                                                           \
  X(CL_INVALID_WORK_GROUP_SIZE, OPENCL_ERROR)                                                                          \
  X(CL_INVALID_WORK_ITEM_SIZE, OPENCL_ERROR)                                                                           \
  X(CL_INVALID_GLOBAL_OFFSET, OPENCL_ERROR)                                                                            \
  X(CL_INVALID_EVENT_WAIT_LIST, OPENCL_ERROR)                                                                          \
  X(CL_INVALID_EVENT, OPENCL_ERROR)                                                                                    \
  X(CL_INVALID_OPERATION, OPENCL_ERROR)                                                                                \
  X(CL_INVALID_BUFFER_SIZE, OPENCL_ERROR)                                                                              \
  X(CL_INVALID_GLOBAL_WORK_SIZE, OPENCL_ERROR)

const char *cl_error_name(cl_int error) {
  switch (error) {
#define ERROR_CASE(name, status)                                                                                       \
  case name:                                                                                                           \
    return #name;
    CL_ERROR_LIST(ERROR_CASE)
#undef ERROR_CASE
  case -1001:
    return "CL_PLATFORM_NOT_FOUND_KHR"; /* cl_khr_icd */
  default:
    return "unknown";
  }
}

clattn_status cl_error_status(cl_int error) {
  switch (error) {
  case CL_SUCCESS:
    return CLATTN_SUCCESS;
#define ERROR_CASE(name, status)                                                                                       \
  case name:                                                                                                           \
    return CLATTN_##status;
    CL_ERROR_LIST(ERROR_CASE)
#undef ERROR_CASE
  case -1001:
    return CLATTN_NO_DEVICE;
  default:
    return CLATTN_OPENCL_ERROR;
  }
}

text_builder text_begin(char *text, size_t size) {
  text_builder builder = {text, size, 0};
  if (size > 0) text[0] = '\0';
  return builder;
}

void text_add(text_builder *builder, const char *format, ...) {
  if (builder->used + 1 >= builder->size) return;
  va_list args;
  va_start(args, format);
  int n = vsnprintf(builder->text + builder->used, builder->size - builder->used, format, args);
  va_end(args);
  if (n < 0) return;
  size_t room = builder->size - builder->used - 1;
  builder->used += (size_t)n < room ? (size_t)n : room;
}

const char *shape_text(char out[SHAPE_TEXT_SIZE], int rank, const size_t *shape) {
  text_builder builder = text_begin(out, SHAPE_TEXT_SIZE);
  text_add(&builder, "[");
  for (int i = 0; i < rank; i++) text_add(&builder, "%s%zu", i ? "," : "", shape[i]);
  text_add(&builder, "]");
  return out;
}
