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


def allowed_keys(B, H, T, S, masks=(), kv_lengths=None, causal=None, causal_offset=None, window_left=None, window_right=None):
    """bool [B,H,T,S]. masks: (kind, array), block and keep only; causal: 'top-left' or 'bottom-right'."""
    allowed = np.ones((B, H, T, S), bool)
    for kind, array in masks:
        allowed &= np.broadcast_to(~array if kind == "block" else array, allowed.shape)
    lengths = np.full(B, S) if kv_lengths is None else np.asarray(kv_lengths)
    j = np.arange(S).astype(object)[None, None, None, :]  # Python's integers, which have no limits
    allowed &= (j < lengths[:, None, None, None]).astype(bool)
    offset = np.zeros(B, object)
    if causal == "bottom-right":
        offset = lengths.astype(object) - T
    elif causal_offset is not None:
        offset = np.full(B, causal_offset, object)
    position = np.arange(T).astype(object)[None, None, :, None] + offset[:, None, None, None]
    if causal is not None or causal_offset is not None:
        allowed &= (j <= position).astype(bool)
    if window_left is not None:
        allowed &= (j >= position - window_left).astype(bool)
    if window_right is not None:
        allowed &= (j <= position + window_right).astype(bool)
    return allowed


def attention(q, k, v, unit, dq=0.0, dk=0.0, dv=0.0, scale=None, add=(), **rules):
    """Output [B,H,T,Dv], probabilities [B,H,T,S] and a bound for each. add: masks in the precision of the run."""
    B, H, T, D = q.shape
    S = k.shape[2]
    zero = np.zeros
    dq, dk, dv = (d if isinstance(d, np.ndarray) else zero(x.shape) for d, x in ((dq, q), (dk, k), (dv, v)))
    q, k, v = (np.asarray(x, np.float64) for x in (q, k, v))
    scale = 1 / np.sqrt(D) if scale is None else scale
    allowed = allowed_keys(B, H, T, S, **rules)
    lengths = rules.get("kv_lengths")
    if lengths is not None:  # what lies behind is not read, whatever it is
        past = np.arange(S)[None, :] >= np.asarray(lengths)[:, None]
        k, v = (np.where(past[:, None, :, None], 0, x) for x in (k, v))
    scores, error = dot(q, dq, np.swapaxes(k, -1, -2), np.swapaxes(dk, -1, -2), unit)
    scores, error = scores * scale, abs(scale) * error + 2 * unit * np.abs(scores * scale)
    for mask in add:
        with np.errstate(invalid="ignore"):
            scores = scores + np.asarray(mask, np.float64)
        allowed &= ~np.isneginf(scores)
        scores = np.where(allowed, scores, 0)
        error = error + unit * np.abs(scores)
    p, dp = softmax(scores, error, allowed, unit)
    out, dout = dot(p, dp, v, dv, unit)
    return out, 2 * dout + 2.0**-126, p, dp


def layer(parameters, H, query, key, value, unit, **rules):
    """Output [B,T,Eo] and probabilities [B,H,T,S] of a whole layer, with bounds; parameters: wq wk wv wo bq bk bv bo."""
    def project(x, name):
        weight = np.asarray(parameters["w" + name], np.float64)
        bias = parameters.get("b" + name)
        bias = 0.0 if bias is None else np.asarray(bias, np.float64)
        x = np.asarray(x, np.float64)
        y, dy = dot(x, np.zeros(x.shape), weight.T, np.zeros(weight.T.shape), unit)
        return y + bias, dy + 2 * unit * np.abs(bias)

    def split(pair):
        return [np.swapaxes(x.reshape(x.shape[0], x.shape[1], H, x.shape[2] // H), 1, 2) for x in pair]

    (q, dq), (k, dk), (v, dv) = split(project(query, "q")), split(project(key, "k")), split(project(value, "v"))
    o, do, p, dp = attention(q, k, v, unit, dq, dk, dv, **rules)
    o, do = (np.swapaxes(x, 1, 2).reshape(x.shape[0], x.shape[2], H * x.shape[3]) for x in (o, do))
    weight = np.asarray(parameters["wo"], np.float64)
    y, dy = dot(o, do, weight.T, np.zeros(weight.T.shape), unit)
    bias = parameters.get("bo")
    bias = 0.0 if bias is None else np.asarray(bias, np.float64)
    return y + bias, 2 * dy + 2 * unit * np.abs(bias), p, dp


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
