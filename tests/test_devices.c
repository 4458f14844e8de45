/* SPDX-License-Identifier: Apache-2.0
 *
 * Which devices there are and which one a selector means. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* setenv */
#endif
#include "support/setup.h"

#include <criterion/criterion.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ROWS = 32 };

static size_t list_devices(const char *selector, clattn_device_info rows[MAX_ROWS]) {
  char message[512];
  size_t count = 0;
  const clattn_status status = clattn_list_devices(selector, rows, MAX_ROWS, &count, message, sizeof message);
  cr_assert_eq(status, CLATTN_SUCCESS, "%s", message);
  cr_assert(count >= 1 && count <= MAX_ROWS);
  return count;
}

static const clattn_device_info *selected_row(const clattn_device_info *rows, size_t count) {
  const clattn_device_info *selected = NULL;
  for (size_t n = 0; n < count; n++) {
    if (!rows[n].selected) continue;
    cr_assert_null(selected, "two devices are selected");
    selected = &rows[n];
  }
  return selected;
}

/* The list against what OpenCL answers when asked again, device by device. */
Test(devices, list_agrees_with_opencl) {
  clattn_device_info rows[MAX_ROWS];
  const size_t count = list_devices(NULL, rows);
  cl_platform_id platforms[MAX_ROWS];
  cl_uint platform_count = 0;
  cr_assert_eq(clGetPlatformIDs(MAX_ROWS, platforms, &platform_count), CL_SUCCESS);
  size_t at = 0;
  for (cl_uint p = 0; p < platform_count; p++) {
    cl_device_id devices[MAX_ROWS];
    cl_uint device_count = 0;
    if (clGetDeviceIDs(platforms[p], CL_DEVICE_TYPE_ALL, MAX_ROWS, devices, &device_count) != CL_SUCCESS)
      device_count = 0;
    if (device_count == 0) { /* a row with its reason */
      cr_assert_lt(at, count);
      cr_expect_eq(rows[at].platform_index, p);
      cr_expect_neq(rows[at].status, CLATTN_SUCCESS);
      cr_expect_str_not_empty(rows[at++].reason);
    }
    for (cl_uint d = 0; d < device_count; d++, at++) {
      char name[1024], driver[1024];
      cl_ulong bytes = 0;
      cr_assert_lt(at, count);
      clGetDeviceInfo(devices[d], CL_DEVICE_NAME, sizeof name, name, NULL);
      clGetDeviceInfo(devices[d], CL_DRIVER_VERSION, sizeof driver, driver, NULL);
      clGetDeviceInfo(devices[d], CL_DEVICE_GLOBAL_MEM_SIZE, sizeof bytes, &bytes, NULL);
      cr_expect(rows[at].platform_index == p && rows[at].device_index == d);
      cr_expect(strstr(name, rows[at].name) != NULL, "'%s' and '%s'", name, rows[at].name);
      cr_expect(strncmp(driver, rows[at].driver, sizeof rows[at].driver - 1) == 0);
      cr_expect_eq(rows[at].global_bytes, bytes);
      cr_expect(strcmp(rows[at].kind, "cpu") == 0 || strcmp(rows[at].kind, "gpu") == 0);
      if (rows[at].status == CLATTN_SUCCESS) cr_expect_str_empty(rows[at].reason);
    }
  }
  cr_expect_eq(at, count);
  cr_expect_not_null(selected_row(rows, count));
}

/* A short array gets the first rows, and the count says how many there are. */
Test(devices, short_lists) {
  clattn_device_info rows[MAX_ROWS], one[2];
  const size_t count = list_devices(NULL, rows);
  size_t again = 0;
  memset(one, 0x5A, sizeof one);
  cr_expect_eq(clattn_list_devices(NULL, NULL, 0, &again, NULL, 0), CLATTN_SUCCESS);
  cr_expect_eq(again, count);
  cr_expect_eq(clattn_list_devices(NULL, one, 1, &again, NULL, 0), CLATTN_SUCCESS);
  cr_expect_eq(again, count);
  cr_expect_str_eq(one[0].name, rows[0].name);
  for (size_t n = 0; n < sizeof one[1]; n++) cr_assert_eq(((unsigned char *)&one[1])[n], 0x5A, "past the capacity");
}

/* Index, a part of the device's or platform's name in any case, and the environment all find the default device. */
Test(devices, selectors) {
  clattn_device_info rows[MAX_ROWS], again[MAX_ROWS];
  const size_t count = list_devices(NULL, rows);
  const clattn_device_info *device = selected_row(rows, count);
  cr_assert_not_null(device);
  const size_t chosen = (size_t)(device - rows);
  char selectors[4][160];
  snprintf(selectors[0], sizeof selectors[0], "%u:%u", device->platform_index, device->device_index);
  snprintf(selectors[1], sizeof selectors[1], "%s", device->name);
  snprintf(selectors[2], sizeof selectors[2], "%s", device->name);
  snprintf(selectors[3], sizeof selectors[3], "%s", device->name + 1);
  for (char *c = selectors[2]; *c; c++) *c = (char)(isupper((unsigned char)*c) ? tolower(*c) : toupper(*c));
  for (int n = 0; n < 4; n++) {
    cr_expect_eq(list_devices(selectors[n], again), count);
    cr_expect_eq(again[chosen].selected, 1, "'%s'", selectors[n]);
    clattn_context_options options;
    clattn_context_options_init(&options);
    options.device = selectors[n];
    clattn_context *context = test_context_with(&options);
    const clattn_device_info *info = clattn_context_device_info(context);
    cr_expect(info->platform_index == device->platform_index && info->device_index == device->device_index);
    cr_expect_str_eq(info->name, device->name);
    clattn_context_destroy(&context);
    setenv("CLATTN_DEVICE", selectors[n], 1);
    list_devices(NULL, again);
    cr_expect_eq(again[chosen].selected, 1);
    list_devices("", again);
    cr_expect_eq(again[chosen].selected, 1);
  }
  setenv("CLATTN_DEVICE", "no such device", 1);
  list_devices(NULL, again);
  cr_expect_null(selected_row(again, count), "no match marks none");
  list_devices(selectors[0], again);
  cr_expect_eq(again[chosen].selected, 1, "a selector wins over the environment");
}

Test(devices, no_match_lists_what_there_is) {
  clattn_device_info rows[MAX_ROWS];
  const size_t count = list_devices(NULL, rows);
  const clattn_device_info *device = selected_row(rows, count);
  const char *misses[] = {"no such device", "7777:0", "0:7777", "-1:0", "0:", ":", "0:0x"};
  for (size_t n = 0; n < sizeof misses / sizeof *misses; n++) {
    clattn_context_options options;
    clattn_context_options_init(&options);
    options.device = misses[n];
    char message[2048];
    clattn_context *context = (clattn_context *)&options;
    cr_expect_eq(clattn_context_create(&options, &context, message, sizeof message), CLATTN_INVALID_DEVICE, "'%s'",
                 misses[n]);
    cr_expect_null(context);
    cr_expect(strstr(message, misses[n]) != NULL, "%s", message);
    cr_expect(strstr(message, device->name) != NULL, "the list of what there is: %s", message);
  }
}

/* A short message buffer gets what fits, terminated. */
Test(devices, messages_that_do_not_fit) {
  clattn_context_options options;
  clattn_context_options_init(&options);
  options.device = "no such device";
  clattn_context *context = NULL;
  for (size_t size = 0; size < 20; size++) {
    char message[32];
    memset(message, 'x', sizeof message);
    cr_expect_eq(clattn_context_create(&options, &context, size ? message : NULL, size), CLATTN_INVALID_DEVICE);
    if (size) cr_expect_not_null(memchr(message, 0, size), "size %zu", size);
    for (size_t n = size; n < sizeof message; n++) cr_assert_eq(message[n], 'x', "size %zu", size);
  }
}

/* An environment without any driver is an answer, with a hint; not a crash. It must be set before the first OpenCL
 * call. */
Test(devices, no_platform_at_all) {
  setenv("OCL_ICD_VENDORS", "/nonexistent", 1);
  setenv("OCL_ICD_FILENAMES", "", 1);
  cl_uint platforms = 0;
  if (clGetPlatformIDs(0, NULL, &platforms) == CL_SUCCESS && platforms > 0) return; /* a driver linked in directly */
  size_t count = 77;
  char message[1024];
  clattn_context *context = NULL;
  cr_expect_eq(clattn_list_devices(NULL, NULL, 0, &count, message, sizeof message), CLATTN_NO_DEVICE);
  cr_expect_eq(count, 0);
  cr_expect(strstr(message, "install") != NULL, "%s", message);
  cr_expect_eq(clattn_context_create(NULL, &context, message, sizeof message), CLATTN_NO_DEVICE);
  cr_expect_null(context);
  cr_expect(strstr(message, "install") != NULL, "%s", message);
}
