# SPDX-License-Identifier: Apache-2.0
"""clattn init: what is in the file."""
import json

import numpy as np
import pytest
from safetensors.numpy import load_file

import oracle
from support import refuse, succeed

TORCH = {"in_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias"}
APART = {"q_proj_weight", "k_proj_weight", "v_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias"}
PARTS = {
    "bert": ["self.query", "self.key", "self.value", "output.dense"],
    "llama": ["q_proj", "k_proj", "v_proj", "o_proj"],
    "wq": ["w_q", "w_k", "w_v", "w_o"],
}


def init(folder, *arguments):
    result = succeed("init", *arguments, "--out", "p.safetensors", cwd=folder)
    assert result.stderr == ""
    tensors = load_file(folder / "p.safetensors")
    count = sum(tensor.size for tensor in tensors.values())
    assert result.stdout == f"{count} parameters\n"
    assert all(tensor.dtype == np.float32 for tensor in tensors.values())
    return tensors


def check_uniform(weight, gain):
    """Xavier's range is kept and used, and mean and variance are those of U(-a, a)."""
    a = gain * np.sqrt(6 / sum(weight.shape))
    n = weight.size
    assert np.abs(weight).max() <= a * (1 + 1e-6) and np.abs(weight).max() > 0.99 * a
    assert abs(weight.mean()) < 5 * a / np.sqrt(3 * n)
    # The variance of a square of U(-a, a) is 4/45 a^4.
    assert abs((weight.astype(float) ** 2).mean() - a * a / 3) < 5 * a * a * np.sqrt(4 / 45 / n)


def test_plain(tmp_path):
    tensors = init(tmp_path, "--embed", 64, "--heads", 4)
    assert set(tensors) == TORCH
    assert tensors["in_proj_weight"].shape == (192, 64) and sum(t.size for t in tensors.values()) == 4 * 64 * 64 + 4 * 64
    for weight in [*np.split(tensors["in_proj_weight"], 3), tensors["out_proj.weight"]]:
        check_uniform(weight, 1)
    assert not tensors["in_proj_bias"].any() and not tensors["out_proj.bias"].any()


def test_gain_is_of_queries_and_keys(tmp_path):
    one = init(tmp_path, "--embed", 32, "--heads", 2)
    tensors = init(tmp_path, "--embed", 32, "--heads", 2, "--gain-qk", "0.70710678")
    q, k, v = np.split(tensors["in_proj_weight"], 3)
    check_uniform(q, 0.70710678), check_uniform(k, 0.70710678), check_uniform(v, 1)
    check_uniform(tensors["out_proj.weight"], 1)
    np.testing.assert_allclose(q, np.split(one["in_proj_weight"], 3)[0] * 0.70710678, rtol=1e-6)
    assert not init(tmp_path, "--embed", 4, "--heads", 1, "--gain-qk", "0")["in_proj_weight"][:8].any()


def test_widths(tmp_path):
    tensors = init(tmp_path, "--embed", 60, "--heads", 3, "--kv-heads", 3, "--kdim", 40, "--vdim=50")
    assert set(tensors) == APART
    assert [tensors[f"{x}_proj_weight"].shape for x in "qkv"] == [(60, 60), (60, 40), (60, 50)]
    for x in "qkv":
        check_uniform(tensors[f"{x}_proj_weight"], 1)


@pytest.mark.parametrize("naming", [None, "llama", "bert", "wq"])
def test_grouped_queries(tmp_path, naming):
    """Keys and values are as wide as their heads; without --naming the names are llama's, since torch's have no place for them."""
    tensors = init(tmp_path, "--embed", 60, "--heads", 6, "--kv-heads", 2, "--kdim", 40, *(["--naming", naming] if naming else []))
    shapes = dict(zip(PARTS[naming or "llama"], [(60, 60), (20, 40), (20, 60), (60, 60)]))
    assert {name: t.shape for name, t in tensors.items() if name.endswith(".weight")} == {
        part + ".weight": shape for part, shape in shapes.items()}
    assert {name: t.shape for name, t in tensors.items() if name.endswith(".bias")} == {
        part + ".bias": shape[:1] for part, shape in shapes.items()}
    for part in shapes:
        check_uniform(tensors[part + ".weight"], 1)


@pytest.mark.parametrize("naming", PARTS)
@pytest.mark.parametrize("bias", [True, False])
def test_naming(tmp_path, naming, bias):
    tensors = init(tmp_path, "--embed", 24, "--heads", 2, "--naming", naming, *([] if bias else ["--no-bias"]))
    endings = [".weight", ".bias"] if bias else [".weight"]
    assert set(tensors) == {part + ending for part in PARTS[naming] for ending in endings}
    assert {tensors[part + ".weight"].shape for part in PARTS[naming]} == {(24, 24)}
    # The same numbers under every name.
    whole = init(tmp_path, "--embed", 24, "--heads", 2, "--no-bias")
    assert set(whole) == {"in_proj_weight", "out_proj.weight"}
    np.testing.assert_array_equal(np.concatenate([tensors[p + ".weight"] for p in PARTS[naming][:3]]), whole["in_proj_weight"])


def test_reproducible(tmp_path):
    contents = {}
    for seed in [None, "0", "1", "1", "18446744073709551615"]:
        init(tmp_path, "--embed", 8, "--heads", 2, *([] if seed is None else ["--seed", seed]))
        content = (tmp_path / "p.safetensors").read_bytes()
        assert contents.setdefault(seed, content) == content
    assert contents[None] == contents["0"] and len(set(contents.values())) == 3


def test_the_bits_are_those_of_every_machine(tmp_path):
    """Element e of weight w is made from word e % 4 of the block at counter (e / 4, w), in Python as in C."""
    seed = 0x123456789ABCDEF0
    tensors = init(tmp_path, "--embed", 6, "--heads", 2, "--kdim", 5, "--vdim", 3, "--gain-qk", "0.3", "--seed", seed)
    for w, (name, gain) in enumerate({"q_proj_weight": 0.3, "k_proj_weight": 0.3, "v_proj_weight": 1.0,
                                      "out_proj.weight": 1.0}.items()):
        weight = tensors[name]
        a = gain * np.sqrt(6.0 / sum(weight.shape))
        blocks = np.arange((weight.size + 3) // 4)
        words = np.stack(oracle.philox((seed & 0xFFFFFFFF, seed >> 32), (blocks, 0, w, 0)), -1).ravel()[: weight.size]
        expected = (2 * ((words >> np.uint64(8)) / 2.0**24) - 1) * a
        np.testing.assert_array_equal(weight.ravel(), expected.astype(np.float32))


def test_json(tmp_path):
    result = succeed("init", "--embed", 8, "--heads", 2, "--out", "p.safetensors", "--json", cwd=tmp_path)
    report = json.loads(result.stdout)
    assert report["parameters"] == 4 * 64 + 32 and report["out"] == "p.safetensors" and result.stdout.count("\n") == 1


def test_refusals(tmp_path):
    base = ["init", "--embed", 8, "--heads", 2]
    for extra, says in [(["--kv-heads", "3"], "--kv-heads 3 does not divide --heads 2"), (["--kv-heads", "0"], "--kv-heads: 0"),
                        (["--kv-heads", "1", "--naming", "torch"], ["--naming torch", "--kv-heads 1", "llama"]),
                        (["--kdim", "0"], "--kdim: 0"), (["--vdim", "-1"], "--vdim: -1"), (["--bf16"], "--bf16")]:
        refuse(2, tmp_path, *base, *extra, "--out", "p.safetensors", says=says)
