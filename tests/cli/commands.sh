#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# commands.sh host|device FOLDER WRAPPER PROGRAM: runs commands of the program in FOLDER, which is made anew, under WRAPPER (a
# command with its options, "" for none), and fails at the first one whose exit status is not the expected one.
#   host      what needs no compiled kernel: devices, parameters, plans, calls without a query, files and options that are refused
#   device    whole calls on the MiniLM layer
set -euo pipefail

part=$1 folder=$2 program=$4
read -ra wrapper <<<"$3"
data=$(cd "$(dirname "${BASH_SOURCE[0]}")/../data" && pwd)
rm -rf "$folder"
mkdir -p "$folder"
cd "$folder"
trap 'rm -rf "$folder"' EXIT

expect() { # STATUS ARGUMENTS...
  local wanted=$1 status=0; shift
  "${wrapper[@]}" "$program" "$@" >stdout 2>stderr || status=$?
  ((status == wanted)) || { echo "status $status, not $wanted: clattn $*"; cat stdout stderr; exit 1; }
}

array() { # NAME DESCR ITEM_BYTES EXTENT...: an .npy file of zeros
  local name=$1 descr=$2 bytes=$3; shift 3
  local shape='' extent
  for extent; do shape+="$extent, "; bytes=$((bytes * extent)); done
  { printf '\223NUMPY\001\000\166\000%-117s\n' "{'descr': '$descr', 'fortran_order': False, 'shape': ($shape)}"
    head -c "$bytes" /dev/zero; } >"$name.npy"
}

layer=(--params "$data/minilm/minilm_layer0.safetensors" --prefix encoder.layer.0.attention. --heads 12)

run_host() {
  expect 0 --version
  expect 0 mha --help
  expect 0 devices
  expect 0 devices --json
  expect 2
  expect 2 sdpa --no-such-option
  expect 2 --device no-such-device devices --json
  local naming file
  for naming in torch bert llama wq; do
    expect 0 init --embed 16 --heads 4 --seed 7 --naming "$naming" --out "$naming.safetensors"
  done
  expect 0 init --embed 16 --heads 4 --kv-heads 2 --no-bias --kdim 5 --naming llama --gain-qk 0.5 --out grouped.safetensors
  array q '<f4' 4 2 4 0 8
  array k '<f2' 2 2 2 3 8
  array x '<f8' 8 1 0 16
  array keys '|b1' 1 2 3
  array lengths '<i8' 8 2
  expect 0 sdpa --q q.npy --k k.npy --v k.npy --out y.npy --weights-out w.npy --key-block keys.npy --kv-lengths lengths.npy \
    --causal bottom-right --json --explain
  expect 0 mha --params torch.safetensors --heads 4 --query x.npy --out y.npy --weights-out w.npy --average-weights --explain
  expect 2 mha --params grouped.safetensors --heads 4 --kv-heads 2 --query x.npy --key x.npy --value x.npy --out y.npy
  expect 2 sdpa --q q.npy --k keys.npy --v k.npy --out y.npy
  expect 2 sdpa --q q.npy --k k.npy --v k.npy --out no/such/folder/y.npy
  expect 2 mha "${layer[@]}" --heads 5 --query "$data/minilm/hidden.npy" --out y.npy
  expect 2 mha --params "${layer[1]}" --heads 12 --query "$data/minilm/hidden.npy" --out y.npy
  for file in "$data"/fuzz/npy/bad_[a-e]*; do expect 2 sdpa --q "$file" --k k.npy --v k.npy --out y.npy; done
  for file in "$data"/fuzz/safetensors/bad_[a-e]*; do expect 2 mha --params "$file" --heads 4 --query x.npy --out y.npy; done
}

run_device() {
  local hidden=$data/minilm/hidden.npy
  expect 0 mha "${layer[@]}" --query "$hidden" --out y.npy --weights-out w.npy --json --repeat 2
  expect 0 mha "${layer[@]}" --query "$hidden" --out y.npy --key-keep "$data/minilm/key_keep.npy" --causal top-left --explain
  expect 0 mha "${layer[@]}" --query "$hidden" --out y.npy --dropout 0.1 --seed 5 --weights-out w.npy --average-weights
}

"run_$part"
