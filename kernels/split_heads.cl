/* SPDX-License-Identifier: Apache-2.0
 *
 * split_heads: any strided [B,H,T,D] view to the contiguous [units,T,D] that the products read, with what has to happen to
 * each element on the way.
 *
 *   to[u,t,d] = (from[b,h,t,d] + bias[h,d]) * scale        u0 = first + u, b = u0 / H, h = u0 % H
 *   to[u,t,d] = 0                                              where t >= lengths[b]; `from` is not read there
 *   to[u,T,d] = extra[h,d], to[u,T+1,d] = 0                the extra keys, if there are any: EXTRA rows behind the T
 *
 * from      offset + b*s1 + h*s2 + t*s3 + d*s4 of its view
 * to        (u*(T + EXTRA) + t)*D + d
 * extent    (H, T, D, first)
 * grid      (D, T + EXTRA, units), rounded up to whole work-groups; no local memory
 * defines   FROM, TO: element types; BIAS, EXTRA_ROW: their element types, if there are any (without EXTRA_ROW all extra rows are 0);
 *           EXTRA 0 to 2; LENGTHS: int32 or int64, if there are any */
__kernel void split_heads(__global const ELEMENT(FROM) *restrict from, const ulong8 from_view,
                          __global ELEMENT(TO) *restrict to, const ulong4 extent, const ulong units, const real scale
#ifdef BIAS
                          ,
                          __global const ELEMENT(BIAS) *restrict bias, const ulong8 bias_view
#endif
#ifdef EXTRA_ROW
                          ,
                          __global const ELEMENT(EXTRA_ROW) *restrict extra, const ulong8 extra_view
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
#ifdef BIAS
    value += BIAS_LOAD(BIAS, bias, bias_view, h, d);
#endif
    value *= scale;
  }
#ifdef EXTRA_ROW
  if (t == rows) value = BIAS_LOAD(EXTRA_ROW, extra, extra_view, h, d);
#endif
  STORE(TO, to, (u * (rows + EXTRA) + t) * columns + d, value);
}
