#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The inputs that the fuzz targets start from: python3 make_corpus.py OUT

Writes OUT/<target>/<name>: valid files, the smallest file for each reason of refusal, and cases at the edge of a check. Needs
Python alone: bytes are put together here, so that no writer's idea of a file gets in between."""
import json
import os
import struct
import sys

OUT = sys.argv[1]


def write(target, name, data):
    folder = os.path.join(OUT, target)
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, name)
    assert not os.path.exists(path), path
    with open(path, "wb") as file:
        file.write(data if isinstance(data, bytes) else data.encode())


def write_all(target, cases):
    for name, data in cases.items():
        write(target, name, data)


# ------------------------------------------------------------------------------------------------------------------ .npy

MAGIC = b"\x93NUMPY"


def npy(header, data=b"", major=1):
    header = header if isinstance(header, bytes) else header.encode()
    length = struct.pack("<H" if major == 1 else "<I", len(header))
    return MAGIC + bytes([major, 0]) + length + header + data


def describe(descr="'<f4'", order="False", shape="(2, 3)"):
    return f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}"


DATA = bytes(range(11, 35))  # 24 bytes: 6 values of 4 bytes
SIZES = {"|b1": 1, "?": 1, "<u2": 2, "<i4": 4, "<i8": 8, "<f2": 2, "<f4": 4, "=f8": 8}

for number, (descr, size) in enumerate(SIZES.items()):
    write("npy", f"ok_type_{number}", npy(describe(f"'{descr}'", shape="(2,)") + "\n", DATA[: 2 * size]))
write_all("npy", {
    "ok_version_2": npy(describe() + " " * 20 + "\n", DATA, 2),
    "ok_version_3": npy(describe(), DATA, 3),
    "ok_scalar": npy(describe(shape="()"), DATA[:4]),
    "ok_rank_8": npy(describe("'<u2'", shape="(1, 2, 1, 1, 3, 1, 2, 1)"), DATA),
    "ok_fortran": npy(describe("'<u2'", "True", "(2, 3, 2)"), DATA),
    "ok_empty": npy(describe(shape="(3, 0)")),
    "ok_empty_fortran": npy(describe(order="True", shape="(0, 10000000000)")),
    "ok_trailing_bytes": npy(describe(), DATA + b"more"),
    "ok_loose": npy(" \t{ \"shape\" :\n(2L,3 ,) , 'fortran_order':False,'descr' : '=f4'} ", DATA),
    "bad_empty_file": b"",
    "bad_9_bytes": MAGIC + b"\x01\x00\x00",
    "bad_magic": b"PK\x03\x04\x14\x00\x00\x00\x00\x00",
    "bad_version_0_9": MAGIC + b"\x00\x09\x00\x00",
    "bad_version_1_1": MAGIC + b"\x01\x01\x00\x00",
    "bad_version_4": MAGIC + b"\x04\x00\x00\x00",
    "bad_version_2_without_length": MAGIC + b"\x02\x00\x00\x00",
    "bad_header_beyond_file": MAGIC + b"\x01\x00\x76\x00",
    "bad_header_4_gib": MAGIC + b"\x02\x00\xff\xff\xff\xff{}",
    "bad_header_empty": npy(""),
    "bad_list": npy("['descr']"),
    "bad_brace": npy("{"),
    "bad_comma": npy("{,}"),
    "bad_behind": npy(describe() + " x", DATA),
    "bad_unclosed": npy(describe()[:-1], DATA),
    "bad_no_comma": npy(describe().replace("', 'f", "' 'f"), DATA),
    "bad_no_colon": npy(describe().replace(":", "", 1), DATA),
    "bad_no_shape": npy("{'descr': '<f4', 'fortran_order': False}", DATA),
    "bad_no_descr": npy("{'shape': (6,), 'fortran_order': False}", DATA),
    "bad_no_order": npy("{'descr': '<f4', 'shape': (6,)}", DATA),
    "bad_twice": npy("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (6,)}", DATA),
    "bad_key": npy("{'Descr': '<f4'}"),
    "bad_escape": npy("{'de\\x73cr': '<f4'}"),
    "bad_nul_in_key": npy(b"{'des\0cr': '<f4'}"),
    "bad_nul_behind": npy(describe().encode() + b"\0", DATA),
    "bad_string_unclosed": npy("{'descr"),
    "bad_descr_number": npy(describe("4"), DATA),
    "bad_descr_empty": npy(describe("''"), DATA),
    "bad_descr_long": npy(describe("'" + "f" * 80 + "'"), DATA),
    "bad_big_endian": npy(describe("'>f4'"), DATA),
    "bad_object": npy(describe("'|O'"), DATA),
    "bad_complex": npy(describe("'<c8'"), DATA),
    "bad_records": npy(describe("[('x', '<f4')]"), DATA),
    "bad_order": npy(describe(order="0"), DATA),
    "bad_order_falsey": npy(describe(order="Falsey"), DATA),
    "bad_shape_number": npy(describe(shape="6"), DATA),
    "bad_shape_no_tuple": npy(describe(shape="(6)"), DATA),
    "bad_shape_comma": npy(describe(shape="(,)"), DATA),
    "bad_shape_blank": npy(describe(shape="(2 3)"), DATA),
    "bad_shape_negative": npy(describe(shape="(-1,)"), DATA),
    "bad_shape_octal": npy(describe(shape="(06,)"), DATA),
    "bad_shape_2_64": npy(describe(shape="(18446744073709551616,)"), DATA),
    "bad_shape_overflows": npy(describe(shape="(4294967296, 4294967296)"), DATA),
    "bad_shape_overflows_beside_0": npy(describe(shape="(4294967296, 4294967296, 0)"), DATA),
    "bad_shape_bytes_overflow": npy(describe("'<f8'", shape="(1152921504606846976,)"), DATA),
    "bad_rank_9": npy(describe(shape="(1,1,1,1,1,1,1,1,1)"), DATA),
    "bad_one_byte_short": npy(describe(), DATA[:-1]),
    "bad_4_tib": npy(describe(order="True", shape="(1048576, 1048576)"), DATA),
})

# ---------------------------------------------------------------------------------------------------------- .safetensors


def st(header, data=b"", claim=None):
    header = header if isinstance(header, bytes) else header.encode()
    return struct.pack("<Q", len(header) if claim is None else claim) + header + data


def row(name="a", shape="[1]", offsets="[0,4]", dtype="F32"):
    return f'"{name}":{{"dtype":"{dtype}","shape":{shape},"data_offsets":{offsets}}}'


def rows(*texts):
    return "{" + ",".join(texts) + "}"


F32 = struct.pack("<f", 1.5)
# Zero, the smallest and largest subnormal, one, the largest number, infinity, NaN: as half and as bfloat16.
HALVES = struct.pack("<7H", 0x8000, 0x0001, 0x03FF, 0x3C00, 0x7BFF, 0xFC00, 0x7E01)
BFLOATS = struct.pack("<7H", 0x8000, 0x0001, 0x007F, 0x3F80, 0x7F7F, 0xFF80, 0x7FC1)

write_all("safetensors", {
    "ok_none": st("{}"),
    "ok_f32": st(rows(row()), F32),
    "ok_f16": st(rows(row(shape="[7]", offsets="[0,14]", dtype="F16")), HALVES),
    "ok_bf16": st(rows(row(shape="[7]", offsets="[0,14]", dtype="BF16")), BFLOATS),
    "ok_f64": st(rows(row(offsets="[0,8]", dtype="F64")), struct.pack("<d", -0.1)),
    "ok_scalar": st(rows(row(shape="[]")), F32),
    "ok_empty_tensor": st(rows(row(shape="[4,0]", offsets="[0,0]"))),
    "ok_rank_9": st(rows(row(shape="[1,1,1,1,1,1,1,1,1]")), F32),
    "ok_others": st(rows(row("b", "[2]", "[8,10]", "BOOL"), row("i", "[1]", "[0,8]", "I64"),
                         row("e", "[1]", "[10,11]", "F8_E4M3"), row("x", "[5]", "[11,12]", "X3")), b"x" * 12),
    "ok_dtype_long": st(rows(row(dtype="F" * 40)), F32),
    "ok_metadata": st('{"__metadata__":{"format":"pt","note":"\\u00e9"},' + row("w", "[2,3]", "[0,24]") + "}   ", DATA),
    "bad_7_bytes": b"\x02\0\0\0\0\0\0",
    "bad_claims_one_more": st("{}", claim=3),
    "bad_claims_all": st("{}", claim=2**64 - 1),
    "bad_claims_2_63": st("{}", claim=2**63),
    "bad_empty_header": st(""),
    "bad_blank_first": st(" {}"),
    "bad_list": st("[]"),
    "bad_brace": st("{"),
    "bad_behind": st("{} x"),
    "bad_two_objects": st("{}{}"),
    "bad_nul_behind": st(b"{}\0"),
    "bad_single_quotes": st("{'a':1}"),
    "bad_same_name": st(rows(row(), row()), F32),
    "bad_same_key": st('{"a":{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}}', F32),
    "bad_nul_in_name": st('{"a\\u0000b":{}}'),
    "bad_utf8": st(b'{"a\xff":{}}'),
    "bad_surrogate": st('{"\\ud800":{}}'),
    "bad_entry": st('{"a":3}'),
    "bad_nesting": st('{"a":' + "[" * 3000),
    "bad_control_name": st('{"\\u001b[2J\\n' + "n" * 200 + '":0}'),
    "bad_no_dtype": st('{"a":{"shape":[1],"data_offsets":[0,4]}}', F32),
    "bad_dtype_number": st('{"a":{"dtype":5,"shape":[1],"data_offsets":[0,4]}}', F32),
    "bad_no_shape": st('{"a":{"dtype":"F32","data_offsets":[0,4]}}', F32),
    "bad_no_offsets": st('{"a":{"dtype":"F32","shape":[1]}}', F32),
    "bad_shape_object": st(rows(row(shape='{"0":1}')), F32),
    "bad_shape_negative": st(rows(row(shape="[-1]")), F32),
    "bad_shape_real": st(rows(row(shape="[1.0]")), F32),
    "bad_shape_2_63": st(rows(row(shape="[9223372036854775808]")), F32),
    "bad_shape_overflows": st(rows(row(shape="[4294967296,4294967296]")), F32),
    "bad_shape_overflows_unknown": st(rows(row(shape="[4294967296,4294967296]", dtype="X")), F32),
    "bad_real_overflows": st(rows(row(shape="[1e999]")), F32),
    "bad_one_offset": st(rows(row(offsets="[0]")), F32),
    "bad_three_offsets": st(rows(row(offsets="[0,4,8]")), F32),
    "bad_real_offset": st(rows(row(offsets="[0,4.0]")), F32),
    "bad_negative_offset": st(rows(row(offsets="[-4,0]")), F32),
    "bad_falling_offsets": st(rows(row(offsets="[4,0]")), F32),
    "bad_offsets_beyond": st(rows(row()), F32[:3]),
    "bad_offsets_4_eib": st(rows(row(shape="[1152921504606846976]", offsets="[0,4611686018427387904]")), F32),
    "bad_size": st(rows(row(shape="[2]")), F32),
    "bad_overlap": st(rows(row("a", "[2]", "[0,8]"), row("b", "[2]", "[4,12]")), F32 * 3),
    "bad_hole": st(rows(row("a", "[1]", "[8,12]"), row("b")), F32 * 3),
    "bad_left_over": st(rows(row()), F32 + b"x"),
    "bad_metadata_list": st('{"__metadata__":[]}'),
    "bad_metadata_number": st('{"__metadata__":{"step":3}}'),
})

# ------------------------------------------------------------------------------------------------------------ parameters

FORMATS = {"F64": "<d", "F32": "<f", "F16": "<e"}


def layer(tensors, dtype="F32", prefix="", mixed=None):
    """A file of {name: shape}; `mixed` maps names to other types."""
    header, data = {}, b""
    for name, shape in tensors.items():
        kind = (mixed or {}).get(name, dtype)
        count = 1
        for extent in shape:
            count *= extent
        values = (struct.pack("<H", 0x3F00 + i % 64) if kind == "BF16" else struct.pack(FORMATS[kind], i % 7 - 3.0)
                  for i in range(count))
        begin = len(data)
        data += b"".join(values)
        header[prefix + name] = {"dtype": kind, "shape": list(shape), "data_offsets": [begin, len(data)]}
    return st(json.dumps(header), data)


def separate(names, q, k, v, o, biases=True):
    weights = dict(zip((name + ".weight" for name in names), (q, k, v, o)))
    if biases:
        weights.update(zip((name + ".bias" for name in names), ([s[0]] for s in (q, k, v, o))))
    return weights


TORCH = {"in_proj_weight": (12, 4), "in_proj_bias": (12,), "out_proj.weight": (4, 4), "out_proj.bias": (4,)}
SPLIT = {"q_proj_weight": (4, 4), "k_proj_weight": (4, 3), "v_proj_weight": (4, 2), "in_proj_bias": (12,),
         "out_proj.weight": (4, 4), "out_proj.bias": (4,)}
BERT = separate(["self.query", "self.key", "self.value", "output.dense"], (4, 4), (4, 4), (4, 4), (4, 4))
LLAMA_NAMES, WQ_NAMES = ["q_proj", "k_proj", "v_proj", "o_proj"], ["w_q", "w_k", "w_v", "w_o"]
LLAMA = separate(LLAMA_NAMES, (4, 4), (2, 4), (2, 4), (4, 4), biases=False)
WQ = separate(WQ_NAMES, (4, 3), (2, 3), (4, 3), (5, 8), biases=False)
KV = {"bias_k": (1, 1, 4), "bias_v": (1, 1, 4)}


def without(tensors, name):
    return {key: shape for key, shape in tensors.items() if key != name}


write_all("parameters", {
    "ok_torch": layer(TORCH),
    "ok_torch_f64": layer(TORCH, "F64"),
    "ok_torch_bias_kv": layer({**TORCH, **KV}),
    "ok_torch_separate": layer(SPLIT, "F16"),
    "ok_bert_bf16": layer(BERT, "BF16"),
    "ok_llama_grouped": layer(LLAMA, "BF16"),
    "ok_llama_some_biases": layer({**LLAMA, "q_proj.bias": (4,)}),
    "ok_wq_widths": layer(WQ),
    "ok_wq_capital": layer({name.replace("w_", "W_"): shape for name, shape in WQ.items()}),
    "ok_prefix": layer(LLAMA, prefix="p."),
    "ok_mixed_types": layer(LLAMA, mixed={"k_proj.weight": "F64", "v_proj.weight": "BF16"}),
    "ok_torch_both": layer({**TORCH, **SPLIT}),
    "ok_others_beside": layer({**LLAMA, "norm.weight": (4,), "embed.weight": (2, 4)}),
    "bad_none": layer({}),
    "bad_other_names": layer({"weight": (4, 4), "\x1b[31m": (1,)}),
    "bad_two_namings": layer({**LLAMA, **WQ}),
    "bad_no_out_proj": layer(without(TORCH, "out_proj.weight")),
    "bad_no_bias": layer(without(TORCH, "out_proj.bias")),
    "bad_bias_k_alone": layer({**TORCH, "bias_k": (1, 1, 4)}),
    "bad_stack_of_4": layer({**TORCH, "in_proj_weight": (16, 4)}),
    "bad_rank_1": layer({**LLAMA, "k_proj.weight": (8,)}),
    "bad_rank_9": layer({**LLAMA, "q_proj.weight": (1, 1, 1, 1, 1, 1, 1, 4, 4)}),
    "bad_extent_0": layer({**LLAMA, "o_proj.weight": (4, 0)}),
    "bad_bias_shape": layer({**LLAMA, "q_proj.bias": (3,)}),
    "bad_out_columns": layer({**LLAMA, "o_proj.weight": (4, 3)}),
    "bad_width": layer({**LLAMA, "v_proj.weight": (3, 4)}),
    "bad_type": layer(LLAMA).replace(b'"F32"', b'"I32"'),
})

# --------------------------------------------------------------------------------------------------------------- options

NUMBERS = ["0", "-0", "+7", "007", "1000", "1001", "-5", "-6", "9223372036854775807", "9223372036854775808",
           "-9223372036854775808", "-9223372036854775809", "18446744073709551615", "18446744073709551616", "1e3", "0x10",
           ".5", "5.", "1e308", "1e309", "-1e309", "1e-999", "2.2250738585072011e-308", "nan", "inf", "-inf", "1_000", " 1",
           "1 ", "", "-", "+", ".", "1e", "--5", "\u0661", "1" * 400, "0." + "0" * 400 + "1"]
for number, text in enumerate(NUMBERS):
    write("options", f"number_{number:02}", f"--an-integer={text}\n--a-natural={text}\n--a-real={text}")
write_all("options", {
    "ok_each_kind": "--a-flag\n--a-path\nP\n--a-text\n\n--an-integer\n3\n--a-natural=4\n--a-real\n-.5e1\n--a-choice=two\n"
                    "--paths\nx\n--paths=y",
    "ok_attention": "--out\ny.npy\n--block-mask\na.npy\n--keep-mask=b.npy\n--add-mask\nc.npy\n--add-mask\nd.npy\n--causal\n"
                    "bottom-right\n--window-left=3\n--scale=0.125\n--token-ids\ni.npy\n--pad-id\n-1\n--repeat=10\n--json",
    "ok_features": "--out=y.npy\n--softcap\n30\n--alibi\ns.npy\n--dropout\n0.5\n--seed\n18446744073709551615\n--q-lengths=l.npy\n"
                   "--kv-lengths=l.npy\n--bf16\n--compute=fp32",
    "ok_help_last": "--a-flag\n--help\n--unknown",
    "ok_stop": "--a-flag\nsdpa\n--help",
    "ok_nothing": "",
    "ok_value_is_dash": "--a-text\n-\n--a-path=--a-flag",
    "bad_unknown": "--outt\ny.npy",
    "bad_unknown_far": "--zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz=1",
    "bad_short": "-o",
    "bad_dashes": "--",
    "bad_equals": "--=3",
    "bad_cut_off": "--a-pat=x",
    "bad_twice": "--a-text=1\n--a-text=2",
    "bad_flag_value": "--a-flag=yes",
    "bad_no_value": "--a-path",
    "bad_option_as_value": "--a-path\n--a-flag",
    "bad_empty_path": "--a-path=",
    "bad_empty_paths": "--paths\n",
    "bad_choice": "--a-choice=three",
    "bad_choice_later": "--a-choice=later",
    "bad_later": "--later=x",
    "bad_argument": "file.npy",
    "bad_control": "--\x1b[2J\t\x7f\xc2\x9b",
    "bad_causal_both": "--out=y\n--causal=top-left\n--causal-offset=1",
    "bad_average_alone": "--out=y\n--average-weights",
    "bad_pad_alone": "--out=y\n--pad-id=3",
    "bad_many": "\n".join(f"--paths=f{i}" for i in range(60)),
})
write("options", "bad_utf8", b"--a-\xff\xfe=\x80\n--a-real=\xe2\x80\xa8")
