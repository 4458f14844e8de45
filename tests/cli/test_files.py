# SPDX-License-Identifier: Apache-2.0
"""Input files: every form that NumPy writes, everything that does not fit, and everything that is broken."""
import os
import struct

import numpy as np
import pytest

import oracle
from support import refuse, succeed, without_privileges

B, H, T, S, D, DV = 2, 2, 3, 4, 5, 6
SDPA = ["sdpa", "--q", "q.npy", "--k", "k.npy", "--v", "v.npy"]
SHAPES = {"q": (B, H, T, D), "k": (B, H, S, D), "v": (B, H, S, DV)}


@pytest.fixture
def arrays(tmp_path, rng):
    made = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in SHAPES.items()}
    for name, array in made.items():
        np.save(tmp_path / f"{name}.npy", array)
    return made


def save(path, array, version=(1, 0), behind=b"", order="C"):
    with open(path, "wb") as file:
        np.lib.format.write_array(file, np.asarray(array, order=order), version=version)
        file.write(behind)


# ------------------------------------------------------------------------------------------------------- what NumPy writes
def test_every_form_gives_the_same_bits(tmp_path, arrays, rng):
    add, keep = rng.standard_normal((H, T, S)).astype(np.float32), rng.random((B, S)) < 0.7
    lengths = np.array([S, S - 1])
    forms = [dict(), dict(order="F"), dict(version=(2, 0)), dict(version=(3, 0), order="F", behind=b"more bytes"),
             dict(behind=np.random.default_rng(1).bytes(100))]
    results = []
    for form in forms:
        for name, array in {**arrays, "add": add, "keep": keep, "lengths": lengths}.items():
            save(tmp_path / f"{name}.npy", array, **form)
        succeed(*SDPA, "--add-mask", "add.npy", "--key-keep", "keep.npy", "--kv-lengths", "lengths.npy", "--out", "y.npy",
                cwd=tmp_path)
        results.append((tmp_path / "y.npy").read_bytes())
    assert len(set(results)) == 1
    out, dout, _, _ = oracle.attention(*arrays.values(), 2.0**-24, add=[add], kv_lengths=lengths,
                                       masks=[("keep", keep[:, None, None])])
    oracle.check(np.load(tmp_path / "y.npy"), out, dout)


def test_what_is_written_is_plain(tmp_path, arrays):
    succeed(*SDPA, "--out", "y.npy", cwd=tmp_path)
    with open(tmp_path / "y.npy", "rb") as file:
        assert np.lib.format.read_magic(file) == (1, 0)
        shape, fortran, dtype = np.lib.format.read_array_header_1_0(file)
        assert (shape, fortran, dtype.str) == ((B, H, T, DV), False, "<f4") and file.tell() % 64 == 0


def test_a_link_to_an_input_is_followed(tmp_path, arrays):
    (tmp_path / "inner").mkdir()
    os.rename(tmp_path / "q.npy", tmp_path / "inner" / "real.npy")
    os.symlink("inner/real.npy", tmp_path / "q.npy")
    succeed(*SDPA, "--out", "y.npy", cwd=tmp_path)


# ------------------------------------------------------------------------------------------------------- what does not fit
@pytest.mark.parametrize("name, shape, says", [
    ("q", (H, T, D), ["--q", "[2,3,5]", "[B,H,T,D]"]),
    ("q", (), ["--q", "[]"]),
    ("q", (1, B, H, T, D), ["--q", "[1,2,2,3,5]"]),
    ("q", (B, 0, T, D), ["--q", "[2,0,3,5]", "number of heads"]),
    ("q", (B, H, T, 0), ["--q", "[2,2,3,0]", "head size"]),
    ("q", (B + 1, H, T, D), ["--k", "[2,2,4,5]", "[3,2,4,5]"]),
    ("q", (1, H, T, D), ["--k", "[2,2,4,5]", "[1,2,4,5]"]),  # batches do not broadcast
    ("k", (B, H, S, D + 1), ["--k", "[2,2,4,6]", "[2,2,4,5]"]),
    ("k", (B, 3, S, D), ["--k", "[2,3,4,5]", "[2,2,4,5]"]),
    ("v", (B, H, S + 1, DV), ["--v", "[2,2,5,6]", "[2,2,4,6]"]),
    ("v", (B, H, S, 0), ["--v", "[2,2,4,0]", "head size"]),
    ("v", (B, 1, S, DV), ["--v", "[2,1,4,6]", "[2,2,4,6]"]),
    ("k", (B, 1, S, D), ["--k", "1 heads", "2", "this version of clattn does not do grouped queries yet"]),
])
def test_shapes(tmp_path, arrays, name, shape, says):
    np.save(tmp_path / f"{name}.npy", np.zeros(shape, np.float32))
    refuse(2, tmp_path, *SDPA, "--out", "y.npy", says=says)


@pytest.mark.parametrize("dtype, says", [
    ("<f2", ["float16", "this version of clattn does not do 16-bit types yet"]),
    ("<u2", "uint16"), ("?", "bool"), ("<i4", "int32"), ("<i8", "int64"), ("<f8", "float64 goes with float64 only"),
    (">f4", ">f4"), ("<u4", "<u4"), ("|i1", "|i1"), ("<c8", "<c8"), ("<U3", "<U3"), ("<f4,<f4", ""),
])
@pytest.mark.parametrize("name", ["q", "v"])
def test_types(tmp_path, arrays, name, dtype, says):
    np.save(tmp_path / f"{name}.npy", np.zeros(SHAPES[name], dtype))
    # With one float64 among them it is the first that differs from --q that is named.
    seen = "--k" if (name, dtype) == ("q", "<f8") else f"--{name}"
    refuse(2, tmp_path, *SDPA, "--out", "y.npy", says=[seen, *([says] if isinstance(says, str) else says)])


@pytest.mark.parametrize("option, array, says", [
    ("--block-mask", np.zeros((T, S + 1), bool), ["[3,5]", "[2,2,3,4]"]),
    ("--keep-mask", np.zeros((2, T, S, 1), bool), ["[2,3,4,1]", "[2,2,3,4]"]),
    ("--keep-mask", np.zeros((1, 1, 1, 1, 1), bool), ["[1,1,1,1,1]", "[2,2,3,4]"]),
    ("--add-mask", np.zeros((B * H * 2, T, S), np.float32), ["[8,3,4]", "[2,2,3,4]"]),
    ("--block-mask", np.zeros((0, S), bool), ["[0,4]"]),
    ("--block-mask", np.zeros((T, S), np.float32), ["float32", "bool was expected"]),
    ("--keep-mask", np.zeros((T, S), np.int64), ["int64", "bool was expected"]),
    ("--add-mask", np.zeros((T, S), bool), ["bool", "float32 or float64 was expected"]),
    ("--add-mask", np.zeros((T, S), np.int32), ["int32", "float32 or float64 was expected"]),
    ("--add-mask", np.zeros((T, S), np.float16), ["float16", "this version of clattn does not do 16-bit types yet"]),
    ("--key-block", np.zeros((S,), bool), ["[4]", "[B,S] = [2,4]"]),
    ("--key-block", np.zeros((1, S), bool), ["[1,4]", "[B,S] = [2,4]"]),
    ("--key-keep", np.zeros((B, T), bool), ["[2,3]", "[B,S] = [2,4]"]),
    ("--key-keep", np.zeros((B, S), np.float32), ["float32", "bool was expected"]),
    ("--token-ids", np.zeros((B, T), np.int32), ["[2,3]", "[B,S] = [2,4]"]),
    ("--token-ids", np.zeros((B, S), np.float32), ["float32", "int32 or int64 was expected"]),
    ("--kv-lengths", np.zeros((B + 1,), np.int32), ["[3]", "[B] = [2]"]),
    ("--kv-lengths", np.zeros((B, 1), np.int32), ["[2,1]", "[B] = [2]"]),
    ("--kv-lengths", np.zeros((B,), np.float32), ["float32", "int32 or int64 was expected"]),
    ("--kv-lengths", np.array([S, -1]), ["-1 for batch entry 1", "S = 4"]),
    ("--kv-lengths", np.array([S + 1, 0], np.int32), ["5 for batch entry 0", "S = 4"]),
    ("--kv-lengths", np.array([2**32, 0]), ["4294967296 for batch entry 0"]),
], ids=lambda value: value if isinstance(value, str) else None)
def test_masks_and_lengths(tmp_path, arrays, option, array, says):
    np.save(tmp_path / "m.npy", array)
    extra = ["--pad-id", "0"] if option == "--token-ids" else []
    refuse(2, tmp_path, *SDPA, "--out", "y.npy", option, "m.npy", *extra, says=[option, "m.npy", *says])


# --------------------------------------------------------------------------------------------------------- what is broken
def header(text, version=1, length=None):
    body = text.encode()
    size = len(body) if length is None else length
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H" if version == 1 else "<I", size) + body


GOOD = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2, 3, 5), }\n"


@pytest.mark.parametrize("content", [
    b"", b"\x93NUM", b"not an array at all", header(GOOD), header(GOOD) + bytes(239),
    header(GOOD, length=60000), header(GOOD, version=2, length=2**32 - 1), header(GOOD, version=4) + bytes(240),
    header(GOOD.replace("(2, 2, 3, 5)", "(2, 2, 3, 99999999999999)")) + bytes(240),
    header(GOOD.replace("(2, 2, 3, 5)", "(4294967296, 4294967296, 4294967296, 2)")) + bytes(240),
    header(GOOD.replace("(2, 2, 3, 5)", "(2, 2, -3, 5)")) + bytes(240),
    header(GOOD.replace("False", "Maybe")) + bytes(240), header(GOOD.replace("'shape'", "'shade'")) + bytes(240),
    header("{" * 5000) + bytes(240), header(GOOD[:-3]) + bytes(240),
], ids=["empty", "short", "text", "no data", "a byte short", "long header", "absurd header", "version 4", "claims too much",
        "product overflows", "negative", "not a bool", "no shape", "braces", "unclosed"])
def test_malformed(tmp_path, arrays, content):
    (tmp_path / "broken.npy").write_bytes(content)
    for option, arguments in [("--q", ["sdpa", "--q", "broken.npy", *SDPA[3:]]), ("--add-mask", [*SDPA, "--add-mask", "broken.npy"])]:
        refuse(2, tmp_path, *arguments, "--out", "y.npy", says=[option, "broken.npy"])


def test_what_is_no_file(tmp_path, arrays):
    os.mkdir(tmp_path / "folder.npy")
    os.mkfifo(tmp_path / "fifo.npy")
    os.symlink("circle.npy", tmp_path / "circle.npy")
    for path in ["missing.npy", "folder.npy", "fifo.npy", "circle.npy", "/dev/zero", "/dev/null", "q.npy/q.npy", "x" * 300]:
        refuse(2, tmp_path, *SDPA[:4], path, *SDPA[5:], "--out", "y.npy", says=["--k", path])
    refuse(2, tmp_path, *SDPA[:4], "odd\nname\x85\u2028.npy", *SDPA[5:], "--out", "y.npy", says=["--k", "odd\\x0aname"])


def test_unreadable(tmp_path, arrays):
    os.chmod(tmp_path / "v.npy", 0)
    refuse(2, tmp_path, *SDPA, "--out", "y.npy", says=["--v", "v.npy", "Permission denied"], preexec_fn=without_privileges)
