/* SPDX-License-Identifier: Apache-2.0
 *
 * Wrappers of OpenCL's functions. A release that is to fail releases all the same and answers the code: who is told so
 * has no other way to give an object up, and the account would otherwise call it a leak. */
#include "fault_calls.h"
#include "fault_programs.h"

#define DECLARE(type, call, parameters)                                                                                \
  type __real_##call parameters;                                                                                       \
  type __wrap_##call parameters;

/* A function that answers its error code. `after` is done once it has gone well. */
#define WRAP_CALL(call, kinds, parameters, arguments, after)                                                           \
  DECLARE(cl_int, call, parameters)                                                                                    \
  cl_int __wrap_##call parameters {                                                                                    \
    cl_int error = fault_opencl(kinds, #call, NULL, 0);                                                                \
    if (error != CL_SUCCESS) return error;                                                                             \
    error = __real_##call arguments;                                                                                   \
    if (error == CL_SUCCESS) after;                                                                                    \
    return error;                                                                                                      \
  }

/* A question about an object. */
#define WRAP_QUERY(call, kinds, parameters, object, arguments)                                                         \
  DECLARE(cl_int, call, parameters)                                                                                    \
  cl_int __wrap_##call parameters {                                                                                    \
    cl_int error = fault_opencl(kinds, #call, object, what);                                                           \
    return error != CL_SUCCESS ? error : __real_##call arguments;                                                      \
  }

/* A function that answers a new object, its last parameter being `error`. */
#define WRAP_CREATE(call, kinds, holding, type, parameters, arguments)                                                 \
  DECLARE(type, call, parameters)                                                                                      \
  type __wrap_##call parameters {                                                                                      \
    const cl_int code = fault_opencl(kinds, #call, NULL, 0);                                                           \
    if (code != CL_SUCCESS) {                                                                                          \
      if (error != NULL) *error = code;                                                                                \
      return NULL;                                                                                                     \
    }                                                                                                                  \
    type made = __real_##call arguments;                                                                               \
    if (made != NULL) fault_hold(holding, made);                                                                       \
    return made;                                                                                                       \
  }

/* A function that needs more; the body follows. */
#define WRAP_OTHER(call, type, parameters) DECLARE(type, call, parameters) type __wrap_##call parameters

#define WRAP_RETAIN(call, holding, type)                                                                               \
  WRAP_CALL(call, FAULT_OPENCL, (type object), (object), fault_hold(holding, object))

#define WRAP_RELEASE(call, kinds, holding, type)                                                                       \
  DECLARE(cl_int, call, (type object))                                                                                 \
  cl_int __wrap_##call(type object) {                                                                                  \
    const cl_int code = fault_opencl(kinds, #call, NULL, 0);                                                           \
    fault_drop(holding, object);                                                                                       \
    const cl_int error = __real_##call(object);                                                                        \
    return code != CL_SUCCESS ? code : error;                                                                          \
  }

/* Of an enqueue that went well: the event that came out. */
static void hold_event(const cl_event *event) {
  if (event != NULL && *event != NULL) fault_hold(HELD_EVENT, *event);
}

static void enqueued(const cl_event *event) {
  hold_event(event);
  fault_wrote();
}

WRAP_CALL(clGetPlatformIDs, FAULT_OPENCL, (cl_uint capacity, cl_platform_id *platforms, cl_uint *count),
          (capacity, platforms, count), (void)0)
WRAP_QUERY(clGetDeviceIDs, FAULT_OPENCL,
           (cl_platform_id platform, cl_device_type what, cl_uint capacity, cl_device_id *devices, cl_uint *count),
           platform, (platform, what, capacity, devices, count))
WRAP_QUERY(clGetPlatformInfo, FAULT_OPENCL,
           (cl_platform_id platform, cl_platform_info what, size_t size, void *value, size_t *length), platform,
           (platform, what, size, value, length))
WRAP_QUERY(clGetDeviceInfo, FAULT_OPENCL,
           (cl_device_id device, cl_device_info what, size_t size, void *value, size_t *length), device,
           (device, what, size, value, length))
WRAP_QUERY(clGetCommandQueueInfo, FAULT_OPENCL,
           (cl_command_queue queue, cl_command_queue_info what, size_t size, void *value, size_t *length), queue,
           (queue, what, size, value, length))
WRAP_QUERY(clGetMemObjectInfo, FAULT_OPENCL,
           (cl_mem memory, cl_mem_info what, size_t size, void *value, size_t *length), memory,
           (memory, what, size, value, length))
WRAP_QUERY(clGetKernelWorkGroupInfo, FAULT_OPENCL,
           (cl_kernel kernel, cl_device_id device, cl_kernel_work_group_info what, size_t size, void *value,
            size_t *length),
           kernel, (kernel, device, what, size, value, length))
WRAP_CREATE(clCreateContext, FAULT_OPENCL, HELD_CONTEXT, cl_context,
            (const cl_context_properties *properties, cl_uint count, const cl_device_id *devices,
             void(CL_CALLBACK *notify)(const char *, const void *, size_t, void *), void *user, cl_int *error),
            (properties, count, devices, notify, user, error))
WRAP_CREATE(clCreateCommandQueue, FAULT_OPENCL, HELD_QUEUE, cl_command_queue,
            (cl_context context, cl_device_id device, cl_command_queue_properties properties, cl_int *error),
            (context, device, properties, error))
WRAP_CREATE(clCreateBuffer, FAULT_OPENCL, HELD_BUFFER, cl_mem,
            (cl_context context, cl_mem_flags flags, size_t size, void *host, cl_int *error),
            (context, flags, size, host, error))
WRAP_CREATE(clCreateSubBuffer, FAULT_OPENCL, HELD_BUFFER, cl_mem,
            (cl_mem parent, cl_mem_flags flags, cl_buffer_create_type type, const void *region, cl_int *error),
            (parent, flags, type, region, error))
WRAP_CREATE(clCreateUserEvent, FAULT_OPENCL, HELD_EVENT, cl_event, (cl_context context, cl_int *error),
            (context, error))

WRAP_RETAIN(clRetainContext, HELD_CONTEXT, cl_context)
WRAP_RETAIN(clRetainCommandQueue, HELD_QUEUE, cl_command_queue)
WRAP_RETAIN(clRetainMemObject, HELD_BUFFER, cl_mem)
WRAP_RETAIN(clRetainProgram, HELD_PROGRAM, cl_program)
WRAP_RETAIN(clRetainKernel, HELD_KERNEL, cl_kernel)
WRAP_RETAIN(clRetainEvent, HELD_EVENT, cl_event)

WRAP_RELEASE(clReleaseContext, FAULT_OPENCL, HELD_CONTEXT, cl_context)
WRAP_RELEASE(clReleaseCommandQueue, FAULT_OPENCL, HELD_QUEUE, cl_command_queue)
WRAP_RELEASE(clReleaseMemObject, FAULT_OPENCL, HELD_BUFFER, cl_mem)
WRAP_RELEASE(clReleaseKernel, FAULT_OPENCL | FAULT_BUILD, HELD_KERNEL, cl_kernel)
WRAP_RELEASE(clReleaseEvent, FAULT_OPENCL, HELD_EVENT, cl_event)

WRAP_CALL(clSetKernelArg, FAULT_OPENCL, (cl_kernel kernel, cl_uint index, size_t size, const void *value),
          (kernel, index, size, value), (void)0)
WRAP_CALL(clFinish, FAULT_OPENCL, (cl_command_queue queue), (queue), (void)0)
WRAP_CALL(clFlush, FAULT_OPENCL, (cl_command_queue queue), (queue), (void)0)
WRAP_CALL(clWaitForEvents, FAULT_OPENCL, (cl_uint count, const cl_event *events), (count, events), (void)0)

WRAP_CALL(clEnqueueNDRangeKernel, FAULT_OPENCL,
          (cl_command_queue queue, cl_kernel kernel, cl_uint rank, const size_t *offset, const size_t *global,
           const size_t *local, cl_uint waits, const cl_event *wait, cl_event *event),
          (queue, kernel, rank, offset, global, local, waits, wait, event), enqueued(event))
WRAP_CALL(clEnqueueReadBuffer, FAULT_OPENCL,
          (cl_command_queue queue, cl_mem buffer, cl_bool blocking, size_t offset, size_t size, void *host,
           cl_uint waits, const cl_event *wait, cl_event *event),
          (queue, buffer, blocking, offset, size, host, waits, wait, event), hold_event(event))
WRAP_CALL(clEnqueueWriteBuffer, FAULT_OPENCL,
          (cl_command_queue queue, cl_mem buffer, cl_bool blocking, size_t offset, size_t size, const void *host,
           cl_uint waits, const cl_event *wait, cl_event *event),
          (queue, buffer, blocking, offset, size, host, waits, wait, event), enqueued(event))
WRAP_CALL(clEnqueueCopyBuffer, FAULT_OPENCL,
          (cl_command_queue queue, cl_mem from, cl_mem to, size_t from_offset, size_t to_offset, size_t size,
           cl_uint waits, const cl_event *wait, cl_event *event),
          (queue, from, to, from_offset, to_offset, size, waits, wait, event), enqueued(event))
WRAP_CALL(clEnqueueFillBuffer, FAULT_OPENCL,
          (cl_command_queue queue, cl_mem buffer, const void *pattern, size_t pattern_size, size_t offset, size_t size,
           cl_uint waits, const cl_event *wait, cl_event *event),
          (queue, buffer, pattern, pattern_size, offset, size, waits, wait, event), enqueued(event))
WRAP_CALL(clEnqueueBarrierWithWaitList, FAULT_OPENCL,
          (cl_command_queue queue, cl_uint waits, const cl_event *wait, cl_event *event), (queue, waits, wait, event),
          hold_event(event))
WRAP_CALL(clEnqueueMarkerWithWaitList, FAULT_OPENCL,
          (cl_command_queue queue, cl_uint waits, const cl_event *wait, cl_event *event), (queue, waits, wait, event),
          hold_event(event))

/* ----------------------------------------------------------------------------------------------------------- programs
 * See fault_programs.h. */

WRAP_OTHER(clCreateProgramWithSource, cl_program,
           (cl_context context, cl_uint count, const char **texts, const size_t *lengths, cl_int *error)) {
  const cl_int code = fault_opencl(FAULT_OPENCL | FAULT_BUILD, "clCreateProgramWithSource", NULL, 0);
  if (code != CL_SUCCESS) {
    if (error != NULL) *error = code;
    return NULL;
  }
  cl_program made = __real_clCreateProgramWithSource(context, count, texts, lengths, error);
  if (made == NULL) return NULL;
  fault_hold(HELD_PROGRAM, made);
  fault_program_made(made, context, count, texts, lengths);
  return made;
}

WRAP_OTHER(clBuildProgram, cl_int,
           (cl_program program, cl_uint count, const cl_device_id *devices, const char *options,
            void(CL_CALLBACK *notify)(cl_program, void *), void *user)) {
  cl_int error = fault_opencl(FAULT_OPENCL | FAULT_BUILD, "clBuildProgram", NULL, 0);
  if (error != CL_SUCCESS || fault_program_is_known(program, options)) return error;
  error = __real_clBuildProgram(program, count, devices, options, notify, user);
  if (error == CL_SUCCESS) fault_program_built(program);
  return error;
}

WRAP_OTHER(clGetProgramBuildInfo, cl_int,
           (cl_program program, cl_device_id device, cl_program_build_info what, size_t size, void *value,
            size_t *length)) {
  const cl_int error = fault_opencl(FAULT_OPENCL | FAULT_BUILD, "clGetProgramBuildInfo", program, what);
  if (error != CL_SUCCESS) return error;
  return __real_clGetProgramBuildInfo(fault_program_stand_in(program), device, what, size, value, length);
}

WRAP_CREATE(clCreateKernel, FAULT_OPENCL | FAULT_BUILD, HELD_KERNEL, cl_kernel,
            (cl_program program, const char *name, cl_int *error), (fault_program_stand_in(program), name, error))

WRAP_OTHER(clReleaseProgram, cl_int, (cl_program program)) {
  const cl_int code = fault_opencl(FAULT_OPENCL | FAULT_BUILD, "clReleaseProgram", NULL, 0);
  if (fault_drop(HELD_PROGRAM, program) == 0) fault_program_gone(program);
  const cl_int error = __real_clReleaseProgram(program);
  return code != CL_SUCCESS ? code : error;
}
