# SPDX-License-Identifier: Apache-2.0
"""clattn sdpa: what each option does to the values."""
import numpy as np
import pytest

import oracle
from cases import B, D, DV, F32, F64, H, S, T, Case
from support import succeed


@pytest.fixture
def case(tmp_path, rng):
    return Case(tmp_path, rng)


@pytest.fixture
def wide(tmp_path, rng, has_fp64):
    if not has_fp64:
        pytest.skip("the device has no fp64")
    return Case(tmp_path, rng, F64)


def bools(rng, *shape):
    return rng.random(shape) < 0.5


def test_plain(case):
    case.check()


def test_float64(wide):
    wide.check()


@pytest.mark.parametrize("shape", [(1, 1, 1, 1, 1, 1), (1, 2, 1, 300, 65, 1), (3, 1, 70, 1, 1, 33), (1, 1, 17, 129, 257, 3)],
                         ids=str)
def test_sizes(tmp_path, rng, shape):
    Case(tmp_path, rng, shape=shape).check()


@pytest.mark.parametrize("value", ["0.25", "-1.5", "0", "+2e-3", ".5", "1e30"])
def test_scale(case, value):
    if value == "1e30":  # scores up to 1e30: the largest takes all, and no difference of scores is near a rounding error
        case.q[:], case.k[:, :, :, 0] = 1, np.arange(S)
        case.q[:, :, :, 1:] = 0
    case.check(f"--scale={value}", scale=float(np.float32(value)) if value == "1e30" else float(value))


MASK_SHAPES = [(), (1,), (S,), (T, 1), (T, S), (H, 1, S), (H, T, S), (1, 1, T, S), (B, 1, 1, S), (B, H, T, S), (1, 1, 1, 1)]


def test_block_masks_broadcast(case, rng):
    # Few are true, so that something is left of the scores; a single value that is true leaves nothing.
    masks = [np.asarray(rng.random(shape) < (0.1 if np.prod(shape) > 1 else 0)) for shape in MASK_SHAPES]
    for mask in masks:
        case.give("--block-mask", mask)
    case.check(masks=[("block", mask) for mask in masks])


def test_keep_masks_broadcast(case, rng):
    masks = [np.asarray(rng.random(shape) < (0.9 if np.prod(shape) > 1 else 1)) for shape in MASK_SHAPES]
    for mask in masks:
        case.give("--keep-mask", mask)
    case.check(masks=[("keep", mask) for mask in masks])


@pytest.mark.parametrize("option", ["--block-mask", "--keep-mask"])
def test_a_single_value_for_all(case, option):
    """Blocked throughout: zeros."""
    case.give(option, np.asarray(option == "--block-mask"))
    case.check(masks=[("block", np.ones(1, bool))])


def test_any_byte_but_zero_is_true(case, rng):
    mask = bools(rng, T, S)
    bytes_ = np.where(mask, rng.integers(1, 256, (T, S)), 0).astype(np.uint8)
    case.give("--keep-mask", bytes_.view(bool))
    case.check(masks=[("keep", mask)])


def test_add_masks_sum(case, rng):
    masks = [rng.standard_normal(shape).astype(F32) for shape in [(), (S,), (T, S), (H, 1, S), (B, H, T, S)]]
    for mask in masks:
        case.give("--add-mask", mask)
    case.check(add=masks)


def test_minus_infinity_blocks_and_finite_values_do_not(case, rng):
    mask = np.where(bools(rng, B, 1, T, S), -np.inf, 0).astype(F32)
    mask[:, :, 0] = -np.inf  # no key: zeros
    mask[:, :, 1] = -3.4e38  # all alike: as without a mask, up to what -3.4e38 swallows of the scores
    mask[:, :, 2] = -np.inf
    mask[:, :, 2, 3] = -3.4e38  # one key
    case.give("--add-mask", mask)
    case.run()
    y, w = case.results()
    rows = [0, 2, 3, 4]
    allowed = np.broadcast_to(mask > -np.inf, (B, H, T, S))
    out, dout, p, dp = oracle.attention(case.q, case.k, case.v, case.unit, add=[np.where(mask < -1e38, -np.inf, mask)])
    p[:, :, 2, 3], out[:, :, 2] = 1, case.v[:, :, 3]
    dp[:, :, 2, 3] = 1e-6
    dout[:, :, 2] = 1e-5
    oracle.check(w[:, :, rows], p[:, :, rows], dp[:, :, rows])
    oracle.check(y[:, :, rows], out[:, :, rows], dout[:, :, rows])
    np.testing.assert_allclose(w[:, :, 1], 1 / S, rtol=1e-6)
    np.testing.assert_allclose(y[:, :, 1], case.v.astype(F64).mean(2), atol=1e-6)
    assert not y[:, :, 0].any() and not w[:, :, 0].any()
    assert not w[~allowed].any()


def test_masks_that_overflow_when_they_are_added(case):
    """Two times the smallest float is minus infinity in float32, which blocks, row by row and alone as in sums."""
    a, b = np.zeros((T, S), F32), np.zeros((T, S), F32)
    a[1, 2:], b[1, 1:4] = -3.4e38, -3.4e38  # keys 2 and 3 are gone; key 0 is alone above
    a[2], b[2] = -3.4e38, -3.4e38  # nothing is left
    case.give("--add-mask", a)
    case.give("--add-mask", b)
    case.run()
    y, w = case.results()
    assert not y[:, :, 2].any() and not w[:, :, 2].any()
    np.testing.assert_array_equal(w[:, :, 1], np.broadcast_to(np.arange(S) == 0, (B, H, S)))
    np.testing.assert_array_equal(y[:, :, 1], case.v[:, :, 0])


def test_logits_up_to_the_limit_of_the_type(case):
    """Scores of +-1.2e38 and equal ones: weights are 0, 1 or even, and nothing is NaN."""
    case.q[:], case.k[:] = 0, 0
    case.q[..., 0] = 1e19
    case.k[..., 0] = 1.2e19 * np.array([1, -1, 1, -1, 0.5, 0, 1])
    case.run("--scale", "1")
    y, w = case.results()
    np.testing.assert_allclose(w, np.broadcast_to(np.array([1, 0, 1, 0, 0, 0, 1]) / 3, w.shape), rtol=1e-6)
    np.testing.assert_allclose(y, np.broadcast_to(case.v[:, :, [0, 2, 6]].mean(2, keepdims=True), y.shape), rtol=1e-5, atol=1e-6)


def test_add_mask_of_another_float_type(case, rng):
    """A float64 mask beside float32 data: rounded to float32, and what overflows there is infinite."""
    mask = rng.standard_normal((T, S))
    mask[1, :3], mask[2, :] = -1e300, -np.inf
    case.give("--add-mask", mask)
    with np.errstate(over="ignore"):
        case.check(add=[mask.astype(F32)])


def test_add_mask_of_float32_beside_float64(wide, rng):
    mask = rng.standard_normal((H, T, S)).astype(F32)
    wide.give("--add-mask", mask)
    wide.check(add=[mask])


def test_key_masks(case, rng):
    block, keep = bools(rng, B, S), bools(rng, B, S)
    case.give("--key-block", block)
    case.give("--key-keep", keep)
    case.check(masks=[("block", block[:, None, None]), ("keep", keep[:, None, None])])


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_token_ids(case, rng, dtype):
    ids = rng.integers(-2, 2, (B, S)).astype(dtype)
    if dtype == np.int64:
        ids[0, 0] = -1 + 2**32  # equal to -1 in 32 bits
    case.give("--token-ids", ids)
    case.check("--pad-id", "-1", masks=[("block", (ids == -1)[:, None, None])])


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_kv_lengths_leave_the_rest_unread(case, dtype):
    lengths = np.array([S - 2, 0], dtype)
    for b in range(B):
        case.k[b, :, lengths[b]:], case.v[b, :, lengths[b]:] = np.nan, np.inf
    case.give("--kv-lengths", lengths)
    case.check(kv_lengths=lengths)


@pytest.mark.parametrize("shape", [(B, H, 5, 7, D, DV), (B, H, 7, 5, D, DV)], ids=["short", "tall"])
@pytest.mark.parametrize("arguments, rules", [
    (["--causal", "top-left"], {"causal": "top-left"}),
    (["--causal=bottom-right"], {"causal": "bottom-right"}),
    (["--causal-offset", "-3"], {"causal_offset": -3}),
    (["--causal-offset=2", "--window-left=1"], {"causal_offset": 2, "window_left": 1}),
    (["--window-left", "2", "--window-right", "0"], {"window_left": 2, "window_right": 0}),
    (["--causal", "bottom-right", "--window-left", "1"], {"causal": "bottom-right", "window_left": 1}),
], ids=["top-left", "bottom-right", "offset", "offset-window", "window", "bottom-right-window"])
def test_causal_rules_and_windows(tmp_path, rng, shape, arguments, rules):
    Case(tmp_path, rng, shape=shape).check(*arguments, **rules)


def test_bottom_right_counts_the_keys_of_each_entry(case):
    lengths = np.array([S, 4])
    case.give("--kv-lengths", lengths)
    case.check("--causal", "bottom-right", "--window-left", "2", causal="bottom-right", window_left=2, kv_lengths=lengths)


LARGE, SMALL = 2**63 - 1, -(2**63)


@pytest.mark.parametrize("rules", [
    dict(causal_offset=LARGE), dict(causal_offset=SMALL), dict(window_left=LARGE, window_right=LARGE),
    dict(causal_offset=LARGE, window_left=5), dict(causal_offset=LARGE, window_left=LARGE, window_right=LARGE),
    dict(causal_offset=LARGE, window_left=LARGE - 2), dict(causal_offset=SMALL, window_left=3, window_right=LARGE),
    dict(causal="bottom-right", window_left=LARGE),
], ids=str)
def test_extreme_offsets(case, rules):
    case.check(*[f"--{name.replace('_', '-')}={value}" for name, value in rules.items()], **rules)


def test_everything_together(case, rng):
    block, keep, key_keep = rng.random((H, 1, S)) < 0.2, rng.random((B, 1, T, 1)) < 0.9, rng.random((B, S)) < 0.9
    add, lengths = rng.standard_normal((T, S)).astype(F32), np.array([6, 7])
    ids = rng.integers(0, 5, (B, S))
    for option, array in [("--add-mask", add), ("--block-mask", block), ("--keep-mask", keep), ("--key-keep", key_keep),
                          ("--kv-lengths", lengths), ("--token-ids", ids), ("--block-mask", block)]:
        case.give(option, array)
    case.check("--pad-id=0", "--causal=bottom-right", "--window-left=4", "--scale=0.7", "--path", "gemm", scale=0.7,
               add=[add], causal="bottom-right", window_left=4, kv_lengths=lengths,
               masks=[("block", block), ("keep", keep), ("keep", key_keep[:, None, None]),
                      ("block", (ids == 0)[:, None, None])])


def test_average_weights_and_their_type(case):
    case.run("--average-weights")
    y, w = case.results()
    out, dout, p, dp = oracle.attention(case.q, case.k, case.v, case.unit)
    oracle.check(w, p.mean(1), dp.mean(1) + (H + 1) * case.unit * p.mean(1))
    oracle.check(y, out, dout)
    assert w.dtype == F32


def test_one_result_alone_is_the_same(case):
    case.run()
    y, w = case.results()
    for option, name, whole in [("--out", "one.npy", y), ("--weights-out", "two.npy", w)]:
        succeed("sdpa", "--q=q.npy", "--k=k.npy", "--v=v.npy", option, name, cwd=case.folder)
        oracle.check(np.load(case.folder / name), whole, np.full(whole.shape, 1e-6))


@pytest.mark.parametrize("compute, dtype, unit", [("fp64", F32, 2.0**-53), ("fp32", F64, 2.0**-24)])
def test_compute(tmp_path, rng, has_fp64, compute, dtype, unit):
    """Another arithmetic than the files'; results keep the type of the files."""
    if compute == "fp64" and not has_fp64:
        pytest.skip("the device has no fp64")
    case = Case(tmp_path, rng, dtype)
    case.run("--compute", compute)
    y, w = case.results()
    # float64 inputs are rounded to float32 first; results are rounded to the files' type.
    q, k, v = (x.astype(F32) for x in (case.q, case.k, case.v))
    out, dout, p, dp = oracle.attention(q, k, v, unit)
    assert y.dtype == w.dtype == dtype
    store = 2.0**-24 if dtype == F32 else 0
    oracle.check(y, out, dout + store * np.abs(out))
    oracle.check(w, p, dp + store * p)


@pytest.mark.parametrize("shape", [(0, H, T, S, D, DV), (B, H, 0, S, D, DV), (B, H, T, 0, D, DV), (0, 1, 0, 0, 1, 1)], ids=str)
def test_empty(tmp_path, rng, shape):
    case = Case(tmp_path, rng, shape=shape)
    b, h, t, s, _, dv = shape
    case.give("--kv-lengths", np.zeros(b, np.int32))
    case.give("--add-mask", np.zeros((t, s), F32))
    case.give("--block-mask", np.zeros((1, 1), bool))
    case.run("--causal", "bottom-right")
    y, w = case.results()
    assert y.shape == (b, h, t, dv) and w.shape == (b, h, t, s)
    assert not y.any() and not w.any()


def test_same_bits_again(case, rng):
    case.give("--add-mask", rng.standard_normal((T, S)).astype(F32))
    case.run("--repeat", "3")
    first = case.results()
    case.run()
    for a, b in zip(first, case.results()):
        assert a.tobytes() == b.tobytes()
