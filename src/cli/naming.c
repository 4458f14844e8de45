/* SPDX-License-Identifier: Apache-2.0 */
#include "naming.h"

const option_choice cli_naming_choices[] = {{"auto", CLATTN_NAMING_AUTO, NULL}, {"torch", CLATTN_NAMING_TORCH, NULL},
                                            {"bert", CLATTN_NAMING_BERT, NULL}, {"llama", CLATTN_NAMING_LLAMA, NULL},
                                            {"wq", CLATTN_NAMING_WQ, NULL},     {NULL, 0, NULL}};
