/* SPDX-License-Identifier: Apache-2.0 */
#include "npy_header.h"

#include <stdint.h>
#include <string.h>

static const struct {
  npy_type type;
  const char *code; /* kind and bytes, as in descr behind its byte order */
} codes[] = {{NPY_BOOL, "b1"}, {NPY_U2, "u2"}, {NPY_I4, "i4"}, {NPY_I8, "i8"},
             {NPY_F2, "f2"},   {NPY_F4, "f4"}, {NPY_F8, "f8"}};
enum { CODE_COUNT = sizeof codes / sizeof codes[0] };

static const char *const keys[] = {"descr", "fortran_order", "shape"};
enum { KEY_COUNT = sizeof keys / sizeof keys[0] };

typedef struct parser {
  const char *text, *path;
  size_t length, at;
  io_error *error;
} parser;

static io_status malformed(const parser *p, const char *expected) {
  size_t left = p->length - p->at;
  if (left == 0)
    return io_fail(p->error, IO_INVALID, "%s: malformed .npy header: expected %s, found its end after %zu bytes",
                   p->path, expected, p->length);
  return io_fail(p->error, IO_INVALID, "%s: malformed .npy header: expected %s at byte %zu, found \"%.*s\"", p->path,
                 expected, p->at, (int)(left < 24 ? left : 24), p->text + p->at);
}

/* The next character behind white space, which stays to be taken; 0 at the end. */
static char peek(parser *p) {
  while (p->at < p->length && p->text[p->at] != '\0' && strchr(" \t\r\n\f", p->text[p->at]) != NULL) p->at++;
  if (p->at == p->length) return '\0';
  return p->text[p->at];
}

static int take(parser *p, char wanted) {
  if (peek(p) != wanted || p->at == p->length) return 0;
  p->at++;
  return 1;
}

/* A Python string without escapes. */
static io_status parse_string(parser *p, const char *expected, char *out, size_t size) {
  char quote = peek(p);
  if (quote != '\'' && quote != '"') return malformed(p, expected);
  size_t begin = p->at + 1, end = begin;
  while (end < p->length && p->text[end] != quote) {
    if (strchr("\\\n", p->text[end]) != NULL) return malformed(p, expected); /* finds a NUL, too */
    end++;
  }
  if (end == p->length || end - begin >= size) return malformed(p, expected);
  memcpy(out, p->text + begin, end - begin);
  out[end - begin] = '\0';
  p->at = end + 1;
  return IO_OK;
}

static io_status parse_descr(parser *p, npy_header *header) {
  char descr[64];
  if (peek(p) == '[')
    return io_fail(p->error, IO_INVALID,
                   "%s: holds records (a structured dtype); save one field of it, as in array['name']", p->path);
  io_status status = parse_string(p, "a dtype such as '<f4'", descr, sizeof descr);
  if (status != IO_OK) return status;
  const char *code = descr + (descr[0] != '\0' && strchr("<>=|", descr[0]) != NULL);
  if (strcmp(code, "?") == 0) code = "b1";
  for (size_t i = 0; i < CODE_COUNT; i++) {
    if (strcmp(code, codes[i].code) != 0) continue;
    if (descr[0] == '>' && codes[i].type != NPY_BOOL)
      return io_fail(p->error, IO_INVALID,
                     "%s: values are big-endian (dtype '%s'); convert them with numpy.save(path, array.astype('<%s'))",
                     p->path, descr, code);
    header->type = codes[i].type;
    return IO_OK;
  }
  return io_fail(
      p->error, IO_INVALID,
      "%s: dtype '%s' is not supported; '|b1', '<u2' (bfloat16 bits), '<i4', '<i8', '<f2', '<f4' and '<f8' are",
      p->path, descr);
}

static io_status parse_fortran_order(parser *p, npy_header *header) {
  static const char *const words[2] = {"False", "True"};
  peek(p);
  for (int i = 0; i < 2; i++) {
    size_t length = strlen(words[i]);
    if (p->length - p->at < length || memcmp(p->text + p->at, words[i], length) != 0) continue;
    p->at += length;
    header->fortran_order = i;
    return IO_OK;
  }
  return malformed(p, "True or False");
}

/* A decimal number, with the "L" that Python 2 put behind long ones. */
static io_status parse_extent(parser *p, size_t *extent) {
  size_t value = 0, begin, digits;
  peek(p);
  begin = p->at;
  while (p->at < p->length && p->text[p->at] >= '0' && p->text[p->at] <= '9') {
    size_t digit = (size_t)(p->text[p->at] - '0');
    if (value > (SIZE_MAX - digit) / 10) {
      p->at = begin;
      return malformed(p, "an extent that fits the machine's address space");
    }
    value = value * 10 + digit;
    p->at++;
  }
  digits = p->at - begin;
  if (digits == 0 || (digits > 1 && p->text[begin] == '0')) {
    p->at = begin;
    return malformed(p, "an extent");
  }
  if (p->at < p->length && p->text[p->at] == 'L') p->at++;
  *extent = value;
  return IO_OK;
}

static io_status parse_shape(parser *p, npy_header *header) {
  size_t rank = 0;
  if (!take(p, '(')) return malformed(p, "a shape such as (3, 4)");
  while (!take(p, ')')) {
    size_t extent = 0;
    io_status status = parse_extent(p, &extent);
    if (status != IO_OK) return status;
    if (rank < NPY_MAX_RANK) header->shape[rank] = extent;
    rank++;
    /* In Python, (3) is a number and (3,) a tuple. */
    if (!take(p, ',') && (rank == 1 || peek(p) != ')')) return malformed(p, rank == 1 ? "\",\"" : "\",\" or \")\"");
  }
  if (rank > NPY_MAX_RANK)
    return io_fail(p->error, IO_INVALID, "%s: the array has rank %zu; at most %d is supported", p->path, rank,
                   NPY_MAX_RANK);
  header->rank = (int)rank;
  return IO_OK;
}

/* One `key: value`; `seen` tells which keys were there before. */
static io_status parse_entry(parser *p, npy_header *header, int seen[KEY_COUNT]) {
  static io_status (*const parse_value[KEY_COUNT])(parser *, npy_header *) = {parse_descr, parse_fortran_order,
                                                                              parse_shape};
  char key[64];
  io_status status = parse_string(p, "a key", key, sizeof key);
  if (status != IO_OK) return status;
  for (size_t i = 0; i < KEY_COUNT; i++) {
    if (strcmp(key, keys[i]) != 0) continue;
    if (seen[i])
      return io_fail(p->error, IO_INVALID, "%s: malformed .npy header: key '%s' is there twice", p->path, key);
    seen[i] = 1;
    if (!take(p, ':')) return malformed(p, "\":\"");
    return parse_value[i](p, header);
  }
  return io_fail(p->error, IO_INVALID, "%s: malformed .npy header: key '%s' is unknown", p->path, key);
}

io_status npy_header_parse(const char *text, size_t length, const char *path, npy_header *header, io_error *error) {
  parser p = {.text = text, .path = path, .length = length, .error = error};
  int seen[KEY_COUNT] = {0};
  *header = (npy_header){.rank = 0};
  if (!take(&p, '{')) return malformed(&p, "\"{\"");
  while (!take(&p, '}')) {
    io_status status = parse_entry(&p, header, seen);
    if (status != IO_OK) return status;
    if (!take(&p, ',') && peek(&p) != '}') return malformed(&p, "\",\" or \"}\"");
  }
  peek(&p);
  if (p.at < p.length) return malformed(&p, "the end");
  for (size_t i = 0; i < KEY_COUNT; i++)
    if (!seen[i]) return io_fail(error, IO_INVALID, "%s: malformed .npy header: key '%s' is missing", path, keys[i]);
  return IO_OK;
}

size_t npy_header_format(const npy_header *header, char *out, size_t size) {
  const char *code = "";
  size_t used;
  for (size_t i = 0; i < CODE_COUNT; i++)
    if (codes[i].type == header->type) code = codes[i].code;
  used = (size_t)snprintf(out, size, "{'descr': '%c%s', 'fortran_order': False, 'shape': (",
                          header->type == NPY_BOOL ? '|' : '<', code);
  for (int i = 0; i < header->rank; i++)
    used += (size_t)snprintf(out + used, size - used,
                             header->rank == 1 ? "%zu,"
                             : i == 0          ? "%zu"
                                               : ", %zu",
                             header->shape[i]);
  return used + (size_t)snprintf(out + used, size - used, "), }");
}
