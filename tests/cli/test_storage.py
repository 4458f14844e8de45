# SPDX-License-Identifier: Apache-2.0
"""16-bit storage: every bit pattern in, rounding out, and types in any mix."""
import numpy as np
import pytest

import floats
import oracle
from cases import B, D, DV, F32, F64, H, S, T, Case
from support import refuse, succeed

SIXTEEN = ["f2", "bf16"]


def identity(folder, kind_in, values, kind_out, *arguments):
    """The values through a call that changes none of them: one key, whose probability is 1."""
    one = np.ones((1, 1, 1, 1))
    np.save(folder / "q.npy", floats.encode(one, kind_out))
    np.save(folder / "k.npy", floats.encode(one, kind_out))
    np.save(folder / "v.npy", values.reshape(1, 1, 1, -1))
    flags = ["--bf16"] if "bf16" in (kind_in, kind_out) else []
    succeed("sdpa", "--q=q.npy", "--k=k.npy", "--v=v.npy", "--out=y.npy", "--weights-out=w.npy", *flags, *arguments, cwd=folder)
    assert np.load(folder / "w.npy").tobytes() == np.ones((1, 1, 1, 1), F32).tobytes()
    y = np.load(folder / "y.npy")
    assert y.dtype == floats.DTYPE[kind_out] and y.shape == (1, 1, 1, values.size)
    return y.ravel()


def assert_same(actual, expected, kind, values):
    """The same bits, but: any NaN for a NaN; any zero where the value was one, since a sum that begins with 0 has no -0; and
    a zero where a device may have flushed what is subnormal in float32."""
    a, e = floats.decode(actual, kind), floats.decode(expected, kind)
    nan = np.isnan(e)
    np.testing.assert_array_equal(np.isnan(a), nan)
    word = np.uint16 if actual.itemsize == 2 else np.uint32
    wrong = ~nan & (actual.view(word) != expected.view(word)) & ~((np.abs(values) < 2.0**-126) & (a == 0))
    assert not wrong.any(), (a[wrong][:5], e[wrong][:5], wrong.sum())


@pytest.mark.parametrize("kind", SIXTEEN)
def test_every_bit_pattern(tmp_path, kind):
    """All 65536 numbers are read as what they are."""
    patterns = np.arange(65536, dtype=np.uint16).view(floats.DTYPE[kind])
    numbers = floats.decode(patterns, kind)
    assert_same(identity(tmp_path, kind, patterns, "f4"), numbers, "f4", numbers)


def rounding_cases(kind, rng):
    """float32 numbers: all that the type has, the middles between them with their neighbours, too large ones, and random bits."""
    numbers = floats.decode(np.arange(0x7C00 if kind == "f2" else 0x7F80, dtype=np.uint16).view(floats.DTYPE[kind]), kind)
    middles = ((numbers[:-1].astype(F64) + numbers[1:]) / 2).astype(F32)
    limit = (2.0**16 - 2.0**4) if kind == "f2" else (2.0**128 - 2.0**119)  # rounds to infinity: half a step above the largest
    edges = np.array([limit, np.nextafter(F32(limit), F32(0)), 3e38, np.inf, np.nan, 1e-45, 0], F32)
    random = rng.integers(0, 2**32, 20000, dtype=np.uint32).view(F32)
    positive = np.concatenate([numbers, middles, np.nextafter(middles, F32(0)), np.nextafter(middles, F32(np.inf)), edges])
    return np.concatenate([positive, -positive, random])


@pytest.mark.parametrize("kind", SIXTEEN)
def test_stores_round_to_nearest_even(tmp_path, rng, kind, has_fp64):
    values = rounding_cases(kind, rng)
    expected = floats.encode(values, kind)
    assert_same(identity(tmp_path, "f4", values, kind), expected, kind, values)
    if has_fp64:  # a double that is stored is rounded once
        assert_same(identity(tmp_path, "f4", values, kind, "--compute", "fp64"), expected, kind, values)


@pytest.mark.parametrize("kinds", [("f2",) * 3, ("bf16",) * 3, ("f4", "f2", "bf16"), ("bf16", "f4", "f2")],
                         ids="-".join)
def test_any_mix(tmp_path, rng, kinds):
    """Arithmetic on the stored numbers in fp32, the output in the type of Q, weights in float32; masks of types of their own."""
    case = Case(tmp_path, rng)
    case.kinds = dict(zip("qkv", kinds))
    masks = [floats.encode(rng.standard_normal((T, S)), kind) for kind in ("f2", "f4", "f8")]
    for mask in masks:
        case.give("--add-mask", mask)
    masks = [mask.astype(F32) for mask in masks]
    if "bf16" in kinds:
        case.give("--add-mask", floats.encode(rng.standard_normal((H, 1, S)), "bf16"))
        masks.append(floats.decode(np.load(tmp_path / case.arguments[-1]), "bf16"))
        case.give("--alibi", floats.encode(rng.random(H), "bf16"))
        case.check(add=masks, slopes=floats.decode(np.load(tmp_path / case.arguments[-1]), "bf16"))
    else:
        case.check(add=masks)


def test_the_flag_alone_changes_nothing(tmp_path, rng):
    case = Case(tmp_path, rng)
    case.check("--bf16")


def test_fp64_arithmetic_on_16_bits(tmp_path, rng, has_fp64):
    if not has_fp64:
        pytest.skip("the device has no fp64")
    case = Case(tmp_path, rng)
    case.kinds, case.unit = dict(zip("qkv", ["bf16", "f2", "f4"])), 2.0**-53
    case.check("--compute", "fp64")


def test_large_logits_of_float16(tmp_path, rng):
    """Scores far beyond 65504 stay what they are, since they are never float16."""
    case = Case(tmp_path, rng)
    case.kinds = dict.fromkeys("qkv", "f2")
    case.q[:], case.k[:] = 0, 0
    case.q[..., 0], case.k[..., 0] = 60000, 10000.0 * np.arange(-3, 4)  # neighbouring scores are 6e8 apart
    case.run("--scale", "1")
    y, w = case.results()
    np.testing.assert_array_equal(w, np.broadcast_to(np.arange(S) == S - 1, w.shape))
    np.testing.assert_array_equal(y, np.broadcast_to(floats.encode(case.v, "f2")[:, :, -1:], y.shape))


def test_refusals(tmp_path, rng):
    case = Case(tmp_path, rng)
    bits, doubles = floats.encode(case.k, "bf16"), case.k.astype(F64)
    for name, array in dict(q=case.q, k=case.k, v=case.v, k2=bits, k8=doubles, ids=np.zeros((B, S), np.uint16)).items():
        np.save(tmp_path / f"{name}.npy", array)
    base = ["sdpa", "--q", "q.npy", "--v", "v.npy", "--out", "y.npy"]
    refuse(2, tmp_path, *base, "--k", "k2.npy", says=["--k", "k2.npy", "uint16", "--bf16"])
    refuse(2, tmp_path, *base, "--k", "k8.npy", says=["--k", "k8.npy", "float64 goes with float64 only"])
    refuse(2, tmp_path, *base, "--bf16", "--k", "k8.npy", says="float64 goes with float64 only")
    np.save(tmp_path / "q.npy", doubles[:, :, :T])
    refuse(2, tmp_path, *base, "--bf16", "--k", "k2.npy", says=["--k", "bfloat16", "float64 goes with float64 only"])
    np.save(tmp_path / "q.npy", case.q)
    # Every uint16 array is bfloat16, also where integers or bools are wanted.
    refuse(2, tmp_path, *base, "--bf16", "--k", "k.npy", "--token-ids", "ids.npy", "--pad-id", "0", says=["bfloat16", "int32"])
    refuse(2, tmp_path, *base, "--bf16", "--k", "k.npy", "--key-keep", "ids.npy", says=["bfloat16", "bool was expected"])
    refuse(2, tmp_path, *base, "--k", "k.npy", "--key-keep", "ids.npy", says=["uint16", "bool was expected"])
