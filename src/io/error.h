/* SPDX-License-Identifier: Apache-2.0
 *
 * What every function of src/io returns, and the text that goes with a failure.
 */
#ifndef CLATTN_IO_ERROR_H
#define CLATTN_IO_ERROR_H

typedef enum io_status {
  IO_OK = 0,
  IO_INVALID,  /* the user's input is wrong: a file that is missing, unreadable, malformed or of an unsupported kind, or
                  a  path that cannot be written to (a missing folder, no regular file) */
  IO_SYSTEM,   /* the system failed: a full disk, a failed read or write */
  IO_NO_MEMORY /* the host is out of memory */
} io_status;

/* One line without a newline at its end. Control characters and bytes that are no UTF-8 (names come from files) are
 * spelled out as \xNN. Written on failure only. */
typedef struct io_error {
  char text[1024];
} io_error;

#if defined(__GNUC__)
#define IO_PRINTF(text, first) __attribute__((format(printf, text, first)))
#else
#define IO_PRINTF(text, first)
#endif

/* Writes the text and returns `status`, so that a check reads `return io_fail(error, IO_INVALID, "...", ...)`.
 * error       may be NULL: the text is dropped */
io_status io_fail(io_error *error, io_status status, const char *format, ...) IO_PRINTF(3, 4);

/* The same for a failed system call: appends ": " and the text of `code` (an errno value), and chooses the status:
 * IO_NO_MEMORY for ENOMEM, IO_INVALID where the path is at fault (ENOENT, EACCES, ENOTDIR, EISDIR, ELOOP, ...), else
 * IO_SYSTEM. */
io_status io_fail_errno(io_error *error, int code, const char *format, ...) IO_PRINTF(3, 4);

/* The last 300 bytes of a path, so that a very long one leaves room for what is wrong with it. */
const char *io_path_tail(const char *path);

#endif
