# SPDX-License-Identifier: Apache-2.0
"""--json, --repeat and --explain."""
import json

import numpy as np
import pytest

from support import run, succeed

B, H, T, S, D = 2, 3, 5, 7, 4
COMMANDS = {
    "sdpa": ["sdpa", "--q", "q.npy", "--k", "k.npy", "--v", "k.npy"],
    "mha": ["mha", "--params", "p.safetensors", "--heads", "3", "--query", "x.npy", "--key", "y.npy"],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("report")
    rng = np.random.default_rng(1)
    for name, shape in {"q": (B, H, T, D), "k": (B, H, S, D), "x": (B, T, 12), "y": (B, S, 12)}.items():
        np.save(path / f"{name}.npy", rng.standard_normal(shape).astype(np.float32))
    succeed("init", "--embed", 12, "--heads", 3, "--out", path / "p.safetensors")
    return path


@pytest.fixture(scope="module")
def has_event_times():
    """PoCL has them; drivers without are told of as such."""
    row = next(row for row in json.loads(succeed("devices", "--json").stdout)["devices"] if row["selected"])
    return row["platform"] == "Portable Computing Language"


def is_summary(times):
    return set(times) == {"min", "median", "max"} and 0 <= times["min"] <= times["median"] <= times["max"]


@pytest.mark.parametrize("command, repeat", [("sdpa", 0), ("sdpa", 1), ("mha", 0), ("mha", 4)])
def test_json(folder, command, repeat, has_event_times):
    extra = ["--repeat", repeat] if repeat else []
    result = succeed(*COMMANDS[command], "--out", "out.npy", "--json", *extra, cwd=folder)
    assert result.stderr == "" and result.stdout.count("\n") == 1
    report = json.loads(result.stdout)
    row = next(row for row in json.loads(succeed("devices", "--json").stdout)["devices"] if row["selected"])
    assert report["command"] == command
    assert report["version"] == succeed("--version").stdout.split()[1]
    for ours, theirs in {"device": "name", "driver": "driver", "platform": "platform", "index": "index"}.items():
        assert report[ours] == row[theirs]
    assert report["path"] == "gemm" and report["compute"] == "fp32" and report["repeat"] == repeat
    assert report["shape"] == {"B": B, "H": H, "G": H, "T": T, "S": S, "D": D, "Dv": D}
    assert is_summary(report["wall_ms"]) and report["wall_ms"]["min"] > 0
    if has_event_times or report["device_ms"] is not None:
        assert is_summary(report["device_ms"]) and report["device_ms"]["min"] > 0
        # What the device does, it does between the call and its end; two clocks on a busy machine may see that differently.
        assert report["device_ms"]["min"] <= 1.5 * report["wall_ms"]["min"] + 5
    assert report["first_ms"] > 0
    if repeat == 0:
        assert report["wall_ms"]["min"] == report["wall_ms"]["max"] <= report["first_ms"]
    if repeat == 1:
        assert report["wall_ms"]["min"] == report["wall_ms"]["max"]
    # The scores of the whole batch, at least.
    assert isinstance(report["memory_bytes"], int) and report["memory_bytes"] >= B * H * T * S * 4


def test_json_with_float64(folder, has_fp64):
    if not has_fp64:
        pytest.skip("the device has no fp64")
    report = json.loads(succeed(*COMMANDS["sdpa"], "--out", "out.npy", "--json", "--compute=fp64", cwd=folder).stdout)
    assert report["compute"] == "fp64" and report["memory_bytes"] >= B * H * T * S * 8


@pytest.mark.parametrize("command", COMMANDS)
def test_repeat_prints_times(folder, command, has_event_times):
    result = succeed(*COMMANDS[command], "--out", "out.npy", "--repeat", 3, cwd=folder)
    assert result.stderr == ""
    lines = result.stdout.splitlines()
    assert "3 runs after the first" in lines[0] and lines[1].split() == ["min", "ms", "median", "ms", "max", "ms"]
    for line, name in zip(lines[2:], ["wall", "device"]):
        assert line.split()[0] == name
        if name == "device" and not has_event_times and "no event times" in line:
            continue
        low, median, high = map(float, line.split()[1:])
        assert 0 < low <= median <= high
    assert len(lines) == 4


def stages(explained):
    """[(name, what is said of it), ...]"""
    return [tuple(line.split(": ", 1)) for line in explained.splitlines()]


STAGES = {
    "sdpa": [("path", "gemm"), ("split_heads", "query [2,3,5,4]"), ("scores", "SgemmStridedBatched 6 x [5,4][7,4]^T"),
             ("softmax", "[6,5,7]"), ("values", "SgemmStridedBatched 6 x [5,7][7,4]"), ("output", "[2,3,5,4]")],
    "mha": [("path", "gemm"), ("batch", "2 of 2"), ("projections", "query: CLBlast Sgemm [10,12][12,12]^T in place; key: "
            "CLBlast Sgemm [14,12][12,12]^T in place; value: the same"), ("split_heads", "query [2,3,5,4] (bias, scale"),
            ("scores", "SgemmStridedBatched 6 x [5,4][7,4]^T"), ("softmax", "[6,5,7]"), ("values", "6 x [5,7][7,4]"),
            ("merge_heads", "[2,3,5,4] to [2,5,12]"), ("out-projection", "Sgemm [10,12][12,12]^T, merge_heads")],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_explain(folder, command):
    """The kernels that run, in their order, with shapes; and memory."""
    result = succeed(*COMMANDS[command], "--out", "out.npy", "--explain", cwd=folder)
    assert result.stdout == ""
    row = next(row for row in json.loads(succeed("devices", "--json").stdout)["devices"] if row["selected"])
    assert result.stderr.startswith(f"device: {row['index']} {row['name']} on {row['platform']}, driver {row['driver']} (")
    told = stages(result.stderr)[1:]
    for (name, says), (found, words) in zip(STAGES[command] + [("memory", "bytes"), ("self check", "")], told, strict=True):
        assert name == found and says in words, (name, says, words)
    both = succeed(*COMMANDS[command], "--out", "out.npy", "--explain", "--json", cwd=folder)
    assert stages(both.stderr)[1:-1] == told[:-1] and json.loads(both.stdout)["path"] == "gemm"


def test_explain_of_everything(folder):
    np.save(folder / "mask.npy", np.zeros((T, S), bool))
    np.save(folder / "ones.npy", np.ones(H, np.float16))
    np.save(folder / "half.npy", np.load(folder / "x.npy").astype(np.float16))
    masks = ["--block-mask", "mask.npy"] * 9
    result = succeed(*COMMANDS["mha"][:5], "--query", "half.npy", "--key", "y.npy", *masks, "--alibi", "ones.npy", "--softcap=3",
                     "--dropout=0.1", "--add-zero-attn", "--weights-out", "w.npy", "--average-weights", "--out", "out.npy",
                     "--explain", cwd=folder)
    told = dict(stages(result.stderr))
    for name, says in {"projections": "query: CLBlast Sgemm [10,12][12,12]^T after split_heads (float16 to float32)",
                       "split_heads": "key [2,3,8,4], value [2,3,8,4] (bias, heads apart, extra keys)",
                       "scores": "6 x [5,4][8,4]^T", "mask_scores": "mask terms 0 to 4, soft cap, slopes",
                       "softmax": "[6,5,8], 4 mask terms, dropout", "average_weights": "3 heads into [2,5,8]",
                       "out-projection": "merge_heads into the output (bias, as float16)"}.items():
        assert says in told[name], (name, says, told)
    # What does not run is not told of.
    quiet = succeed(*COMMANDS["sdpa"], "--weights-out", "w.npy", "--explain", cwd=folder)
    assert not {"values", "merge_heads", "output", "mask_scores"} & set(dict(stages(quiet.stderr)))


def test_explain_of_what_is_refused(folder):
    """A plan that cannot be made is the one line of the failure."""
    result = run("--device", "no such", *COMMANDS["sdpa"], "--out", "out.npy", "--explain", cwd=folder)
    assert result.returncode == 2 and len(result.stderr.splitlines()) == 1


def test_silence(folder):
    result = succeed(*COMMANDS["sdpa"], "--out", "out.npy", cwd=folder)
    assert result.stdout == "" and result.stderr == ""
