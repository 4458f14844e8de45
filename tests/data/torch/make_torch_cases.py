#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Attention cases computed by PyTorch in float64, for the tests of clattn.

    python3 -m venv venv && venv/bin/pip install numpy torch safetensors
    venv/bin/python make_torch_cases.py OUT

Writes OUT/<case>/<array>.npy, all float64 or bool. Inputs and parameters are rounded to float32 first, so that the same
numbers can be given to a float32 run. The files here were made with PyTorch 2.15.0, whose nn.MultiheadAttention reads
True in a mask as "blocked", and whose scaled_dot_product_attention reads True as "takes part": the dumps are named
block and keep accordingly.

Layer cases (nn.MultiheadAttention): query [B,T,E], key [B,S,Ek], value [B,S,Ev], wq wk wv wo bq bk bv bo, of the masks
block [T,S] or [B*H,T,S], add [T,S] or [B*H,T,S], key_block [B,S]; out [B,T,E], weights [B,H,T,S], mean_weights [B,T,S].
Function cases (scaled_dot_product_attention): query, key, value, keep or add; out.

And OUT/parameters/<naming>_<type>.safetensors with the same small layer in every naming, by the safetensors package.
"""
import os
import sys

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import save_file

torch.set_num_threads(1)
torch.manual_seed(20240917)
OUT = sys.argv[1]


def draw(*shape):
    return torch.randn(*shape).float().double()


def dump(case, arrays):
    folder = os.path.join(OUT, case)
    os.makedirs(folder, exist_ok=True)
    for name, array in arrays.items():
        if array is not None:
            np.save(os.path.join(folder, name + ".npy"), array.detach().contiguous().numpy())


# ------------------------------------------------------------------------------------------------- nn.MultiheadAttention
def layer(case, B, T, E, H, S=None, kdim=None, vdim=None, bias=True, block=None, add=None, key_block=None,
          causal=False):
    """S None: self attention from one input."""
    m = torch.nn.MultiheadAttention(E, H, bias=bias, kdim=kdim, vdim=vdim, batch_first=True, dtype=torch.float64)
    m.eval()
    with torch.no_grad():
        for p in m.parameters():
            p.copy_((torch.randn(p.shape) * (0.5 if p.dim() == 1 else 1.0 / E**0.5)).float().double())
    query = draw(B, T, E)
    key = query if S is None else draw(B, S, kdim or E)
    value = query if S is None else draw(B, S, vdim or E)
    mask = block if block is not None else add
    if causal:
        mask = torch.ones(T, key.shape[1], dtype=torch.bool).triu(1)
    with torch.no_grad():
        run = dict(key_padding_mask=key_block, attn_mask=mask, is_causal=causal, need_weights=True)
        out, weights = m(query, key, value, average_attn_weights=False, **run)
        _, mean_weights = m(query, key, value, average_attn_weights=True, **run)
    if m.in_proj_weight is not None:
        wq, wk, wv = m.in_proj_weight.chunk(3)
    else:
        wq, wk, wv = m.q_proj_weight, m.k_proj_weight, m.v_proj_weight
    bq, bk, bv = m.in_proj_bias.chunk(3) if bias else (None, None, None)
    dump(case, dict(query=query, key=None if S is None else key, value=None if S is None else value,
                    wq=wq, wk=wk, wv=wv, wo=m.out_proj.weight, bq=bq, bk=bk, bv=bv, bo=m.out_proj.bias if bias else None,
                    block=block, add=add, key_block=key_block, out=out, weights=weights, mean_weights=mean_weights))


def padding(S, *lengths):
    return torch.arange(S)[None, :] >= torch.tensor(lengths)[:, None]


def random_block(*shape):
    block = torch.rand(*shape) < 0.4
    block[..., 0] = False  # no row without keys
    return block


layer("self", B=2, T=5, E=12, H=3)
layer("self_long", B=1, T=37, E=64, H=8)
layer("one_head", B=3, T=4, E=7, H=1)
layer("head_dim_one", B=2, T=6, E=5, H=5)
layer("cross", B=2, T=4, S=7, E=16, H=4)
layer("cross_long", B=2, T=9, S=65, E=24, H=2)
layer("kdim_vdim", B=2, T=5, S=8, E=12, H=2, kdim=6, vdim=10)
layer("kdim_vdim_no_bias", B=1, T=3, S=5, E=8, H=4, kdim=9, vdim=3, bias=False)
layer("no_bias", B=2, T=6, E=18, H=3, bias=False)
layer("key_padding", B=3, T=8, E=20, H=4, key_block=padding(8, 8, 5, 1))
layer("block", B=2, T=6, S=9, E=12, H=3, block=random_block(6, 9))
layer("block_per_head", B=2, T=4, S=5, E=12, H=3, block=random_block(6, 4, 5))
layer("add", B=2, T=6, S=9, E=12, H=3, add=draw(6, 9))
layer("add_per_head", B=2, T=4, S=5, E=12, H=3, add=draw(6, 4, 5))
layer("block_and_padding", B=2, T=5, S=7, E=10, H=2, block=random_block(5, 7), key_block=padding(7, 7, 4))
layer("causal", B=2, T=9, E=16, H=2, causal=True)
layer("causal_and_padding", B=2, T=9, E=16, H=2, causal=True, key_block=padding(9, 9, 6))


# ------------------------------------------------------------------------------------------ scaled_dot_product_attention
def function(case, B, H, T, S, D, Dv=None, G=None, keep=None, add=None, **options):
    query, key, value = draw(B, H, T, D), draw(B, G or H, S, D), draw(B, G or H, S, Dv or D)
    mask = keep if keep is not None else add
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        out = F.scaled_dot_product_attention(query, key, value, attn_mask=mask, enable_gqa=G is not None, **options)
    dump(case, dict(query=query, key=key, value=value, keep=keep, add=add, out=out))


no_keys = torch.rand(2, 1, 6, 5) < 0.6
no_keys[0, 0, 2] = False
no_keys[1, 0, 5] = False

function("f_plain", B=2, H=3, T=5, S=7, D=8)
function("f_value_dim", B=1, H=2, T=6, S=5, D=3, Dv=11)
function("f_scale", B=1, H=2, T=4, S=6, D=5, scale=1.7)
function("f_negative_scale", B=1, H=2, T=4, S=6, D=5, scale=-0.3)
function("f_keep", B=2, H=3, T=4, S=6, D=5, keep=~random_block(2, 3, 4, 6))
function("f_keep_broadcast", B=2, H=3, T=4, S=6, D=5, keep=~random_block(2, 1, 1, 6))
function("f_add_broadcast", B=2, H=3, T=4, S=6, D=5, add=draw(3, 4, 6))
function("f_rows_without_keys", B=2, H=2, T=6, S=5, D=4, keep=no_keys)
function("f_causal_short", B=1, H=2, T=4, S=7, D=5, is_causal=True)
function("f_causal_square", B=1, H=2, T=7, S=7, D=5, is_causal=True)
function("f_causal_tall", B=1, H=2, T=7, S=4, D=5, is_causal=True)
function("f_grouped", B=2, H=6, T=3, S=5, D=4, G=2)


# ------------------------------------------------------------------------------------------------------------ parameters
E = 6
names = ["wq", "wk", "wv", "wo", "bq", "bk", "bv", "bo"]
# A quarter of small integers: exact in every type, and each tensor recognisable.
tensors = {n: (torch.arange(E * E if n[0] == "w" else E) - 10.0 * i) / 4 for i, n in enumerate(names)}
tensors = {n: t.reshape(E, E) if n[0] == "w" else t for n, t in tensors.items()}
namings = {
    "torch": {"in_proj_weight": ["wq", "wk", "wv"], "in_proj_bias": ["bq", "bk", "bv"],
              "out_proj.weight": ["wo"], "out_proj.bias": ["bo"]},
    "torch_apart": {"q_proj_weight": ["wq"], "k_proj_weight": ["wk"], "v_proj_weight": ["wv"],
                    "in_proj_bias": ["bq", "bk", "bv"], "out_proj.weight": ["wo"], "out_proj.bias": ["bo"]},
    "bert": {f"{long}.{kind}": [kind[0] + short] for short, long in
             [("q", "self.query"), ("k", "self.key"), ("v", "self.value"), ("o", "output.dense")]
             for kind in ("weight", "bias")},
    "llama": {f"{short}_proj.weight": ["w" + short] for short in "qkvo"},
    "wq": {f"w_{short}.{kind}": [kind[0] + short] for short in "qkvo" for kind in ("weight", "bias")},
    "wq_capital": {f"W_{short}.weight": ["w" + short] for short in "qkvo"},
}
types = {"f32": torch.float32, "f64": torch.float64, "f16": torch.float16, "bf16": torch.bfloat16}
os.makedirs(os.path.join(OUT, "parameters"), exist_ok=True)
for naming, table in namings.items():
    for short, dtype in types.items():
        if short != "f32" and naming not in ("torch", "wq"):
            continue
        save_file({name: torch.cat([tensors[p] for p in parts]).to(dtype) for name, parts in table.items()},
                  os.path.join(OUT, "parameters", f"{naming}_{short}.safetensors"))
save_file({"encoder.0." + name: torch.cat([tensors[p] for p in parts]) for name, parts in namings["bert"].items()} |
          {"encoder.0.norm.weight": torch.ones(E), "position": torch.arange(4)},
          os.path.join(OUT, "parameters", "prefixed.safetensors"))
