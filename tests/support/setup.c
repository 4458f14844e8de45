/* SPDX-License-Identifier: Apache-2.0 */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L /* nanosleep */
#endif
#include "setup.h"

#include <clblast_c.h>
#include <criterion/criterion.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

int test_fail(test_line *line, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(line->text, sizeof line->text, format, arguments);
  va_end(arguments);
  return 0;
}

clattn_context *test_context(void) {
  return test_context_with(NULL);
}

/* The least tile of CLBlast's direct kernels, for compilers that copy a kernel's body for each work-item of a group: they
 * take minutes for the usual ones. */
static void use_small_products(const clattn_context *context) {
  static const char *names[] = {"WGD", "MDIMCD", "NDIMCD", "MDIMAD", "NDIMBD", "KWID", "VWMD", "VWND", "PADA", "PADB"};
  static const size_t values[] = {8, 8, 8, 8, 8, 1, 1, 1, 0, 0};
  const CLBlastStatusCode code = CLBlastOverrideParameters(clattn_context_device(context), "XgemmDirect",
                                                           CLBlastPrecisionSingle, 10, names, values);
  cr_assert_eq(code, CLBlastSuccess, "CLBlastOverrideParameters: %d", (int)code);
}

clattn_context *test_context_with(const clattn_context_options *options) {
  char message[1024];
  clattn_context *context = NULL;
  const clattn_status status = clattn_context_create(options, &context, message, sizeof message);
  cr_assert(status == CLATTN_SUCCESS, "no context: %s: %s", clattn_status_name(status), message);
  cr_assert_not_null(context);
  cr_assert_str_empty(message);
  if (getenv("CLATTN_TEST_SMALL_PRODUCTS") != NULL) use_small_products(context);
  return context;
}

int test_is_small(void) {
  const char *set = getenv("CLATTN_TEST_SET");
  return set && strcmp(set, "small") == 0;
}

size_t test_size(size_t full, size_t small) {
  return test_is_small() ? small : full;
}

int test_has_fp64(const clattn_context *context) {
  cl_device_fp_config config = 0;
  cl_int error =
      clGetDeviceInfo(clattn_context_device(context), CL_DEVICE_DOUBLE_FP_CONFIG, sizeof config, &config, NULL);
  return error == CL_SUCCESS && config != 0;
}

void *test_alloc(size_t count, size_t size) {
  void *memory = calloc(count ? count : 1, size);
  if (!memory) {
    fprintf(stderr, "tests: no memory for %zu elements of %zu bytes\n", count, size);
    abort();
  }
  return memory;
}

size_t test_settled(size_t (*count)(void *), void *argument, size_t most) {
  size_t value = count(argument);
  for (int n = 0; value > most && n < 10000; n++) {
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    value = count(argument);
  }
  return value;
}
