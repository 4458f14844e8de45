/* SPDX-License-Identifier: Apache-2.0 */
#include "safetensors.h"

#include "file.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { LENGTH_BYTES = 8, ALIGNMENT = 8 };

static size_t item_size(const st_item *item) {
  return item->type == ST_F64 ? sizeof(double) : sizeof(float);
}

/* An item and the size of its data. */
typedef struct row {
  const st_item *item;
  size_t bytes;
} row;

static io_status check_item(const st_item *item, size_t position, row *out, io_error *error) {
  size_t elements;
  if (item->name == NULL) return io_fail(error, IO_INVALID, "tensor %zu has no name", position);
  if (strcmp(item->name, "__metadata__") == 0)
    return io_fail(error, IO_INVALID, "no tensor can have the name %s", item->name);
  if (item->type != ST_F32 && item->type != ST_F64)
    return io_fail(error, IO_INVALID, "tensor \"%.60s\": type %d is neither ST_F32 nor ST_F64", item->name,
                   (int)item->type);
  if (item->rank < 0 || item->rank > ST_MAX_RANK)
    return io_fail(error, IO_INVALID, "tensor \"%.60s\": rank %d is not between 0 and %d", item->name, item->rank,
                   ST_MAX_RANK);
  if (!io_shape_count(item->shape, (size_t)item->rank, item_size(item), &elements))
    return io_fail(error, IO_INVALID, "tensor \"%.60s\": its size overflows the address space", item->name);
  if (elements > 0 && item->data == NULL)
    return io_fail(error, IO_INVALID, "tensor \"%.60s\" has %zu values but no data", item->name, elements);
  *out = (row){.item = item, .bytes = elements * item_size(item)};
  return IO_OK;
}

/* Wider types first, then by name. */
static int in_file_order(const void *left, const void *right) {
  const st_item *a = ((const row *)left)->item, *b = ((const row *)right)->item;
  if (a->type != b->type) return a->type == ST_F64 ? -1 : 1;
  return strcmp(a->name, b->name);
}

static io_status no_memory(const st_item *item, io_error *error) {
  return io_fail(error, IO_NO_MEMORY, "tensor \"%.60s\": no memory for its entry in the header", item->name);
}

/* Adds a tensor, whose data begin at *offset, to the header, and moves *offset behind it. */
static io_status describe(json_t *root, const row *tensor, json_int_t *offset, io_error *error) {
  const st_item *item = tensor->item;
  const json_int_t bytes = (json_int_t)tensor->bytes; /* fits: io_shape_count */
  if (bytes > INT64_MAX - *offset)
    return io_fail(error, IO_INVALID, "tensor \"%.60s\": the size of the file overflows 63 bits", item->name);
  if (json_object_get(root, item->name) != NULL)
    return io_fail(error, IO_INVALID, "two tensors have the name \"%.60s\"", item->name);
  json_t *shape = json_array();
  for (int i = 0; i < item->rank; i++)
    if (json_array_append_new(shape, json_integer((json_int_t)item->shape[i])) != 0) goto failed;
  json_t *entry = json_pack("{s:s, s:O, s:[I,I]}", "dtype", item->type == ST_F64 ? "F64" : "F32", "shape", shape,
                            "data_offsets", *offset, *offset + bytes);
  if (entry == NULL) goto failed;
  json_decref(shape);
  /* The name is not in the header yet, so only memory, or a name that is no UTF-8, can fail here. */
  if (json_object_set_new(root, item->name, entry) != 0) {
    if (errno == ENOMEM) return no_memory(item, error); /* since make_header began */
    return io_fail(error, IO_INVALID, "the name \"%.60s\" is no valid UTF-8", item->name);
  }
  *offset += bytes;
  return IO_OK;
failed:
  json_decref(shape);
  return no_memory(item, error);
}

/* The header as text, which the caller frees. */
static io_status make_header(const row *rows, size_t count, char **text, io_error *error) {
  json_int_t offset = 0;
  errno = 0;
  json_t *root = json_pack("{s:{s:s}}", "__metadata__", "format", "pt");
  io_status status = root == NULL ? io_fail(error, IO_NO_MEMORY, "no memory for a header") : IO_OK;
  for (size_t i = 0; i < count && status == IO_OK; i++) status = describe(root, &rows[i], &offset, error);
  if (status == IO_OK) {
    *text = json_dumps(root, JSON_COMPACT);
    /* jansson may leave out what it had no memory for, and succeed. */
    if (*text == NULL || errno == ENOMEM)
      status = io_fail(error, IO_NO_MEMORY, "no memory for the header of %zu tensors", count);
  }
  json_decref(root);
  return status;
}

static io_status write_header(FILE *file, const char *text, io_error *error) {
  unsigned char length[LENGTH_BYTES];
  const size_t used = strlen(text), padded = (used + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  for (int i = 0; i < LENGTH_BYTES; i++) length[i] = (unsigned char)((uint64_t)padded >> (8 * i));
  io_status status = io_write(file, length, sizeof length, error);
  if (status == IO_OK) status = io_write(file, text, used, error);
  if (status == IO_OK) status = io_write(file, "        ", padded - used, error);
  return status;
}

io_status st_save(FILE *file, const st_item *items, size_t count, io_error *error) {
  char *text = NULL;
  io_status status = IO_OK;
  row *rows = calloc(count > 0 ? count : 1, sizeof *rows);
  if (rows == NULL) return io_fail(error, IO_NO_MEMORY, "no memory for %zu tensors", count);
  for (size_t i = 0; i < count && status == IO_OK; i++) status = check_item(&items[i], i, &rows[i], error);
  if (status != IO_OK) goto cleanup;
  qsort(rows, count, sizeof *rows, in_file_order);
  status = make_header(rows, count, &text, error);
  if (status == IO_OK) status = write_header(file, text, error);
  for (size_t i = 0; i < count && status == IO_OK; i++)
    status = io_write(file, rows[i].item->data, rows[i].bytes, error);
cleanup:
  free(text);
  free(rows);
  return status;
}
