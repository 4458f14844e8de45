/* SPDX-License-Identifier: Apache-2.0
 *
 * Device tensors between guard bands. All bytes of the buffer that the view does not name are 0xFF: NaN as a float, so
 * a kernel that reads there shows it, and one that writes there is found by guarded_check. The view may lie in the
 * buffer in any way. Nothing here uses the library's own copies. */
#ifndef CLATTN_TESTS_GUARDED_H
#define CLATTN_TESTS_GUARDED_H

#include "compare.h"

/* How a view lies in memory; all zero: row-major, with guards before and behind. */
typedef struct test_layout {
  const char *order;           /* dimensions from slowest to fastest: "0213" is [B,T,H,D] memory; NULL: as they are */
  size_t pad[CLATTN_MAX_RANK]; /* elements added to the stride of each dimension */
  size_t offset;               /* elements before the view, besides the guard */
  unsigned repeat;             /* bit d: stride 0 in dimension d, only for inputs (see layout_repeat) */
} test_layout;

typedef struct test_guarded {
  clattn_tensor view;
  size_t bytes;           /* of the buffer */
  unsigned char *image;   /* [bytes] what was written to the buffer last */
  unsigned char *in_view; /* [bytes] 1 where a byte belongs to the view */
  clattn_context *context;
} test_guarded;

/* A buffer with a view of the given shape and type. values: row-major, converted to the type; NULL: the view is filled
 * with 0xFF bytes too, as outputs are before a call. */
test_guarded guarded_create(clattn_context *context, clattn_type type, const test_shape *shape,
                            const test_layout *layout, const double *values);
void guarded_release(test_guarded *guarded);

/* Fills the view with 0xFF bytes again. */
void guarded_reset(test_guarded *guarded);

/* Waits, reads the view as numbers [count], row-major, and its bits (may be NULL) [count * element size]. */
void guarded_read(const test_guarded *guarded, double *values, void *bits);

/* 1 if no byte outside the view has changed; with `whole`, no byte at all. */
int guarded_check(const test_guarded *guarded, const char *what, int whole, test_line *line);

/* Gives every index of a repeated dimension the values of the first: row-major values that the layout can hold. */
void layout_repeat(const test_layout *layout, const test_shape *shape, double *values);

test_shape guarded_shape(const test_guarded *guarded);

/* The nearest number that the type has: what guarded_create stores. */
double type_round(clattn_type type, double value);
/* Bytes of one element; and a number as one element in memory. */
size_t type_bytes(clattn_type type);
void type_store(clattn_type type, double value, unsigned char *to);

#endif
