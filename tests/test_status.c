/* SPDX-License-Identifier: Apache-2.0
 *
 * Every status of CLATTN_STATUS_LIST: its name and text, and that it comes back from where it should. What no argument
 * provokes comes from a driver that fails: this program has entry points of its own in front of the driver's, which
 * fail while `failing` says so. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* RTLD_NEXT, setenv */
#endif
#include "support/planted.h"
#include "support/setup.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* ------------------------------------------------------------------------------------------------- failing driver */

static enum { NOTHING, BUILDS, FINISH, PRODUCTS, MEMORY } failing; /* which calls fail */

#define IN_FRONT __attribute__((visibility("default"))) CL_API_ENTRY /* the libraries of this process must see it */

/* Copies the driver's function of that name: a function pointer cannot be cast from void *. */
static void find_next(const char *name, void *function, size_t size) {
  void *symbol = dlsym(RTLD_NEXT, name);
  cr_assert_not_null(symbol, "%s", name);
  memcpy(function, &symbol, size);
}

typedef void(CL_CALLBACK *build_callback)(cl_program, void *);

IN_FRONT cl_int CL_API_CALL clBuildProgram(cl_program program, cl_uint count, const cl_device_id *devices,
                                           const char *options, build_callback callback, void *user) {
  cl_int(CL_API_CALL * next)(cl_program, cl_uint, const cl_device_id *, const char *, build_callback, void *);
  find_next("clBuildProgram", &next, sizeof next);
  return failing == BUILDS ? CL_BUILD_PROGRAM_FAILURE : next(program, count, devices, options, callback, user);
}

IN_FRONT cl_int CL_API_CALL clFinish(cl_command_queue queue) {
  cl_int(CL_API_CALL * next)(cl_command_queue);
  find_next("clFinish", &next, sizeof next);
  return failing == FINISH ? CL_INVALID_COMMAND_QUEUE : next(queue);
}

/* Fails for all kernels for want of memory, or for CLBlast's matrix products alone: their kernels all begin so. */
IN_FRONT cl_kernel CL_API_CALL clCreateKernel(cl_program program, const char *name, cl_int *error) {
  cl_kernel(CL_API_CALL * next)(cl_program, const char *, cl_int *);
  find_next("clCreateKernel", &next, sizeof next);
  const int fails = failing == MEMORY || (failing == PRODUCTS && strncmp(name, "Xgemm", 5) == 0);
  if (!fails) return next(program, name, error);
  if (error) *error = failing == MEMORY ? CL_OUT_OF_HOST_MEMORY : CL_INVALID_KERNEL_NAME;
  return NULL;
}

/* --------------------------------------------------------------------------------------------------- provocations */

/* The smallest attention call, with the given type of the key and options; the text that came with it stays in
 * `text`. */
typedef struct small_call {
  clattn_type key_type;
  int overlap;      /* the output is the query's */
  int foreign;      /* the key is of another context */
  size_t key_batch; /* 1, or what does not fit */
  clattn_path path;
} small_call;

static char text[1024];

static clattn_status run_small_call(small_call what) {
  clattn_context *context = test_context(), *other = test_context();
  const size_t shape[4] = {1, 1, 2, 2}, key_shape[4] = {what.key_batch, 1, 2, 2};
  clattn_tensor query, key, output;
  EXPECT_SUCCESS(context, clattn_tensor_create(context, CLATTN_FLOAT32, 4, shape, NULL, &query));
  EXPECT_SUCCESS(context, clattn_tensor_create(context, CLATTN_FLOAT32, 4, shape, NULL, &output));
  clattn_context *owner = what.foreign ? other : context;
  EXPECT_SUCCESS(owner, clattn_tensor_create(owner, what.key_type, 4, key_shape, NULL, &key));
  clattn_options options;
  clattn_options_init(&options);
  options.path = what.path;
  clattn_status status = clattn_sdpa(context, &query, &key, &key, what.overlap ? &query : &output, &options);
  if (status == CLATTN_SUCCESS) status = clattn_finish(context);
  snprintf(text, sizeof text, "%s", clattn_context_message(context));
  failing = NOTHING;
  clattn_tensor_release(&query);
  clattn_tensor_release(&key);
  clattn_tensor_release(&output);
  clattn_context_destroy(&context);
  clattn_context_destroy(&other);
  return status;
}

static const small_call plain = {.key_type = CLATTN_FLOAT32, .key_batch = 1};

static clattn_status provoke_success(void) {
  return run_small_call(plain);
}

static clattn_status provoke_argument(void) {
  small_call call = plain;
  call.path = (clattn_path)7;
  return run_small_call(call);
}

static clattn_status provoke_shape(void) {
  small_call call = plain;
  call.key_batch = 2;
  return run_small_call(call);
}

static clattn_status provoke_type(void) {
  small_call call = plain;
  call.key_type = CLATTN_INT32;
  return run_small_call(call);
}

static clattn_status provoke_buffer(void) {
  small_call call = plain;
  call.foreign = 1;
  return run_small_call(call);
}

static clattn_status provoke_overlap(void) {
  small_call call = plain;
  call.overlap = 1;
  return run_small_call(call);
}

static clattn_status provoke_unsupported(void) {
  small_call call = plain;
  call.path = CLATTN_PATH_FUSED;
  return run_small_call(call);
}

static clattn_status provoke_file(void) {
  clattn_parameters *parameters = NULL;
  return clattn_parameters_load("/nowhere/at/all", NULL, CLATTN_NAMING_AUTO, 1, 0, &parameters, text, sizeof text);
}

static clattn_status provoke_device(void) {
  clattn_context_options options;
  clattn_context *context = NULL;
  clattn_context_options_init(&options);
  options.device = "no such device";
  return clattn_context_create(&options, &context, text, sizeof text);
}

/* Must come before the first OpenCL call of the process. */
static clattn_status provoke_no_device(void) {
  clattn_context *context = NULL;
  setenv("OCL_ICD_VENDORS", "/nonexistent", 1);
  return clattn_context_create(NULL, &context, text, sizeof text);
}

static clattn_status provoke_host_memory(void) {
  failing = MEMORY;
  return run_small_call(plain);
}

static clattn_status provoke_device_memory(void) {
  clattn_context *context = test_context();
  const size_t shape[1] = {(size_t)1 << 50};
  clattn_tensor tensor;
  const clattn_status status = clattn_tensor_create(context, CLATTN_FLOAT32, 1, shape, NULL, &tensor);
  snprintf(text, sizeof text, "%s", clattn_context_message(context));
  clattn_context_destroy(&context);
  return status;
}

static clattn_status provoke_build(void) {
  failing = BUILDS;
  return run_small_call(plain);
}

static clattn_status provoke_opencl(void) {
  failing = FINISH;
  return run_small_call(plain);
}

static clattn_status provoke_clblast(void) {
  failing = PRODUCTS;
  return run_small_call(plain);
}

/* The disk is full as far as this process can tell: no file may grow past 64 bytes. */
static clattn_status provoke_file_error(void) {
  char folder[] = "/tmp/clattn_status_XXXXXX", path[64];
  clattn_mha_config config;
  clattn_parameters *parameters = NULL;
  clattn_mha_config_init(&config);
  config.embed_dim = 64;
  config.heads = 1;
  cr_assert_eq(clattn_parameters_random(&config, NULL, 0, &parameters, NULL, 0), CLATTN_SUCCESS);
  cr_assert_not_null(mkdtemp(folder));
  snprintf(path, sizeof path, "%s/file", folder);
  struct rlimit limit;
  cr_assert_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
  const rlim_t before = limit.rlim_cur;
  limit.rlim_cur = 64;
  signal(SIGXFSZ, SIG_IGN);
  cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
  const clattn_status status = clattn_parameters_save(parameters, path, NULL, CLATTN_NAMING_WQ, text, sizeof text);
  limit.rlim_cur = before;
  cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
  clattn_parameters_destroy(&parameters);
  cr_expect_eq(rmdir(folder), 0, "a failed save leaves nothing behind");
  return status;
}

/* A driver that doubles every probability; nobody is to remember it. */
static clattn_status provoke_self_check(void) {
  setenv("CLATTN_CACHE_DIR", "/dev/null/nowhere", 1);
  unsetenv("CLATTN_SELF_CHECK");
  planted_fault("1 / sum", "2 / sum");
  return run_small_call(plain);
}

static const struct {
  clattn_status status;
  clattn_status (*provoke)(void);
} provocations[] = {{CLATTN_SUCCESS, provoke_success},
                    {CLATTN_INVALID_ARGUMENT, provoke_argument},
                    {CLATTN_INVALID_SHAPE, provoke_shape},
                    {CLATTN_INVALID_TYPE, provoke_type},
                    {CLATTN_INVALID_BUFFER, provoke_buffer},
                    {CLATTN_INVALID_OVERLAP, provoke_overlap},
                    {CLATTN_INVALID_FILE, provoke_file},
                    {CLATTN_INVALID_DEVICE, provoke_device},
                    {CLATTN_UNSUPPORTED, provoke_unsupported},
                    {CLATTN_NO_DEVICE, provoke_no_device},
                    {CLATTN_OUT_OF_HOST_MEMORY, provoke_host_memory},
                    {CLATTN_OUT_OF_DEVICE_MEMORY, provoke_device_memory},
                    {CLATTN_BUILD_FAILED, provoke_build},
                    {CLATTN_OPENCL_ERROR, provoke_opencl},
                    {CLATTN_CLBLAST_ERROR, provoke_clblast},
                    {CLATTN_FILE_ERROR, provoke_file_error},
                    {CLATTN_SELF_CHECK_FAILED, provoke_self_check}};
enum { PROVOCATIONS = sizeof provocations / sizeof *provocations };

/* ---------------------------------------------------------------------------------------------------------- tests */

ParameterizedTestParameters(status, provoked) {
  static int index[PROVOCATIONS];
  for (int n = 0; n < PROVOCATIONS; n++) index[n] = n;
  return cr_make_param_array(int, index, PROVOCATIONS);
}

/* Each in a process of its own. */
ParameterizedTest(int *index, status, provoked) {
  const clattn_status want = provocations[*index].status, got = provocations[*index].provoke();
  cr_expect(got == want, "%s instead of %s: %s", clattn_status_name(got), clattn_status_name(want), text);
  cr_expect_eq(text[0] == 0, want == CLATTN_SUCCESS, "a failure has a message, success has none: '%s'", text);
}

/* The list is whole, in order, and every name and text is what the list says. */
Test(status, names_and_texts) {
  static const struct {
    const char *name, *text;
    int value;
  } list[] = {
#define ENTRY(name, value, words) {"CLATTN_" #name, words, value},
      CLATTN_STATUS_LIST(ENTRY)
#undef ENTRY
  };
  const int count = sizeof list / sizeof *list;
  cr_assert_eq(count, PROVOCATIONS, "a status without a provocation");
  for (int n = 0; n < count; n++) {
    cr_expect_eq(list[n].value, n);
    cr_expect_eq((int)provocations[n].status, n);
    cr_expect_str_eq(clattn_status_name((clattn_status)n), list[n].name);
    cr_expect_str_eq(clattn_status_text((clattn_status)n), list[n].text);
  }
  const int none[] = {-1, count, 1000};
  for (int n = 0; n < 3; n++) {
    cr_expect_str_not_empty(clattn_status_name((clattn_status)none[n]));
    cr_expect_str_not_empty(clattn_status_text((clattn_status)none[n]));
  }
}

#ifndef TEST_ADDRESS_SANITIZER /* which reports such a request, even where it answers it as malloc does */
/* Four matrices of 2^50 bytes each. */
Test(status, more_memory_than_the_host_has) {
  clattn_mha_config config;
  clattn_parameters *parameters = (clattn_parameters *)&config;
  clattn_mha_config_init(&config);
  config.embed_dim = (size_t)1 << 24;
  config.heads = 1;
  cr_expect_eq(clattn_parameters_random(&config, NULL, 0, &parameters, text, sizeof text), CLATTN_OUT_OF_HOST_MEMORY);
  cr_expect_null(parameters);
  cr_expect(strstr(text, "16777216") != NULL, "%s", text);
}
#endif

/* After a failure of the driver the same context works again. */
Test(status, a_context_survives_a_failing_driver) {
  clattn_context *context = test_context();
  const size_t shape[4] = {1, 1, 1, 1};
  const float one = 1, three = 3;
  clattn_tensor query, value, output;
  EXPECT_SUCCESS(context, clattn_tensor_create(context, CLATTN_FLOAT32, 4, shape, &one, &query));
  EXPECT_SUCCESS(context, clattn_tensor_create(context, CLATTN_FLOAT32, 4, shape, &three, &value));
  EXPECT_SUCCESS(context, clattn_tensor_create(context, CLATTN_FLOAT32, 4, shape, NULL, &output));
  failing = BUILDS;
  EXPECT_STATUS(context, CLATTN_BUILD_FAILED, clattn_sdpa(context, &query, &query, &value, &output, NULL));
  failing = PRODUCTS;
  EXPECT_STATUS(context, CLATTN_CLBLAST_ERROR, clattn_sdpa(context, &query, &query, &value, &output, NULL));
  failing = FINISH;
  EXPECT_STATUS(context, CLATTN_OPENCL_ERROR, clattn_finish(context));
  failing = NOTHING;
  float got = 0;
  EXPECT_SUCCESS(context, clattn_sdpa(context, &query, &query, &value, &output, NULL));
  EXPECT_SUCCESS(context, clattn_tensor_read(context, &output, &got));
  cr_expect_eq(got, 3);
  clattn_tensor_release(&query);
  clattn_tensor_release(&value);
  clattn_tensor_release(&output);
  clattn_context_destroy(&context);
}
