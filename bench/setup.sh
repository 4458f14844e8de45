#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# bench/setup.sh GROUP...: installs what is missing of the named groups of Debian or Ubuntu packages, as root or with sudo. Where
# there is no apt-get it says what is needed and goes on: what is missing then fails the build with its name.
set -euo pipefail

packages_of() {
  case $1 in
    build) echo gcc libc6-dev make cmake pkg-config ocl-icd-opencl-dev libclblast-dev libjansson-dev ;;
    device) echo pocl-opencl-icd clinfo ;;
    test) echo libcriterion-dev mesa-opencl-icd oclgrind python3-venv valgrind locales clang libclang-rt-dev ;;
    lint) echo clang clang-format clang-tidy cppcheck ;;
    *) echo "setup.sh: unknown group '$1' (build, device, test, lint)" >&2; return 2 ;;
  esac
}

wanted=()
for group in "$@"; do
  list=$(packages_of "$group")
  read -ra names <<<"$list"
  wanted+=("${names[@]}")
done

if ! command -v apt-get >/dev/null; then
  echo "No apt-get here. Needed, by their Debian names: ${wanted[*]}; the README has those of other systems."
  exit 0
fi

missing=()
for package in "${wanted[@]}"; do
  state=$(dpkg-query -W -f '${db:Status-Abbrev}' "$package" 2>/dev/null || true)
  [[ $state == ii* ]] || missing+=("$package")
done
((${#missing[@]})) || exit 0

as_root=()
if ((EUID != 0)); then
  command -v sudo >/dev/null || { echo "setup.sh: missing ${missing[*]}: run as root, or install sudo" >&2; exit 1; }
  as_root=(sudo)
fi

echo "Installing: ${missing[*]}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
install() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}"
}
# The lists may be absent or too old to name files that still exist: then they are fetched.
if ! install >"$log" 2>&1 && ! { "${as_root[@]}" apt-get update -q && install; } >"$log" 2>&1; then
  tail -n 20 "$log" >&2
  echo "setup.sh: apt-get failed to install ${missing[*]}" >&2
  exit 1
fi
