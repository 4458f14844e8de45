# SPDX-License-Identifier: Apache-2.0
"""Options and what they refuse: one line, status 2, nothing changed."""
import json

import numpy as np
import pytest

from support import refuse, run, start, succeed

COMMON = """block-mask keep-mask add-mask key-block key-keep token-ids pad-id kv-lengths q-lengths causal causal-offset
window-left window-right alibi scale softcap dropout seed path explain compute repeat json out weights-out average-weights
bf16 help""".split()
OPTIONS = {
    "devices": ["json", "help"],
    "sdpa": ["q", "k", "v", *COMMON],
    "mha": ["params", "prefix", "naming", "heads", "kv-heads", "query", "key", "value", "sequence-first", "add-zero-attn",
            "out-dropout", "projection", *COMMON],
    "init": "embed heads kv-heads kdim vdim no-bias gain-qk seed naming out help".split(),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Inputs that go together; the tests here leave them as they are."""
    path = tmp_path_factory.mktemp("options")
    rng = np.random.default_rng(1)
    for name, shape in {"q": (2, 4, 5, 6), "k": (2, 4, 7, 6), "v": (2, 4, 7, 3), "x": (2, 5, 8), "slopes": (4,)}.items():
        np.save(path / f"{name}.npy", rng.standard_normal(shape).astype(np.float32))
    np.save(path / "mask.npy", np.zeros((5, 7), bool))
    np.save(path / "ids.npy", np.zeros((2, 7), np.int32))
    np.save(path / "lengths.npy", np.array([3, 5]))
    succeed("init", "--embed", 8, "--heads", 2, "--out", path / "p.safetensors")
    return path


SDPA = ["sdpa", "--q", "q.npy", "--k", "k.npy", "--v", "v.npy", "--out", "y.npy"]
MHA = ["mha", "--params", "p.safetensors", "--heads", "2", "--query", "x.npy", "--out", "y.npy"]


# ------------------------------------------------------------------------------------------------------ help and version
def test_version():
    result = succeed("--version")
    assert result.stderr == "" and result.stdout.startswith("clattn ") and result.stdout.count("\n") == 1


def test_help_lists_the_commands():
    result = succeed("--help")
    assert result.stderr == ""
    for command in ["devices", "sdpa", "mha", "init", "heads", "bench", "tune", "verify", "--device", "CLATTN_DEVICE"]:
        assert command in result.stdout


@pytest.mark.parametrize("command", OPTIONS)
def test_help_lists_every_option(command):
    for arguments in [[command, "--help"], ["--device", "gpu", command, "--json", "--help"]]:
        result = succeed(*arguments)
        assert result.stderr == ""
        listed = [line.split()[0] for line in result.stdout.splitlines() if line.startswith("  --")]
        assert len(set(listed)) == len(listed)
        assert not {f"--{name}" for name in OPTIONS[command]} - set(listed)
        assert max(map(len, result.stdout.splitlines())) <= 120


def test_no_command(folder):
    assert "usage: clattn [--device SEL] COMMAND" in refuse(2, folder)
    refuse(2, folder, "--device", "cpu", says="no command")


def test_unknown_command(folder):
    refuse(2, folder, "spda", says=["spda", "did you mean 'sdpa'"])
    refuse(2, folder, "frobnicate\n\x1b[31m\x85x", says=["devices, sdpa, mha, init and verify", "\\x0a"])


@pytest.mark.parametrize("command", ["heads", "bench", "tune"])
def test_commands_of_later_versions(folder, command):
    for arguments in [[command], [command, "--json"]]:
        result = run(*arguments, cwd=folder)
        assert result.returncode == 2 and result.stdout == ""
        assert result.stderr == f"clattn: {command}: this version of clattn does not have this command yet\n"


# --------------------------------------------------------------------------------------------------------------- parsing
@pytest.mark.parametrize("arguments, says", [
    (["--devcie", "cpu", "sdpa"], "did you mean '--device'"),
    (["--device"], "--device needs a value"),
    (["--device", "--help"], "--device needs a value"),
    (["--device", "cpu", "--device", "gpu"], "--device is given twice"),
    (["--device", "cpu", "devices", "--device", "cpu"], "--device is given twice"),
    (["-h"], "unknown option '-h'"),
    (["--version=3"], "--version takes no value"),
    (["devices", "extra"], "unexpected argument 'extra'"),
    (["devices", "--jsno"], ["unknown option '--jsno'", "did you mean '--json'"]),
    (["devices", "--json", "--json"], "--json is given twice"),
    (["devices", "--json=yes"], "--json takes no value, and was given 'yes'"),
])
def test_parsing(folder, arguments, says):
    refuse(2, folder, *arguments, says=says, before_command=arguments[0] != "devices" and "twice" not in says)


@pytest.mark.parametrize("extra, says", [
    (["--colour"], "unknown option '--colour'; --help lists all"),
    (["--causal-ofset", "1"], "did you mean '--causal-offset'"),
    (["--weights", "w.npy"], "did you mean '--weights-out'"),  # nothing is abbreviated
    (["-causal", "top-left"], ["unknown option '-causal'", "did you mean '--causal'"]),
    (["--"], "unknown option '--'"),
    (["stray"], "unexpected argument 'stray'"),
    (["--scale", "1", "--scale=1"], "--scale is given twice"),
    (["--out", "z.npy"], "--out is given twice"),
    (["--key-block"], "--key-block needs a value (M.npy)"),
    (["--key-block", "--json"], ["--key-block needs a value", "--json"]),
    (["--key-block="], "--key-block: the file name is empty"),
    (["--explain=1"], "--explain takes no value, and was given '1'"),
    (["--explain", "--explain"], "--explain is given twice"),
    (["--causal", "sideways"], ["'sideways'", "top-left, bottom-right"]),
    (["--causal", "none"], "'none'"),
    (["--causal="], "''"),
    (["--path", "fast"], ["'fast'", "auto, gemm, fused"]),
    (["--compute", "fp16"], ["'fp16'", "auto, fp32, fp64"]),
    (["--causal", "top-left", "--causal-offset", "-2"], ["--causal top-left", "--causal-offset -2", "exclude"]),
    (["--average-weights"], "--average-weights needs --weights-out"),
    (["--token-ids", "ids.npy"], "needs --pad-id"),
    (["--pad-id", "0"], "needs --token-ids"),
    (["--bf16=1"], "--bf16 takes no value, and was given '1'"),
    (["--dropout=0.1", "--dropout=0.1"], "--dropout is given twice"),
], ids=lambda value: value if isinstance(value, str) else " ".join(value))
def test_attention_options(folder, extra, says):
    refuse(2, folder, *SDPA, *extra, says=says)
    refuse(2, folder, *MHA, *extra, says=says)


BAD_NUMBERS = {
    "--scale": ["", "x", "1x", "1 ", " 1", "nan", "inf", "-inf", "1e999", "-1e999", "1,5", "0x", "--1", "1e", "infinity"],
    "--causal-offset": ["", "1.0", "1e3", "0x10", "two", " 1", "1 ", "9223372036854775808", "-9223372036854775809", "-", "+"],
    "--window-left": ["", "-1", "1.5", "9223372036854775808", "x"],
    "--window-right": ["-1", "3d"],
    "--repeat": ["0", "-1", "1.5", "ten", "99999999999999999999"],
    "--softcap": ["", "0", "-1", "-0", "1e-400", "inf", "x", "1e999"],
    "--dropout": ["", "1", "-0.1", "1.0", "1.5", "0.99999999999999999999", "nan", "half"],
    "--seed": ["", "-1", "18446744073709551616", "1.0", "0x1", "1e3"],
    "--pad-id": ["0.0", "pad", "9223372036854775808"],
}


@pytest.mark.parametrize("option", BAD_NUMBERS)
def test_numbers_to_the_last_letter(folder, option):
    for value in BAD_NUMBERS[option]:
        for spelled in [[option, value], [f"{option}={value}"]]:
            refuse(2, folder, *SDPA, *spelled, says=[option, value.strip("+")])
    for value in BAD_NUMBERS[option][:2]:
        refuse(2, folder, *MHA, option, value, says=[option, value])


def test_ranges_of_numbers(folder):
    for option, value, says in [("--softcap", "0", "0 is not above 0"), ("--softcap", "-3", "-3 is below 0"),
                                ("--dropout", "1", "1 is not below 1"), ("--dropout", "2.5", "2.5 is above 1"),
                                ("--dropout", "-1e-9", "-1e-9 is below 0"), ("--out-dropout", "1", "1 is not below 1"),
                                ("--out-dropout", "-1", "-1 is below 0"), ("--kv-heads", "0", "0 is below 1")]:
        refuse(2, folder, *MHA, option, value, says=f"{option}: {says}")


@pytest.mark.parametrize("heads", ["0", "-4", "2.0", "", "x", "3"])
def test_heads(folder, heads):
    refuse(2, folder, "mha", "--params", "p.safetensors", "--heads", heads, "--query", "x.npy", "--out", "y.npy", says=heads)
    refuse(2, folder, "init", "--embed", "8", "--heads", heads, "--out", "n.safetensors", says=heads)


@pytest.mark.parametrize("seed", ["-1", "18446744073709551616", "1.0", "0x1", ""])
def test_seed_is_unsigned(folder, seed):
    refuse(2, folder, "init", "--embed", "8", "--heads", "2", "--seed", seed, "--out", "n.safetensors", says=["--seed", seed])


@pytest.mark.parametrize("arguments, says", [
    (["sdpa", "--k", "k.npy", "--v", "v.npy", "--out", "y.npy"], "--q is missing"),
    (["sdpa", "--q", "q.npy", "--v", "v.npy", "--out", "y.npy"], "--k is missing"),
    (["sdpa", "--q", "q.npy", "--k", "k.npy", "--out", "y.npy"], "--v is missing"),
    (["sdpa", "--q", "q.npy", "--k", "k.npy", "--v", "v.npy"], "--out, --weights-out"),
    (["mha", "--heads", "2", "--query", "x.npy", "--out", "y.npy"], "--params is missing"),
    (["mha", "--params", "p.safetensors", "--query", "x.npy", "--out", "y.npy"], "--heads is missing"),
    (["mha", "--params", "p.safetensors", "--heads", "2", "--out", "y.npy"], "--query is missing"),
    (["mha", "--params", "p.safetensors", "--heads", "2", "--query", "x.npy"], "--out, --weights-out"),
    (["init", "--heads", "2", "--out", "n.safetensors"], "--embed is missing"),
    (["init", "--embed", "8", "--out", "n.safetensors"], "--heads is missing"),
    (["init", "--embed", "8", "--heads", "2"], "--out is missing"),
    (["init", "--embed", "8", "--heads", "2", "--gain-qk", "-1", "--out", "n.safetensors"], "-1 is below 0"),
    (["init", "--embed", "8", "--heads", "2", "--gain-qk", "nan", "--out", "n.safetensors"], "nan"),
    (["init", "--embed", "0", "--heads", "2", "--out", "n.safetensors"], "0 is below 1"),
    (["init", "--embed", "8", "--heads", "2", "--naming", "auto", "--out", "n.safetensors"], "torch, bert, llama, wq"),
    (["init", "--embed", str(2**62), "--heads", "2", "--out", "n.safetensors"], str(2**62)),
])
def test_missing_or_unfit(folder, arguments, says):
    refuse(2, folder, *arguments, says=says)


# --------------------------------------------------------------------------------------------------- for later versions
def test_options_of_later_versions(folder):
    says = "this version of clattn does not do the"
    for command in [SDPA, MHA]:
        refuse(2, folder, *command, "--path", "fused", says=["--path fused", f"{says} fused path yet"])
    refuse(2, folder, *MHA, "--projection", "packed", says=["--projection packed", f"{says} packed projection engine yet"])


@pytest.mark.parametrize("command", OPTIONS)
def test_help_says_what_is_not_there(command):
    """Only what is refused is said not to be in this version."""
    text = succeed(command, "--help").stdout
    assert text.count("not in this version") == {"sdpa": 1, "mha": 2}.get(command, 0)


def test_choices_that_are_the_default_anyway(folder, tmp_path):
    for extra in [["--path", "auto", "--compute", "auto"], ["--path=gemm", "--compute=fp32"]]:
        succeed(*SDPA[:-1], tmp_path / "y.npy", *extra, cwd=folder)
    for extra in [["--projection", "auto", "--kv-heads", "2"], ["--projection=clblast", "--naming", "auto", "--prefix="]]:
        succeed(*MHA[:-1], tmp_path / "y.npy", *extra, cwd=folder)


# ------------------------------------------------------------------------------------------------------------- devices
def test_device_selection(folder, tmp_path):
    here = succeed("devices").stdout.splitlines()
    marked = next(line for line in here if line.startswith("*")).split()
    out = str(tmp_path / "y.npy")
    for arguments, env in [(["--device", marked[1]], {}), (["--device=" + marked[2].upper()], {}),
                           ([], {"CLATTN_DEVICE": marked[1]}), (["--device", marked[1]], {"CLATTN_DEVICE": "no such"})]:
        succeed(*arguments, *SDPA[:-1], out, cwd=folder, env=env)
    succeed(*SDPA[:-1], out, "--device", marked[1], cwd=folder)
    for arguments, env, selector in [(["--device", "no such"], {}, "no such"), (["--device", "77:0"], {}, "77:0"),
                                     ([], {"CLATTN_DEVICE": "no such"}, "no such"),
                                     (["--device", "no such"], {"CLATTN_DEVICE": marked[1]}, "no such")]:
        for command in [SDPA, MHA, ["devices"]]:
            refuse(2, folder, *arguments, *command, env=env, says=[selector, marked[1], marked[2]])


def test_a_device_without_fp64(folder, tmp_path):
    """Mesa's llvmpipe is one; rounding to float32 is offered, and done when asked for."""
    env = {"RUSTICL_ENABLE": "llvmpipe", "CLATTN_DEVICE": "llvmpipe"}
    listed = run("devices", "--json", env=env)
    if listed.returncode != 0:
        pytest.skip("Mesa's rusticl is not installed")
    device = next(row for row in json.loads(listed.stdout)["devices"] if row["selected"])
    assert not device["fp64"]
    for name in "qkv":
        np.save(tmp_path / f"{name}.npy", np.load(folder / f"{name}.npy").astype(np.float64))
    refuse(2, tmp_path, *SDPA, env=env, says=["--q", "q.npy", "float64", "no fp64", "--compute fp32", device["name"]])
    refuse(2, folder, *SDPA, "--compute", "fp64", env=env, says=["--compute fp64", "no fp64", device["name"]])
    refuse(2, folder, *MHA, "--compute", "fp64", env=env, says=["--compute fp64", "no fp64", device["name"]])
    succeed(*SDPA, "--compute", "fp32", cwd=tmp_path, env=env)
    assert np.load(tmp_path / "y.npy").dtype == np.float64


def test_no_platform(folder):
    for command in [["devices"], ["devices", "--json"], SDPA, MHA]:
        refuse(1, folder, *command, env={"OCL_ICD_VENDORS": "/nonexistent"}, says=["no OpenCL platform", "install"])


def test_init_needs_no_device(tmp_path):
    succeed("--device", "no such", "init", "--embed", 4, "--heads", 1, "--out", "p.safetensors", cwd=tmp_path,
            env={"OCL_ICD_VENDORS": "/nonexistent", "CLATTN_DEVICE": "no such"})


def test_files_are_read_before_the_device_is_opened(folder):
    for command in [SDPA, MHA]:
        refuse(2, folder, *command, "--add-mask", "nowhere.npy", env={"OCL_ICD_VENDORS": "/nonexistent"}, says="nowhere.npy")
        refuse(2, folder, *command[:-1], "nowhere/y.npy", env={"OCL_ICD_VENDORS": "/nonexistent"}, says="nowhere/")


# ----------------------------------------------------------------------------------------------------- standard streams
PRINTING = [["--help"], ["--version"], ["sdpa", "--help"], ["devices"], ["devices", "--json"],
            ["init", "--embed", "8", "--heads", "2", "--out", "n.safetensors"], [*SDPA, "--json"], [*SDPA, "--repeat", "1"]]


@pytest.mark.parametrize("arguments", PRINTING, ids=lambda a: " ".join(a[:1] + a[-1:]))
def test_lost_output_is_a_failure(folder, arguments):
    with open("/dev/full", "w") as full:
        refuse(1, folder, *arguments, stdout_file=full, says="standard output")


def test_closed_streams(folder, tmp_path):
    def close(*descriptors):
        import os

        return lambda: [os.close(d) for d in descriptors]

    refuse(1, folder, "--version", stdout_file=None, preexec_fn=close(1), says="standard output")
    refuse(1, folder, *SDPA, "--json", stdout_file=None, preexec_fn=close(0, 1), says="standard output")
    out = tmp_path / "y.npy"
    for descriptors in [(1,), (0, 1, 2), (2,)]:  # nothing to print: nothing is missed, and no file takes their place
        process = start(*SDPA[:-1], out, cwd=folder, preexec_fn=close(*descriptors))
        assert process.wait(60) == 0
        assert np.load(out).shape == (2, 4, 5, 3)
        out.unlink()
    assert start("--nonsense", preexec_fn=close(2)).wait(60) == 2
