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


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("repeat", [0, 1, 4])
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


@pytest.mark.parametrize("command", COMMANDS)
def test_explain(folder, command):
    result = succeed(*COMMANDS[command], "--out", "out.npy", "--explain", cwd=folder)
    assert result.stdout == ""
    row = next(row for row in json.loads(succeed("devices", "--json").stdout)["devices"] if row["selected"])
    assert result.stderr.startswith(f"device: {row['index']} {row['name']} on {row['platform']}, driver {row['driver']} (")
    for word in ["path: gemm", "softmax: ", "memory: ", "bytes"] + (["projections: CLBlast"] if command == "mha" else []):
        assert word in result.stderr, result.stderr
    both = succeed(*COMMANDS[command], "--out", "out.npy", "--explain", "--json", cwd=folder)
    assert both.stderr == result.stderr and json.loads(both.stdout)["path"] == "gemm"


def test_explain_of_what_is_refused(folder):
    """A plan that cannot be made is the one line of the failure."""
    result = run("--device", "no such", *COMMANDS["sdpa"], "--out", "out.npy", "--explain", cwd=folder)
    assert result.returncode == 2 and len(result.stderr.splitlines()) == 1


def test_silence(folder):
    result = succeed(*COMMANDS["sdpa"], "--out", "out.npy", cwd=folder)
    assert result.stdout == "" and result.stderr == ""
