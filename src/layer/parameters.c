/* SPDX-License-Identifier: Apache-2.0 */
#include "layer/parameters.h"

#include <stdlib.h>
#include <string.h>

#include "io/half.h"

clattn_status parameters_allocate(const clattn_mha_config *config, clattn_type type, clattn_parameters **out,
                                  message to) {
  clattn_parameters *parameters = calloc(1, sizeof *parameters);
  *out = NULL;
  if (parameters == NULL) return message_fail(to, CLATTN_OUT_OF_HOST_MEMORY, "no memory for parameters");
  parameters->config = *config;
  parameters->type = type;
  for (int which = 0; which < CLATTN_PARAMETER_COUNT; which++) {
    size_t rows = 0, columns = 0;
    if (!config_has(config, (clattn_parameter)which)) continue;
    config_shape(config, (clattn_parameter)which, &rows, &columns);
    parameters->data[which] = calloc(rows * columns, clattn_type_size(type));
    if (parameters->data[which] != NULL) continue;
    clattn_parameters_destroy(&parameters);
    return message_fail(to, CLATTN_OUT_OF_HOST_MEMORY, "no memory for %s of [%zu,%zu] %s",
                        parameter_name((clattn_parameter)which), rows, columns, clattn_type_name(type));
  }
  *out = parameters;
  return CLATTN_SUCCESS;
}

void clattn_parameters_destroy(clattn_parameters **parameters) {
  if (parameters == NULL || *parameters == NULL) return;
  for (int which = 0; which < CLATTN_PARAMETER_COUNT; which++) free((*parameters)->data[which]);
  free(*parameters);
  *parameters = NULL;
}

static void widen(float *out, const uint16_t *bits, size_t count, clattn_type type) {
  for (size_t i = 0; i < count; i++)
    out[i] = type == CLATTN_FLOAT16 ? io_half_to_float(bits[i]) : io_bfloat16_to_float(bits[i]);
}

clattn_status clattn_parameters_create(const clattn_mha_config *given, clattn_type type,
                                       const void *const arrays[CLATTN_PARAMETER_COUNT], clattn_parameters **parameters,
                                       char *text, size_t text_size) {
  clattn_status status = CLATTN_SUCCESS;
  message to = {text, text_size};
  clattn_mha_config config;
  message_clear(to);
  if (parameters == NULL) return message_fail(to, CLATTN_INVALID_ARGUMENT, "parameters is NULL");
  *parameters = NULL;
  if (arrays == NULL) return message_fail(to, CLATTN_INVALID_ARGUMENT, "arrays is NULL");
  const int narrow = type == CLATTN_FLOAT16 || type == CLATTN_BFLOAT16;
  if (type != CLATTN_FLOAT32 && type != CLATTN_FLOAT64 && !narrow)
    return message_fail(to, CLATTN_INVALID_TYPE, "type is %s (%d), not a float type", clattn_type_name(type),
                        (int)type);
  CHECK(config_resolve(given, &config, to));
  for (int which = 0; which < CLATTN_PARAMETER_COUNT; which++) {
    int expected = config_has(&config, (clattn_parameter)which);
    if (expected == (arrays[which] != NULL)) continue;
    return message_fail(to, CLATTN_INVALID_ARGUMENT, "arrays[CLATTN_%s] is %s while config->bias is %d and bias_kv %d",
                        parameter_name((clattn_parameter)which), expected ? "NULL" : "given", config.bias,
                        config.bias_kv);
  }
  CHECK(parameters_allocate(&config, narrow ? CLATTN_FLOAT32 : type, parameters, to));
  for (int which = 0; which < CLATTN_PARAMETER_COUNT; which++) {
    size_t rows = 0, columns = 0;
    config_shape(&config, (clattn_parameter)which, &rows, &columns);
    if (arrays[which] == NULL) continue;
    if (narrow)
      widen((*parameters)->data[which], arrays[which], rows * columns, type);
    else
      memcpy((*parameters)->data[which], arrays[which], rows * columns * clattn_type_size(type));
  }

cleanup:
  return status;
}

void clattn_parameters_config(const clattn_parameters *parameters, clattn_mha_config *config) {
  if (config == NULL) return;
  clattn_mha_config_init(config);
  if (parameters != NULL) *config = parameters->config;
}

clattn_type clattn_parameters_type(const clattn_parameters *parameters) {
  return parameters != NULL ? parameters->type : (clattn_type)0;
}

const void *clattn_parameters_data(const clattn_parameters *parameters, clattn_parameter which) {
  if (parameters == NULL || (int)which < 0 || which >= CLATTN_PARAMETER_COUNT) return NULL;
  return parameters->data[which];
}
