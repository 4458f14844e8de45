/* SPDX-License-Identifier: Apache-2.0
 *
 * softmax: masks and soft max over the rows of a slice of the score matrix, in place.
 *
 *   P[r,j] = exp(S[r,j] - m) / sum_j exp(S[r,j] - m), m = max_j S[r,j], over the scores that are not blocked; others get 0
 *   a row without any gets 0 throughout; log_sum_exp[r] = m + ln sum_j exp(S[r,j] - m), minus infinity for such a row
 *
 * Keys outside [begin, end) are blocked by their place alone (key count, causal rule, window) and their scores are not
 * read. Three passes over the row (cap, slope and masks, then the maximum; exponential and sum; quotient); it is as long as it
 * likes, since only a number per work-item is kept. Sums run in two levels: n terms of a work-item round n / SUM_BLOCK + SUM_BLOCK
 * times at most. Dropout falls on the quotients: weights are those after it.
 *
 * scores    (u*R + r)*columns + j, extent and rule as in common.clh
 * weights   view: offset, strides of b, h, i, j
 * lse       view: offset, strides of b, h, i
 * grid      (WG, R, units), work-group (WG, 1, 1)
 * local     WG reals
 * defines   WG: work-items a row, a power of two; VEC 1, 2, 4, 8 or 16: columns that a work-item takes side by side; WEIGHTS, LSE,
 *           DROPOUT: 0 or 1; those of ROW_PARAMETERS (common.clh) */
#if WG < 1 || (WG & (WG - 1)) != 0
#error "WG is a power of two"
#endif
#define SUM_BLOCK 32 /* vectors that the lower level sums */

#if VEC == 1
typedef real realv;
#define LOADV(pointer) (*(pointer))
#define STOREV(value, pointer) (*(pointer) = (value))
#define LANE_SUM(v) (v)
#define LANE_MAX(v) (v)
#elif VEC == 2 || VEC == 4 || VEC == 8 || VEC == 16
#define ELEMENT_WORD_float32 float
#define ELEMENT_WORD_float64 double
typedef JOIN(JOIN(ELEMENT_WORD_, COMPUTE), VEC) realv;
#define LOADV(pointer) JOIN(vload, VEC)(0, pointer)
#define STOREV(value, pointer) JOIN(vstore, VEC)(value, 0, pointer)
#else
#error "VEC is 1, 2, 4, 8 or 16"
#endif

/* NaN is no maximum, and shows in the exponentials all the same; fmax would cost several instructions. */
#define LARGER(a, b) ((a) > (b) ? (a) : (b))

#if VEC == 2
#define LANE_SUM(v) ((v).s0 + (v).s1)
#define LANE_MAX(v) LARGER((v).s0, (v).s1)
#elif VEC == 4
#define LANE_SUM(v) (((v).s0 + (v).s2) + ((v).s1 + (v).s3))
#define LANE_MAX(v) LARGER(LARGER((v).s0, (v).s2), LARGER((v).s1, (v).s3))
#elif VEC == 8
#define LANE_SUM(v) ((((v).s0 + (v).s4) + ((v).s1 + (v).s5)) + (((v).s2 + (v).s6) + ((v).s3 + (v).s7)))
#define LANE_MAX(v)                                                                                                    \
  LARGER(LARGER(LARGER((v).s0, (v).s4), LARGER((v).s1, (v).s5)), LARGER(LARGER((v).s2, (v).s6), LARGER((v).s3, (v).s7)))
#elif VEC == 16
#define HALF_SUM(v) ((((v).s0 + (v).s4) + ((v).s1 + (v).s5)) + (((v).s2 + (v).s6) + ((v).s3 + (v).s7)))
#define LANE_SUM(v) (HALF_SUM((v).lo) + HALF_SUM((v).hi))
#define HALF_MAX(v)                                                                                                    \
  LARGER(LARGER(LARGER((v).s0, (v).s4), LARGER((v).s1, (v).s5)), LARGER(LARGER((v).s2, (v).s6), LARGER((v).s3, (v).s7)))
#define LANE_MAX(v) LARGER(HALF_MAX((v).lo), HALF_MAX((v).hi))
#endif

/* The work-group's maximum or sum, the same in every work-item, in an order that does not depend on the device. */
#if WG > 1
#define REDUCE(value, scratch, COMBINE)                                                                                \
  do {                                                                                                                 \
    scratch[get_local_id(0)] = value;                                                                                  \
    for (uint step = WG / 2; step > 0; step >>= 1) {                                                                   \
      barrier(CLK_LOCAL_MEM_FENCE); /* partner's value of the round before is written */                               \
      if (get_local_id(0) < step)                                                                                      \
        scratch[get_local_id(0)] = COMBINE(scratch[get_local_id(0)], scratch[get_local_id(0) + step]);                 \
    }                                                                                                                  \
    barrier(CLK_LOCAL_MEM_FENCE); /* the result is written */                                                          \
    value = scratch[0];                                                                                                \
    barrier(CLK_LOCAL_MEM_FENCE); /* all have read it before the next use of scratch */                                \
  } while (0)
#else
#define REDUCE(value, scratch, COMBINE)
#endif
#define ADDED(a, b) ((a) + (b))

__kernel __attribute__((reqd_work_group_size(WG, 1, 1))) void
softmax(__global real *restrict scores, const ulong8 extent
#if WEIGHTS
        ,
        __global real *restrict weights, const ulong8 weights_view
#endif
#if LSE
        ,
        __global real *restrict log_sum_exp, const ulong8 lse_view
#endif
            DROPOUT_PARAMETERS ROW_PARAMETERS) {
#if WG > 1
  __local real scratch[WG];
#endif
  const ulong lane = get_local_id(0), r = get_group_id(1), u = get_group_id(2), columns = extent.s6;
  __global real *restrict s = scores + (u * extent.s2 + r) * columns;
  ROW_PLACE(extent.s0 + u, extent.s1 + r)

  /* Keys that the place allows: [begin, end), and the extra ones. A query behind its entry's count has none. */
  const int counts = (long)i < QUERY_COUNT(b, q_len);
  const ulong extra = counts ? EXTRA : 0;
  const long right = min(position + rule.s3, rule.s0 ? position : (long)kv_len);
  const ulong begin = (ulong)clamp(position - rule.s2, (long)0, length);
  const ulong end = counts ? (ulong)clamp(right + 1, (long)begin, length) : begin;
  /* Whole vectors first; what is left of [begin, end) and the extra keys follow one by one. */
  const ulong vectors = (end - begin) / VEC, tail = begin + vectors * VEC, rest = end - tail + extra;
#define REST_COLUMN(k) ((k) < end - tail ? tail + (k) : kv_len + (k) - (end - tail))

  /* Cap, slope, masks; and the maximum. */
#if ROW_CHANGES_SCORES
  for (ulong k = lane; k < vectors; k += WG)
    for (ulong j = begin + k * VEC; j < begin + k * VEC + VEC; j++) {
      real score = s[j];
      SCORE_APPLY(score, j)
      s[j] = score;
    }
  for (ulong j = tail + lane; j < end; j += WG) {
    real score = s[j];
    SCORE_APPLY(score, j)
    s[j] = score;
  }
#endif
  realv largest = BLOCKED;
  for (ulong k = lane; k < vectors; k += WG) {
    const realv score = LOADV(s + begin + k * VEC);
    largest = LARGER(score, largest);
  }
  real maximum = LANE_MAX(largest);
  for (ulong j = tail + lane; j < end; j += WG) maximum = LARGER(s[j], maximum);
  for (ulong j = kv_len + lane; j < kv_len + extra; j += WG) {
    real score = s[j];
    CAP_APPLY(score)
    s[j] = score;
    maximum = LARGER(score, maximum);
  }
#if WG > 1
  barrier(CLK_GLOBAL_MEM_FENCE); /* scores of the rest are read by other work-items than changed them */
#endif
  REDUCE(maximum, scratch, LARGER);

  /* Exponentials and their sum. Where all is blocked nothing may be subtracted: minus infinity from itself is no number. */
  const real shift = maximum == BLOCKED ? (real)0 : maximum;
  realv total = 0;
  for (ulong k = lane; k < vectors;) {
    realv part = 0;
    for (int n = 0; n < SUM_BLOCK && k < vectors; n++, k += WG) {
      const realv e = exp(LOADV(s + begin + k * VEC) - shift);
      STOREV(e, s + begin + k * VEC);
      part += e;
    }
    total += part;
  }
  real sum = LANE_SUM(total);
  for (ulong k = lane; k < rest; k += WG) {
    const ulong j = REST_COLUMN(k);
    const real e = exp(s[j] - shift);
    s[j] = e;
    sum += e;
  }
  REDUCE(sum, scratch, ADDED);

  /* Quotients; zeros where the place forbids. */
  const real factor = sum == 0 ? (real)0 : 1 / sum;
  for (ulong k = lane; k < vectors; k += WG) STOREV(LOADV(s + begin + k * VEC) * factor, s + begin + k * VEC);
  for (ulong k = lane; k < rest; k += WG) s[REST_COLUMN(k)] *= factor;
  for (ulong j = lane; j < begin; j += WG) s[j] = 0;
  for (ulong j = end + lane; j < kv_len; j += WG) s[j] = 0;
  for (ulong j = kv_len + extra + lane; j < columns; j += WG) s[j] = 0;

#if WG > 1 && (DROPOUT || WEIGHTS)
  barrier(CLK_GLOBAL_MEM_FENCE); /* columns are read by other work-items than wrote them */
#endif
#if DROPOUT
  for (ulong block = lane; block * 4 < columns; block += WG) {
    const uint4 words = DROPOUT_WORDS(block, i, b * extent.s4 * extent.s5 + h);
    const uint word[4] = {words.s0, words.s1, words.s2, words.s3};
    for (ulong j = block * 4; j < min(block * 4 + 4, columns); j++)
      s[j] = word[j & 3] < dropout.s3 ? (real)0 : s[j] * dropout_scale;
  }
#if WG > 1 && WEIGHTS
  barrier(CLK_GLOBAL_MEM_FENCE); /* as above */
#endif
#endif
#if WEIGHTS
  __global real *w = weights + weights_view.s0 + b * weights_view.s1 + h * weights_view.s2 + i * weights_view.s3;
  for (ulong j = lane; j < columns; j += WG) w[j * weights_view.s4] = s[j];
#endif
#if LSE
  if (lane == 0)
    log_sum_exp[lse_view.s0 + b * lse_view.s1 + h * lse_view.s2 + i * lse_view.s3] =
        sum == 0 ? BLOCKED : shift + log(sum);
#endif
}
