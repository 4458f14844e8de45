/* SPDX-License-Identifier: Apache-2.0
 *
 * clattn_parameters_load: whatever the bytes, a whole layer whose widths fit together, or nothing and a reason. The
 * same file is tried with three ways to ask for it. */
#include "fuzz_input.h"
#include "layer/config.h"

#include <string.h>

static void check_parameters(const clattn_parameters *parameters, size_t heads, size_t kv_heads) {
  clattn_mha_config config;
  uint64_t count = 0;
  char message[256];
  clattn_parameters_config(parameters, &config);
  FUZZ_CHECK(config.heads == heads && config.kv_heads == (kv_heads ? kv_heads : heads));
  FUZZ_CHECK(clattn_parameter_count(&config, &count, message, sizeof message) == CLATTN_SUCCESS && message[0] == '\0');
  const clattn_type type = clattn_parameters_type(parameters);
  FUZZ_CHECK(type == CLATTN_FLOAT32 || type == CLATTN_FLOAT64);
  for (int p = 0; p < CLATTN_PARAMETER_COUNT; p++) {
    const void *data = clattn_parameters_data(parameters, (clattn_parameter)p);
    FUZZ_CHECK((data != NULL) == (config_has(&config, (clattn_parameter)p) != 0));
    if (data == NULL) continue;
    size_t rows = 0, columns = 0;
    config_shape(&config, (clattn_parameter)p, &rows, &columns);
    FUZZ_CHECK(rows > 0 && columns > 0 && rows * columns <= count);
    count -= rows * columns;
    fuzz_touch(data, rows * columns * clattn_type_size(type));
  }
  FUZZ_CHECK(count == 0);
}

static void load(const char *path, const char *prefix, clattn_naming naming, size_t heads, size_t kv_heads) {
  char message[512];
  clattn_parameters *parameters = NULL;
  memset(message, 'x', sizeof message);
  const clattn_status status =
      clattn_parameters_load(path, prefix, naming, heads, kv_heads, &parameters, message, sizeof message);
  FUZZ_CHECK(memchr(message, '\0', sizeof message) != NULL);
  FUZZ_CHECK((status == CLATTN_SUCCESS) == (message[0] == '\0') && (status == CLATTN_SUCCESS) == (parameters != NULL));
  FUZZ_CHECK(status == CLATTN_SUCCESS || status == CLATTN_INVALID_FILE || status == CLATTN_INVALID_SHAPE ||
             status == CLATTN_INVALID_TYPE || status == CLATTN_INVALID_ARGUMENT || status == CLATTN_UNSUPPORTED);
  if (parameters != NULL) check_parameters(parameters, heads, kv_heads);
  clattn_parameters_destroy(&parameters);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz_file input = fuzz_file_open(data, size);
  load(input.path, NULL, CLATTN_NAMING_AUTO, 4, 2);
  load(input.path, "", CLATTN_NAMING_AUTO, 2, 0);
  load(input.path, "p.", (clattn_naming)(size % 6), size % 3, 1);
  fuzz_file_close(&input);
  return 0;
}
