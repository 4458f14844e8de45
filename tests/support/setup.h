/* SPDX-License-Identifier: Apache-2.0
 *
 * What every test needs: a context, memory, and which set of sizes to run. */
#ifndef CLATTN_TESTS_SETUP_H
#define CLATTN_TESTS_SETUP_H

#include <clattn/clattn.h>

#if defined(__SANITIZE_ADDRESS__)
#define TEST_ADDRESS_SANITIZER
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TEST_ADDRESS_SANITIZER
#endif
#endif

/* A line that describes what failed; "" while nothing has. */
typedef struct test_line {
  char text[1024];
} test_line;

#if defined(__GNUC__)
#define TEST_PRINTF(text, first) __attribute__((format(printf, text, first)))
#else
#define TEST_PRINTF(text, first)
#endif

/* Writes the line and returns 0, so that a check reads `return test_fail(line, ...)`. */
int test_fail(test_line *line, const char *format, ...) TEST_PRINTF(2, 3);

/* A context on the default device (the environment variable CLATTN_DEVICE chooses); fails the test if there is none. */
clattn_context *test_context(void);
clattn_context *test_context_with(const clattn_context_options *options);

/* 1 on slow devices and checkers, where the environment says CLATTN_TEST_SET=small; and one of two values by it. */
int test_is_small(void);
size_t test_size(size_t full, size_t small);

/* 1 if the device has float64. */
int test_has_fp64(const clattn_context *context);

/* Zeroed memory; ends the process when there is none: a test cannot go on then. */
void *test_alloc(size_t count, size_t size);

/* A driver may let go of what a command used on a thread of its own, a moment after clFinish has returned. Reads the
 * count until it is at most this, for ten seconds at the most, and returns what it read last. */
size_t test_settled(size_t (*count)(void *), void *argument, size_t most);

/* Fails the test, with the context's message, unless status is what is expected. */
#define EXPECT_STATUS(context, expected, call)                                                                         \
  do {                                                                                                                 \
    const clattn_status status_ = (call);                                                                              \
    cr_assert(status_ == (expected), "%s: %s instead of %s: %s", #call, clattn_status_name(status_),                   \
              clattn_status_name(expected), clattn_context_message(context));                                          \
  } while (0)
#define EXPECT_SUCCESS(context, call) EXPECT_STATUS(context, CLATTN_SUCCESS, call)

#endif
