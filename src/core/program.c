/* SPDX-License-Identifier: Apache-2.0 */
#include "core/program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/context.h"
#include "core/kernel_source.h"

struct built_kernel {
  built_kernel *next;
  cl_program program;
  cl_kernel kernel;
  char *key; /* name, blank, options */
};

static const clattn_kernel_source *find_source(const char *name) {
  for (size_t i = 0; i < clattn_kernel_source_count; i++)
    if (strcmp(clattn_kernel_sources[i].name, name) == 0) return &clattn_kernel_sources[i];
  return NULL;
}

/* The build log, for the log callback and the message; owned by the caller, NULL if there is none. */
static char *build_log(clattn_context *context, cl_program program) {
  size_t length = 0;
  if (clGetProgramBuildInfo(program, context->device, CL_PROGRAM_BUILD_LOG, 0, NULL, &length) != CL_SUCCESS)
    return NULL;
  char *log = malloc(length + 1);
  if (log == NULL) return NULL;
  log[length] = '\0';
  if (length > 0 &&
      clGetProgramBuildInfo(program, context->device, CL_PROGRAM_BUILD_LOG, length, log, NULL) != CL_SUCCESS) {
    free(log);
    return NULL;
  }
  return log;
}

/* kernels/common.clh goes in front of every kernel, then the kernel's own file. */
static clattn_status build(clattn_context *context, const char *name, const char *options, cl_program *out) {
  clattn_status status = CLATTN_SUCCESS;
  cl_program program = NULL;
  char *log = NULL;
  const clattn_kernel_source *common = find_source("common.clh"), *own = find_source(name);
  if (common == NULL || own == NULL)
    return REFUSE(context, CLATTN_BUILD_FAILED, "the library holds no kernel source '%s'", name);
  const char *texts[] = {common->text, own->text};
  const size_t lengths[] = {common->length, own->length};
  cl_int error = CL_SUCCESS;
  program = clCreateProgramWithSource(context->cl, 2, texts, lengths, &error);
  CHECK_CL(context_message(context), error, "clCreateProgramWithSource for %s", name);
  error = clBuildProgram(program, 1, &context->device, options, NULL, NULL);
  log = build_log(context, program);
  context_log(context, "built %s with '%s': %s%s%s", name, options, cl_error_name(error), log && *log ? "; log: " : "",
              log ? log : "");
  if (error != CL_SUCCESS) {
    for (char *c = log; c != NULL && *c != '\0'; c++)
      if (*c == '\n') *c = ' ';
    status = REFUSE(context, cl_error_status(error), "%s does not build kernel %s with '%s': %s (%d): %.400s",
                    context->info.name, name, options, cl_error_name(error), (int)error, log ? log : "no log");
    goto cleanup;
  }
  *out = program;
  program = NULL;

cleanup:
  free(log);
  if (program != NULL) (void)clReleaseProgram(program);
  return status;
}

clattn_status program_kernel(clattn_context *context, const char *name, const char *options, cl_kernel *kernel) {
  clattn_status status = CLATTN_SUCCESS;
  built_kernel *entry = NULL;
  size_t length = strlen(name) + strlen(options) + 2;
  char *key = malloc(length);
  if (key == NULL) return REFUSE(context, CLATTN_OUT_OF_HOST_MEMORY, "no memory for the options of kernel %s", name);
  (void)snprintf(key, length, "%s %s", name, options);
  for (built_kernel *at = context->programs.first; at != NULL; at = at->next) {
    if (strcmp(at->key, key) != 0) continue;
    free(key);
    *kernel = at->kernel;
    return CLATTN_SUCCESS;
  }
  entry = calloc(1, sizeof *entry);
  if (entry == NULL) {
    free(key);
    return REFUSE(context, CLATTN_OUT_OF_HOST_MEMORY, "no memory for kernel %s", name);
  }
  entry->key = key;
  CHECK(build(context, name, options, &entry->program));
  cl_int error = CL_SUCCESS;
  entry->kernel = clCreateKernel(entry->program, name, &error);
  CHECK_CL(context_message(context), error, "clCreateKernel %s", name);
  entry->next = context->programs.first;
  context->programs.first = entry;
  *kernel = entry->kernel;
  return CLATTN_SUCCESS;

cleanup:
  if (entry->program != NULL) (void)clReleaseProgram(entry->program);
  free(entry->key);
  free(entry);
  return status;
}

void program_cache_clear(program_cache *cache) {
  while (cache->first != NULL) {
    built_kernel *entry = cache->first;
    cache->first = entry->next;
    (void)clReleaseKernel(entry->kernel);
    (void)clReleaseProgram(entry->program);
    free(entry->key);
    free(entry);
  }
}

clattn_status program_work_group(clattn_context *context, cl_kernel kernel, const char *name, size_t *size) {
  clattn_status status = CLATTN_SUCCESS;
  CHECK_CL(context_message(context),
           clGetKernelWorkGroupInfo(kernel, context->device, CL_KERNEL_WORK_GROUP_SIZE, sizeof *size, size, NULL),
           "clGetKernelWorkGroupInfo of %s", name);

cleanup:
  return status;
}

clattn_status program_launch(clattn_context *context, cl_kernel kernel, const char *name, const size_t global[3],
                             const size_t local[3]) {
  clattn_status status = CLATTN_SUCCESS;
  size_t rounded[3];
  /* OpenCL 1.2 wants whole work-groups. */
  for (int i = 0; i < 3; i++) rounded[i] = (global[i] + local[i] - 1) / local[i] * local[i];
  CHECK_CL(context_message(context),
           clEnqueueNDRangeKernel(context->queue, kernel, 3, NULL, rounded, local, 0, NULL, NULL),
           "launch of %s over [%zu,%zu,%zu] in groups of [%zu,%zu,%zu]", name, rounded[0], rounded[1], rounded[2],
           local[0], local[1], local[2]);

cleanup:
  return status;
}
