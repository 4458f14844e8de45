/* SPDX-License-Identifier: Apache-2.0
 *
 * clattn inside a program that has its own OpenCL: its context, queues, buffers and events.
 *
 * One buffer holds packed queries, keys and values as a projection by one stacked matrix leaves them, [B,T,3,H,D], from
 * element OFFSET on. Attention reads them where they are, as three strided views, and writes [B,T,H,D] into the middle
 * of another buffer. Uploads and downloads go over a queue of their own and are tied to the attention by events. */
#include <clattn/clattn.h>
#include <stdio.h>

enum { B = 2, T = 5, H = 3, D = 4, OFFSET = 7, QKV = B * T * 3 * H * D, OUT = B * T * H * D };

typedef struct program {
  cl_context cl;
  cl_command_queue compute, transfer;
  cl_mem qkv, out; /* OFFSET elements before the data, OFFSET behind them */
  cl_event uploaded, attended, downloaded;
  clattn_context *context;
} program;

#define CHECK(call)                                                                                                    \
  do {                                                                                                                 \
    int check_result = (int)(call);                                                                                    \
    if (check_result != 0) {                                                                                           \
      fprintf(stderr, "%s: %d\n", #call, check_result);                                                                \
      return 1;                                                                                                        \
    }                                                                                                                  \
  } while (0)

/* Your program has a device already. Here it is the one that clattn would choose, looked up by its indices. */
static int find_device(cl_device_id *device) {
  enum { MOST = 32 };
  clattn_device_info rows[MOST];
  cl_platform_id platforms[MOST];
  cl_device_id devices[MOST];
  size_t count = 0;
  CHECK(clattn_list_devices(NULL, rows, MOST, &count, NULL, 0));
  for (size_t i = 0; i < count && i < MOST; i++) {
    if (!rows[i].selected || rows[i].platform_index >= MOST || rows[i].device_index >= MOST) continue;
    CHECK(clGetPlatformIDs(MOST, platforms, NULL));
    CHECK(clGetDeviceIDs(platforms[rows[i].platform_index], CL_DEVICE_TYPE_ALL, MOST, devices, NULL));
    *device = devices[rows[i].device_index];
    return 0;
  }
  fprintf(stderr, "no device\n");
  return 1;
}

static int set_up(program *p, const float *qkv, const float *sentinel) {
  cl_device_id device = NULL;
  cl_int errors[5] = {CL_SUCCESS, CL_SUCCESS, CL_SUCCESS, CL_SUCCESS, CL_SUCCESS};
  const size_t padded_qkv = (QKV + 2 * OFFSET) * sizeof(float), padded_out = (OUT + 2 * OFFSET) * sizeof(float);
  CHECK(find_device(&device));
  p->cl = clCreateContext(NULL, 1, &device, NULL, NULL, &errors[0]);
  CHECK(errors[0]);
  p->compute = clCreateCommandQueue(p->cl, device, 0, &errors[1]);
  p->transfer = clCreateCommandQueue(p->cl, device, 0, &errors[2]);
  p->qkv = clCreateBuffer(p->cl, CL_MEM_READ_ONLY, padded_qkv, NULL, &errors[3]);
  p->out = clCreateBuffer(p->cl, CL_MEM_READ_WRITE, padded_out, NULL, &errors[4]);
  for (int i = 1; i < 5; i++) CHECK(errors[i]);
  CHECK(clEnqueueWriteBuffer(p->transfer, p->out, CL_FALSE, 0, padded_out, sentinel, 0, NULL, NULL));
  CHECK(clEnqueueWriteBuffer(p->transfer, p->qkv, CL_FALSE, 0, padded_qkv, qkv, 0, NULL, &p->uploaded));
  return clFlush(p->transfer);
}

/* [B,T,3,H,D] from element OFFSET on, seen as the [B,H,T,D] of queries (part 0), keys (1) or values (2). */
static clattn_tensor packed_view(cl_mem buffer, size_t part) {
  clattn_tensor view = {.buffer = buffer,
                        .offset = OFFSET + part * H * D,
                        .type = CLATTN_FLOAT32,
                        .rank = 4,
                        .shape = {B, H, T, D},
                        .stride = {T * 3 * H * D, D, 3 * H * D, 1}};
  return view;
}

static int attend(program *p) {
  char message[512];
  clattn_context_options setup;
  clattn_context_options_init(&setup);
  setup.queue = p->compute;
  if (clattn_context_create(&setup, &p->context, message, sizeof message) != CLATTN_SUCCESS) {
    fprintf(stderr, "no context: %s\n", message);
    return 1;
  }
  const clattn_tensor query = packed_view(p->qkv, 0), key = packed_view(p->qkv, 1), value = packed_view(p->qkv, 2);
  const size_t out_shape[4] = {B, T, H, D};
  const clattn_tensor output =
      clattn_tensor_transposed(clattn_tensor_view(p->out, OFFSET, CLATTN_FLOAT32, 4, out_shape), 1, 2);
  clattn_options options;
  clattn_options_init(&options);
  options.causal = CLATTN_CAUSAL_TOP_LEFT;
  options.wait_count = 1;
  options.wait_list = &p->uploaded;
  options.event = &p->attended;
  if (clattn_sdpa(p->context, &query, &key, &value, &output, &options) != CLATTN_SUCCESS) {
    fprintf(stderr, "attention failed: %s\n", clattn_context_message(p->context));
    return 1;
  }
  return clFlush(p->compute);
}

static int download(program *p, float *out) {
  CHECK(clEnqueueReadBuffer(p->transfer, p->out, CL_FALSE, 0, (OUT + 2 * OFFSET) * sizeof(float), out, 1, &p->attended,
                            &p->downloaded));
  return clWaitForEvents(1, &p->downloaded);
}

static double element(const float *qkv, size_t part, size_t b, size_t t, size_t h, size_t d) {
  return (double)qkv[OFFSET + (((b * T + t) * 3 + part) * H + h) * D + d];
}

/* Output of query t in double: keys up to t, weights exp(score) over their sum. */
static double expected(const float *qkv, size_t b, size_t t, size_t h, size_t d) {
  double sum = 0, weighted = 0;
  for (size_t j = 0; j <= t; j++) {
    double score = 0;
    for (size_t e = 0; e < D; e++) score += element(qkv, 0, b, t, h, e) * element(qkv, 1, b, j, h, e);
    double weight = exp(score / sqrt((double)D));
    sum += weight;
    weighted += weight * element(qkv, 2, b, j, h, d);
  }
  return weighted / sum;
}

/* Values right, everything round them untouched. */
static int check(const float *qkv, const float *out, const float *sentinel) {
  double largest = 0;
  int wrong = 0;
  for (size_t b = 0; b < B; b++)
    for (size_t t = 0; t < T; t++)
      for (size_t h = 0; h < H; h++)
        for (size_t d = 0; d < D; d++) {
          double error = fabs((double)out[OFFSET + ((b * T + t) * H + h) * D + d] - expected(qkv, b, t, h, d));
          if (!(error <= 1e-5)) wrong++; /* NaN is wrong, too */
          if (error > largest) largest = error;
        }
  for (size_t i = 0; i < OFFSET; i++) {
    if (out[i] != sentinel[i] || out[OFFSET + OUT + i] != sentinel[OFFSET + OUT + i]) {
      fprintf(stderr, "something was written beside the output\n");
      return 1;
    }
  }
  printf("%d wrong, largest deviation %.2g\n", wrong, largest);
  return wrong > 0;
}

static void tear_down(program *p) {
  clattn_context_destroy(&p->context);
  if (p->uploaded != NULL) clReleaseEvent(p->uploaded);
  if (p->attended != NULL) clReleaseEvent(p->attended);
  if (p->downloaded != NULL) clReleaseEvent(p->downloaded);
  if (p->qkv != NULL) clReleaseMemObject(p->qkv);
  if (p->out != NULL) clReleaseMemObject(p->out);
  if (p->compute != NULL) clReleaseCommandQueue(p->compute);
  if (p->transfer != NULL) clReleaseCommandQueue(p->transfer);
  if (p->cl != NULL) clReleaseContext(p->cl);
}

int main(void) {
  static float qkv[QKV + 2 * OFFSET], out[OUT + 2 * OFFSET], sentinel[OUT + 2 * OFFSET];
  program p = {.cl = NULL};
  for (size_t i = 0; i < QKV + 2 * OFFSET; i++) qkv[i] = (float)((i * 37) % 23) / 11.5f - 1.0f;
  for (size_t i = 0; i < OUT + 2 * OFFSET; i++) sentinel[i] = 1234.5f;
  int failed = set_up(&p, qkv, sentinel) || attend(&p) || download(&p, out) || check(qkv, out, sentinel);
  /* What is in flight still uses the arrays. */
  if (p.transfer != NULL) clFinish(p.transfer);
  tear_down(&p);
  return failed;
}
