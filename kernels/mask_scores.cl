/* SPDX-License-Identifier: Apache-2.0
 *
 * mask_scores: soft cap, slopes and up to 4 mask terms applied to a slice of the score matrix, in place. For calls with more terms
 * than the softmax takes itself: the first ones go through here, in their order; cap and slopes come with the very first.
 *
 * scores    (u*R + r)*columns + j
 * extent    as in common.clh, and what ROW_PARAMETERS takes
 * grid      (columns, R, units), rounded up to whole work-groups; no local memory
 * defines   TERMS 1 to 4 with TERMn_KIND and TERMn_TYPE; those of ROW_PARAMETERS */
#if TERMS < 1
#error "mask_scores needs a term"
#endif
__kernel void mask_scores(__global real *restrict scores, const ulong8 extent ROW_PARAMETERS) {
  const ulong j = get_global_id(0), r = get_global_id(1), u = get_global_id(2);
  if (j >= extent.s6 || r >= extent.s2 || u >= extent.s7) return;
  const ulong at = (u * extent.s2 + r) * extent.s6 + j;
  ROW_PLACE(extent.s0 + u, extent.s1 + r)
  /* An extra key has no mask value; the first key's is loaded then, so that no load depends on the work-item. */
  const ulong key = j < kv_len ? j : 0;
  real score = scores[at], capped = score;
  SCORE_APPLY(score, key)
  CAP_APPLY(capped)
  scores[at] = j < kv_len ? score : capped;
}
