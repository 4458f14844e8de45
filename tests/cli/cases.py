# SPDX-License-Identifier: Apache-2.0
"""Inputs in a folder, a run of the program over them, and a comparison with the oracle: for `sdpa` and for `mha`."""
import json
import struct

import numpy as np

import floats
import oracle
from support import succeed

F32, F64 = np.float32, np.float64
B, H, T, S = 2, 3, 5, 7  # of both
D, DV = 4, 6             # of sdpa
E = 12                   # of mha


def kind_of(dtype):
    return {F32: "f4", F64: "f8"}[np.dtype(dtype).type]


class Inputs:
    """Arrays `names` as files, each of a storage type; the first one's is that of the output."""

    def __init__(self, folder, dtype, names):
        self.folder, self.unit, self.names = folder, oracle.UNIT[np.dtype(dtype)], names
        self.kinds = dict.fromkeys(names, kind_of(dtype))

    def give(self, option, array, suffix=""):
        """Saves an array, and returns the option with its file."""
        name = f"{option.lstrip('-')}{suffix}.npy"
        np.save(self.folder / name, array)
        return [option, name]

    def inputs(self):
        """The inputs as they are stored."""
        return {name: floats.decode(floats.encode(getattr(self, name), self.kinds[name]), self.kinds[name]) for name in self.names}

    def flags(self):
        return ["--bf16"] if "bf16" in self.kinds.values() else []

    def results(self):
        return np.load(self.folder / "y.npy"), np.load(self.folder / "w.npy")

    def compare(self, y, w, expected):
        """Output and weights with (output, bound, probabilities, bound)."""
        out, dout, p, dp = expected
        kind = self.kinds[self.names[0]]
        assert y.dtype == floats.DTYPE[kind] and w.dtype == (F64 if kind == "f8" else F32)
        oracle.check(floats.decode(y, kind), out, dout + floats.rounding(np.abs(out) + dout, kind))
        oracle.check(w, p, dp + floats.rounding(p, "f8" if kind == "f8" else "f4"))


class Case(Inputs):
    """Q, K and V of clattn sdpa."""

    def __init__(self, folder, rng, dtype=F32, shape=(B, H, T, S, D, DV), G=None):
        super().__init__(folder, dtype, "qkv")
        b, h, t, s, d, dv = shape
        self.arguments = []
        self.q = rng.standard_normal((b, h, t, d)).astype(dtype)
        self.k = rng.standard_normal((b, G or h, s, d)).astype(dtype)
        self.v = rng.standard_normal((b, G or h, s, dv)).astype(dtype)

    def give(self, option, array):
        self.arguments += super().give(option, array, suffix=len(self.arguments))

    def run(self, *arguments):
        for name in self.names:
            np.save(self.folder / f"{name}.npy", floats.encode(getattr(self, name), self.kinds[name]))
        return succeed("sdpa", "--q", "q.npy", "--k", "k.npy", "--v", "v.npy", "--out", "y.npy", "--weights-out", "w.npy",
                       *self.flags(), *self.arguments, *arguments, cwd=self.folder)

    def check(self, *arguments, **rules):
        assert self.run(*arguments).stdout == ""
        self.compare(*self.results(), oracle.attention(*self.inputs().values(), self.unit, **rules))


class LayerCase(Inputs):
    """Query, key and value of clattn mha; the parameters are in p.safetensors."""

    def __init__(self, folder, rng, dtype=F32, b=B, t=T, s=S, kdim=E, vdim=E):
        super().__init__(folder, dtype, ["query", "key", "value"])
        self.query = rng.standard_normal((b, t, E)).astype(dtype)
        self.key = rng.standard_normal((b, s, kdim)).astype(dtype)
        self.value = rng.standard_normal((b, s, vdim)).astype(dtype)

    def check(self, layer, *arguments, inputs=("query", "key", "value"), heads=H, sequence_first=False, unit=None, **rules):
        given, arrays = [], self.inputs()
        for name in inputs:
            array = floats.encode(getattr(self, name), self.kinds[name])
            given += self.give("--" + name, np.swapaxes(array, 0, 1) if sequence_first else array)
        succeed("mha", "--params", "p.safetensors", "--heads", heads, *given, "--out", "y.npy", "--weights-out", "w.npy",
                *(["--sequence-first"] if sequence_first else []), *self.flags(), *arguments, cwd=self.folder)
        key = arrays["key"] if "key" in inputs else arrays["query"]
        value = arrays["value"] if "value" in inputs else key
        y, w = self.results()
        self.compare(np.swapaxes(y, 0, 1) if sequence_first else y, w,
                     oracle.layer(layer, heads, arrays["query"], key, value, unit or self.unit, **rules))


# --------------------------------------------------------------------------------------------------------- parameters
PARTS = {"torch": None, "bert": ["self.query", "self.key", "self.value", "output.dense"],
         "llama": ["q_proj", "k_proj", "v_proj", "o_proj"], "wq": ["w_q", "w_k", "w_v", "w_o"],
         "wq_capital": ["W_q", "W_k", "W_v", "W_o"]}


def draw_layer(rng, kdim=E, vdim=E, width=E, value_width=E, kv_share=1, out=E, bias=True, bias_kv=False, dtype=F32):
    """kv_share: heads that read one key head."""
    key_width, value_width_in = width // kv_share, value_width // kv_share
    shapes = {"wq": (width, E), "wk": (key_width, kdim), "wv": (value_width_in, vdim), "wo": (out, value_width)}
    if bias:
        shapes |= {"bq": (width,), "bk": (key_width,), "bv": (value_width_in,), "bo": (out,)}
    if bias_kv:
        shapes |= {"bias_k": (1, 1, key_width), "bias_v": (1, 1, value_width_in)}
    return {name: (rng.standard_normal(shape) / (3 if len(shape) == 2 else 1)).astype(dtype) for name, shape in shapes.items()}


def named(layer, naming, apart=False):
    """The layer's tensors under the names of a file."""
    if naming == "torch":
        stacked = {"in_proj_weight": np.concatenate([layer[x] for x in ("wq", "wk", "wv")])} if not apart else {
            f"{x}_proj_weight": layer["w" + x] for x in "qkv"}
        tensors = {**stacked, "out_proj.weight": layer["wo"]}
        if "bq" in layer:
            tensors |= {"in_proj_bias": np.concatenate([layer[x] for x in ("bq", "bk", "bv")]), "out_proj.bias": layer["bo"]}
        return tensors | {name: layer[name] for name in ("bias_k", "bias_v") if name in layer}
    return {f"{part}.{kind}": layer[kind[0] + x] for part, x in zip(PARTS[naming], "qkvo") for kind in ("weight", "bias")
            if kind[0] + x in layer}


def save(path, tensors, dtype="F32", prefix=""):
    """A .safetensors file."""
    kind = {"BF16": "bf16", "F16": "f2", "F32": "f4", "F64": "f8"}[dtype]
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, tensor in tensors.items():
        raw = floats.encode(tensor, kind).tobytes()
        header[prefix + name] = {"dtype": dtype, "shape": tensor.shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def rounded(layer, dtype):
    """The layer as a file of that type holds it."""
    kind = {"BF16": "bf16", "F16": "f2", "F32": "f4", "F64": "f8"}[dtype]
    return {name: floats.decode(floats.encode(tensor, kind), kind).astype(F64) for name, tensor in layer.items()}
