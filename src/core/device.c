/* SPDX-License-Identifier: Apache-2.0 */
#include "core/device.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/first_use.h"

#define INSTALL_HINT                                                                                                   \
  "install an OpenCL driver and its ICD loader (Debian and Ubuntu: apt-get install ocl-icd-libopencl1 "                \
  "pocl-opencl-icd), then see what `clinfo -l` prints"

/* ---------------------------------------------------------------------------------------------------------- reading */

static void read_platform_text(cl_platform_id platform, cl_platform_info what, char *out, size_t size) {
  size_t length = 0;
  out[0] = '\0';
  if (clGetPlatformInfo(platform, what, 0, NULL, &length) != CL_SUCCESS || length == 0) return;
  char *text = malloc(length + 1);
  if (text == NULL) return;
  text[length] = '\0';
  if (clGetPlatformInfo(platform, what, length, text, NULL) == CL_SUCCESS) (void)snprintf(out, size, "%s", text);
  free(text);
}

/* The whole text of a device property, owned by the caller; NULL if it cannot be had. */
static char *device_text(cl_device_id device, cl_device_info what) {
  size_t length = 0;
  if (clGetDeviceInfo(device, what, 0, NULL, &length) != CL_SUCCESS) return NULL;
  char *text = malloc(length + 1);
  if (text == NULL) return NULL;
  text[length] = '\0';
  if (length > 0 && clGetDeviceInfo(device, what, length, text, NULL) != CL_SUCCESS) {
    free(text);
    return NULL;
  }
  return text;
}

static void read_device_text(cl_device_id device, cl_device_info what, char *out, size_t size) {
  char *text = device_text(device, what);
  const char *begin = text != NULL ? text : "";
  while (isspace((unsigned char)*begin)) begin++; /* some drivers pad names with blanks in front */
  (void)snprintf(out, size, "%s", begin);
  free(text);
}

/* One word of the extension list, not a part of a longer one. */
static int has_extension(const char *list, const char *name) {
  size_t length = strlen(name);
  for (const char *at = list; (at = strstr(at, name)) != NULL; at += length) {
    int begins = at == list || at[-1] == ' ';
    int ends = at[length] == ' ' || at[length] == '\0';
    if (begins && ends) return 1;
  }
  return 0;
}

static void read_features(cl_device_id device, clattn_device_info *info) {
  cl_ulong config = 0;
  char *extensions = device_text(device, CL_DEVICE_EXTENSIONS);
  const char *list = extensions != NULL ? extensions : "";
  /* OpenCL 1.2 devices report doubles by the extension, later ones by the configuration alone. */
  info->fp64 =
      has_extension(list, "cl_khr_fp64") ||
      (clGetDeviceInfo(device, CL_DEVICE_DOUBLE_FP_CONFIG, sizeof config, &config, NULL) == CL_SUCCESS && config != 0);
  info->fp16 = has_extension(list, "cl_khr_fp16");
  info->sub_groups = has_extension(list, "cl_khr_subgroups") || has_extension(list, "cl_intel_subgroups");
  free(extensions);
}

int device_is_vector_cpu(const clattn_device_info *info) {
  /* Not the type alone: a software rasterizer calls itself a CPU with vectors of one float, and gets the kernels for
   * work-groups; nor the width alone: some GPUs have vectors of four and need work-groups all the same. The native
   * width: some compilers for CPUs prefer scalar code and make vectors of it themselves. */
  return (info->type & CL_DEVICE_TYPE_CPU) != 0 && (info->type & CL_DEVICE_TYPE_GPU) == 0 && info->vector_width >= 4;
}

void device_info_read(cl_platform_id platform, cl_device_id device, clattn_device_info *info) {
  read_platform_text(platform, CL_PLATFORM_NAME, info->platform_name, sizeof info->platform_name);
  read_platform_text(platform, CL_PLATFORM_VERSION, info->platform_version, sizeof info->platform_version);
  read_device_text(device, CL_DEVICE_NAME, info->name, sizeof info->name);
  read_device_text(device, CL_DEVICE_VENDOR, info->vendor, sizeof info->vendor);
  read_device_text(device, CL_DEVICE_VERSION, info->version, sizeof info->version);
  read_device_text(device, CL_DRIVER_VERSION, info->driver, sizeof info->driver);
  const struct {
    cl_device_info what;
    void *to;
    size_t size;
  } values[] = {{CL_DEVICE_TYPE, &info->type, sizeof info->type},
                {CL_DEVICE_MAX_COMPUTE_UNITS, &info->compute_units, sizeof info->compute_units},
                {CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT, &info->vector_width, sizeof info->vector_width},
                {CL_DEVICE_GLOBAL_MEM_SIZE, &info->global_bytes, sizeof info->global_bytes},
                {CL_DEVICE_MAX_MEM_ALLOC_SIZE, &info->max_alloc_bytes, sizeof info->max_alloc_bytes},
                {CL_DEVICE_LOCAL_MEM_SIZE, &info->local_bytes, sizeof info->local_bytes},
                {CL_DEVICE_MAX_WORK_GROUP_SIZE, &info->max_work_group, sizeof info->max_work_group}};
  for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
    cl_int error = clGetDeviceInfo(device, values[i].what, values[i].size, values[i].to, NULL);
    if (error == CL_SUCCESS) continue;
    info->status = CLATTN_OPENCL_ERROR;
    (void)snprintf(info->reason, sizeof info->reason, "clGetDeviceInfo(0x%x) answers %s (%d)", (unsigned)values[i].what,
                   cl_error_name(error), (int)error);
    return;
  }
  read_features(device, info);
  (void)snprintf(info->kind, sizeof info->kind, "%s", device_is_vector_cpu(info) ? "cpu" : "gpu");
  cl_bool available = CL_FALSE, compiler = CL_FALSE;
  (void)clGetDeviceInfo(device, CL_DEVICE_AVAILABLE, sizeof available, &available, NULL);
  (void)clGetDeviceInfo(device, CL_DEVICE_COMPILER_AVAILABLE, sizeof compiler, &compiler, NULL);
  if (available && compiler) return;
  info->status = CLATTN_UNSUPPORTED;
  (void)snprintf(info->reason, sizeof info->reason, "%s",
                 available ? "the driver has no compiler for kernels" : "the device is not available");
}

/* ---------------------------------------------------------------------------------------------------------- listing */

static clattn_status add_entry(device_list *list, const device_entry *entry, message to) {
  device_entry *grown = realloc(list->entries, (list->count + 1) * sizeof *grown);
  if (grown == NULL)
    return message_fail(to, CLATTN_OUT_OF_HOST_MEMORY, "no memory for a list of %zu devices", list->count + 1);
  list->entries = grown;
  list->entries[list->count++] = *entry;
  return CLATTN_SUCCESS;
}

/* A platform that yields no device becomes a row that says so. */
static clattn_status add_empty_platform(device_list *list, device_entry entry, cl_int error, message to) {
  if (error == CL_DEVICE_NOT_FOUND || error == CL_SUCCESS) {
    entry.info.status = CLATTN_NO_DEVICE;
    (void)snprintf(entry.info.reason, sizeof entry.info.reason, "the platform has no device");
  } else {
    entry.info.status = CLATTN_OPENCL_ERROR;
    (void)snprintf(entry.info.reason, sizeof entry.info.reason, "the driver fails: clGetDeviceIDs answers %s (%d)",
                   cl_error_name(error), (int)error);
  }
  return add_entry(list, &entry, to);
}

static clattn_status add_platform(device_list *list, cl_platform_id platform, unsigned index, message to) {
  clattn_status status = CLATTN_SUCCESS;
  device_entry entry;
  memset(&entry, 0, sizeof entry);
  entry.platform = platform;
  entry.info.platform_index = index;
  read_platform_text(platform, CL_PLATFORM_NAME, entry.info.platform_name, sizeof entry.info.platform_name);
  read_platform_text(platform, CL_PLATFORM_VERSION, entry.info.platform_version, sizeof entry.info.platform_version);

  cl_device_id *devices = NULL;
  cl_uint count = 0; /* a driver without devices leaves it unwritten */
  cl_int error = clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, NULL, &count);
  if (error != CL_SUCCESS || count == 0) return add_empty_platform(list, entry, error, to);
  devices = calloc(count, sizeof(cl_device_id));
  if (devices == NULL) return message_fail(to, CLATTN_OUT_OF_HOST_MEMORY, "no memory for %u devices", count);
  error = clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, count, devices, NULL);
  if (error != CL_SUCCESS) {
    free(devices);
    return add_empty_platform(list, entry, error, to);
  }
  for (cl_uint d = 0; d < count && status == CLATTN_SUCCESS; d++) {
    device_entry row = entry;
    row.device = devices[d];
    row.info.device_index = d;
    device_info_read(platform, devices[d], &row.info);
    status = add_entry(list, &row, to);
  }
  free(devices);
  return status;
}

clattn_status device_list_load(device_list *list, message to) {
  clattn_status status = CLATTN_SUCCESS;
  cl_platform_id *platforms = NULL;
  cl_uint count = 0;
  list->entries = NULL;
  list->count = 0;
  cl_int error = clGetPlatformIDs(0, NULL, &count);
  if (error != CL_SUCCESS || count == 0)
    return message_fail(to, CLATTN_NO_DEVICE, "no OpenCL platform on this machine: " INSTALL_HINT);
  platforms = calloc(count, sizeof(cl_platform_id));
  if (platforms == NULL) return message_fail(to, CLATTN_OUT_OF_HOST_MEMORY, "no memory for %u platforms", count);
  CHECK_CL(to, clGetPlatformIDs(count, platforms, NULL), "clGetPlatformIDs for %u platforms", count);
  for (cl_uint p = 0; p < count; p++) CHECK(add_platform(list, platforms[p], p, to));

cleanup:
  free(platforms);
  if (status != CLATTN_SUCCESS) device_list_free(list);
  return status;
}

void device_list_free(device_list *list) {
  free(list->entries);
  list->entries = NULL;
  list->count = 0;
}

/* --------------------------------------------------------------------------------------------------------- selecting
 */

static int usable(const device_entry *entry) {
  return entry->device != NULL && entry->info.status == CLATTN_SUCCESS;
}

static int contains_any_case(const char *text, const char *part) {
  size_t length = strlen(part);
  for (; *text != '\0'; text++) {
    size_t i = 0;
    while (i < length && tolower((unsigned char)text[i]) == tolower((unsigned char)part[i])) i++;
    if (i == length) return 1;
  }
  return 0;
}

static int equal_any_case(const char *a, const char *b) {
  return strlen(a) == strlen(b) && contains_any_case(a, b);
}

/* "P:D": 1 if it has that form. */
static int parse_indices(const char *selector, unsigned *platform, unsigned *device) {
  char *end = NULL;
  if (!isdigit((unsigned char)selector[0])) return 0;
  unsigned long p = strtoul(selector, &end, 10);
  if (*end != ':' || !isdigit((unsigned char)end[1])) return 0;
  unsigned long d = strtoul(end + 1, &end, 10);
  if (*end != '\0' || p > 0xffffUL || d > 0xffffUL) return 0;
  *platform = (unsigned)p;
  *device = (unsigned)d;
  return 1;
}

static int first_of_type(const device_list *list, cl_device_type type, size_t *index) {
  for (size_t i = 0; i < list->count; i++) {
    if (!usable(&list->entries[i]) || (list->entries[i].info.type & type) == 0) continue;
    *index = i;
    return 1;
  }
  return 0;
}

static int select_default(const device_list *list, size_t *index) {
  return first_of_type(list, CL_DEVICE_TYPE_GPU, index) || first_of_type(list, CL_DEVICE_TYPE_ACCELERATOR, index) ||
         first_of_type(list, CL_DEVICE_TYPE_ALL, index);
}

static int select_named(const device_list *list, const char *selector, size_t *index) {
  unsigned platform = 0, device = 0;
  if (equal_any_case(selector, "gpu")) return first_of_type(list, CL_DEVICE_TYPE_GPU, index);
  if (equal_any_case(selector, "cpu")) return first_of_type(list, CL_DEVICE_TYPE_CPU, index);
  int by_index = parse_indices(selector, &platform, &device);
  for (size_t i = 0; i < list->count; i++) {
    const clattn_device_info *info = &list->entries[i].info;
    if (!usable(&list->entries[i])) continue;
    int fits = by_index ? info->platform_index == platform && info->device_index == device
                        : contains_any_case(info->name, selector) || contains_any_case(info->platform_name, selector);
    if (!fits) continue;
    *index = i;
    return 1;
  }
  return 0;
}

/* The rows of a list in one line, for a message. */
static void list_text(const device_list *list, char *out, size_t size) {
  text_builder builder = text_begin(out, size);
  for (size_t i = 0; i < list->count; i++) {
    const clattn_device_info *info = &list->entries[i].info;
    const char *separator = i ? "; " : "";
    if (list->entries[i].device == NULL)
      text_add(&builder, "%splatform %u %s (%s)", separator, info->platform_index, info->platform_name, info->reason);
    else
      text_add(&builder, "%s%u:%u %s on %s%s%s%s", separator, info->platform_index, info->device_index, info->name,
               info->platform_name, info->status ? " (" : "", info->status ? info->reason : "",
               info->status ? ")" : "");
  }
}

clattn_status device_list_select(const device_list *list, const char *selector, size_t *index, message to) {
  const char *source = "the selector";
  char there[700];
  if (selector == NULL || selector[0] == '\0') {
    selector = getenv("CLATTN_DEVICE");
    source = "CLATTN_DEVICE";
  }
  list_text(list, there, sizeof there);
  size_t any = 0;
  if (!select_default(list, &any))
    return message_fail(to, CLATTN_NO_DEVICE, "no usable OpenCL device; there is: %s; " INSTALL_HINT, there);
  if (selector == NULL || selector[0] == '\0') {
    *index = any;
    return CLATTN_SUCCESS;
  }
  if (select_named(list, selector, index)) return CLATTN_SUCCESS;
  return message_fail(to, CLATTN_INVALID_DEVICE, "no device matches %s '%.64s'; there is: %s", source, selector, there);
}

/* ----------------------------------------------------------------------------------------------------------- public */

clattn_status clattn_list_devices(const char *selector, clattn_device_info *devices, size_t capacity, size_t *count,
                                  char *text, size_t text_size) {
  clattn_status status = CLATTN_SUCCESS;
  message to = {text, text_size};
  device_list list = {NULL, 0};
  message_clear(to);
  if (count == NULL) return message_fail(to, CLATTN_INVALID_ARGUMENT, "count is NULL");
  *count = 0;
  if (devices == NULL && capacity > 0)
    return message_fail(to, CLATTN_INVALID_ARGUMENT, "devices is NULL while capacity is %zu", capacity);
  first_use_lock();
  status = device_list_load(&list, to);
  first_use_unlock();
  if (status != CLATTN_SUCCESS) return status;

  size_t selected = 0;
  message nobody = {NULL, 0};
  if (device_list_select(&list, selector, &selected, nobody) == CLATTN_SUCCESS)
    list.entries[selected].info.selected = 1;
  for (size_t i = 0; i < list.count && i < capacity; i++) devices[i] = list.entries[i].info;
  *count = list.count;
  device_list_free(&list);
  return status;
}
