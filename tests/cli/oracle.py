# SPDX-License-Identifier: Apache-2.0
"""Attention in float64 with NumPy, and how far a run in another precision may be from it.

Each function returns values with bounds. A dot product of n terms in arithmetic with unit roundoff u, summed in any order,
is off by at most (n + 2) u sum |a_i b_i| to first order; errors of the operands go through as |a| db + |b| da. The exponential
turns an absolute error of a score into a relative one of its weight. Bounds are doubled for the second order and for exp().
"""
import numpy as np

UNIT = {np.dtype(np.float32): 2.0**-24, np.dtype(np.float64): 2.0**-53}


def dot(a, da, b, db, unit):
    """a @ b and its bound."""
    terms = np.abs(a) @ np.abs(b)
    return a @ b, (a.shape[-1] + 2) * unit * terms + np.abs(a) @ db + da @ np.abs(b)


def softmax(scores, error, allowed, unit):
    """Probabilities over the allowed scores with their bound; rows without any are 0."""
    top = np.max(np.where(allowed, scores, -np.inf), axis=-1, keepdims=True, initial=-np.inf)
    top = np.where(np.isfinite(top), top, 0)
    weights = np.where(allowed, np.exp(np.where(allowed, scores, 0) - top), 0)
    total = weights.sum(-1, keepdims=True)
    p = np.divide(weights, total, out=np.zeros_like(weights), where=total > 0)
    worst = np.max(np.where(allowed, error, 0), axis=-1, keepdims=True, initial=0)
    # The difference to the row's maximum is rounded as well, and so is what exp() makes of it.
    distance = np.where(allowed, np.abs(np.where(allowed, scores, 0) - top), 0)
    relative = 2 * worst + unit * (distance + scores.shape[-1] + 8)
    return p, 2 * relative * p + 2.0**-126


def positions(B, T, S, kv_lengths=None, causal=None, causal_offset=None, **_):
    """[B,1,T,1]: each query's place among the keys, in Python's integers, which have no limits."""
    offset = np.zeros(B, object)
    if causal == "bottom-right":
        offset = (np.full(B, S) if kv_lengths is None else np.asarray(kv_lengths)).astype(object) - T
    elif causal_offset is not None:
        offset = np.full(B, causal_offset, object)
    return np.arange(T).astype(object)[None, None, :, None] + offset[:, None, None, None]


def allowed_keys(B, H, T, S, masks=(), kv_lengths=None, causal=None, causal_offset=None, window_left=None, window_right=None):
    """bool [B,H,T,S]. masks: (kind, array), block and keep only; causal: 'top-left' or 'bottom-right'."""
    allowed = np.ones((B, H, T, S), bool)
    for kind, array in masks:
        allowed &= np.broadcast_to(~array if kind == "block" else array, allowed.shape)
    lengths = np.full(B, S) if kv_lengths is None else np.asarray(kv_lengths)
    j = np.arange(S).astype(object)[None, None, None, :]
    allowed &= (j < lengths[:, None, None, None]).astype(bool)
    position = positions(B, T, S, kv_lengths, causal, causal_offset)
    if causal is not None or causal_offset is not None:
        allowed &= (j <= position).astype(bool)
    if window_left is not None:
        allowed &= (j >= position - window_left).astype(bool)
    if window_right is not None:
        allowed &= (j <= position + window_right).astype(bool)
    return allowed


def philox(key, counter):
    """Philox4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3", 2011): the four words for each
    counter. key: two words; counter: four, each a number or an array that broadcasts with the others."""
    low = np.uint64(0xFFFFFFFF)
    c = np.broadcast_arrays(*(np.asarray(word, np.uint64) & low for word in counter))
    for round_ in range(10):
        k0, k1 = (np.uint64((word + round_ * step) & 0xFFFFFFFF) for word, step in zip(key, (0x9E3779B9, 0xBB67AE85)))
        a, b = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        half = np.uint64(32)
        c = [(b >> half) ^ c[1] ^ k0, b & low, (a >> half) ^ c[3] ^ k1, a & low]
    return c


def kept(shape, p, seed):
    """Which elements of [..., rows, columns] dropout keeps: word j % 4 of the block at counter (j / 4, row, stream, call) is
    compared with p * 2^32. Leading dimensions are numbered through as streams; a layer's output has streams of its own."""
    *leading, rows, columns = shape
    streams = np.arange(int(np.prod(leading)), dtype=np.uint64) + np.uint64(0 if len(leading) == 2 else 2**31)
    words = philox((seed & 0xFFFFFFFF, seed >> 32), (np.arange((columns + 3) // 4), np.arange(rows)[:, None],
                                                     streams[:, None, None], 0))
    words = np.stack(words, -1).reshape(len(streams), rows, -1)[..., :columns]
    return (words >= np.uint64(np.floor(p * 2.0**32 + 0.5))).reshape(shape)


def drop(x, dx, p, seed, unit):
    """Dropout of x: 1 / (1 - p) is rounded, and so is the product with it."""
    keep = kept(x.shape, p, seed)
    return np.where(keep, x / (1 - p), 0), np.where(keep, (dx + 4 * unit * np.abs(x)) / (1 - p), 0)


def modify(scores, error, unit, soft_cap, slopes, position):
    """Soft cap and slopes. tanh() is good to 5 ulp and its argument to 2.5; its slope, times the argument, is at most 0.45."""
    if soft_cap is not None:
        capped = soft_cap * np.tanh(scores / soft_cap)
        steepness = 1 - np.tanh(np.maximum(np.abs(scores) - error, 0) / soft_cap) ** 2
        scores, error = capped, error * steepness + unit * (12 * np.abs(capped) + 3 * soft_cap * np.minimum(np.abs(scores) / soft_cap, 1))
    if slopes is not None:
        slopes = np.asarray(slopes, np.float64)
        slopes = slopes[..., None, None] if slopes.ndim == 2 else slopes[None, :, None, None]
        distance = np.abs(position - np.arange(scores.shape[-1]).astype(object)).astype(np.float64)
        scores = scores - slopes * distance
        error = error + unit * (3 * np.abs(slopes) * distance + np.abs(scores))
    return scores, error


def with_extra(x, dx, extra):
    """Extra rows [G,X,D] behind each head's of x [B,G,S,D]."""
    extra = np.broadcast_to(extra, x.shape[:1] + extra.shape)
    return np.concatenate([x, extra], 2), np.concatenate([dx, np.zeros(extra.shape)], 2)


def attention(q, k, v, unit, dq=0.0, dk=0.0, dv=0.0, scale=None, soft_cap=None, slopes=None, add=(), extra=None,
              q_lengths=None, dropout=0.0, seed=0, **rules):
    """Output [B,H,T,Dv], probabilities [B,H,T,S] after dropout and a bound for each; k and v have G heads, which divide H.
    add: masks in the precision of the run; extra: keys [G,X,D] and values [G,X,Dv] behind the others, which nothing touches."""
    B, H, T, D = q.shape
    S = k.shape[2]
    dq, dk, dv = (d if isinstance(d, np.ndarray) else np.zeros(x.shape) for d, x in ((dq, q), (dk, k), (dv, v)))
    q, k, v = (np.asarray(x, np.float64) for x in (q, k, v))
    lengths = rules.get("kv_lengths")
    if lengths is not None:  # what lies behind is not read, whatever it is
        past = np.arange(S)[None, :] >= np.asarray(lengths)[:, None]
        k, v = (np.where(past[:, None, :, None], 0, x) for x in (k, v))
    if extra is not None:
        (k, dk), (v, dv) = with_extra(k, dk, extra[0]), with_extra(v, dv, extra[1])
    k, dk, v, dv = (np.repeat(x, H // x.shape[1], 1) for x in (k, dk, v, dv))

    scale = 1 / np.sqrt(D) if scale is None else scale
    scores, error = dot(q, dq, np.swapaxes(k, -1, -2), np.swapaxes(dk, -1, -2), unit)
    scores, error = scores * scale, abs(scale) * error + 2 * unit * np.abs(scores * scale)
    behind, error_behind = modify(scores[..., S:], error[..., S:], unit, soft_cap, None, None)
    scores, error = modify(scores[..., :S], error[..., :S], unit, soft_cap, slopes, positions(B, T, S, **rules))
    allowed = allowed_keys(B, H, T, S, **rules)
    for mask in add:
        with np.errstate(invalid="ignore"):
            scores = scores + np.asarray(mask, np.float64)
        allowed &= ~np.isneginf(scores)
        scores = np.where(allowed, scores, 0)
        error = error + unit * np.abs(scores)
    scores, error = np.concatenate([scores, behind], -1), np.concatenate([error, error_behind], -1)
    allowed = np.concatenate([allowed, np.ones(behind.shape, bool)], -1)

    p, dp = softmax(scores, error, allowed, unit)
    if dropout:
        p, dp = drop(p, dp, dropout, seed, unit)
    out, dout = dot(p, dp, v, dv, unit)
    dout = 2 * dout + 2.0**-126
    if q_lengths is not None:  # exactly 0
        past = (np.arange(T)[None, :] >= np.asarray(q_lengths)[:, None])[:, None, :, None]
        p, dp, out, dout = (np.where(past, 0, x) for x in (p, dp, out, dout))
    return out, dout, p, dp


def layer(parameters, H, query, key, value, unit, G=None, zero_key=False, out_dropout=0.0, seed=0, **rules):
    """Output [B,T,Eo] and probabilities [B,H,T,S] of a whole layer, with bounds; parameters: wq wk wv wo bq bk bv bo, bias_k,
    bias_v."""
    G = H if G is None else G

    def project(x, name):
        weight = np.asarray(parameters["w" + name], np.float64)
        bias = parameters.get("b" + name)
        bias = 0.0 if bias is None else np.asarray(bias, np.float64)
        x = np.asarray(x, np.float64)
        y, dy = dot(x, np.zeros(x.shape), weight.T, np.zeros(weight.T.shape), unit)
        return y + bias, dy + 2 * unit * np.abs(bias)

    def split(pair, heads):
        return [np.swapaxes(x.reshape(x.shape[0], x.shape[1], heads, x.shape[2] // heads), 1, 2) for x in pair]

    (q, dq), (k, dk), (v, dv) = split(project(query, "q"), H), split(project(key, "k"), G), split(project(value, "v"), G)
    extra = [np.zeros((G, 0, x.shape[-1])) for x in (k, v)]
    if "bias_k" in parameters:
        extra = [np.asarray(parameters[n], np.float64).reshape(G, 1, -1) for n in ("bias_k", "bias_v")]
    if zero_key:
        extra = [np.concatenate([x, np.zeros((G, 1, x.shape[-1]))], 1) for x in extra]
    o, do, p, dp = attention(q, k, v, unit, dq, dk, dv, extra=extra, seed=seed, **rules)
    o, do = (np.swapaxes(x, 1, 2).reshape(x.shape[0], x.shape[2], H * x.shape[3]) for x in (o, do))
    weight = np.asarray(parameters["wo"], np.float64)
    y, dy = dot(o, do, weight.T, np.zeros(weight.T.shape), unit)
    bias = parameters.get("bo")
    bias = 0.0 if bias is None else np.asarray(bias, np.float64)
    y, dy = y + bias, 2 * dy + 2 * unit * np.abs(bias)
    if out_dropout:
        y, dy = drop(y, dy, out_dropout, seed, unit)
    if rules.get("q_lengths") is not None:
        past = (np.arange(y.shape[1])[None, :] >= np.asarray(rules["q_lengths"])[:, None])[..., None]
        y, dy = (np.where(past, 0, x) for x in (y, dy))
    return y, dy, p, dp


def check(actual, expected, bound):
    """Shapes equal and every element within its bound; NaN is out of every bound."""
    assert actual.shape == expected.shape, (actual.shape, expected.shape)
    with np.errstate(invalid="ignore"):
        excess = ~(np.abs(actual.astype(np.float64) - expected) <= bound)
    if excess.any():
        at = tuple(np.argwhere(excess)[0])
        raise AssertionError(
            f"{excess.sum()} of {excess.size} differ, first at {at}: {actual[at]} instead of {expected[at]} +- {bound[at]}"
        )
