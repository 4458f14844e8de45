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

/* Who is asked, and where the answers go. */
typedef struct reading {
  cl_platform_id platform;
  cl_device_id device; /* NULL: the platform is asked */
  clattn_device_info *info;
  message to;
} reading;

static cl_int ask(const reading *from, cl_uint what, size_t size, void *value, size_t *length) {
  return from->device != NULL ? clGetDeviceInfo(from->device, what, size, value, length)
                              : clGetPlatformInfo(from->platform, what, size, value, length);
}

/* A device or platform that does not answer cannot be used: its row keeps the first reason. */
static void note_failure(const reading *from, cl_uint what, cl_int error) {
  clattn_device_info *info = from->info;
  if (info->status != CLATTN_SUCCESS) return;
  info->status = cl_error_status(error);
  (void)snprintf(info->reason, sizeof info->reason, "the driver fails: %s(0x%x) answers %s (%d)",
                 from->device != NULL ? "clGetDeviceInfo" : "clGetPlatformInfo", (unsigned)what, cl_error_name(error),
                 (int)error);
}

/* The whole text of a property, owned by the caller; NULL if the driver does not answer. */
static clattn_status read_whole_text(const reading *from, cl_uint what, char **out) {
  size_t length = 0;
  *out = NULL;
  cl_int error = ask(from, what, 0, NULL, &length);
  if (error != CL_SUCCESS) {
    note_failure(from, what, error);
    return CLATTN_SUCCESS;
  }
  char *text = calloc(length + 1, 1);
  if (text == NULL)
    return message_fail(from->to, CLATTN_OUT_OF_HOST_MEMORY, "no memory for %zu bytes of a device's description",
                        length + 1);
  if (length > 0) error = ask(from, what, length, text, NULL);
  if (error == CL_SUCCESS) {
    *out = text;
    return CLATTN_SUCCESS;
  }
  note_failure(from, what, error);
  free(text);
  return CLATTN_SUCCESS;
}

static clattn_status read_text(const reading *from, cl_uint what, char *out, size_t size) {
  char *text = NULL;
  clattn_status status = read_whole_text(from, what, &text);
  const char *begin = text != NULL ? text : "";
  while (isspace((unsigned char)*begin)) begin++; /* some drivers pad names with blanks, in front or behind */
  size_t length = strlen(begin);
  while (length > 0 && isspace((unsigned char)begin[length - 1])) length--;
  (void)snprintf(out, size, "%.*s", length < size ? (int)length : (int)size - 1, begin);
  free(text);
  return status;
}

static void read_value(const reading *from, cl_uint what, void *value, size_t size) {
  cl_int error = ask(from, what, size, value, NULL);
  if (error != CL_SUCCESS) note_failure(from, what, error);
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

static clattn_status read_features(const reading *from) {
  clattn_device_info *info = from->info;
  cl_ulong config = 0;
  char *extensions = NULL;
  clattn_status status = read_whole_text(from, CL_DEVICE_EXTENSIONS, &extensions);
  const char *list = extensions != NULL ? extensions : "";
  /* OpenCL 1.2 devices report doubles by the extension, later ones by the configuration alone; devices without doubles
   * need not know the question. */
  info->fp64 = has_extension(list, "cl_khr_fp64") ||
               (ask(from, CL_DEVICE_DOUBLE_FP_CONFIG, sizeof config, &config, NULL) == CL_SUCCESS && config != 0);
  info->fp16 = has_extension(list, "cl_khr_fp16");
  info->sub_groups = has_extension(list, "cl_khr_subgroups") || has_extension(list, "cl_intel_subgroups");
  free(extensions);
  return status;
}

int device_is_vector_cpu(const clattn_device_info *info) {
  /* Not the type alone: a software rasterizer calls itself a CPU with vectors of one float, and gets the kernels for
   * work-groups; nor the width alone: some GPUs have vectors of four and need work-groups all the same. The native
   * width: some compilers for CPUs prefer scalar code and make vectors of it themselves. */
  return (info->type & CL_DEVICE_TYPE_CPU) != 0 && (info->type & CL_DEVICE_TYPE_GPU) == 0 && info->vector_width >= 4;
}

static clattn_status read_platform(cl_platform_id platform, clattn_device_info *info, message to) {
  const reading from = {platform, NULL, info, to};
  clattn_status status = read_text(&from, CL_PLATFORM_NAME, info->platform_name, sizeof info->platform_name);
  if (status != CLATTN_SUCCESS) return status;
  return read_text(&from, CL_PLATFORM_VERSION, info->platform_version, sizeof info->platform_version);
}

static clattn_status read_device(cl_platform_id platform, cl_device_id device, clattn_device_info *info, message to) {
  clattn_status status = CLATTN_SUCCESS;
  const reading from = {platform, device, info, to};
  cl_bool available = CL_FALSE, compiler = CL_FALSE;
  CHECK(read_text(&from, CL_DEVICE_NAME, info->name, sizeof info->name));
  CHECK(read_text(&from, CL_DEVICE_VENDOR, info->vendor, sizeof info->vendor));
  CHECK(read_text(&from, CL_DEVICE_VERSION, info->version, sizeof info->version));
  CHECK(read_text(&from, CL_DRIVER_VERSION, info->driver, sizeof info->driver));
  CHECK(read_features(&from));
  read_value(&from, CL_DEVICE_TYPE, &info->type, sizeof info->type);
  read_value(&from, CL_DEVICE_MAX_COMPUTE_UNITS, &info->compute_units, sizeof info->compute_units);
  read_value(&from, CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT, &info->vector_width, sizeof info->vector_width);
  read_value(&from, CL_DEVICE_GLOBAL_MEM_SIZE, &info->global_bytes, sizeof info->global_bytes);
  read_value(&from, CL_DEVICE_MAX_MEM_ALLOC_SIZE, &info->max_alloc_bytes, sizeof info->max_alloc_bytes);
  read_value(&from, CL_DEVICE_LOCAL_MEM_SIZE, &info->local_bytes, sizeof info->local_bytes);
  read_value(&from, CL_DEVICE_MAX_WORK_GROUP_SIZE, &info->max_work_group, sizeof info->max_work_group);
  read_value(&from, CL_DEVICE_AVAILABLE, &available, sizeof available);
  read_value(&from, CL_DEVICE_COMPILER_AVAILABLE, &compiler, sizeof compiler);
  if (info->status != CLATTN_SUCCESS) return CLATTN_SUCCESS;
  (void)snprintf(info->kind, sizeof info->kind, "%s", device_is_vector_cpu(info) ? "cpu" : "gpu");
  if (available && compiler) return CLATTN_SUCCESS;
  info->status = CLATTN_UNSUPPORTED;
  (void)snprintf(info->reason, sizeof info->reason, "%s",
                 available ? "the driver has no compiler for kernels" : "the device is not available");

cleanup:
  return status;
}

clattn_status device_info_read(cl_platform_id platform, cl_device_id device, clattn_device_info *info, message to) {
  clattn_status status = read_platform(platform, info, to);
  return status == CLATTN_SUCCESS ? read_device(platform, device, info, to) : status;
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
    entry.info.status = cl_error_status(error);
    (void)snprintf(entry.info.reason, sizeof entry.info.reason, "the driver fails: clGetDeviceIDs answers %s (%d)",
                   cl_error_name(error), (int)error);
  }
  return add_entry(list, &entry, to);
}

/* The platform's devices, owned by the caller; NULL if it has none or fails, which *error tells. */
static clattn_status list_ids(cl_platform_id platform, cl_device_id **devices, cl_uint *count, cl_int *error,
                              message to) {
  *devices = NULL;
  *count = 0; /* a driver without devices leaves it unwritten */
  *error = clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, NULL, count);
  if (*error != CL_SUCCESS || *count == 0) return CLATTN_SUCCESS;
  cl_device_id *ids = calloc(*count, sizeof(cl_device_id));
  if (ids == NULL) return message_fail(to, CLATTN_OUT_OF_HOST_MEMORY, "no memory for %u devices", *count);
  *error = clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, *count, ids, NULL);
  if (*error == CL_SUCCESS)
    *devices = ids;
  else
    free(ids);
  return CLATTN_SUCCESS;
}

/* All platforms, owned by the caller; NO_DEVICE if there is none. */
static clattn_status list_platforms(cl_platform_id **platforms, cl_uint *count, message to) {
  clattn_status status = CLATTN_SUCCESS;
  cl_platform_id *ids = NULL;
  *platforms = NULL;
  *count = 0;
  cl_int error = clGetPlatformIDs(0, NULL, count);
  if (cl_error_status(error) == CLATTN_NO_DEVICE || (error == CL_SUCCESS && *count == 0))
    return message_fail(to, CLATTN_NO_DEVICE, "no OpenCL platform on this machine: " INSTALL_HINT);
  CHECK_CL(to, error, "clGetPlatformIDs");
  ids = calloc(*count, sizeof(cl_platform_id));
  if (ids == NULL) return message_fail(to, CLATTN_OUT_OF_HOST_MEMORY, "no memory for %u platforms", *count);
  CHECK_CL(to, clGetPlatformIDs(*count, ids, NULL), "clGetPlatformIDs for %u platforms", *count);
  *platforms = ids;
  ids = NULL;

cleanup:
  free(ids);
  return status;
}

static clattn_status add_platform(device_list *list, cl_platform_id platform, unsigned index, message to) {
  clattn_status status = CLATTN_SUCCESS;
  device_entry entry;
  cl_device_id *devices = NULL;
  cl_uint count = 0;
  cl_int error = CL_SUCCESS;
  memset(&entry, 0, sizeof entry);
  entry.platform = platform;
  entry.info.platform_index = index;
  CHECK(read_platform(platform, &entry.info, to));
  if (entry.info.status != CLATTN_SUCCESS) return add_entry(list, &entry, to);
  CHECK(list_ids(platform, &devices, &count, &error, to));
  if (devices == NULL) return add_empty_platform(list, entry, error, to);
  for (cl_uint d = 0; d < count; d++) {
    device_entry row = entry;
    row.device = devices[d];
    row.info.device_index = d;
    CHECK(read_device(platform, devices[d], &row.info, to));
    CHECK(add_entry(list, &row, to));
  }

cleanup:
  free(devices);
  return status;
}

clattn_status device_list_load(device_list *list, message to) {
  clattn_status status = CLATTN_SUCCESS;
  cl_platform_id *platforms = NULL;
  cl_uint count = 0;
  list->entries = NULL;
  list->count = 0;
  CHECK(list_platforms(&platforms, &count, to));
  for (cl_uint p = 0; p < count; p++) CHECK(add_platform(list, platforms[p], p, to));

cleanup:
  free(platforms);
  if (status != CLATTN_SUCCESS) device_list_free(list);
  return status;
}

void device_indices_read(cl_platform_id platform, cl_device_id device, clattn_device_info *info) {
  cl_platform_id *platforms = NULL;
  cl_device_id *devices = NULL;
  cl_uint platform_count = 0, device_count = 0, p = 0, d = 0;
  cl_int error = CL_SUCCESS;
  message nobody = {NULL, 0};
  if (list_platforms(&platforms, &platform_count, nobody) == CLATTN_SUCCESS &&
      list_ids(platform, &devices, &device_count, &error, nobody) == CLATTN_SUCCESS && devices != NULL) {
    while (p < platform_count && platforms[p] != platform) p++;
    while (d < device_count && devices[d] != device) d++;
  }
  if (p < platform_count && d < device_count) {
    info->platform_index = p;
    info->device_index = d;
  }
  free(platforms);
  free(devices);
}

void device_list_free(device_list *list) {
  free(list->entries);
  list->entries = NULL;
  list->count = 0;
}

/* -------------------------------------------------------------------------------------------------------- selecting */

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
