/* SPDX-License-Identifier: Apache-2.0
 *
 * Parameters drawn at random. Element e (row-major) of weight w (0 WQ, 1 WK, 2 WV, 3 WO) is made from word e % 4 of
 * Philox4x32-10 with key (seed low, seed high) and counter (e/4 low, e/4 high, w, 0):
 *
 *     u = (word >> 8) / 2^24 in [0, 1)      value = (2u - 1) * gain * sqrt(6 / (fan_in + fan_out)), rounded to float
 *
 * Every step is exact or a single rounded IEEE operation, so the bits are the same everywhere. */
#include <math.h>

#include "layer/parameters.h"
#include "layer/philox.h"

static void fill(float *out, uint64_t count, uint32_t weight, uint64_t seed, double bound) {
  const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
  uint32_t words[4] = {0};
  for (uint64_t e = 0; e < count; e++) {
    uint64_t block = e / 4;
    const uint32_t counter[4] = {(uint32_t)block, (uint32_t)(block >> 32), weight, 0};
    if (e % 4 == 0) philox4x32_10(counter, key, words);
    double u = (double)(words[e % 4] >> 8) / 16777216.0;
    out[e] = (float)((2 * u - 1) * bound);
  }
}

clattn_status clattn_parameters_random(const clattn_mha_config *given, const double *gain, uint64_t seed,
                                       clattn_parameters **parameters, char *text, size_t text_size) {
  static const double ones[4] = {1, 1, 1, 1};
  clattn_status status = CLATTN_SUCCESS;
  message to = {text, text_size};
  clattn_mha_config config;
  message_clear(to);
  if (parameters == NULL) return message_fail(to, CLATTN_INVALID_ARGUMENT, "parameters is NULL");
  *parameters = NULL;
  if (gain == NULL) gain = ones;
  for (int w = 0; w < 4; w++)
    if (!(gain[w] >= 0) || !isfinite((float)gain[w]))
      return message_fail(to, CLATTN_INVALID_ARGUMENT, "gain[%d] is %g, not 0 or a positive number that float holds", w,
                          gain[w]);
  CHECK(config_resolve(given, &config, to));
  CHECK(parameters_allocate(&config, CLATTN_FLOAT32, parameters, to));
  for (int w = 0; w < 4; w++) {
    size_t rows = 0, columns = 0;
    config_shape(&config, (clattn_parameter)w, &rows, &columns);
    double bound = gain[w] * sqrt(6.0 / ((double)rows + (double)columns));
    fill((*parameters)->data[w], (uint64_t)rows * columns, (uint32_t)w, seed, bound);
  }

cleanup:
  return status;
}
