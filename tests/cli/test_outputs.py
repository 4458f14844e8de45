# SPDX-License-Identifier: Apache-2.0
"""Output files: all of them or none, whatever goes wrong."""
import os
import resource
import signal
import subprocess
import time

import numpy as np
import pytest

import oracle
from support import listing, refuse, run, start, succeed, without_privileges

SDPA = ["sdpa", "--q", "q.npy", "--k", "k.npy", "--v", "v.npy"]


@pytest.fixture
def folder(tmp_path, rng):
    for name in "qkv":
        np.save(tmp_path / f"{name}.npy", rng.standard_normal((2, 2, 3, 4)).astype(np.float32))
    return tmp_path


def expected(folder):
    return oracle.attention(*(np.load(folder / f"{name}.npy") for name in "qkv"), 2.0**-24)


def test_nothing_else_appears(folder):
    before = set(listing(folder))
    succeed(*SDPA, "--out", "y.npy", "--weights-out", "w.npy", cwd=folder)
    assert set(listing(folder)) == before | {"y.npy", "w.npy"}
    umask = os.umask(0)
    os.umask(umask)
    assert os.stat(folder / "y.npy").st_mode & 0o777 == 0o666 & ~umask


def test_outputs_may_name_inputs(folder):
    out, dout, p, dp = expected(folder)
    mode = 0o640
    os.chmod(folder / "q.npy", mode)
    succeed(*SDPA, "--out", "q.npy", "--weights-out", "v.npy", cwd=folder)
    oracle.check(np.load(folder / "q.npy"), out, dout)
    oracle.check(np.load(folder / "v.npy"), p, dp)
    assert set(listing(folder)) == {"q.npy", "k.npy", "v.npy"}
    assert os.stat(folder / "q.npy").st_mode & 0o777 == mode


def test_links_are_followed(folder):
    (folder / "inner").mkdir()
    (folder / "inner" / "old.npy").write_bytes(b"old")
    os.symlink("inner/old.npy", folder / "y.npy")
    os.symlink("inner/new.npy", folder / "w.npy")  # leads to nothing yet
    out, dout, p, dp = expected(folder)
    succeed(*SDPA, "--out", "y.npy", "--weights-out", "w.npy", cwd=folder)
    assert os.readlink(folder / "y.npy") == "inner/old.npy" and os.readlink(folder / "w.npy") == "inner/new.npy"
    oracle.check(np.load(folder / "inner" / "old.npy"), out, dout)
    oracle.check(np.load(folder / "inner" / "new.npy"), p, dp)
    assert sorted(os.listdir(folder / "inner")) == ["new.npy", "old.npy"]


def test_what_cannot_be_an_output(folder):
    os.mkdir(folder / "sub")
    os.mkfifo(folder / "fifo")
    os.symlink("circle", folder / "circle")
    (folder / "old.npy").write_bytes(b"old")
    os.symlink("old.npy", folder / "alias.npy")
    for path in ["sub", "fifo", "circle", "/dev/null", "/dev/stdout", "nowhere/y.npy", "q.npy/y.npy", "sub/", "x" * 300]:
        refuse(2, folder, *SDPA, "--out", "old.npy", "--weights-out", path, says=["--weights-out", path[-200:]])
        refuse(2, folder, *SDPA, "--out", path, "--weights-out", "old.npy", says=["--out", path[-200:]])
    for path in ["old.npy", "./old.npy", "sub/../old.npy", "alias.npy"]:
        refuse(2, folder, *SDPA, "--out", "old.npy", "--weights-out", path, says="the same file as another output")
    for path in ["sub", "fifo", "/dev/null", "nowhere/p.safetensors"]:
        refuse_init(folder, path)


def refuse_init(folder, path):
    before = listing(folder)
    result = run("init", "--embed", 8, "--heads", 2, "--out", path, cwd=folder)
    assert result.returncode == 2 and len(result.stderr.splitlines()) == 1 and path in result.stderr, result
    assert listing(folder) == before


def test_unwritable(folder):
    os.mkdir(folder / "locked")
    os.chmod(folder / "locked", 0o555)
    os.mkdir(folder / "open")
    os.chmod(folder / "open", 0o777)
    (folder / "open" / "read-only.npy").write_bytes(b"old")
    os.chmod(folder / "open" / "read-only.npy", 0o444)
    for path in ["locked/y.npy", "open/read-only.npy"]:
        refuse(2, folder, *SDPA, "--out", path, says=["--out", path, "Permission denied"], preexec_fn=without_privileges)
    refuse(2, folder, *SDPA, "--out", "open/y.npy", "--weights-out", "locked/w.npy", says="locked/w.npy", preexec_fn=without_privileges)


@pytest.fixture
def small_disk(folder):
    """A file system with room for 64 KiB."""
    disk = folder / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", disk], stderr=subprocess.PIPE, text=True)
    if mounted.returncode != 0:
        pytest.skip(f"no small file system can be mounted: {mounted.stderr.strip()}")
    yield disk
    subprocess.run(["umount", disk], check=True)


def test_full_disk(folder, small_disk):
    large = {"q": (1, 1, 200, 4), "k": (1, 1, 200, 4), "v": (1, 1, 200, 4)}
    for name, shape in large.items():
        np.save(folder / f"{name}.npy", np.zeros(shape, np.float32))
    (small_disk / "old.npy").write_bytes(b"old")
    for arguments in [["--out", "old.npy", "--weights-out", "disk/w.npy"], ["--out", "y.npy", "--weights-out", "disk/old.npy"],
                      ["--weights-out", "disk/w.npy", "--json"]]:
        (folder / "old.npy").write_bytes(b"old")
        refuse(1, folder, *SDPA, *arguments, says="No space left on device")
    before = listing(folder)
    result = run("init", "--embed", 128, "--heads", 2, "--out", "disk/p.safetensors", cwd=folder)
    assert result.returncode == 1 and len(result.stderr.splitlines()) == 1, result
    assert "No space left on device" in result.stderr and listing(folder) == before


def limit_files():
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, 2**20))  # enough for what a driver caches


def test_file_size_limit(folder):
    """The signal that comes with it does not end the program half-way."""
    for name, shape in {"q": (1, 1, 1000, 4), "k": (1, 1, 3, 4), "v": (1, 1, 3, 512)}.items():
        np.save(folder / f"{name}.npy", np.zeros(shape, np.float32))
    refuse(1, folder, *SDPA, "--out", "y.npy", says=["--out", "y.npy", "File too large"], preexec_fn=limit_files)


def test_nothing_is_published_when_the_report_is_lost(folder):
    (folder / "y.npy").write_bytes(b"old")
    reader, writer = os.pipe()
    os.close(reader)  # a pipe that nobody reads
    with os.fdopen(writer, "wb") as lost:
        refuse(1, folder, *SDPA, "--out", "y.npy", "--json", stdout_file=lost, says=["standard output", "Broken pipe"])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("stage", ["computing", "writing"])
def test_signals(folder, number, stage):
    """The program ends by the signal and leaves no temporary file behind."""
    (folder / "y.npy").write_bytes(b"old")
    before = listing(folder)
    if stage == "computing":
        process = start(*SDPA, "--out", "y.npy", "--repeat", 10**9, cwd=folder)
        time.sleep(1)
    else:
        # It waits in the middle of writing: the report goes into a full pipe, and temporaries are there.
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        with pytest.raises(BlockingIOError):
            while True:
                os.write(writer, bytes(65536))
        os.set_blocking(writer, True)
        process = start(*SDPA, "--out", "y.npy", "--json", cwd=folder, stdout=writer)
        os.close(writer)
        size, deadline = (folder / "v.npy").stat().st_size, time.monotonic() + 60
        while size not in [path.stat().st_size for path in folder.glob(".clattn-*")]:
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.01)
    process.send_signal(number)
    assert process.wait(30) == -number
    if stage == "writing":
        os.close(reader)
    assert listing(folder) == before
