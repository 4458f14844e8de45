/* SPDX-License-Identifier: Apache-2.0 */
#include "layer/mha.h"

#include <stdlib.h>
#include <string.h>

#include "core/tensor.h"

/* A parameter's elements in the type of the arithmetic; `*owned` is set if that took a copy. */
static const void *converted(const clattn_parameters *parameters, int which, clattn_type compute, size_t count,
                             void **owned) {
  const void *data = parameters->data[which];
  if (parameters->type == compute) return data;
  *owned = malloc(count * clattn_type_size(compute));
  if (*owned == NULL) return NULL;
  for (size_t i = 0; i < count; i++) {
    if (compute == CLATTN_FLOAT64)
      ((double *)*owned)[i] = (double)((const float *)data)[i];
    else
      ((float *)*owned)[i] = (float)((const double *)data)[i];
  }
  return *owned;
}

static clattn_status upload(clattn_mha *mha, const clattn_parameters *parameters, int which) {
  clattn_status status = CLATTN_SUCCESS;
  clattn_context *context = mha->context;
  message to = context_message(context);
  void *owned = NULL;
  size_t rows = 0, columns = 0;
  config_shape(&mha->config, (clattn_parameter)which, &rows, &columns);
  const size_t bytes = rows * columns * clattn_type_size(mha->compute);
  const char *name = parameter_name((clattn_parameter)which);
  const void *data = converted(parameters, which, mha->compute, rows * columns, &owned);
  cl_int error = CL_SUCCESS;
  if (data == NULL) return message_fail(to, CLATTN_OUT_OF_HOST_MEMORY, "no memory for a copy of %s", name);
  if (bytes > context->info.max_alloc_bytes) {
    status = message_fail(to, CLATTN_OUT_OF_DEVICE_MEMORY, "%s needs %zu bytes; the device allows %llu", name, bytes,
                          (unsigned long long)context->info.max_alloc_bytes);
    goto cleanup;
  }
  mha->data[which] = clCreateBuffer(context->cl, CL_MEM_READ_WRITE, bytes, NULL, &error);
  CHECK_CL(to, error, "clCreateBuffer of %zu bytes for %s", bytes, name);
  CHECK_CL(to, clEnqueueWriteBuffer(context->queue, mha->data[which], CL_TRUE, 0, bytes, data, 0, NULL, NULL),
           "clEnqueueWriteBuffer of %zu bytes for %s", bytes, name);

cleanup:
  free(owned);
  return status;
}

clattn_status clattn_mha_create(clattn_context *context, const clattn_parameters *parameters, clattn_type compute,
                                clattn_mha **out) {
  clattn_status status = context_begin(context);
  clattn_mha *mha = NULL;
  if (out != NULL) *out = NULL;
  if (status != CLATTN_SUCCESS) return status;
  if (out == NULL || parameters == NULL)
    return REFUSE(context, CLATTN_INVALID_ARGUMENT, "%s is NULL", out == NULL ? "mha" : "parameters");
  if (compute == 0) compute = parameters->type;
  status = tensor_check_float(context, "compute", compute);
  if (status != CLATTN_SUCCESS) return status;
  mha = calloc(1, sizeof *mha);
  if (mha == NULL) return REFUSE(context, CLATTN_OUT_OF_HOST_MEMORY, "no memory for a layer");
  mha->context = context;
  context_retain(context);
  mha->config = parameters->config;
  mha->compute = compute;
  for (int which = 0; which < CLATTN_PARAMETER_COUNT; which++)
    if (parameters->data[which] != NULL) CHECK(upload(mha, parameters, which));
  *out = mha;
  mha = NULL;

cleanup:
  clattn_mha_destroy(&mha);
  return status;
}

void clattn_mha_destroy(clattn_mha **mha) {
  if (mha == NULL || *mha == NULL) return;
  for (int which = 0; which < CLATTN_PARAMETER_COUNT; which++)
    if ((*mha)->data[which] != NULL) (void)clReleaseMemObject((*mha)->data[which]);
  context_release((*mha)->context);
  free(*mha);
  *mha = NULL;
}

clattn_tensor clattn_mha_parameter(const clattn_mha *mha, clattn_parameter which) {
  clattn_tensor view;
  memset(&view, 0, sizeof view);
  if (mha == NULL || (int)which < 0 || which >= CLATTN_PARAMETER_COUNT || mha->data[which] == NULL) return view;
  size_t shape[2] = {0, 0};
  config_shape(&mha->config, which, &shape[0], &shape[1]);
  return clattn_tensor_view(mha->data[which], 0, mha->compute, parameter_is_bias(which) ? 1 : 2, shape);
}
