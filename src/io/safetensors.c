/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L
#include "safetensors.h"

#include "file.h"
#include "half.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum {
  LENGTH_BYTES = 8,         /* of the number in front of the header */
  HEADER_LIMIT = 100000000, /* bytes; the limit of the reference implementation */
  SHOWN = 60                /* characters of a name or a value in a message */
};

struct st_file {
  io_file file;
  uint64_t data_begin;
  size_t count;
  st_tensor *tensors; /* [count], by begin, then end, then name */
};

static const struct {
  const char *name;
  size_t size; /* bytes */
  st_type type;
} dtypes[] = {{"F64", 8, ST_F64},    {"F32", 4, ST_F32},   {"F16", 2, ST_F16},   {"BF16", 2, ST_BF16},
              {"BOOL", 1, ST_OTHER}, {"U8", 1, ST_OTHER},  {"I8", 1, ST_OTHER},  {"I16", 2, ST_OTHER},
              {"U16", 2, ST_OTHER},  {"I32", 4, ST_OTHER}, {"U32", 4, ST_OTHER}, {"I64", 8, ST_OTHER},
              {"U64", 8, ST_OTHER}};
enum { DTYPE_COUNT = sizeof dtypes / sizeof dtypes[0] };

/* Bytes of an element, 0 if the dtype is unknown. */
static size_t dtype_size(const char *name, st_type *type) {
  *type = ST_OTHER;
  for (size_t i = 0; i < DTYPE_COUNT; i++) {
    if (strcmp(name, dtypes[i].name) != 0) continue;
    *type = dtypes[i].type;
    return dtypes[i].size;
  }
  return strncmp(name, "F8_", 3) == 0 ? 1 : 0; /* F8_E4M3, F8_E5M2, ... */
}

/* "PATH: tensor NAME: FIELD is VALUE, which is no EXPECTED" */
static io_status bad_field(const st_file *st, const char *tensor, const char *field, const json_t *value,
                           const char *expected, io_error *error) {
  char *text = value == NULL ? NULL : json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
  io_status status;
  if (value == NULL)
    status = io_fail(error, IO_INVALID, "%s: tensor \"%.*s\" has no %s; it must be %s", st->file.path, SHOWN, tensor,
                     field, expected);
  else
    status = io_fail(error, IO_INVALID, "%s: tensor \"%.*s\": %s is %.*s; it must be %s", st->file.path, SHOWN, tensor,
                     field, SHOWN, text == NULL ? "?" : text, expected);
  free(text);
  return status;
}

static int is_natural(const json_t *value) {
  return json_is_integer(value) && json_integer_value(value) >= 0;
}

/* The row's shape, and in *elements how many values that makes. */
static io_status parse_shape(const st_file *st, const char *name, const json_t *shape, size_t size, st_tensor *tensor,
                             size_t *elements, io_error *error) {
  static const char expected[] = "an array of extents";
  if (!json_is_array(shape)) return bad_field(st, name, "shape", shape, expected, error);
  size_t rank = json_array_size(shape);
  /* Rows of any rank are checked, though only ranks up to ST_MAX_RANK fit into the row. */
  size_t *extents = calloc(rank > 0 ? rank : 1, sizeof *extents);
  if (extents == NULL)
    return io_fail(error, IO_NO_MEMORY, "%s: no memory for a shape of rank %zu", st->file.path, rank);
  io_status status = IO_OK;
  for (size_t i = 0; i < rank && status == IO_OK; i++) {
    const json_t *extent = json_array_get(shape, i);
    if (!is_natural(extent))
      status = bad_field(st, name, "shape", shape, expected, error);
    else if ((uint64_t)json_integer_value(extent) > SIZE_MAX)
      status = bad_field(st, name, "shape", shape, "in the address space", error);
    else
      extents[i] = (size_t)json_integer_value(extent);
  }
  if (status == IO_OK && !io_shape_count(extents, rank, size > 0 ? size : 1, elements))
    status = bad_field(st, name, "shape", shape, "such that the tensor's size fits the address space", error);
  if (status == IO_OK) {
    tensor->rank = (int)rank; /* fits, as the header is at most HEADER_LIMIT bytes */
    memcpy(tensor->shape, extents, (rank < ST_MAX_RANK ? rank : ST_MAX_RANK) * sizeof *extents);
  }
  free(extents);
  return status;
}

static io_status parse_tensor(const st_file *st, const char *name, const json_t *value, st_tensor *tensor,
                              io_error *error) {
  size_t elements = 0;
  if (!json_is_object(value)) return bad_field(st, name, "the entry", value, "an object", error);
  const json_t *dtype = json_object_get(value, "dtype"), *offsets = json_object_get(value, "data_offsets");
  if (!json_is_string(dtype)) return bad_field(st, name, "dtype", dtype, "a string", error);
  snprintf(tensor->dtype, sizeof tensor->dtype, "%s", json_string_value(dtype));
  size_t size = dtype_size(json_string_value(dtype), &tensor->type);
  io_status status = parse_shape(st, name, json_object_get(value, "shape"), size, tensor, &elements, error);
  if (status != IO_OK) return status;
  const json_t *begin = json_array_get(offsets, 0), *end = json_array_get(offsets, 1);
  if (json_array_size(offsets) != 2 || !is_natural(begin) || !is_natural(end))
    return bad_field(st, name, "data_offsets", offsets, "two offsets in bytes", error);
  tensor->begin = (uint64_t)json_integer_value(begin);
  tensor->end = (uint64_t)json_integer_value(end);
  if (tensor->begin > tensor->end) return bad_field(st, name, "data_offsets", offsets, "in rising order", error);
  if (tensor->end > st->file.size - st->data_begin)
    return io_fail(error, IO_INVALID,
                   "%s: tensor \"%.*s\": data_offsets end at %" PRIu64 ", but the file has %" PRIu64 " bytes of data",
                   st->file.path, SHOWN, name, tensor->end, st->file.size - st->data_begin);
  if (size > 0 && tensor->end - tensor->begin != (uint64_t)elements * size)
    return io_fail(error, IO_INVALID,
                   "%s: tensor \"%.*s\": %zu values of type %s need %zu bytes, but data_offsets hold %" PRIu64,
                   st->file.path, SHOWN, name, elements, tensor->dtype, elements * size, tensor->end - tensor->begin);
  tensor->name = strdup(name);
  if (tensor->name == NULL) return io_fail(error, IO_NO_MEMORY, "%s: out of memory", st->file.path);
  return IO_OK;
}

static io_status check_metadata(const st_file *st, json_t *metadata, io_error *error) {
  const char *key;
  json_t *value;
  if (!json_is_object(metadata)) return io_fail(error, IO_INVALID, "%s: __metadata__ is no object", st->file.path);
  json_object_foreach(metadata, key, value) {
    if (!json_is_string(value))
      return io_fail(error, IO_INVALID, "%s: __metadata__: the value of \"%.*s\" is no string", st->file.path, SHOWN,
                     key);
  }
  return IO_OK;
}

static int by_position(const void *left, const void *right) {
  const st_tensor *a = left, *b = right;
  if (a->begin != b->begin) return a->begin < b->begin ? -1 : 1;
  if (a->end != b->end) return a->end < b->end ? -1 : 1;
  return strcmp(a->name, b->name);
}

/* Data must follow one another without a gap and fill the file. */
static io_status check_layout(const st_file *st, io_error *error) {
  uint64_t expected = 0, data_size = st->file.size - st->data_begin;
  for (size_t i = 0; i < st->count; i++) {
    const st_tensor *tensor = &st->tensors[i];
    if (tensor->begin != expected)
      return io_fail(error, IO_INVALID,
                     "%s: tensor \"%.*s\" begins at byte %" PRIu64 " of the data, but those before it end at %" PRIu64
                     ": %s",
                     st->file.path, SHOWN, tensor->name, tensor->begin, expected,
                     tensor->begin < expected ? "they overlap" : "there is a hole");
    expected = tensor->end;
  }
  if (expected != data_size)
    return io_fail(error, IO_INVALID, "%s: the tensors end at byte %" PRIu64 " of the data, but the file has %" PRIu64,
                   st->file.path, expected, data_size);
  return IO_OK;
}

static io_status parse_tensors(st_file *st, json_t *root, io_error *error) {
  const char *name;
  json_t *value;
  size_t rows = json_object_size(root);
  st->tensors = calloc(rows > 0 ? rows : 1, sizeof *st->tensors);
  if (st->tensors == NULL) return io_fail(error, IO_NO_MEMORY, "%s: no memory for %zu tensors", st->file.path, rows);
  json_object_foreach(root, name, value) {
    io_status status;
    if (strcmp(name, "__metadata__") == 0)
      status = check_metadata(st, value, error);
    else
      status = parse_tensor(st, name, value, &st->tensors[st->count], error);
    if (status != IO_OK) return status;
    st->count += strcmp(name, "__metadata__") != 0;
  }
  qsort(st->tensors, st->count, sizeof *st->tensors, by_position);
  return check_layout(st, error);
}

/* The header's text, which the caller frees. */
static io_status read_header(st_file *st, char **text, size_t *length, io_error *error) {
  unsigned char bytes[LENGTH_BYTES];
  uint64_t claimed = 0;
  if (st->file.size < LENGTH_BYTES)
    return io_fail(error, IO_INVALID, "%s: has %" PRIu64 " bytes, which is too short for a .safetensors file",
                   st->file.path, st->file.size);
  io_status status = io_file_read(&st->file, 0, bytes, sizeof bytes, error);
  if (status != IO_OK) return status;
  for (int i = LENGTH_BYTES - 1; i >= 0; i--) claimed = claimed << 8 | bytes[i];
  if (claimed > st->file.size - LENGTH_BYTES)
    return io_fail(error, IO_INVALID, "%s: claims a header of %" PRIu64 " bytes, but the file has %" PRIu64 " bytes",
                   st->file.path, claimed, st->file.size);
  if (claimed > HEADER_LIMIT)
    return io_fail(error, IO_INVALID, "%s: claims a header of %" PRIu64 " bytes; at most %d are allowed", st->file.path,
                   claimed, HEADER_LIMIT);
  *length = (size_t)claimed;
  st->data_begin = LENGTH_BYTES + claimed;
  *text = malloc(*length + 1);
  if (*text == NULL)
    return io_fail(error, IO_NO_MEMORY, "%s: no memory for a header of %zu bytes", st->file.path, *length);
  status = io_file_read(&st->file, LENGTH_BYTES, *text, *length, error);
  if (status != IO_OK) return status;
  if (*length == 0 || (*text)[0] != '{')
    return io_fail(error, IO_INVALID, "%s: is no .safetensors file: its header of %zu bytes does not begin with \"{\"",
                   st->file.path, *length);
  return IO_OK;
}

/* The header's text on its way into jansson, whose lexer goes on without a character that it had no memory for, and
 * then clears errno. It asks for the next one right behind each, so it gets them one by one, and errno is seen in
 * between. */
typedef struct header_feed {
  const char *at, *end;
} header_feed;

static size_t feed(void *out, size_t size, void *user) {
  header_feed *text = user;
  if (errno == ENOMEM) return (size_t)-1;
  if (text->at == text->end || size == 0) return 0;
  *(char *)out = *text->at++;
  return 1;
}

static io_status parse_header(st_file *st, const char *text, size_t length, io_error *error) {
  json_error_t problem;
  header_feed rest = {text, text + length};
  errno = 0;
  json_t *root = json_load_callback(feed, &rest, JSON_REJECT_DUPLICATES, &problem);
  if (errno == ENOMEM) {
    json_decref(root);
    return io_fail(error, IO_NO_MEMORY, "%s: no memory for a header of %zu bytes", st->file.path, length);
  }
  if (root == NULL)
    return io_fail(error, IO_INVALID, "%s: malformed header: %s (byte %d of %zu)", st->file.path, problem.text,
                   problem.position, length);
  io_status status = parse_tensors(st, root, error);
  json_decref(root);
  return status;
}

io_status st_open(const char *path, st_file **file, io_error *error) {
  char *text = NULL;
  size_t length = 0;
  *file = NULL;
  st_file *st = calloc(1, sizeof *st);
  if (st == NULL) return io_fail(error, IO_NO_MEMORY, "%s: out of memory", io_path_tail(path));
  io_status status = io_file_open(&st->file, path, error);
  if (status == IO_OK) status = read_header(st, &text, &length, error);
  if (status == IO_OK) status = parse_header(st, text, length, error);
  free(text);
  if (status == IO_OK)
    *file = st;
  else
    st_close(&st);
  return status;
}

void st_close(st_file **file) {
  if (file == NULL || *file == NULL) return;
  if ((*file)->tensors != NULL)
    for (size_t i = 0; i < (*file)->count; i++) free((*file)->tensors[i].name);
  free((*file)->tensors);
  io_file_close(&(*file)->file);
  free(*file);
  *file = NULL;
}

size_t st_count(const st_file *file) {
  return file->count;
}

const st_tensor *st_at(const st_file *file, size_t i) {
  return &file->tensors[i];
}

const st_tensor *st_find(const st_file *file, const char *name) {
  for (size_t i = 0; i < file->count; i++)
    if (strcmp(file->tensors[i].name, name) == 0) return &file->tensors[i];
  return NULL;
}

size_t st_elements(const st_tensor *tensor) {
  size_t count = 1;
  for (int i = 0; i < tensor->rank && i < ST_MAX_RANK; i++) count *= tensor->shape[i];
  return count;
}

/* Reads a tensor's bytes to the end of `out`, which has room for its elements at `wide` bytes each, so that they can be
 * widened in place from the front: writing element i ends at or before the place where element i + 1 still waits. read.
 * narrow      receives where the bytes begin */
static io_status read_narrow(st_file *file, const st_tensor *tensor, void *out, size_t wide,
                             const unsigned char **narrow, io_error *error) {
  static const size_t sizes[] = {[ST_F64] = 8, [ST_F32] = 4, [ST_F16] = 2, [ST_BF16] = 2};
  size_t count = st_elements(tensor);
  if (tensor->type == ST_OTHER || sizes[tensor->type] > wide)
    return io_fail(error, IO_INVALID, "%s: tensor \"%.*s\" has type %s; %s can be read here", file->file.path, SHOWN,
                   tensor->name, tensor->dtype, wide == 8 ? "F64, F32, F16 and BF16" : "F32, F16 and BF16");
  if (tensor->rank > ST_MAX_RANK)
    return io_fail(error, IO_INVALID, "%s: tensor \"%.*s\" has rank %d; at most %d is supported", file->file.path,
                   SHOWN, tensor->name, tensor->rank, ST_MAX_RANK);
  size_t size = sizes[tensor->type];
  unsigned char *begin = (unsigned char *)out + count * (wide - size);
  *narrow = begin;
  return io_file_read(&file->file, file->data_begin + tensor->begin, begin, count * size, error);
}

static float widen(st_type type, const unsigned char *bytes) {
  uint16_t half;
  float value;
  if (type == ST_F32) {
    memcpy(&value, bytes, sizeof value);
    return value;
  }
  memcpy(&half, bytes, sizeof half);
  return type == ST_F16 ? io_half_to_float(half) : io_bfloat16_to_float(half);
}

io_status st_read_f32(st_file *file, const st_tensor *tensor, float *out, io_error *error) {
  const unsigned char *narrow;
  io_status status = read_narrow(file, tensor, out, sizeof *out, &narrow, error);
  if (status != IO_OK || tensor->type == ST_F32) return status;
  size_t count = st_elements(tensor);
  for (size_t i = 0; i < count; i++) out[i] = widen(tensor->type, narrow + i * sizeof(uint16_t));
  return IO_OK;
}

io_status st_read_f64(st_file *file, const st_tensor *tensor, double *out, io_error *error) {
  const unsigned char *narrow;
  io_status status = read_narrow(file, tensor, out, sizeof *out, &narrow, error);
  if (status != IO_OK || tensor->type == ST_F64) return status;
  size_t count = st_elements(tensor), size = tensor->type == ST_F32 ? sizeof(float) : sizeof(uint16_t);
  for (size_t i = 0; i < count; i++) out[i] = (double)widen(tensor->type, narrow + i * size);
  return IO_OK;
}
