/* SPDX-License-Identifier: Apache-2.0 */
#include "npy.h"

#include "file.h"
#include "npy_header.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const unsigned char magic[6] = {0x93, 'N', 'U', 'M', 'P', 'Y'};

enum {
  ALIGNMENT = 64,            /* of the data in files that we write, bytes */
  HEADER_LIMIT = 1024 * 1024 /* bytes; the header of an array of our ranks needs less than 256, the rest is padding */
};

static const struct {
  size_t size;
  const char *name;
} types[] = {[NPY_BOOL] = {1, "bool"},  [NPY_U2] = {2, "uint16"},  [NPY_I4] = {4, "int32"},  [NPY_I8] = {8, "int64"},
             [NPY_F2] = {2, "float16"}, [NPY_F4] = {4, "float32"}, [NPY_F8] = {8, "float64"}};

static int known(npy_type type) {
  return (size_t)type < sizeof types / sizeof types[0];
}

size_t npy_type_size(npy_type type) {
  return known(type) ? types[type].size : 0;
}

const char *npy_type_name(npy_type type) {
  return known(type) ? types[type].name : "unknown";
}

/* Checks magic and version and finds the header's text. */
static io_status read_prefix(const io_file *file, uint64_t *begin, size_t *length, io_error *error) {
  unsigned char prefix[12] = {0};
  io_status status;
  if (file->size < 10)
    return io_fail(error, IO_INVALID, "%s: has %" PRIu64 " bytes, which is too short for a .npy file", file->path,
                   file->size);
  status = io_file_read(file, 0, prefix, file->size < sizeof prefix ? (size_t)file->size : sizeof prefix, error);
  if (status != IO_OK) return status;
  if (memcmp(prefix, magic, sizeof magic) != 0)
    return io_fail(error, IO_INVALID, "%s: is no .npy file: it begins with bytes %02x %02x %02x %02x %02x %02x",
                   file->path, prefix[0], prefix[1], prefix[2], prefix[3], prefix[4], prefix[5]);
  if (prefix[6] < 1 || prefix[6] > 3 || prefix[7] != 0)
    return io_fail(error, IO_INVALID, "%s: has .npy format %u.%u; 1.0, 2.0 and 3.0 are supported", file->path,
                   prefix[6], prefix[7]);
  *begin = prefix[6] == 1 ? 10 : 12;
  uint32_t claimed = (uint32_t)prefix[8] | (uint32_t)prefix[9] << 8;
  if (prefix[6] > 1) claimed |= (uint32_t)prefix[10] << 16 | (uint32_t)prefix[11] << 24;
  if (*begin > file->size || claimed > file->size - *begin)
    return io_fail(error, IO_INVALID, "%s: claims a header of %" PRIu32 " bytes, but the file has %" PRIu64 " bytes",
                   file->path, claimed, file->size);
  if (claimed > HEADER_LIMIT)
    return io_fail(error, IO_INVALID, "%s: claims a header of %" PRIu32 " bytes; at most %d are supported", file->path,
                   claimed, HEADER_LIMIT);
  *length = claimed;
  return IO_OK;
}

static io_status read_header(const io_file *file, npy_header *header, uint64_t *data_begin, io_error *error) {
  uint64_t begin = 0;
  size_t length = 0;
  io_status status = read_prefix(file, &begin, &length, error);
  if (status != IO_OK) return status;
  char *text = malloc(length + 1);
  if (text == NULL) return io_fail(error, IO_NO_MEMORY, "%s: no memory for a header of %zu bytes", file->path, length);
  status = io_file_read(file, begin, text, length, error);
  if (status == IO_OK) status = npy_header_parse(text, length, file->path, header, error);
  free(text);
  *data_begin = begin + length;
  return status;
}

/* Reads values whose first index varies fastest, and puts each where it belongs in row-major order. */
static io_status read_transposed(const io_file *file, uint64_t begin, const npy_array *array, io_error *error) {
  unsigned char chunk[16384];
  const size_t size = npy_type_size(array->type), chunk_count = sizeof chunk / size;
  size_t stride[NPY_MAX_RANK], index[NPY_MAX_RANK] = {0}, at = 0;
  stride[array->rank - 1] = 1;
  for (int d = array->rank - 1; d > 0; d--) stride[d - 1] = stride[d] * array->shape[d];
  for (size_t done = 0; done < array->count;) {
    size_t part = array->count - done < chunk_count ? array->count - done : chunk_count;
    io_status status = io_file_read(file, begin + (uint64_t)done * size, chunk, part * size, error);
    if (status != IO_OK) return status;
    for (size_t i = 0; i < part; i++) {
      memcpy((unsigned char *)array->data + at * size, chunk + i * size, size);
      for (int d = 0; d < array->rank; d++) {
        at += stride[d];
        if (++index[d] < array->shape[d]) break;
        at -= stride[d] * index[d];
        index[d] = 0;
      }
    }
    done += part;
  }
  return IO_OK;
}

/* Sizes are checked against the file before anything is allocated by them. */
static io_status read_data(const io_file *file, uint64_t begin, const npy_header *header, npy_array *array,
                           io_error *error) {
  const size_t size = npy_type_size(header->type);
  array->type = header->type;
  array->rank = header->rank;
  memcpy(array->shape, header->shape, sizeof array->shape);
  if (!io_shape_count(header->shape, (size_t)header->rank, size, &array->count)) {
    char text[256];
    npy_header_format(header, text, sizeof text);
    return io_fail(error, IO_INVALID, "%s: the size of the array overflows the address space: %s", file->path, text);
  }
  size_t bytes = array->count * size;
  if (bytes > file->size - begin)
    return io_fail(error, IO_INVALID,
                   "%s: claims %zu values of %zu bytes, but only %" PRIu64 " bytes follow its header", file->path,
                   array->count, size, file->size - begin);
  array->data = malloc(bytes > 0 ? bytes : 1);
  if (array->data == NULL) return io_fail(error, IO_NO_MEMORY, "%s: no memory for %zu bytes", file->path, bytes);
  if (header->fortran_order && header->rank > 1) return read_transposed(file, begin, array, error);
  return io_file_read(file, begin, array->data, bytes, error);
}

io_status npy_load(const char *path, npy_array *array, io_error *error) {
  io_file file;
  npy_header header;
  uint64_t begin = 0;
  npy_array loaded = {.data = NULL};
  *array = loaded;
  io_status status = io_file_open(&file, path, error);
  if (status != IO_OK) return status;
  status = read_header(&file, &header, &begin, error);
  if (status == IO_OK) status = read_data(&file, begin, &header, &loaded, error);
  io_file_close(&file);
  if (status == IO_OK)
    *array = loaded;
  else
    npy_free(&loaded);
  return status;
}

void npy_free(npy_array *array) {
  if (array == NULL) return;
  free(array->data);
  *array = (npy_array){.data = NULL};
}

static io_status check_array(const npy_array *array, io_error *error) {
  size_t count;
  if (!known(array->type)) return io_fail(error, IO_INVALID, "type %d is no .npy type", (int)array->type);
  if (array->rank < 0 || array->rank > NPY_MAX_RANK)
    return io_fail(error, IO_INVALID, "rank %d is not between 0 and %d", array->rank, NPY_MAX_RANK);
  if (!io_shape_count(array->shape, (size_t)array->rank, npy_type_size(array->type), &count))
    return io_fail(error, IO_INVALID, "the size of the array overflows the address space");
  if (array->count != count)
    return io_fail(error, IO_INVALID, "the array has count %zu, but its extents multiply to %zu", array->count, count);
  if (count > 0 && array->data == NULL)
    return io_fail(error, IO_INVALID, "the array has %zu values but no data", count);
  return IO_OK;
}

io_status npy_save(FILE *file, const npy_array *array, io_error *error) {
  unsigned char text[5 * ALIGNMENT];
  const size_t prefix = sizeof magic + 4; /* version and length of the header */
  io_status status = check_array(array, error);
  if (status != IO_OK) return status;
  npy_header header = {.type = array->type, .rank = array->rank};
  memcpy(header.shape, array->shape, sizeof header.shape);
  size_t used = prefix + npy_header_format(&header, (char *)text + prefix, sizeof text - prefix);
  size_t total = (used + 1 + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; /* 1: the newline that ends a header */
  memset(text + used, ' ', total - used);
  text[total - 1] = '\n';
  memcpy(text, magic, sizeof magic);
  text[6] = 1;
  text[7] = 0;
  text[8] = (unsigned char)((total - prefix) & 0xff);
  text[9] = (unsigned char)((total - prefix) >> 8);
  status = io_write(file, text, total, error);
  if (status != IO_OK) return status;
  return io_write(file, array->data, array->count * npy_type_size(array->type), error);
}
