/* SPDX-License-Identifier: Apache-2.0
 *
 * average_weights: the mean over heads of a slice of the probabilities, slice by slice.
 *
 *   weights[b,i,j] = 1/H sum_h P[b,h,i,j]
 *
 * Slices come in ascending order of (unit, row), so each sum runs over h = 0, 1, ... however the work is cut: the first
 * slice that holds head 0 of (b, i) starts it, the one that holds head H-1 divides.
 *
 * scores    probabilities of the slice, (u*R + r)*S + j; head and query of a row as in softmax.cl
 * extent    (first_unit, first_row, R, T, G, H/G, columns, units), as in common.clh
 * view      of weights: offset, strides of b, i, j
 * grid      (S, T, batch entries that the slice touches), rounded up to whole work-groups; no local memory
 */
__kernel void average_weights(__global const real *restrict scores, __global real *restrict weights, const ulong8 view,
                              const ulong8 extent, const ulong entries) {
  const ulong j = get_global_id(0), i = get_global_id(1), e = get_global_id(2);
  const ulong first_unit = extent.s0, first_row = extent.s1, rows = extent.s2, q_len = extent.s3;
  const ulong kv_heads = extent.s4, group = extent.s5, kv_len = extent.s6, end_unit = first_unit + extent.s7;
  if (j >= kv_len || i >= q_len || e >= entries) return;
  const ulong b = first_unit / kv_heads + e;
  const ulong begin = max(first_unit, b * kv_heads), end = min(end_unit, (b + 1) * kv_heads);
  const ulong at = view.s0 + b * view.s1 + i * view.s2 + j * view.s3;
  real sum = 0;
  int touched = 0;
  for (ulong unit = begin; unit < end; unit++)
    for (ulong k = 0; k < group; k++) {
      const ulong row = k * q_len + i, h = (unit - b * kv_heads) * group + k;
      if (row < first_row || row >= first_row + rows) continue;
      if (!touched && h > 0) sum = weights[at];
      touched = 1;
      sum += scores[((unit - first_unit) * rows + row - first_row) * kv_len + j];
      if (h == kv_heads * group - 1) sum /= (real)(kv_heads * group);
    }
  if (touched) weights[at] = sum;
}
