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
  const size_t shape[2] = {rows, columns};
  cl_mem buffer = clCreateBuffer(context->cl, CL_MEM_READ_WRITE, bytes, NULL, &error);
  CHECK_CL(to, error, "clCreateBuffer of %zu bytes for %s", bytes, name);
  mha->parameter[which] =
      clattn_tensor_view(buffer, 0, mha->compute, parameter_is_bias((clattn_parameter)which) ? 1 : 2, shape);
  CHECK_CL(to, clEnqueueWriteBuffer(context->queue, buffer, CL_TRUE, 0, bytes, data, 0, NULL, NULL),
           "clEnqueueWriteBuffer of %zu bytes for %s", bytes, name);

cleanup:
  free(owned);
  return status;
}

/* ----------------------------------------------------------------------------------------------------------- making */

/* An empty layer. */
static clattn_status begin_layer(clattn_context *context, const clattn_mha_config *config, clattn_type compute,
                                 clattn_mha **mha) {
  if (compute != CLATTN_FLOAT32 && compute != CLATTN_FLOAT64)
    return REFUSE(context, CLATTN_INVALID_TYPE, "compute is %s (%d), not float32 or float64", clattn_type_name(compute),
                  (int)compute);
  clattn_status status = tensor_check_float(context, "compute", compute);
  if (status != CLATTN_SUCCESS) return status;
  *mha = calloc(1, sizeof **mha);
  if (*mha == NULL) return REFUSE(context, CLATTN_OUT_OF_HOST_MEMORY, "no memory for a layer");
  (*mha)->context = context;
  context_retain(context);
  (*mha)->config = *config;
  (*mha)->compute = compute;
  return CLATTN_SUCCESS;
}

clattn_status clattn_mha_create(clattn_context *context, const clattn_parameters *parameters, clattn_type compute,
                                clattn_mha **out) {
  clattn_status status = context_begin(context);
  clattn_mha *mha = NULL;
  if (out != NULL) *out = NULL;
  if (status != CLATTN_SUCCESS) return status;
  if (out == NULL || parameters == NULL)
    return REFUSE(context, CLATTN_INVALID_ARGUMENT, "%s is NULL", out == NULL ? "mha" : "parameters");
  CHECK(begin_layer(context, &parameters->config, compute != 0 ? compute : parameters->type, &mha));
  for (int which = 0; which < CLATTN_PARAMETER_COUNT; which++)
    if (parameters->data[which] != NULL) CHECK(upload(mha, parameters, which));
  *out = mha;
  mha = NULL;

cleanup:
  clattn_mha_destroy(&mha);
  return status;
}

/* A weight is [rows, columns] or [heads, size, columns], a bias [rows] or [heads, size]. */
static clattn_status check_view(clattn_context *context, const clattn_mha_config *config, clattn_type compute,
                                int which, const clattn_tensor *view) {
  const char *name = parameter_name((clattn_parameter)which);
  size_t rows = 0, columns = 0;
  char have[SHAPE_TEXT_SIZE], want[SHAPE_TEXT_SIZE];
  config_shape(config, (clattn_parameter)which, &rows, &columns);
  const size_t heads = config_heads(config, (clattn_parameter)which);
  const int bias = parameter_is_bias((clattn_parameter)which);
  clattn_status status = tensor_check(context, name, view, TENSOR_INPUT);
  if (status == CLATTN_SUCCESS) status = tensor_check_float(context, name, view->type);
  if (status != CLATTN_SUCCESS) return status;
  if ((view->type == CLATTN_FLOAT64) != (compute == CLATTN_FLOAT64))
    return REFUSE(context, CLATTN_INVALID_TYPE, "%s is %s while the arithmetic is %s: float64 goes with float64 only",
                  name, clattn_type_name(view->type), clattn_type_name(compute));
  const size_t flat[2] = {rows, columns}, apart[3] = {heads, rows / heads, columns};
  const int rank = bias ? 1 : 2;
  if (view->rank == rank && memcmp(view->shape, flat, (size_t)rank * sizeof *flat) == 0) return CLATTN_SUCCESS;
  if (view->rank == rank + 1 && memcmp(view->shape, apart, (size_t)(rank + 1) * sizeof *apart) == 0)
    return CLATTN_SUCCESS;
  return REFUSE(context, CLATTN_INVALID_SHAPE, "%s has shape %s, not %s, nor that with %zu heads apart", name,
                shape_text(have, view->rank, view->shape), shape_text(want, rank, flat), heads);
}

clattn_status clattn_mha_create_from_tensors(clattn_context *context, const clattn_mha_config *given,
                                             clattn_type compute,
                                             const clattn_tensor *const tensors[CLATTN_PARAMETER_COUNT],
                                             clattn_mha **out) {
  clattn_status status = context_begin(context);
  clattn_mha *mha = NULL;
  clattn_mha_config config;
  if (out != NULL) *out = NULL;
  if (status != CLATTN_SUCCESS) return status;
  if (out == NULL || tensors == NULL)
    return REFUSE(context, CLATTN_INVALID_ARGUMENT, "%s is NULL", out == NULL ? "mha" : "tensors");
  CHECK(config_resolve(given, &config, context_message(context)));
  CHECK(begin_layer(context, &config, compute, &mha));
  for (int which = 0; which < CLATTN_PARAMETER_COUNT; which++) {
    const int expected = config_has(&config, (clattn_parameter)which);
    if (expected != (tensors[which] != NULL)) {
      status =
          REFUSE(context, CLATTN_INVALID_ARGUMENT, "tensors[CLATTN_%s] is %s while config->bias is %d and bias_kv %d",
                 parameter_name((clattn_parameter)which), expected ? "NULL" : "given", config.bias, config.bias_kv);
      goto cleanup;
    }
    if (!expected) continue;
    CHECK(check_view(context, &config, compute, which, tensors[which]));
    CHECK_CL(context_message(context), clRetainMemObject(tensors[which]->buffer), "clRetainMemObject of %s",
             parameter_name((clattn_parameter)which));
    mha->parameter[which] = *tensors[which];
  }
  *out = mha;
  mha = NULL;

cleanup:
  clattn_mha_destroy(&mha);
  return status;
}

void clattn_mha_destroy(clattn_mha **mha) {
  if (mha == NULL || *mha == NULL) return;
  for (int which = 0; which < CLATTN_PARAMETER_COUNT; which++) clattn_tensor_release(&(*mha)->parameter[which]);
  context_release((*mha)->context);
  free(*mha);
  *mha = NULL;
}

/* -------------------------------------------------------------------------------------------------------- questions */

clattn_tensor clattn_mha_parameter(const clattn_mha *mha, clattn_parameter which) {
  clattn_tensor none;
  memset(&none, 0, sizeof none);
  if (mha == NULL || (int)which < 0 || which >= CLATTN_PARAMETER_COUNT) return none;
  return mha->parameter[which];
}

clattn_tensor mha_weight(const clattn_mha *mha, clattn_parameter which) {
  const clattn_tensor *given = &mha->parameter[which];
  const size_t heads = config_heads(&mha->config, which), apart = given->rank == 3;
  clattn_tensor view = *given;
  view.rank = 4;
  view.shape[0] = 1;
  view.stride[0] = 0;
  view.shape[1] = heads;
  view.shape[2] = apart ? given->shape[1] : given->shape[0] / heads;
  view.shape[3] = given->shape[given->rank - 1];
  view.stride[2] = given->stride[given->rank - 2];
  view.stride[3] = given->stride[given->rank - 1];
  view.stride[1] = apart ? given->stride[0] : view.shape[2] * view.stride[2];
  return view;
}

bias_view mha_bias(const clattn_mha *mha, clattn_parameter which) {
  const clattn_tensor *given = &mha->parameter[which];
  bias_view bias = {given->buffer, given->type, given->offset, 0, 0};
  if (given->buffer == NULL) return bias;
  bias.stride = given->stride[given->rank - 1];
  bias.head_stride =
      given->rank == 2 ? given->stride[0] : given->shape[0] / config_heads(&mha->config, which) * bias.stride;
  return bias;
}
