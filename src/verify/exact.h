/* SPDX-License-Identifier: Apache-2.0
 *
 * Inputs whose results are known in closed form: they check the device, and the reference's own mind is not asked. */
#ifndef CLATTN_VERIFY_EXACT_H
#define CLATTN_VERIFY_EXACT_H

struct check_case;

void fill_means(struct check_case *check);        /* equal scores: means of what rules and masks leave */
void fill_blocks(struct check_case *check);       /* the first, then the last 512 keys blocked */
void fill_huge(struct check_case *check);         /* scores of +-1e30 */
void fill_finite_mask(struct check_case *check);  /* -3.4e38 added to all keys, then to all but one */
void fill_needle(struct check_case *check);       /* one key and feature, the last ones */
void fill_subnormal(struct check_case *check);    /* weights below the smallest normal number */
void fill_pattern(struct check_case *check);      /* what dropout keeps, from a table */
void fill_known_answer(struct check_case *check); /* the same from Random123's known answer */
void fill_large(struct check_case *check);        /* each query picks the keys with one feature */
void fill_large_layer(struct check_case *check);  /* weights that are permutations */
void fill_blocked_layer(struct check_case *check);
enum { ROUNDING_VALUES = 14 };
void fill_rounding(struct check_case *check); /* values on and beside the edges of 16-bit types */

#endif
