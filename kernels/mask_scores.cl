/* SPDX-License-Identifier: Apache-2.0
 *
 * mask_scores: up to 4 mask terms applied to a slice of the score matrix, in place. For calls with more terms than the softmax
 * takes itself: the first ones go through here, in their order.
 *
 * scores    (u*R + r)*S + j, slice rows R; row r of unit u is row first_row + r of the unit: head and query follow as in
 *           softmax.cl
 * extent    (first_unit, first_row, R, T, G, H/G, S, 0)
 * grid      (S, R, units), rounded up to whole work-groups; no local memory
 * defines   TERMS 1 to 4 with TERMn_KIND and TERMn_TYPE (common.clh) */
#if TERMS < 1
#error "mask_scores needs a term"
#endif
__kernel void mask_scores(__global real *restrict scores, const ulong8 extent, const ulong units TERM_PARAMETERS) {
  const ulong j = get_global_id(0), r = get_global_id(1), u = get_global_id(2);
  if (j >= extent.s6 || r >= extent.s2 || u >= units) return;
  const ulong unit = extent.s0 + u, row = extent.s1 + r;
  const ulong b = unit / extent.s4, member = row / extent.s3, i = row - member * extent.s3;
  const ulong h = (unit - b * extent.s4) * extent.s5 + member;
  const ulong at = (u * extent.s2 + r) * extent.s6 + j;
  TERM_ROWS(b, h, i)
  real score = scores[at];
  TERM_APPLY(score, j)
  scores[at] = score;
}
