/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLATTN_CLI_NAMING_H
#define CLATTN_CLI_NAMING_H

#include "options.h"

/* Names of tensors in a .safetensors file; the values are of clattn_naming. Writing takes all but the first. */
extern const option_choice cli_naming_choices[];

#endif
