#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The quick start: installs what is missing, builds, and runs the first attention layer of a real sentence encoder on the default
# device (CLATTN_DEVICE chooses another), comparing the answer with a reference.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

build=build
data=tests/data/minilm

quietly() { # a command whose output only matters if it fails
  "$@" >"$build/demo.log" 2>&1 || { tail -n 30 "$build/demo.log" >&2; exit 1; }
}

mkdir -p "$build"
./bench/setup.sh build device
[[ -f $build/Makefile ]] || echo "Building in $build/"
quietly cmake -S . -B "$build" -DCMAKE_BUILD_TYPE=Release -DCLATTN_BUILD_BENCH=ON
quietly cmake --build "$build" -j "$(nproc)"

"$build/clattn" devices
echo
"$build/clattn" mha --params "$data/minilm_layer0.safetensors" --prefix encoder.layer.0.attention. --heads 12 \
  --query "$data/hidden.npy" --key-keep "$data/key_keep.npy" \
  --out "$build/demo_out.npy" --weights-out "$build/demo_weights.npy" --repeat 10 --json >"$build/demo.json"
"$build/clattn_demo" "$data" "$build/demo_out.npy" "$build/demo_weights.npy" "$build/demo.json"
