/* SPDX-License-Identifier: Apache-2.0
 *
 * The weights of a layer in host memory. */
#ifndef CLATTN_LAYER_PARAMETERS_H
#define CLATTN_LAYER_PARAMETERS_H

#include "layer/config.h"

struct clattn_parameters {
  clattn_mha_config config; /* resolved */
  clattn_type type;
  void *data[CLATTN_PARAMETER_COUNT]; /* owned; biases NULL without bias */
};

/* With zeros in every tensor. The config must be resolved. */
clattn_status parameters_allocate(const clattn_mha_config *config, clattn_type type, clattn_parameters **out,
                                  message to);

#endif
