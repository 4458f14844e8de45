# SPDX-License-Identifier: Apache-2.0
"""clattn sdpa: soft cap, slopes, query lengths, dropout and grouped queries."""
import os

import numpy as np
import pytest

import oracle
from cases import B, D, DV, F32, F64, H, S, T, Case
from support import DATA, refuse, succeed


@pytest.fixture
def case(tmp_path, rng):
    return Case(tmp_path, rng)


# ---------------------------------------------------------------------------------------------------------- grouped queries
@pytest.mark.parametrize("heads, kv_heads", [(6, 2), (4, 1)])
def test_grouped_queries(tmp_path, rng, heads, kv_heads):
    """Head h reads key head h / (H/G), with masks and slopes that speak of H heads."""
    case = Case(tmp_path, rng, shape=(B, heads, T, S, D, DV), G=kv_heads)
    add, slopes = rng.standard_normal((heads, T, S)).astype(F32), rng.random(heads).astype(F32)
    case.give("--add-mask", add)
    case.give("--alibi", slopes)
    case.check("--causal", "bottom-right", add=[add], slopes=slopes, causal="bottom-right")


def test_grouped_queries_as_pytorch_has_them(tmp_path, has_fp64):
    if not has_fp64:
        pytest.skip("the device has no fp64")
    folder = os.path.join(DATA, "torch", "f_grouped")
    inputs = [x for option, name in zip(["--q", "--k", "--v"], ["query", "key", "value"])
              for x in (option, os.path.join(folder, name + ".npy"))]
    succeed("sdpa", *inputs, "--out", "y.npy", cwd=tmp_path)
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), np.load(os.path.join(folder, "out.npy")), rtol=1e-12, atol=1e-13)


# ------------------------------------------------------------------------------------------------------ soft cap and slopes
@pytest.mark.parametrize("value", ["0.5", "1e-3", "1e20"])
def test_soft_cap(case, rng, value):
    """After the scale, before the masks: scores of any size are bounded, what is added to them is not."""
    case.q *= 10
    add = (5 * rng.standard_normal((T, S))).astype(F32)
    case.give("--add-mask", add)
    case.check(f"--softcap={value}", "--scale", "0.8", soft_cap=float(value), scale=0.8, add=[add])


def test_soft_cap_in_fp64_takes_any_number(case, has_fp64):
    if not has_fp64:
        pytest.skip("the device has no fp64")
    case.unit = 2.0**-53
    case.check("--softcap=1e300", "--compute", "fp64", soft_cap=1e300)
    case.check("--softcap=1e-300", "--compute", "fp64", soft_cap=1e-300)


@pytest.mark.parametrize("shape, dtype, rules", [
    ((H,), F32, dict(causal="bottom-right")), ((B, H), np.float16, dict(causal_offset=-2, window_left=3)),
    ((B, H), F64, dict(causal="top-left")),
], ids=["[H] float32", "[B,H] float16", "[B,H] float64"])
def test_alibi(case, rng, shape, dtype, rules):
    """Slopes of both signs and any float type; the distance counts from the position that the causal rule gives."""
    slopes = rng.standard_normal(shape).astype(dtype)
    slopes.flat[0] = 0
    lengths = np.array([S, 4])
    case.give("--alibi", slopes)
    case.give("--kv-lengths", lengths)
    case.check(*[f"--{name.replace('_', '-')}={value}" for name, value in rules.items()], slopes=slopes.astype(F32),
               kv_lengths=lengths, **rules)


def test_alibi_without_a_rule(case):
    """Plain distances |i - j|, on both sides of the diagonal."""
    slopes = np.array([0.5, 0.25, 2**-8], F32)
    case.give("--alibi", slopes)
    case.check("--softcap=2", slopes=slopes, soft_cap=2.0)


# ------------------------------------------------------------------------------------------------------------ query lengths
@pytest.mark.parametrize("dtype, average", [(np.int32, False), (np.int64, True)], ids=["int32", "int64 average"])
def test_q_lengths(case, rng, dtype, average):
    """Rows behind an entry's length are 0 to the bit, and the others are as ever."""
    case.k[0, 0, 0, 0] = -1e30  # so that rows which are not left out differ much
    q_lengths, kv_lengths = np.array([T - 2, 0], dtype), np.array([S - 1, S])
    if average:
        q_lengths[:] = [T, 1]
    case.give("--q-lengths", q_lengths)
    case.give("--kv-lengths", kv_lengths)
    case.run("--causal=bottom-right", *(["--average-weights"] if average else []))
    out, dout, p, dp = oracle.attention(case.q, case.k, case.v, case.unit, causal="bottom-right", q_lengths=q_lengths,
                                        kv_lengths=kv_lengths)
    if average:
        p, dp = p.mean(1), dp.mean(1) + (H + 1) * case.unit * p.mean(1)
    y, w = case.results()
    case.compare(y, w, (out, dout, p, dp))
    for b in range(B):
        assert not y[b, :, q_lengths[b]:].any() and not w[b, ..., q_lengths[b]:, :].any()


# ------------------------------------------------------------------------------------------------------------------ dropout
@pytest.mark.parametrize("p, seed", [("0.1", 0), ("0.5", 3), ("0.999", 2**64 - 1), ("1e-12", 1)])
def test_dropout(case, p, seed):
    """The bits are those of the published generator, whatever the machine."""
    case.check("--dropout", p, "--seed", seed, dropout=float(p), seed=seed)
    y, w = case.results()
    if float(p) in (0.1, 0.5, 0.999):
        assert np.array_equal(w != 0, oracle.kept(w.shape, float(p), seed))


def test_dropout_of_many_columns_and_masked_rows(tmp_path, rng):
    """Blocks of four columns, a remainder, heads that share keys, and rows that have nothing to drop."""
    case = Case(tmp_path, rng, shape=(B, 4, 9, 131, D, DV), G=2)
    keep = rng.random((B, 131)) < 0.8
    keep[1] = False
    case.give("--key-keep", keep)
    case.check("--dropout=0.25", "--seed=5", "--window-left", "60", dropout=0.25, seed=5, window_left=60,
               masks=[("keep", keep[:, None, None])])


def test_seed(case):
    """The default is 0; another seed drops others; the same one the same, to the bit; without dropout it changes nothing."""
    weights = []
    for arguments in [["--dropout=0.5"], ["--dropout=0.5", "--seed=0"], ["--dropout=0.5", "--seed=1"], [], ["--dropout=0", "--seed=1"]]:
        case.run(*arguments)
        weights.append(case.results()[1].tobytes())
    assert weights[0] == weights[1] and weights[3] == weights[4] and len(set(weights)) == 3


# ----------------------------------------------------------------------------------------------------------------- together
def test_everything_together(tmp_path, rng):
    case = Case(tmp_path, rng, shape=(B, 4, T, S, D, DV), G=2)
    case.kinds |= {"k": "f2", "v": "bf16"}
    add, slopes = rng.standard_normal((T, S)).astype(np.float16), rng.random((B, 4)).astype(F64)
    kv_lengths, q_lengths = np.array([6, 7]), np.array([5, 4], np.int32)
    for option, array in [("--add-mask", add), ("--alibi", slopes), ("--kv-lengths", kv_lengths), ("--q-lengths", q_lengths)]:
        case.give(option, array)
    case.check("--causal=bottom-right", "--window-left=4", "--softcap=1.5", "--scale=0.7", "--dropout=0.2", "--seed=9",
               add=[add], slopes=slopes.astype(F32), kv_lengths=kv_lengths, q_lengths=q_lengths, causal="bottom-right",
               window_left=4, soft_cap=1.5, scale=0.7, dropout=0.2, seed=9)


def test_empty(tmp_path, rng):
    for shape in [(0, H, T, S, D, DV), (B, H, 0, S, D, DV), (B, H, T, 0, D, DV)]:
        case = Case(tmp_path, rng, shape=shape)
        case.give("--q-lengths", np.full(shape[0], shape[2]))
        case.give("--alibi", np.ones(H, F32))
        case.check("--softcap=3", "--dropout=0.5")


# ----------------------------------------------------------------------------------------------------------------- refusals
SDPA = ["sdpa", "--q", "q.npy", "--k", "k.npy", "--v", "v.npy", "--out", "y.npy"]


def test_files_that_do_not_fit(case):
    case.run()
    os.unlink(case.folder / "y.npy")
    for option, array, says in [
        ("--alibi", np.zeros((H + 1,), F32), ["[4]", "[H] = [3]", "[B,H] = [2,3]"]),
        ("--alibi", np.zeros((), F32), ["[]", "[H] = [3]"]),
        ("--alibi", np.zeros((1, H), F32), ["[1,3]", "[B,H] = [2,3]"]),
        ("--alibi", np.zeros((B, H, 1), F32), ["[2,3,1]", "[B,H] = [2,3]"]),
        ("--alibi", np.zeros((H,), int), ["int64", "float16, float32"]),
        ("--alibi", np.zeros((H,), np.uint16), ["uint16", "--bf16"]),
        ("--q-lengths", np.zeros((B + 1,), int), ["[3]", "[B] = [2]"]),
        ("--q-lengths", np.zeros((B,), F32), ["float32", "int32 or int64 was expected"]),
        ("--q-lengths", np.array([0, T + 1]), ["6 for batch entry 1", "T = 5"]),
        ("--q-lengths", np.array([-1, 0], np.int32), ["-1 for batch entry 0", "T = 5"]),
        ("--q-lengths", np.array([2**32, 0]), ["4294967296 for batch entry 0", "T = 5"]),
    ]:
        np.save(case.folder / "m.npy", array)
        refuse(2, case.folder, *SDPA, option, "m.npy", says=[option, "m.npy", *says])


def test_soft_caps_that_fp32_cannot_hold(case):
    case.run()
    for value in ["1e39", "1e-40"]:
        refuse(2, case.folder, *SDPA[:-1], "z.npy", "--softcap", value, says=value.replace("1e39", "1e+39"))
