# SPDX-License-Identifier: Apache-2.0
"""clattn verify: the report, what it leaves behind, what a fault looks like."""
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import time

import numpy as np
import pytest

from support import listing, refuse, run, start, succeed

ROW = re.compile(r"(pass|fail|unsupported) +(gemm|fused) +(\S+)  ([^:]+)(?:: (.*))?$")
SUPPORT = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support")
INCLUDE = os.path.join(os.path.dirname(os.path.dirname(SUPPORT)), "include")


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """A cache folder of our own: what is planted here must not be remembered elsewhere."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def report(cache):
    """The first run, as text."""
    result = verify(env={"CLATTN_CACHE_DIR": str(cache)})
    assert result.returncode == 0 and result.stderr == "", result
    return result.stdout


def verify(*arguments, **options):
    """More time than other commands get: kernels may have to be compiled first."""
    process = start("verify", *arguments, **options)
    stdout, stderr = process.communicate(timeout=600)
    return subprocess.CompletedProcess(process.args, process.returncode, (stdout or b"").decode(), stderr.decode())


def rows_of(text):
    rows = [ROW.match(line) for line in text.splitlines() if line.startswith(("pass", "fail", "unsupported"))]
    assert rows and all(rows), text
    return [row.groups() for row in rows]


def test_header(report):
    devices = json.loads(succeed("devices", "--json").stdout)["devices"]
    chosen = next(row for row in devices if row["selected"])
    header = dict(re.match(r"(\w+) +(.*)", line).groups() for line in report.split("\n\n")[0].splitlines())
    assert list(header) == ["clattn", "platform", "index", "device", "driver", "host"]
    version = succeed("--version").stdout.split()[1]
    assert re.fullmatch(re.escape(version) + r", CLBlast (\d+\.\d+\.\d+|unknown)", header["clattn"])
    assert header["platform"] == f"{chosen['platform']}, {chosen['platform_version']}"
    assert header["index"] == chosen["index"]
    assert header["device"] == f"{chosen['name']}, {chosen['version']}" and header["driver"] == chosen["driver"]
    assert header["host"].startswith(f"{os.uname().sysname} {os.uname().release} {os.uname().machine}, ")


def test_rows(report, has_fp64):
    rows = rows_of(report)
    names = [(path, name) for _, path, _, name, _ in rows]
    assert len(set(names)) == len(names)
    for result, path, worst, name, detail in rows:
        assert result in ("pass", "unsupported")
        assert (detail is None) == (result == "pass"), name
        assert worst == "-" if result == "unsupported" else 0 <= float(worst) <= 1, name
    listed = [name for _, name in names]
    for feature in ["plain", "block mask", "keep mask", "added mask", "causal, top left", "window", "key lengths",
                    "query lengths", "soft cap", "slopes", "grouped heads", "zero key", "dropout", "output dropout",
                    "weights", "averaged weights", "log-sum-exp", "float16", "bfloat16", "strides and offsets", "slices",
                    "lent scratch memory", "layer", "layer, sequence first", "layer with key bias", "blocked rows",
                    "scores of +-1e30", "finite mask of -3.4e38", "512 of 600 keys blocked", "last key and feature",
                    "subnormal weights", "dropout pattern", "rounding to float16"]:
        assert feature in listed
        assert (f"{feature}, float64" in listed) == has_fp64
    unsupported = {(path, name): detail for result, path, _, name, detail in rows if result == "unsupported"}
    assert "not in this version" in unsupported["fused", "plain"]
    if not has_fp64:
        assert "float64" in unsupported["gemm", "plain, float64"]


def test_summary(report):
    rows = rows_of(report)
    counts = [sum(row[0] == result for row in rows) for result in ("pass", "fail", "unsupported")]
    assert re.fullmatch(r"{} passed, {} failed, {} unsupported in \d+\.\d s".format(*counts), report.splitlines()[-1])


def test_json(report, cache):
    """The same checks with the same results, and what the text says of the machine. With warm caches it takes less than 20 seconds; of
    the processor, since other tests may run beside it."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    result = verify("--json", env={"CLATTN_CACHE_DIR": str(cache)})
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert result.returncode == 0 and result.stderr == "" and result.stdout.count("\n") == 1, result
    found = json.loads(result.stdout)
    assert set(found) == {"command", "version", "clblast", "platform", "platform_version", "index", "device",
                          "device_version", "driver", "host", "passed", "failed", "unsupported", "seconds", "checks"}
    assert found["command"] == "verify" and found["device"] in report and found["driver"] in report
    assert [(c["result"], c["path"], c["name"]) for c in found["checks"]] == [(r, p, n) for r, p, _, n, _ in rows_of(report)]
    for name, result in [("passed", "pass"), ("failed", "fail"), ("unsupported", "unsupported")]:
        assert found[name] == sum(check["result"] == result for check in found["checks"])
    for check, row in zip(found["checks"], rows_of(report)):
        assert set(check) == {"name", "path", "result", "worst", "detail"} and check["detail"] == (row[4] or "")
    if "Portable Computing Language" in found["platform"]:
        assert after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime < 20


def test_what_it_finds_is_trusted(report, cache, tmp_path):
    """A call after it needs no check of its own, and says where it knows it from."""
    for name in "qkv":
        np.save(tmp_path / f"{name}.npy", np.ones((1, 2, 3, 4), np.float32))
    names = list(listing(cache))
    assert len(names) == 1 and re.fullmatch(r"self-check-[0-9a-f]{16}\.txt", names[0])
    text = (cache / names[0]).read_text()
    assert text.startswith("clattn self check") and "  block mask\n" in text
    arguments = ["sdpa", "--q", "q.npy", "--k", "k.npy", "--v", "v.npy", "--out", "y.npy", "--explain"]
    result = succeed(*arguments, cwd=tmp_path, env={"CLATTN_CACHE_DIR": str(cache)})
    assert "self check: passed 'plain'" in result.stderr and f"known from {cache / names[0]}" in result.stderr
    result = succeed(*arguments, cwd=tmp_path, env={"CLATTN_CACHE_DIR": str(cache), "CLATTN_SELF_CHECK": "off"})
    assert "self check: turned off by CLATTN_SELF_CHECK=off" in result.stderr


# ---------------------------------------------------------------------------------------------------------------- faults
@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    """The environment of a driver that takes the mean over one head too few. One kernel has it: the others need not be compiled anew."""
    compiler = next(filter(None, map(shutil.which, ["cc", "gcc", "clang"])), None)
    if compiler is None or not os.path.exists("/proc"):
        pytest.skip("needs a C compiler and a loader with LD_PRELOAD")
    folder = tmp_path_factory.mktemp("planted")
    (folder / "plant.c").write_text(
        '#include "planted.h"\n'
        '__attribute__((constructor)) static void plant(void) {\n'
        '  planted_fault("sum /= (real)(kv_heads * group)", "sum /= (real)(kv_heads * group - 1)");\n'
        '}\n')
    subprocess.run([compiler, "-std=c11", "-shared", "-fPIC", "-I", SUPPORT, "-I", INCLUDE, folder / "plant.c",
                    os.path.join(SUPPORT, "planted.c"), "-o", folder / "planted.so", "-ldl"], check=True)
    (folder / "cache").mkdir()
    return {"LD_PRELOAD": str(folder / "planted.so"), "CLATTN_CACHE_DIR": str(folder / "cache")}


def test_a_fault(planted, tmp_path, has_fp64):
    result = verify(env=planted)
    assert result.returncode == 1
    failed = {name: (worst, detail) for outcome, _, worst, name, detail in rows_of(result.stdout) if outcome == "fail"}
    assert set(failed) == {"averaged weights", "averaged weights, float64"} if has_fp64 else {"averaged weights"}
    worst, detail = failed["averaged weights"]
    assert float(worst) > 1 and re.match(r"weights\[0,0,0\] is \S+, not \S+ \+- \S+ \(1310 of 1310 are wrong\)$", detail)
    assert f"{len(failed)} failed" in result.stdout.splitlines()[-1]
    assert len(result.stderr.splitlines()) == 1 and result.stderr.startswith("clattn: verify: ")
    assert f"failed {len(failed)} checks, the first 'averaged weights': weights[" in result.stderr

    # What failed is refused, what did not is done; turned off, it is done as well.
    for name in "qkv":
        np.save(tmp_path / f"{name}.npy", np.ones((1, 2, 3, 4), np.float32))
    plain = ["sdpa", "--q", "q.npy", "--k", "k.npy", "--v", "v.npy", "--out", "y.npy"]
    mean = [*plain, "--weights-out", "w.npy", "--average-weights"]
    refuse(1, tmp_path, *mean, env=planted,
           says=["failed the self check 'averaged weights'", "clattn verify", "CLATTN_SELF_CHECK=off"])
    succeed(*plain, cwd=tmp_path, env=planted)
    succeed(*mean, cwd=tmp_path, env={**planted, "CLATTN_SELF_CHECK": "off"})

    # Without the fault it stays refused until the machine is checked again.
    sound = {"CLATTN_CACHE_DIR": planted["CLATTN_CACHE_DIR"]}
    refuse(1, tmp_path, *mean, env=sound, says="averaged weights")
    result = verify("--json", env=sound)
    assert result.returncode == 0 and result.stderr == "" and json.loads(result.stdout)["failed"] == 0
    succeed(*mean, cwd=tmp_path, env=sound)


# ---------------------------------------------------------------------------------------------------------------- others
def test_interrupt(tmp_path):
    """Ends by the signal, without a word, and leaves no half file."""
    process = start("verify", env={"CLATTN_CACHE_DIR": str(tmp_path)})
    while not process.stdout.readline().startswith(b"pass"):
        assert process.poll() is None
    begin = time.monotonic()
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGINT and stderr == b"" and time.monotonic() - begin < 30
    assert listing(tmp_path) == {}


def test_help():
    result = succeed("verify", "--help")
    assert result.stderr == "" and "--json" in result.stdout and "--device" in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 120


@pytest.mark.parametrize("arguments, says", [
    (["verify", "extra"], "unexpected argument 'extra'"),
    (["verify", "--jsno"], "did you mean '--json'"),
    (["verify", "--device", "no such device"], "no device matches"),
    (["--device", "cpu", "verify", "--device", "cpu"], "--device is given twice"),
])
def test_wrong_commands(tmp_path, arguments, says):
    result = run(*arguments, cwd=tmp_path)
    assert result.returncode == 2 and result.stdout == "" and listing(tmp_path) == {}
    assert result.stderr.startswith("clattn: verify: ") and len(result.stderr.splitlines()) == 1 and says in result.stderr


def test_lost_output(cache, report):
    with open("/dev/full", "wb") as full:
        result = verify(stdout=full, env={"CLATTN_CACHE_DIR": str(cache)})
    assert result.returncode == 1 and len(result.stderr.splitlines()) == 1 and "standard output" in result.stderr
