# SPDX-License-Identifier: Apache-2.0
"""clattn mha: grouped queries, extra keys, lengths, dropout and 16-bit inputs of a layer."""
import numpy as np
import pytest

import oracle
from cases import B, E, F32, F64, H, S, T, LayerCase, draw_layer, named, save
from support import refuse, succeed


@pytest.fixture
def case(tmp_path, rng):
    return LayerCase(tmp_path, rng)


# ---------------------------------------------------------------------------------------------------------- grouped queries
@pytest.mark.parametrize("naming, kv_heads", [("llama", 2), ("bert", 1), ("wq", 3)])
def test_grouped_queries(case, rng, naming, kv_heads):
    """wk and wv have rows for the key heads only."""
    layer = draw_layer(rng, kv_share=6 // kv_heads, width=6 * 4, value_width=6 * 3)
    save(case.folder / "p.safetensors", named(layer, naming))
    case.check(layer, "--kv-heads", kv_heads, "--causal=bottom-right", heads=6, G=kv_heads, causal="bottom-right")


def test_what_init_makes_of_grouped_queries_is_read(case):
    from safetensors.numpy import load_file

    succeed("init", "--embed", E, "--heads", 6, "--kv-heads", 2, "--out", "p.safetensors", cwd=case.folder)
    tensors = load_file(case.folder / "p.safetensors")
    case.check({"w" + x: tensors[x + "_proj.weight"] for x in "qkvo"}, "--kv-heads=2", heads=6, G=2)


# --------------------------------------------------------------------------------------------------------------- extra keys
@pytest.mark.parametrize("bias_kv, zero_key, dtype", [(True, False, F32), (False, True, F32), (True, True, F32), (True, True, F64)],
                         ids=["bias", "zero", "both", "both in float64"])
def test_extra_keys(tmp_path, rng, has_fp64, bias_kv, zero_key, dtype):
    """Behind the S keys, bias_k first; no mask, rule, window, slope or length touches them."""
    if dtype == F64 and not has_fp64:
        pytest.skip("the device has no fp64")
    case, layer = LayerCase(tmp_path, rng, dtype), draw_layer(rng, bias_kv=bias_kv, dtype=dtype)
    save(tmp_path / "p.safetensors", named(layer, "torch"), "F64" if dtype == F64 else "F32")
    keep, add = rng.random((B, S)) < 0.5, rng.standard_normal((H, T, S)).astype(dtype)
    keep[0, :3] = False  # whole rows, with the causal rule
    lengths, slopes = np.array([S, 5]), np.array([0.5, 2, -1], dtype)
    given = [x for option, array in [("--key-keep", keep), ("--add-mask", add), ("--kv-lengths", lengths), ("--alibi", slopes)]
             for x in case.give(option, array)]
    case.check(layer, *given, *(["--add-zero-attn"] if zero_key else []), "--causal=top-left", "--window-left=3",
               "--softcap=0.7", zero_key=zero_key, masks=[("keep", keep[:, None, None])], add=[add], kv_lengths=lengths,
               slopes=slopes, causal="top-left", window_left=3, soft_cap=0.7)
    _, w = case.results()
    assert w.shape == (B, H, T, S + bias_kv + zero_key)
    assert (w[..., S:] > 0).all() and not w[0, :, :3, :S].any()


def test_extra_keys_alone(tmp_path, rng):
    """No key at all but these: their average, by the weights of the bias key and of the zero key."""
    case, layer = LayerCase(tmp_path, rng, s=0), draw_layer(rng, bias_kv=True)
    save(tmp_path / "p.safetensors", named(layer, "torch"))
    case.check(layer, "--add-zero-attn", zero_key=True)
    assert case.results()[1].shape == (B, H, T, 2)


def test_extra_keys_of_grouped_queries_and_average_weights(case, rng):
    layer = draw_layer(rng, kv_share=3)
    save(case.folder / "p.safetensors", named(layer, "llama"))
    given = [*case.give("--query", case.query), *case.give("--key", case.key), *case.give("--value", case.value)]
    succeed("mha", "--params", "p.safetensors", "--heads", H, "--kv-heads", 1, *given, "--add-zero-attn", "--out", "y.npy",
            "--weights-out", "w.npy", "--average-weights", cwd=case.folder)
    out, dout, p, dp = oracle.layer(layer, H, case.query, case.key, case.value, case.unit, G=1, zero_key=True)
    y, w = case.results()
    case.compare(y, w, (out, dout, p.mean(1), dp.mean(1) + (H + 1) * case.unit * p.mean(1)))
    assert w.shape == (B, T, S + 1)


# ------------------------------------------------------------------------------------------------------ lengths and dropout
@pytest.mark.parametrize("sequence_first", [False, True])
def test_q_lengths(case, rng, sequence_first):
    """Rows behind an entry's length are 0 in the layer, too: there is no bias in them, and nothing is dropped from it."""
    layer, lengths = draw_layer(rng, bias_kv=True), np.array([T - 2, 0], np.int32)
    save(case.folder / "p.safetensors", named(layer, "torch"))
    case.check(layer, *case.give("--q-lengths", lengths), "--out-dropout=0.1", q_lengths=lengths, out_dropout=0.1,
               sequence_first=sequence_first)
    y, w = case.results()
    y = np.swapaxes(y, 0, 1) if sequence_first else y
    assert not y[0, T - 2:].any() and not y[1].any() and not w[0, :, T - 2:].any() and not w[1].any()
    assert y[0, : T - 2].any()


@pytest.mark.parametrize("p, out_p, sequence_first", [("0.3", "0", False), ("0.3", "0.4", False), ("0.3", "0.4", True)])
def test_dropout(case, rng, p, out_p, sequence_first):
    """Probabilities and output have streams of their own, in either order of the data; extra keys can be dropped as all others."""
    layer = draw_layer(rng, bias_kv=True)
    save(case.folder / "p.safetensors", named(layer, "torch"))
    case.check(layer, "--dropout", p, "--out-dropout", out_p, "--seed", 2**63 + 5, "--add-zero-attn", zero_key=True,
               dropout=float(p), out_dropout=float(out_p), seed=2**63 + 5, sequence_first=sequence_first)


# ------------------------------------------------------------------------------------------------------------------- types
@pytest.mark.parametrize("kinds", [("f2",) * 3, ("bf16",) * 3, ("f4", "bf16", "f2")], ids="-".join)
def test_16_bits(case, rng, kinds):
    """Inputs are read as they are, and only the output is rounded: queries, keys and values stay in fp32 inside."""
    layer = draw_layer(rng)
    case.kinds = dict(zip(case.names, kinds))
    save(case.folder / "p.safetensors", named(layer, "torch"))
    case.check(layer, sequence_first=kinds[0] == kinds[1])


def test_float16_overflow(case, rng):
    layer = draw_layer(rng)
    layer["bo"][:2] = 70000, -65519
    case.kinds = dict.fromkeys(case.names, "f2")
    save(case.folder / "p.safetensors", named(layer, "torch"))
    keep = np.zeros((B, S), bool)  # rows without keys give the bias
    given = [x for name in case.names for x in case.give("--" + name, getattr(case, name).astype(np.float16))]
    succeed("mha", "--params", "p.safetensors", "--heads", H, *given, *case.give("--key-keep", keep), "--out", "y.npy",
            cwd=case.folder)
    with np.errstate(over="ignore"):
        expected = layer["bo"].astype(np.float16)
    assert expected[0] == np.inf and expected[1] == -65504
    np.testing.assert_array_equal(np.load(case.folder / "y.npy"), np.broadcast_to(expected, (B, T, E)))


def test_fp64_arithmetic_on_16_bits(case, rng, has_fp64):
    if not has_fp64:
        pytest.skip("the device has no fp64")
    layer = draw_layer(rng)
    case.kinds = dict(zip(case.names, ["f2", "bf16", "f4"]))
    save(case.folder / "p.safetensors", named(layer, "torch"))
    case.check(layer, "--compute=fp64", unit=2.0**-53)


# --------------------------------------------------------------------------------------------------------------- refusals
def test_refusals(case, rng):
    folder = case.folder
    save(folder / "p.safetensors", named(draw_layer(rng), "torch"))
    base = ["mha", "--params", "p.safetensors", "--heads", H, *case.give("--query", case.query), "--out", "y.npy"]
    for option, array, says in [("--q-lengths", np.array([T + 1, 0]), ["6 for batch entry 0", "T = 5"]),
                                ("--q-lengths", np.zeros(B + 1, int), ["[3]", "[B] = [2]"]),
                                ("--alibi", np.zeros(H + 1, F32), ["[4]", "[H] = [3]"]),
                                ("--block-mask", np.zeros((T, T + 1), bool), ["[5,6]", "[2,3,5,5]"])]:
        # Masks and slopes speak of the first S keys, also where there is one more.
        refuse(2, folder, *base, "--add-zero-attn", option, "m.npy", says="m.npy")
        np.save(folder / "m.npy", array)
        refuse(2, folder, *base, "--add-zero-attn", option, "m.npy", says=[option, "m.npy", *says])
        (folder / "m.npy").unlink()
    refuse(2, folder, *base, "--key", "query.npy", "--kv-heads", 1, says=["p.safetensors: in_proj_weight has 12 rows for keys", "3 heads of size 4"])
    refuse(2, folder, "sdpa", "--q", "query.npy", "--k", "query.npy", "--v", "query.npy", "--out", "y.npy", "--add-zero-attn",
           says="unknown option '--add-zero-attn'")
