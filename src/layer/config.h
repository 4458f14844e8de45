/* SPDX-License-Identifier: Apache-2.0
 *
 * Widths of a layer, and the shapes of its tensors that follow. */
#ifndef CLATTN_LAYER_CONFIG_H
#define CLATTN_LAYER_CONFIG_H

#include "core/message.h"

/* A copy with every field filled in, checked. */
clattn_status config_resolve(const clattn_mha_config *given, clattn_mha_config *config, message to);

/* rows and columns of a weight; columns is 1 for a bias. The config must be resolved. */
void config_shape(const clattn_mha_config *config, clattn_parameter which, size_t *rows, size_t *columns);

int parameter_is_bias(clattn_parameter which);

/* 1 if a layer of these widths has the tensor. */
int config_has(const clattn_mha_config *config, clattn_parameter which);

/* Heads that the rows of a tensor divide into: H, G, or 1 for WO and BO. */
size_t config_heads(const clattn_mha_config *config, clattn_parameter which);

/* "WQ", "BO" */
const char *parameter_name(clattn_parameter which);

#endif
