/* SPDX-License-Identifier: Apache-2.0 */
#include "error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Bytes of the UTF-8 character at `text` if it is well formed and can stand in a line of output, else 0: control
 * characters (C0, DEL, C1) and the line and paragraph separators U+2028 and U+2029 could break the line or drive the
 * terminal. */
static size_t printable(const unsigned char *text) {
  static const unsigned long smallest[5] = {0, 0, 0x80, 0x800, 0x10000};
  if (text[0] < 0x80) return text[0] >= 0x20 && text[0] != 0x7f;
  size_t length = text[0] >= 0xf0 ? 4 : text[0] >= 0xe0 ? 3 : 2;
  if (text[0] < 0xc0 || text[0] > 0xf7) return 0;
  unsigned long code = text[0] & (0xffu >> (length + 1));
  for (size_t i = 1; i < length; i++) {
    if ((text[i] & 0xc0) != 0x80) return 0;
    code = code << 6 | (text[i] & 0x3fu);
  }
  if (code < smallest[length] || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) return 0;
  if (code < 0xa0 || code == 0x2028 || code == 0x2029) return 0;
  return length;
}

/* Copies `text` in printable form, cut between characters where it does not fit. */
static void copy_printable(char *out, size_t size, const char *text) {
  size_t used = 0;
  for (const unsigned char *in = (const unsigned char *)text; *in != 0;) {
    char escaped[8];
    size_t length = printable(in), taken = length > 0 ? length : 1;
    const char *piece = (const char *)in;
    if (length == 0) {
      length = (size_t)snprintf(escaped, sizeof escaped, "\\x%02x", *in);
      piece = escaped;
    }
    if (used + length >= size) break;
    memcpy(out + used, piece, length);
    used += length;
    in += taken;
  }
  out[used] = '\0';
}

io_status io_fail(io_error *error, io_status status, const char *format, ...) {
  if (error == NULL) return status;
  char text[sizeof error->text];
  va_list arguments;
  va_start(arguments, format);
  if (vsnprintf(text, sizeof text, format, arguments) < 0) text[0] = '\0';
  va_end(arguments);
  copy_printable(error->text, sizeof error->text, text);
  return status;
}

static io_status status_of_errno(int code) {
  switch (code) {
  case ENOMEM:
    return IO_NO_MEMORY;
  case ENOENT:
  case EACCES:
  case EPERM:
  case ENOTDIR:
  case EISDIR:
  case ELOOP:
  case ENAMETOOLONG:
  case EROFS:
  case EINVAL:
  case ENXIO:
    return IO_INVALID;
  default:
    return IO_SYSTEM;
  }
}

io_status io_fail_errno(io_error *error, int code, const char *format, ...) {
  char text[sizeof error->text];
  va_list arguments;
  va_start(arguments, format);
  if (vsnprintf(text, sizeof text, format, arguments) < 0) text[0] = '\0';
  va_end(arguments);
  return io_fail(error, status_of_errno(code), "%s: %s", text, strerror(code));
}

const char *io_path_tail(const char *path) {
  size_t length = strlen(path), most = 300;
  return length > most ? path + (length - most) : path;
}
