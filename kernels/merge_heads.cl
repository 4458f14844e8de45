/* SPDX-License-Identifier: Apache-2.0
 *
 * merge_heads: the contiguous [units,T,D] that a product wrote to any strided [B,H,T,D] view; split_heads the other way round.
 *
 *   to[b,h,t,d] = from[u,t,d] + bias[h,d]                  u0 = first + u, b = u0 / H, h = u0 % H
 *   to[b,h,t,d] = 0                                            where t >= q_lengths[b]
 *   with DROPOUT: times dropout_scale where kept, else 0
 *
 * from      (u*T + t)*D + d
 * to        offset + b*s1 + h*s2 + t*s3 + d*s4 of its view
 * extent    (H, T, D, first)
 * grid      (D, T, units), rounded up to whole work-groups; no local memory
 * defines   FROM, TO: element types; BIAS: its element type, if there is one; Q_LENGTHS: int32 or int64, if there are any;
 *           DROPOUT 0 or 1: only where H is 1, as for the output of a layer */
__kernel void merge_heads(__global const ELEMENT(FROM) *restrict from, __global ELEMENT(TO) *restrict to,
                          const ulong8 to_view, const ulong4 extent, const ulong units
#ifdef BIAS
                          ,
                          __global const ELEMENT(BIAS) *restrict bias, const ulong8 bias_view
#endif
                              Q_LENGTHS_PARAMETERS DROPOUT_PARAMETERS) {
  const ulong d = get_global_id(0), t = get_global_id(1), u = get_global_id(2);
  const ulong heads = extent.s0, rows = extent.s1, columns = extent.s2;
  if (d >= columns || t >= rows || u >= units) return;
  const ulong b = (extent.s3 + u) / heads, h = extent.s3 + u - b * heads;
  real value = 0;
  if ((long)t < QUERY_COUNT(b, rows)) {
    value = LOAD(FROM, from, (u * rows + t) * columns + d);
#ifdef BIAS
    value += BIAS_LOAD(BIAS, bias, bias_view, h, d);
#endif
#if DROPOUT
    const uint4 words = DROPOUT_WORDS(d / 4, t, b + 0x80000000u);
    const uint word[4] = {words.s0, words.s1, words.s2, words.s3}; /* Oclgrind 21.10 takes a wrong one of nested ?: */
    value = word[d & 3] < dropout.s3 ? (real)0 : value * dropout_scale;
#endif
  }
  STORE(TO, to, to_view.s0 + b * to_view.s1 + h * to_view.s2 + t * to_view.s3 + d * to_view.s4, value);
}
