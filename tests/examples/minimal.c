/* SPDX-License-Identifier: Apache-2.0
 *
 * Host arrays in, attention out, on whatever device the library finds.
 *
 * The two keys have scores 0 and ln 3 for the first query, so its weights are 1/4 and 3/4; the second query has them
 * the other way round. */
#include <clattn/clattn.h>
#include <stdio.h>

int main(void) {
  const size_t shape[4] = {1, 1, 2, 2};               /* batch, heads, length, head size */
  const float ln3 = 1.09861229f, root2 = 1.41421356f; /* scores are divided by the root of the head size */
  const float q[4] = {1, 0, -1, 0}, k[4] = {0, 0, ln3 * root2, 0}, v[4] = {0, 4, 8, 0};
  const float expected[4] = {6, 1, 2, 3};
  float out[4] = {0};
  int failed = 1;

  char message[512];
  clattn_context *context = NULL;
  clattn_tensor query = {0}, key = {0}, value = {0}, output = {0};
  if (clattn_context_create(NULL, &context, message, sizeof message) != CLATTN_SUCCESS) {
    fprintf(stderr, "no context: %s\n", message);
    return 1;
  }
  if (clattn_tensor_create(context, CLATTN_FLOAT32, 4, shape, q, &query) == CLATTN_SUCCESS &&
      clattn_tensor_create(context, CLATTN_FLOAT32, 4, shape, k, &key) == CLATTN_SUCCESS &&
      clattn_tensor_create(context, CLATTN_FLOAT32, 4, shape, v, &value) == CLATTN_SUCCESS &&
      clattn_tensor_create(context, CLATTN_FLOAT32, 4, shape, NULL, &output) == CLATTN_SUCCESS &&
      clattn_sdpa(context, &query, &key, &value, &output, NULL) == CLATTN_SUCCESS &&
      clattn_tensor_read(context, &output, out) == CLATTN_SUCCESS) {
    failed = 0;
    for (int i = 0; i < 4; i++) failed |= !(fabsf(out[i] - expected[i]) <= 1e-5f);
    printf("[[%g, %g], [%g, %g]] on %s\n", out[0], out[1], out[2], out[3], clattn_context_device_info(context)->name);
  } else {
    fprintf(stderr, "attention failed: %s\n", clattn_context_message(context));
  }
  clattn_tensor_release(&query);
  clattn_tensor_release(&key);
  clattn_tensor_release(&value);
  clattn_tensor_release(&output);
  clattn_context_destroy(&context);
  return failed;
}
