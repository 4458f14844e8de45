/* SPDX-License-Identifier: Apache-2.0 */
#include "layer/config.h"

#include <string.h>

#include "core/tensor.h"

void clattn_mha_config_init_sized(clattn_mha_config *config, size_t struct_size) {
  clattn_mha_config defaults;
  if (config == NULL || struct_size == 0) return;
  if (struct_size > sizeof defaults) struct_size = sizeof defaults;
  memset(&defaults, 0, sizeof defaults);
  defaults.struct_size = struct_size;
  defaults.bias = 1;
  memcpy(config, &defaults, struct_size);
}

int parameter_is_bias(clattn_parameter which) {
  return which >= CLATTN_BQ;
}

int config_has(const clattn_mha_config *config, clattn_parameter which) {
  if (which >= CLATTN_BIAS_K) return config->bias_kv;
  return which < CLATTN_BQ || config->bias;
}

const char *parameter_name(clattn_parameter which) {
  static const char *const names[CLATTN_PARAMETER_COUNT] = {"WQ", "WK", "WV", "WO",     "BQ",
                                                            "BK", "BV", "BO", "BIAS_K", "BIAS_V"};
  return names[which];
}

size_t config_heads(const clattn_mha_config *config, clattn_parameter which) {
  if (which == CLATTN_WO || which == CLATTN_BO) return 1;
  return which == CLATTN_WQ || which == CLATTN_BQ ? config->heads : config->kv_heads;
}

void config_shape(const clattn_mha_config *config, clattn_parameter which, size_t *rows, size_t *columns) {
  const size_t q = config->heads * config->head_dim, k = config->kv_heads * config->head_dim;
  const size_t v = config->kv_heads * config->value_head_dim, o = config->heads * config->value_head_dim;
  const size_t shapes[CLATTN_PARAMETER_COUNT][2] = {{q, config->embed_dim},
                                                    {k, config->kdim},
                                                    {v, config->vdim},
                                                    {config->out_dim, o},
                                                    {q, 1},
                                                    {k, 1},
                                                    {v, 1},
                                                    {config->out_dim, 1},
                                                    {k, 1},
                                                    {v, 1}};
  *rows = shapes[which][0];
  *columns = shapes[which][1];
}

static clattn_status fill_defaults(clattn_mha_config *config, message to) {
  if (config->embed_dim == 0 || config->heads == 0)
    return message_fail(to, CLATTN_INVALID_SHAPE, "embed_dim is %zu and heads %zu: both must be 1 or more",
                        config->embed_dim, config->heads);
  if (config->kv_heads == 0) config->kv_heads = config->heads;
  if (config->heads % config->kv_heads != 0)
    return message_fail(to, CLATTN_INVALID_SHAPE, "kv_heads %zu does not divide heads %zu", config->kv_heads,
                        config->heads);
  if (config->head_dim == 0 && config->embed_dim % config->heads != 0)
    return message_fail(to, CLATTN_INVALID_SHAPE, "heads %zu does not divide embed_dim %zu, and head_dim is not given",
                        config->heads, config->embed_dim);
  if (config->head_dim == 0) config->head_dim = config->embed_dim / config->heads;
  if (config->value_head_dim == 0) config->value_head_dim = config->head_dim;
  if (config->kdim == 0) config->kdim = config->embed_dim;
  if (config->vdim == 0) config->vdim = config->embed_dim;
  if (config->out_dim == 0) config->out_dim = config->embed_dim;
  config->bias = config->bias != 0;
  config->bias_kv = config->bias_kv != 0;
  return CLATTN_SUCCESS;
}

/* Numbers in all; 0 if they, or their bytes as doubles, pass 64 bits. */
static int count_parameters(const clattn_mha_config *config, uint64_t *count) {
  uint64_t product = 0, bytes = 0;
  *count = 0;
  if (!checked_multiply(config->heads, config->head_dim, &product) ||
      !checked_multiply(config->heads, config->value_head_dim, &product))
    return 0;
  for (int which = 0; which < CLATTN_PARAMETER_COUNT; which++) {
    size_t rows = 0, columns = 0;
    if (!config_has(config, (clattn_parameter)which)) continue;
    config_shape(config, (clattn_parameter)which, &rows, &columns);
    if (!checked_multiply(rows, columns, &product) || !checked_add(*count, product, count)) return 0;
  }
  return checked_multiply(*count, sizeof(double), &bytes) && bytes <= SIZE_MAX;
}

static clattn_status resolve(const clattn_mha_config *given, clattn_mha_config *config, uint64_t *count, message to) {
  if (given == NULL) return message_fail(to, CLATTN_INVALID_ARGUMENT, "config is NULL");
  if (given->struct_size == 0 || given->struct_size > sizeof *config)
    return message_fail(to, CLATTN_INVALID_ARGUMENT,
                        "config->struct_size is %zu, not 1 to %zu: set up with clattn_mha_config_init",
                        given->struct_size, sizeof *config);
  clattn_mha_config copy; /* `given` and `config` may be the same */
  clattn_mha_config_init(&copy);
  memcpy(&copy, given, given->struct_size);
  *config = copy;
  config->struct_size = sizeof *config;
  clattn_status status = fill_defaults(config, to);
  if (status != CLATTN_SUCCESS) return status;
  if (!count_parameters(config, count))
    return message_fail(
        to, CLATTN_INVALID_SHAPE,
        "parameters pass 64 bits: embed_dim %zu, heads %zu of %zu and %zu, kdim %zu, vdim %zu, out_dim %zu",
        config->embed_dim, config->heads, config->head_dim, config->value_head_dim, config->kdim, config->vdim,
        config->out_dim);
  return CLATTN_SUCCESS;
}

clattn_status config_resolve(const clattn_mha_config *given, clattn_mha_config *config, message to) {
  uint64_t count = 0;
  return resolve(given, config, &count, to);
}

clattn_status clattn_parameter_count(const clattn_mha_config *config, uint64_t *count, char *text, size_t text_size) {
  message to = {text, text_size};
  clattn_mha_config resolved;
  message_clear(to);
  if (count == NULL) return message_fail(to, CLATTN_INVALID_ARGUMENT, "count is NULL");
  *count = 0;
  return resolve(config, &resolved, count, to);
}
