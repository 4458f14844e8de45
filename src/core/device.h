/* SPDX-License-Identifier: Apache-2.0
 *
 * What OpenCL devices there are and which one a selector means. */
#ifndef CLATTN_CORE_DEVICE_H
#define CLATTN_CORE_DEVICE_H

#include "core/message.h"

/* One device, or a platform that has none (device NULL, info.reason says why). */
typedef struct device_entry {
  cl_platform_id platform;
  cl_device_id device;
  clattn_device_info info;
} device_entry;

typedef struct device_list {
  device_entry *entries; /* owned */
  size_t count;
} device_list;

/* Every device of every platform; NO_DEVICE if there is no platform. */
clattn_status device_list_load(device_list *list, message to);
void device_list_free(device_list *list);

/* The entry that a selector means (NULL or "": CLATTN_DEVICE, then the default rule). */
clattn_status device_list_select(const device_list *list, const char *selector, size_t *index, message to);

/* Fills all of `info` but the indices and `selected`; it must be zero. What the driver fails to answer becomes the
 * row's status and reason; only OUT_OF_HOST_MEMORY comes back. */
clattn_status device_info_read(cl_platform_id platform, cl_device_id device, clattn_device_info *info, message to);

/* Fills the indices. They are for messages and reports: both stay 0 if the device is no root device of the platform, or
 * if they cannot be found out. */
void device_indices_read(cl_platform_id platform, cl_device_id device, clattn_device_info *info);

/* 1: explicit vectors and no barriers suit it; 0: work-groups do. */
int device_is_vector_cpu(const clattn_device_info *info);

#endif
