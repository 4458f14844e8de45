/* SPDX-License-Identifier: Apache-2.0
 *
 * A program of somebody else that links with clattn: two keys with equal scores, so the output is the mean of their
 * values. */
#include <clattn/clattn.h>

#include <math.h>
#include <stdio.h>

static clattn_status attend(clattn_context *context, const clattn_tensor tensors[4], float *out) {
  clattn_status status = clattn_sdpa(context, &tensors[0], &tensors[1], &tensors[2], &tensors[3], NULL);
  return status != CLATTN_SUCCESS ? status : clattn_tensor_read(context, &tensors[3], out);
}

int main(void) {
  const size_t one[4] = {1, 1, 1, 1}, two[4] = {1, 1, 2, 1};
  const float query = 0.0f, keys[2] = {1.0f, 2.0f}, values[2] = {1.0f, 4.0f};
  const struct {
    const size_t *shape;
    const void *host;
  } wanted[4] = {{one, &query}, {two, keys}, {two, values}, {one, NULL}};
  clattn_tensor tensors[4] = {{0}};
  clattn_context *context = NULL;
  char message[256];
  float out = 0.0f;

  clattn_status status = clattn_context_create(NULL, &context, message, sizeof message);
  if (status != CLATTN_SUCCESS) {
    fprintf(stderr, "%s: %s\n", clattn_status_name(status), message);
    return 1;
  }
  for (int i = 0; i < 4 && status == CLATTN_SUCCESS; i++) {
    status = clattn_tensor_create(context, CLATTN_FLOAT32, 4, wanted[i].shape, wanted[i].host, &tensors[i]);
  }
  if (status == CLATTN_SUCCESS) status = attend(context, tensors, &out);
  if (status != CLATTN_SUCCESS) {
    fprintf(stderr, "%s: %s\n", clattn_status_name(status), clattn_context_message(context));
  }
  for (int i = 0; i < 4; i++) clattn_tensor_release(&tensors[i]);
  clattn_context_destroy(&context);

  printf("clattn %s: the mean of 1 and 4 is %g\n", clattn_version(), (double)out);
  return status == CLATTN_SUCCESS && fabsf(out - 2.5f) <= 1e-6f ? 0 : 1;
}
