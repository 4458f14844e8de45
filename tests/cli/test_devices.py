# SPDX-License-Identifier: Apache-2.0
"""clattn devices, compared with what clinfo prints of the same machine."""
import json
import os
import re
import shutil
import subprocess

import pytest

from support import run, succeed


@pytest.fixture(scope="module")
def rows():
    result = succeed("devices", "--json")
    assert result.stderr == "" and result.stdout.count("\n") == 1
    return json.loads(result.stdout)["devices"]


@pytest.fixture(scope="module")
def clinfo():
    """[(platform name, [{property: value}, ...]), ...] in clinfo's order."""
    assert shutil.which("clinfo"), "clinfo is part of what the tests need"
    text = subprocess.run(["clinfo", "--raw"], stdout=subprocess.PIPE, text=True, check=True).stdout
    platforms, devices = [], []
    for line in text.splitlines():
        platform = re.match(r"  CL_PLATFORM_NAME +(.*)", line)
        header = re.match(r"\[[^]]*/\*\] +CL_PLATFORM_NAME ", line)
        prop = re.match(r"\[[^]]*/\d+\] +(CL_\w+) +(.*)", line)
        if platform:
            platforms.append((platform[1].strip(), []))
        elif header:
            devices.append([])
        elif prop:
            if prop[1] == "CL_DEVICE_NAME":
                devices[-1].append({})
            devices[-1][-1][prop[1]] = prop[2].strip()
    assert len(devices) == len(platforms)
    return [(name, found) for (name, _), found in zip(platforms, devices)]


def test_same_devices_as_clinfo(rows, clinfo):
    seen = []
    for p, (platform, devices) in enumerate(clinfo):
        if not devices:
            seen.append((p, platform, None, None))
        seen += [(p, platform, f"{p}:{d}", device["CL_DEVICE_NAME"]) for d, device in enumerate(devices)]
    assert [(row["platform_index"], row["platform"], row["index"], row.get("name")) for row in rows] == seen


def test_same_properties_as_clinfo(rows, clinfo):
    devices = [device for _, found in clinfo for device in found]
    listed = [row for row in rows if row["index"]]
    assert listed and len(listed) == len(devices)
    for row, device in zip(listed, devices):
        types = {"CPU": "CL_DEVICE_TYPE_CPU", "GPU": "CL_DEVICE_TYPE_GPU", "accelerator": "CL_DEVICE_TYPE_ACCELERATOR"}
        assert types[row["type"]] in device["CL_DEVICE_TYPE"]
        for ours, theirs in {"compute_units": "MAX_COMPUTE_UNITS", "global_bytes": "GLOBAL_MEM_SIZE",
                             "max_alloc_bytes": "MAX_MEM_ALLOC_SIZE", "local_bytes": "LOCAL_MEM_SIZE",
                             "max_work_group": "MAX_WORK_GROUP_SIZE", "vector_width": "NATIVE_VECTOR_WIDTH_FLOAT"}.items():
            assert row[ours] == int(device["CL_DEVICE_" + theirs]), ours
        for ours, theirs in {"vendor": "CL_DEVICE_VENDOR", "version": "CL_DEVICE_VERSION",
                             "driver": "CL_DRIVER_VERSION"}.items():
            assert row[ours] == device[theirs]
        extensions = device["CL_DEVICE_EXTENSIONS"].split()
        assert row["fp64"] == ("cl_khr_fp64" in extensions) and row["fp16"] == ("cl_khr_fp16" in extensions)
        assert row["sub_groups"] == bool({"cl_khr_subgroups", "cl_intel_subgroups"} & set(extensions))
        assert row["class"] in ("cpu", "gpu") and row["usable"] and row["reason"] is None


def test_texts_without_the_blanks_that_drivers_put_round_them():
    """Rusticl's version, for one, ends in a blank."""
    found = json.loads(succeed("devices", "--json", env={"RUSTICL_ENABLE": "llvmpipe"}).stdout)["devices"]
    for row in found:
        for name in ["name", "vendor", "version", "driver", "platform"]:
            assert row.get(name) is None or row[name] == row[name].strip() != "", (name, row)


def test_clinfo_list_has_the_same_indices(rows):
    text = subprocess.run(["clinfo", "-l"], stdout=subprocess.PIPE, text=True, check=True).stdout
    indices, platform = [], None
    for line in text.splitlines():
        if found := re.match(r"Platform #(\d+)", line):
            platform = found[1]
        elif found := re.search(r"Device #(\d+)", line):
            indices.append(f"{platform}:{found[1]}")
    assert [row["index"] for row in rows if row["index"]] == indices


def test_table(rows):
    result = succeed("devices")
    assert result.stderr == ""
    lines = result.stdout.splitlines()
    heading = lines[0]
    for name in ["index", "name", "platform", "type", "class", "compute units", "global", "largest allocation", "local",
                 "fp64", "fp16", "sub-groups", "driver"]:
        assert name in heading
    assert len(lines) == 1 + len(rows)
    for line, row in zip(lines[1:], rows):
        assert line.startswith("*") == row["selected"]
        platform_at = heading.index("platform")
        assert line[platform_at:].startswith(row["platform"])
        if row["index"]:
            assert line[heading.index("index"):].startswith(row["index"]) and line.endswith(row["driver"])
            assert line[heading.index("compute units"):].split()[0] == str(row["compute_units"])
            assert line[heading.index("fp64"):].split()[0] == ("yes" if row["fp64"] else "no")
        else:
            assert line.endswith(row["reason"]) and row["reason"]


def test_one_is_marked(rows):
    marked = [row for row in rows if row["selected"]]
    assert len(marked) == 1 and marked[0]["usable"]
    if not os.environ.get("CLATTN_DEVICE"):
        usable = [row for row in rows if row["usable"]]
        first = [row for kind in ("GPU", "accelerator", "CPU") for row in usable if row["type"] == kind][0]
        assert marked == [first]


def test_the_selector_moves_the_mark(rows):
    for row in rows:
        if row["usable"]:
            for selector in [row["index"], row["name"].upper(), row["platform"][1:].lower()]:
                chosen = json.loads(succeed("--device", selector, "devices", "--json").stdout)["devices"]
                first = next(r for r in chosen if r["selected"])
                assert row["index"] == first["index"] if selector == row["index"] else first["usable"]


def test_only_platforms_without_devices():
    """Rows with reasons and no mark; running something is a failure of the system."""
    vendors = "/etc/OpenCL/vendors/rusticl.icd"
    if not os.path.exists(vendors):
        pytest.skip("Mesa's rusticl is not installed")
    env = {"OCL_ICD_VENDORS": vendors, "RUSTICL_ENABLE": "", "CLATTN_DEVICE": ""}
    result = run("devices", "--json", env=env)
    if "no OpenCL platform" in result.stderr:
        pytest.skip("the loader does not take a single ICD file")
    assert result.returncode == 0
    found = json.loads(result.stdout)["devices"]
    assert found and not any(row["usable"] or row["selected"] for row in found) and all(row["reason"] for row in found)


def test_no_platform_at_all():
    result = run("devices", env={"OCL_ICD_VENDORS": "/nonexistent"})
    assert result.returncode == 1 and result.stdout == ""
    assert len(result.stderr.splitlines()) == 1 and "install" in result.stderr
