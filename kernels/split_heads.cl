/* SPDX-License-Identifier: Apache-2.0
 *
 * split_heads: any strided [B,H,T,D] view to the contiguous [units,T,D] that the products read, with what has to happen to
 * each element on the way.
 *
 *   to[u,t,d] = (from[b,h,t,d] + bias[h*D + d]) * scale        u0 = first + u, b = u0 / H, h = u0 % H
 *   to[u,t,d] = 0                                              where t >= lengths[b]; `from` is not read there
 *   to[u,T,d] = extra[h*D + d], to[u,T+1,d] = 0                the extra keys, if there are any: EXTRA rows behind the T
 *
 * from      offset + b*s1 + h*s2 + t*s3 + d*s4 of its view
 * to        (u*(T + EXTRA) + t)*D + d
 * extent    (H, T, D, first)
 * grid      (D, T + EXTRA, units), rounded up to whole work-groups; no local memory
 * defines   FROM, TO: element types; BIAS, EXTRA_ROW 0 or 1 (of type COMPUTE; without EXTRA_ROW all extra rows are 0); EXTRA 0 to 2;
 *           LENGTHS: int32 or int64, if there are any */
__kernel void split_heads(__global const ELEMENT(FROM) *restrict from, const ulong8 from_view,
                          __global ELEMENT(TO) *restrict to, const ulong4 extent, const ulong units, const real scale
#if BIAS
                          ,
                          __global const real *restrict bias, const ulong bias_offset
#endif
#if EXTRA_ROW
                          ,
                          __global const real *restrict extra, const ulong extra_offset
#endif
                              LENGTHS_PARAMETERS) {
  const ulong d = get_global_id(0), t = get_global_id(1), u = get_global_id(2);
  const ulong heads = extent.s0, rows = extent.s1, columns = extent.s2;
  if (d >= columns || t >= rows + EXTRA || u >= units) return;
  const ulong b = (extent.s3 + u) / heads, h = extent.s3 + u - b * heads;
  real value = 0;
  if ((long)t < KEY_COUNT(b, rows)) {
    value = LOAD(FROM, from,
                 from_view.s0 + b * from_view.s1 + h * from_view.s2 + t * from_view.s3 + d * from_view.s4);
#if BIAS
    value += bias[bias_offset + h * columns + d];
#endif
    value *= scale;
  }
#if EXTRA_ROW
  if (t == rows) value = extra[extra_offset + h * columns + d];
#endif
  STORE(TO, to, (u * (rows + EXTRA) + t) * columns + d, value);
}
