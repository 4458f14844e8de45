# SPDX-License-Identifier: Apache-2.0
"""clattn mha: layers of every naming and shape, and a real one."""
import os
import struct

import numpy as np
import pytest

import oracle
from cases import B, E, F32, F64, H, PARTS, S, T, LayerCase, draw_layer, named, rounded, save
from support import DATA, refuse, succeed


@pytest.fixture
def case(tmp_path, rng):
    return LayerCase(tmp_path, rng)


# -------------------------------------------------------------------------------------------------------- shapes and inputs
@pytest.mark.parametrize("inputs, sequence_first", [
    (("query",), False), (("query",), True), (("query", "key"), True), (("query", "key", "value"), False),
    (("query", "key", "value"), True), (("query", "value"), False),
], ids=str)
def test_inputs(tmp_path, rng, inputs, sequence_first):
    """Key defaults to query, value to key; [B,T,E] or [T,B,E]."""
    case, layer = LayerCase(tmp_path, rng, t=S if inputs == ("query", "value") else T), draw_layer(rng)
    save(tmp_path / "p.safetensors", named(layer, "torch"))
    case.check(layer, inputs=inputs, sequence_first=sequence_first)


@pytest.mark.parametrize("bias", [True, False])
def test_widths(tmp_path, rng, bias):
    case, layer = LayerCase(tmp_path, rng, kdim=5, vdim=9), draw_layer(rng, kdim=5, vdim=9, bias=bias)
    save(tmp_path / "p.safetensors", named(layer, "torch", apart=True))
    case.check(layer)


def test_projected_widths_of_their_own(case, rng):
    """Head sizes that are not E / H, values of another size than keys, an output of another width."""
    layer = draw_layer(rng, width=6 * 3, value_width=6 * 5, out=8)
    save(case.folder / "p.safetensors", named(layer, "llama"))
    case.check(layer, heads=6)


def test_one_head(case, rng):
    layer = draw_layer(rng)
    save(case.folder / "p.safetensors", named(layer, "wq"))
    case.check(layer, heads=1)
    case.check(layer, "--kv-heads", 12, heads=12)


def test_float64(tmp_path, rng, has_fp64):
    if not has_fp64:
        pytest.skip("the device has no fp64")
    case, layer = LayerCase(tmp_path, rng, F64), draw_layer(rng, dtype=F64)
    save(tmp_path / "p.safetensors", named(layer, "torch"), "F64")
    case.check(layer)
    case.query, case.key, case.value = (x.astype(F32).astype(F64) for x in (case.query, case.key, case.value))
    case.check({n: t.astype(F32) for n, t in layer.items()}, "--compute", "fp32", unit=2.0**-24)


def test_compute_fp64_of_float32(case, rng, has_fp64):
    if not has_fp64:
        pytest.skip("the device has no fp64")
    layer = draw_layer(rng)
    save(case.folder / "p.safetensors", named(layer, "torch"))
    case.check(layer, "--compute", "fp64", unit=2.0**-53)


# ---------------------------------------------------------------------------------------------------------------- parameters
@pytest.mark.parametrize("naming, dtype", [*((naming, "F32") for naming in PARTS), ("torch", "BF16"), ("bert", "F64"),
                                           ("llama", "F16"), ("wq_capital", "BF16"), ("torch", "F16")])
def test_naming_and_type(case, rng, naming, dtype):
    layer = draw_layer(rng, bias=naming != "llama")
    save(case.folder / "p.safetensors", named(layer, naming), dtype)
    spelled = {"wq_capital": "wq"}.get(naming, naming)
    case.check(rounded(layer, dtype), *(["--naming", spelled] if dtype in ("F16", "F64") else []))


def test_prefix_picks_one_layer_of_a_model(case, rng):
    first, second = draw_layer(rng), draw_layer(rng)
    tensors = {"model.0.attn." + n: t for n, t in named(first, "bert").items()}
    tensors |= {"model.1.attn." + n: t for n, t in named(second, "bert").items()}
    tensors |= {"model.1.norm.weight": np.ones(E, F32)}
    save(case.folder / "p.safetensors", tensors)
    case.check(second, "--prefix", "model.1.attn.")
    case.check(first, "--prefix=model.0.attn.", "--naming=bert")


def test_biases_of_some_projections(case, rng):
    """As in models that have them for queries, keys and values only."""
    layer = {n: t for n, t in draw_layer(rng).items() if n != "bo"}
    save(case.folder / "p.safetensors", named(layer, "llama"))
    case.check(layer)


def test_prefix_may_begin_with_a_dash(case, rng):
    layer = draw_layer(rng)
    save(case.folder / "p.safetensors", {"-x." + n: t for n, t in named(layer, "wq").items()})
    case.check(layer, "--prefix", "-x.")


def test_what_init_makes_is_read(case):
    from safetensors.numpy import load_file

    for naming in ["torch", "bert"]:
        succeed("init", "--embed", E, "--heads", H, "--naming", naming, "--out", "p.safetensors", cwd=case.folder)
        tensors = load_file(case.folder / "p.safetensors")
        if naming == "torch":
            layer = dict(zip(["wq", "wk", "wv"], np.split(tensors["in_proj_weight"], 3)), wo=tensors["out_proj.weight"])
        else:
            layer = {"w" + x: tensors[part + ".weight"] for part, x in zip(PARTS[naming], "qkvo")}
        case.check(layer)


def test_parameters_that_do_not_fit(case, rng):
    folder, layer = case.folder, draw_layer(rng)
    inputs = case.give("--query", case.query)
    base = ["mha", "--params", "p.safetensors", "--out", "y.npy", *inputs]

    save(folder / "p.safetensors", named(layer, "bert"), prefix="encoder.")
    for wrong in [[], ["--prefix", "encoder"], ["--prefix=decoder.", "--naming=bert"]]:  # a miss lists the names, and guesses
        refuse(2, folder, *base, "--heads", H, *wrong,
               says=["p.safetensors", "prefix 'encoder.' would fit;", "encoder.self.query.weight"])
    assert "would fit" not in refuse(2, folder, *base, "--heads", H, "--naming", "llama", says="encoder.self.query.weight")
    refuse(2, folder, *base, "--heads", H, "--prefix", "encoder.", "--naming", "llama", says="encoder.self.query.weight")
    refuse(2, folder, *base, "--heads", 5, "--prefix", "encoder.", says=["p.safetensors: heads 5", "12"])
    save(folder / "p.safetensors", {f"model.{i}.attn.{n}": t for i in range(3) for n, t in named(layer, "llama").items()})
    refuse(2, folder, *base, "--heads", H, says="prefix 'model.0.attn.' would fit, as would 2 others;")
    save(folder / "p.safetensors", {n: t for n, t in named(layer, "torch").items()})
    refuse(2, folder, *base, "--heads", H, "--prefix", "attn.", says="prefix '' would fit;")
    save(folder / "p.safetensors", named(layer, "wq"), prefix="x")  # no name's end is a word of its own
    assert "would fit" not in refuse(2, folder, *base, "--heads", H, says="xw_q.weight")
    save(folder / "p.safetensors", named(layer, "bert"), prefix="encoder.")
    refuse(2, folder, *base[:2], "nowhere.safetensors", *base[3:], "--heads", H, says="nowhere.safetensors")
    refuse(2, folder, *base[:2], "query.npy", *base[3:], "--heads", H, says="query.npy")

    broken = named(layer, "wq")
    for name, shape, says in [("w_v.weight", (11, 12), "11"), ("w_o.weight", (12, 12, 1), "12"),
                              ("w_k.bias", (11,), "11"), ("w_q.weight", (0, 12), "0")]:
        save(folder / "p.safetensors", {**broken, name: np.zeros(shape, F32)})
        refuse(2, folder, *base, "--heads", H, says=["p.safetensors: ", name, says])
    save(folder / "p.safetensors", {**broken, "w_q.weight": np.zeros((12, 11), F32)})  # a layer of another width
    refuse(2, folder, *base, "--heads", H, says=["--query", "[2,5,12]", "p.safetensors", "11"])
    save(folder / "p.safetensors", {n: t for n, t in named(layer, "bert").items() if n != "self.key.bias"})
    refuse(2, folder, *base, "--heads", H, says=["p.safetensors", "self.key.bias"])
    # Of the extra key and value there are both or none.
    for name, other in [("bias_k", "bias_v"), ("bias_v", "bias_k")]:
        save(folder / "p.safetensors", {**named(layer, "torch"), name: np.zeros((1, 1, E), F32)})
        refuse(2, folder, *base, "--heads", H, says=["p.safetensors", f"lacks {other}"])
    save(folder / "p.safetensors", {**named(layer, "torch"), "bias_k": np.zeros((1, 1, E), F32), "bias_v": np.zeros((E,), F32)})
    refuse(2, folder, *base, "--heads", H, says=["p.safetensors", "bias_v", "[12]", "[1,1,12]"])
    # Grouped queries, which the shapes tell of.
    save(folder / "p.safetensors", named(draw_layer(rng, kv_share=3), "llama"))
    refuse(2, folder, *base, "--heads", H, says=["p.safetensors: k_proj.weight has 4 rows for keys", "1 heads of size 4", "kv_heads 3"])
    refuse(2, folder, *base, "--heads", H, "--kv-heads", 2, says=["--kv-heads 2 does not divide --heads 3"])


@pytest.mark.parametrize("content", [b"", b"\0" * 7, struct.pack("<Q", 2**63) + b"{}", struct.pack("<Q", 100) + b"{}",
                                     struct.pack("<Q", 2) + b"[]", struct.pack("<Q", 4) + b"nope"], ids=range(6))
def test_malformed_parameters(case, content):
    (case.folder / "p.safetensors").write_bytes(content)
    refuse(2, case.folder, "mha", "--params", "p.safetensors", "--heads", H, *case.give("--query", case.query), "--out",
           "y.npy", says="p.safetensors")


@pytest.mark.parametrize("name, shape, says", [
    ("query", (T, E), ["--query", "[5,12]", "[B,T,E]"]),
    ("query", (B, T, E + 1), ["--query", "[2,5,13]", "12"]),
    ("key", (B, S, E - 1), ["--key", "[2,7,11]", "12"]),
    ("value", (B, S, 1), ["--value", "[2,7,1]", "12"]),
    ("key", (B + 1, S, E), ["--key", "[3,7,12]", "[2,7,12]"]),
    ("value", (B, S + 1, E), ["--value", "[2,8,12]", "[2,7,12]"]),
])
def test_shapes(case, rng, name, shape, says):
    save(case.folder / "p.safetensors", named(draw_layer(rng), "torch"))
    setattr(case, name, np.zeros(shape, F32))
    given = [x for n in ("query", "key", "value") for x in case.give("--" + n, getattr(case, n))]
    refuse(2, case.folder, "mha", "--params", "p.safetensors", "--heads", H, *given, "--out", "y.npy", says=says)


def test_types(case, rng):
    save(case.folder / "p.safetensors", named(draw_layer(rng), "torch"))
    query = case.give("--query", case.query)
    base = ["mha", "--params", "p.safetensors", "--heads", H, "--out", "y.npy"]
    refuse(2, case.folder, *base, *query, *case.give("--key", case.key.astype(F64)), says="float64 goes with float64 only")
    refuse(2, case.folder, *base, *case.give("--query", case.query.astype(np.uint16)), says=["uint16", "--bf16"])
    refuse(2, case.folder, *base, *case.give("--query", case.query.astype(int)), says="int64")


# ------------------------------------------------------------------------------------------------------------------- masks
@pytest.mark.parametrize("sequence_first", [False, True])
def test_masks_lengths_and_rules(case, rng, sequence_first):
    """Masks are of batch entries, heads, queries and keys, also where the inputs are sequence-first."""
    layer = draw_layer(rng)
    save(case.folder / "p.safetensors", named(layer, "torch"))
    block, keep = rng.random((B, H, T, S)) < 0.2, rng.random((B, S)) < 0.8
    add, lengths = rng.standard_normal((H, T, S)).astype(F32), np.array([S, 5])
    for b in range(B):
        case.key[b, lengths[b]:] = case.value[b, lengths[b]:] = 0
    given = [x for option, array in [("--block-mask", block), ("--key-keep", keep), ("--add-mask", add), ("--kv-lengths", lengths)]
             for x in case.give(option, array)]
    case.check(layer, *given, "--causal", "bottom-right", "--window-left", "4", "--scale", "0.4", sequence_first=sequence_first,
               scale=0.4, causal="bottom-right", window_left=4, kv_lengths=lengths, add=[add],
               masks=[("block", block), ("keep", keep[:, None, None])])


def test_rows_without_keys_give_the_bias(case, rng):
    layer = draw_layer(rng)
    save(case.folder / "p.safetensors", named(layer, "torch"))
    keep = np.ones((B, S), bool)
    keep[1] = False
    case.check(layer, *case.give("--key-keep", keep), masks=[("keep", keep[:, None, None])])
    y, w = np.load(case.folder / "y.npy"), np.load(case.folder / "w.npy")
    np.testing.assert_array_equal(y[1], np.broadcast_to(layer["bo"], (T, E)))
    assert not w[1].any()


@pytest.mark.parametrize("shape", [dict(b=0), dict(t=0), dict(s=0)], ids=str)
def test_empty(tmp_path, rng, shape):
    case, layer = LayerCase(tmp_path, rng, **shape), draw_layer(rng)
    save(tmp_path / "p.safetensors", named(layer, "torch"))
    case.check(layer, sequence_first=shape != dict(t=0))


def test_outputs_may_name_inputs(case, rng):
    layer = draw_layer(rng)
    save(case.folder / "p.safetensors", named(layer, "torch"))
    given = case.give("--query", case.query)
    succeed("mha", "--params", "p.safetensors", "--heads", H, *given, "--out", "query.npy", "--weights-out", "p.safetensors",
            "--average-weights", cwd=case.folder)
    out, dout, p, dp = oracle.layer(layer, H, case.query, case.query, case.query, case.unit)
    oracle.check(np.load(case.folder / "query.npy"), out, dout)
    oracle.check(np.load(case.folder / "p.safetensors"), p.mean(1), dp.mean(1) + (H + 1) * case.unit * p.mean(1))


# -------------------------------------------------------------------------------------- numbers that others have computed
@pytest.mark.parametrize("name, mask", [("self", None), ("kdim_vdim", None), ("block_per_head", "--block-mask"),
                                        ("add", "--add-mask"), ("key_padding", "--key-block")])
def test_pytorch(tmp_path, name, mask, has_fp64):
    """PyTorch's layer in float64; its [B*H,T,S] mask is given as [B,H,T,S]."""
    if not has_fp64:
        pytest.skip("the device has no fp64")
    folder = os.path.join(DATA, "torch", name)
    arrays = {os.path.splitext(f)[0]: np.load(os.path.join(folder, f)) for f in os.listdir(folder)}
    weights = arrays["weights"]
    save(tmp_path / "p.safetensors", named(arrays, "torch", apart=True), "F64")
    given = []
    if mask:
        array = next(arrays[n] for n in ("block", "add", "key_block") if n in arrays)
        array = array.reshape(weights.shape) if array.ndim == 3 else array
        np.save(tmp_path / "mask.npy", array)
        given += [mask, "mask.npy"]
    for option in ("query", "key", "value"):
        if option in arrays:
            given += ["--" + option, os.path.join(folder, option + ".npy")]
    succeed("mha", "--params", "p.safetensors", "--heads", weights.shape[1], *given, "--out", "y.npy", "--weights-out", "w.npy",
            cwd=tmp_path)
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), arrays["out"], rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(np.load(tmp_path / "w.npy"), weights, rtol=1e-12, atol=1e-13)


def test_minilm(tmp_path):
    """Layer 0 of a real sentence encoder on four real sentences."""
    folder = os.path.join(DATA, "minilm")
    base = ["mha", "--params", os.path.join(folder, "minilm_layer0.safetensors"), "--prefix", "encoder.layer.0.attention.",
            "--heads", 12, "--query", os.path.join(folder, "hidden.npy"), "--out", "y.npy", "--weights-out", "w.npy"]
    expected, weights = (np.load(os.path.join(folder, f"layer0_{name}.npy")) for name in ("out", "weights"))
    results = []
    for mask in [["--key-keep", os.path.join(folder, "key_keep.npy")],
                 ["--token-ids", os.path.join(folder, "token_ids.npy"), "--pad-id", 0]]:
        succeed(*base, *mask, cwd=tmp_path)
        y, w = np.load(tmp_path / "y.npy"), np.load(tmp_path / "w.npy")
        assert y.dtype == w.dtype == F32
        # The reference is float64 stored as float32. Sums of 384 terms of size 1 in float32 are off by some 384 * 2^-24.
        np.testing.assert_allclose(y, expected, rtol=0, atol=384 * 2.0**-24)
        np.testing.assert_allclose(w, weights, rtol=0, atol=384 * 2.0**-24)
        assert not w[~np.broadcast_to(np.load(os.path.join(folder, "key_keep.npy"))[:, None, None], w.shape)].any()
        results.append((y.tobytes(), w.tobytes()))
    assert results[0] == results[1]
