/* SPDX-License-Identifier: Apache-2.0
 *
 * split_heads: any strided [B,H,T,D] view to the contiguous [units,T,D] that the products read, with what has to happen to
 * each element on the way.
 *
 *   to[u,t,d] = (from[b,h,t,d] + bias[h*D + d]) * scale        u0 = first + u, b = u0 / H, h = u0 % H
 *   to[u,t,d] = 0                                              where t >= lengths[b]; `from` is not read there
 *
 * from      offset + b*s1 + h*s2 + t*s3 + d*s4 of its view
 * to        (u*T + t)*D + d
 * extent    (H, T, D, first)
 * grid      (D, T, units), rounded up to whole work-groups; no local memory
 * defines   FROM, TO: element types; BIAS 0 or 1 (of type COMPUTE); LENGTHS: int32 or int64, if there are any */
__kernel void split_heads(__global const ELEMENT(FROM) *restrict from, const ulong8 from_view,
                          __global ELEMENT(TO) *restrict to, const ulong4 extent, const ulong units, const real scale
#if BIAS
                          ,
                          __global const real *restrict bias, const ulong bias_offset
#endif
#ifdef LENGTHS
                          ,
                          __global const ELEMENT(LENGTHS) *restrict lengths, const ulong8 lengths_view
#endif
) {
  const ulong d = get_global_id(0), t = get_global_id(1), u = get_global_id(2);
  const ulong heads = extent.s0, rows = extent.s1, columns = extent.s2;
  if (d >= columns || t >= rows || u >= units) return;
  const ulong b = (extent.s3 + u) / heads, h = extent.s3 + u - b * heads;
  real value = 0;
#ifdef LENGTHS
  if (t < CLAMPED_LENGTH(lengths, lengths_view, b, rows))
#endif
  {
    value = LOAD(FROM, from,
                 from_view.s0 + b * from_view.s1 + h * from_view.s2 + t * from_view.s3 + d * from_view.s4);
#if BIAS
    value += bias[bias_offset + h * columns + d];
#endif
    value *= scale;
  }
  STORE(TO, to, (u * rows + t) * columns + d, value);
}
