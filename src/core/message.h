/* SPDX-License-Identifier: Apache-2.0
 *
 * Failures in words. A function that can fail for a reason that the caller should read takes a `message`: the place
 * where the text goes (a context's own, or what the caller of a context-free function handed in). */
#ifndef CLATTN_CORE_MESSAGE_H
#define CLATTN_CORE_MESSAGE_H

#include "clattn/clattn.h"

typedef struct message {
  char *text; /* NULL: nobody wants it */
  size_t size;
} message;

#if defined(__GNUC__)
#define CLATTN_PRINTF(at, first) __attribute__((format(printf, at, first)))
#else
#define CLATTN_PRINTF(at, first)
#endif

/* The value of a macro as text. */
#define STRINGIFY_(x) #x
#define STRINGIFY(x)  STRINGIFY_(x)

void message_clear(message to);

/* Writes the text and returns `status`, so that a check reads `return message_fail(...)`. */
clattn_status message_fail(message to, clattn_status status, const char *format, ...) CLATTN_PRINTF(3, 4);

/* The same for a failed OpenCL call: names it and the error code. The status says what kind of failure the code is. */
clattn_status message_fail_cl(message to, cl_int error, const char *format, ...) CLATTN_PRINTF(3, 4);

/* "CL_OUT_OF_RESOURCES", "unknown" for other codes. */
const char *cl_error_name(cl_int error);
clattn_status cl_error_status(cl_int error);

/* A buffer of text that lines are added to and that never overflows; what does not fit is cut. */
typedef struct text_builder {
  char *text;
  size_t size, used;
} text_builder;

text_builder text_begin(char *text, size_t size);
void text_add(text_builder *builder, const char *format, ...) CLATTN_PRINTF(2, 3);

/* "[2,8,128,64]"; the text lives in `out`. */
enum { SHAPE_TEXT_SIZE = 96 };
const char *shape_text(char out[SHAPE_TEXT_SIZE], int rank, const size_t *shape);

/* `expression` is a clattn_status; leaves for `cleanup` unless it is success. Needs `clattn_status status` in scope. */
#define CHECK(expression)                                                                                              \
  do {                                                                                                                 \
    status = (expression);                                                                                             \
    if (status != CLATTN_SUCCESS) goto cleanup;                                                                        \
  } while (0)

/* `error` is the cl_int of a call that the format describes. */
#define CHECK_CL(to, error, ...)                                                                                       \
  do {                                                                                                                 \
    cl_int check_error = (error);                                                                                      \
    if (check_error != CL_SUCCESS) {                                                                                   \
      status = message_fail_cl(to, check_error, __VA_ARGS__);                                                          \
      goto cleanup;                                                                                                    \
    }                                                                                                                  \
  } while (0)

#endif
