#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# tests/run.sh [--full] [--only STEP]... [--list]: installs what is missing, builds, runs everything and closes with one line
# `N passed, N failed`. Everything it makes is in build/check, logs included; it can be run again at any time. With --full the
# second devices run every test too, and what draws at random goes on for longer: up to an hour on two cores.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

all_steps=(packages build workitemrepl pocl rusticl sanitize intel oclgrind threads program valgrind property fuzz clang
  consumers tidy format cppcheck)
describe() {
  case $1 in
    packages) echo "install what is missing" ;;
    build) echo "compile with gcc, warnings as errors" ;;
    clang) echo "compile with clang, warnings as errors; the header as C99 and C++" ;;
    pocl) echo "all tests and examples on PoCL" ;;
    rusticl) echo "all tests on Mesa's rusticl (llvmpipe)" ;;
    workitemrepl) echo "a short set with PoCL's second work-group method" ;;
    intel) echo "a short set on Intel's CPU runtime, with its own compiler" ;;
    oclgrind) echo "a short set under Oclgrind: memory and data races in kernels" ;;
    sanitize) echo "all tests with AddressSanitizer and UndefinedBehaviorSanitizer" ;;
    threads) echo "random calls in several threads under ThreadSanitizer" ;;
    valgrind) echo "the command line under Valgrind" ;;
    property) echo "random calls against the reference, on PoCL and rusticl" ;;
    fuzz) echo "libFuzzer on files and options" ;;
    consumers) echo "use an installed tree: CMake and pkg-config, shared and static; sub-project" ;;
    program) echo "the command line, from Python" ;;
    format) echo "clang-format" ;;
    cppcheck) echo "cppcheck" ;;
    tidy) echo "clang-tidy" ;;
    *) return 1 ;;
  esac
}

root=$PWD
work=$root/build/check
jobs=$(nproc)
full=
steps=()
while (($#)); do
  case $1 in
    --list) for step in "${all_steps[@]}"; do printf '%-13s %s\n' "$step" "$(describe "$step")"; done; exit 0 ;;
    --full) full=1; shift ;;
    --only)
      describe "${2-}" >/dev/null || { echo "run.sh: unknown step '${2-}'; --list names them" >&2; exit 2; }
      steps+=("$2"); shift 2 ;;
    *) echo "usage: tests/run.sh [--full] [--only STEP]... [--list]" >&2; exit 2 ;;
  esac
done
((${#steps[@]})) || steps=("${all_steps[@]}")
mkdir -p "$work"

# Compiled kernels are cached by the drivers; in here, so that a second run is quick and the user's own caches stay as they are.
export XDG_CACHE_HOME=$work/cache
export POCL_CACHE_DIR=$work/cache/pocl MESA_SHADER_CACHE_DIR=$work/cache/mesa
mkdir -p "$POCL_CACHE_DIR" "$MESA_SHADER_CACHE_DIR"
# What is tested is this tree on PoCL, whatever the caller's shell chooses.
unset CLATTN_TEST_SET CLATTN_TEST_SMALL_PRODUCTS RUSTICL_ENABLE POCL_WORK_GROUP_METHOD OCL_ICD_VENDORS CLATTN_SELF_CHECK CLATTN_CACHE_DIR
export CLATTN_DEVICE=portable
# Where there is no locale with decimal commas to test with, one is made (by the step `packages`).
[[ ! -d $work/locale ]] || export LOCPATH=$work/locale

# ----------------------------------------------------------------------------------------------------------- counting

# Every step writes lines `passed failed skipped` into the file $counts.
count() { echo "$1 $2 ${3-0}" >>"$counts"; }

# expect LABEL COMMAND...: one test, which passes if the command does.
expect() {
  local label=$1; shift
  echo "== $label"
  if "$@"; then count 1 0; else echo "FAILED: $label (status $?): $*"; count 0 1; fi
}

# quick_or SECONDS SECONDS_WITH_FULL
quick_or() { if [[ -z $full ]]; then echo "$1"; else echo "$2"; fi; }

# The counts of a Criterion binary, from its TAP report. A binary that crashes, hangs or reports no failure for its bad exit
# status is itself one failed test. With a filter, Criterion reports what was filtered out as skipped without a reason; that is not counted.
criterion() { # BINARY LIMIT_SECONDS [FILTER] [WRAPPER...]
  local binary=$1 limit=$2 filter=${3-} name tap status=0
  shift; shift; shift || true
  name=$(basename "$binary")
  tap=$logs/$name.tap
  rm -f "$tap"
  echo "== $name"
  timeout -k 10 "$limit" "$@" "$binary" --jobs "$jobs" --color=never --tap="$tap" ${filter:+--filter "$filter"} ||
    status=$?
  local passed=0 failed=0 skipped=0
  if [[ -s $tap ]]; then
    read -r passed failed skipped < <(awk -v filtered="${filter:+1}" '
      /^ok /     { if (/# SKIP test was skipped/) { if (!filtered) s++ } else if (/# SKIP/) s++; else p++ }
      /^not ok / { f++ }
      END        { print p + 0, f + 0, s + 0 }' "$tap")
  fi
  if ((status != 0 && failed == 0)); then
    echo "FAILED: $name ended with status $status"
    failed=1
  fi
  count "$passed" "$failed" "$skipped"
}

suite() { # BUILD LIMIT_SECONDS [FILTER] [WRAPPER...]: every test of a build folder; not what is left there of older sources
  local build=$1 source; shift
  for source in tests/test_*.c; do
    # shellcheck disable=SC2053 # a pattern
    [[ -n ${without-} && $source == $without ]] || criterion "$build/tests/$(basename "$source" .c)" "$@"
  done
}

# -------------------------------------------------------------------------------------------------------------- steps

built() { # FOLDER TARGET OPTIONS...: configured and built; steps that run at the same time take turns here
  local folder=$1 target=$2; shift 2
  {
    flock 9
    cmake -S "$root" -B "$work/$folder" -DCLATTN_WERROR=ON "$@"
    cmake --build "$work/$folder" -j "$jobs" --target "$target"
  } 9>"$work/$folder.lock"
}

build_gcc() { built gcc all -DCMAKE_C_COMPILER=gcc -DCMAKE_BUILD_TYPE=Release -DCLATTN_BUILD_TESTS=ON -DCLATTN_BUILD_BENCH=ON; }

step_packages() {
  ./bench/setup.sh build device test lint
  if [[ ! -d $work/locale ]]; then
    mkdir -p "$work/locale.part"
    localedef -i de_DE -f UTF-8 "$work/locale.part/de_DE.UTF-8" || (($? == 1)) # 1: warnings
    mv "$work/locale.part" "$work/locale"
  fi
}

# python_with FOLDER PACKAGE...: a virtual environment with exactly these packages
python_with() {
  local folder=$1; shift
  [[ $(cat "$folder/wanted" 2>/dev/null) != "$*" ]] || return 0
  python3 -m venv --clear "$folder"
  "$folder/bin/python" -m pip install -q --disable-pip-version-check "$@"
  echo "$*" >"$folder/wanted"
}

step_build() { build_gcc; }

# Unoptimised: it is the warnings that are wanted.
build_clang() {
  built clang all -DCMAKE_C_COMPILER=clang -DCMAKE_BUILD_TYPE=Debug -DCLATTN_BUILD_TESTS=ON -DCLATTN_BUILD_BENCH=ON \
    -DCMAKE_EXPORT_COMPILE_COMMANDS=ON
}

step_clang() {
  build_clang
  local header=include/clattn/clattn.h warnings=(-Wall -Wextra -Wpedantic -Werror -fsyntax-only)
  expect "the header is C99" clang -x c -std=c99 "${warnings[@]}" "$header"
  expect "the header is C++11" clang -x c++ -std=c++11 "${warnings[@]}" "$header"
}

step_pocl() {
  build_gcc
  suite "$work/gcc" 300
  local source name
  for source in tests/examples/*.c; do
    name=example_$(basename "$source" .c)
    expect "$name" timeout 60 "$work/gcc/examples/$name"
  done
  expect "the README's program is the example" diff <(sed -n '/^```c$/,/^```$/{/^```/d;p}' README.md) \
    <(sed -n '/^#include/,$p' tests/examples/minimal.c)
}

# Sizes are the small ones: llvmpipe is slow, and it is the other compiler that is wanted.
step_rusticl() {
  if ! compgen -G '/etc/OpenCL/vendors/rusticl*.icd' >/dev/null; then
    echo "This system's Mesa has no rusticl (it came with Mesa 22.3)."
    count 0 0 1
    return
  fi
  build_gcc
  export RUSTICL_ENABLE=llvmpipe CLATTN_DEVICE=llvmpipe CLATTN_TEST_SET=small
  # Faults are injected below the host's code, which is the same on every device: PoCL and the sanitizers have them.
  local without='tests/test_faults*'
  suite "$work/gcc" 300
}

# Its compiler is slow: the whole suite takes twenty minutes of two cores.
step_intel() {
  if [[ $(uname -m) != x86_64 ]]; then
    echo "Intel's CPU runtime is for x86-64 only; this is $(uname -m)."
    count 0 0 1
    return
  fi
  build_gcc
  python_with "$work/intel" intel-opencl-rt intel-cmplr-lib-rt
  rm -f "$work"/intel/lib/libOpenCL.so* # the system's loader is the one to use
  echo "$work/intel/lib/libintelocl.so" >"$work/intel/intel.icd"
  export OCL_ICD_VENDORS=$work/intel/intel.icd LD_LIBRARY_PATH=$work/intel/lib CLATTN_TEST_SET=small
  unset CLATTN_DEVICE
  expect "it is the device in use" grep -q 'Intel(R) OpenCL' <("$work/gcc/clattn" devices 2>&1)
  if [[ -n $full ]]; then
    suite "$work/gcc" 900
  else
    CLATTN_SELF_CHECK=off suite "$work/gcc" 300 "$short_tests"
  fi
}

# Tests named short_... together run every kernel. PoCL's second method copies a kernel's body for every work-item of a group and
# would take minutes for each of CLBlast's usual products.
short_tests='*/short_*'
oclgrind_tests='@(*/short_*|sdpa/@(layouts|packed_qkv|empty_extents|huge_logits)|weights/layouts|softmax/wide_scores'
oclgrind_tests+='|masks/@(rows_*|layouts_*|infinite_*|one_buffer_*)|mha/@(self_cross_*|types|rows_*|empty_*))'

step_workitemrepl() {
  build_gcc
  # The kernel cache does not tell the two methods apart.
  export CLATTN_SELF_CHECK=off CLATTN_TEST_SET=small CLATTN_TEST_SMALL_PRODUCTS=1
  export POCL_WORK_GROUP_METHOD=workitemrepl POCL_CACHE_DIR=$work/cache/pocl-workitemrepl
  mkdir -p "$POCL_CACHE_DIR"
  suite "$work/gcc" 900 "$short_tests"
}

# Lines by which Oclgrind tells of a fault; its exit status says nothing.
oclgrind_reports() { grep -nE '^\s*(Kernel: |Entity: )|[Dd]ata race|Invalid (read|write)|OCLGRIND|Oclgrind.*(error|warning)' "$1"; }

step_oclgrind() {
  build_gcc
  export CLATTN_SELF_CHECK=off CLATTN_TEST_SET=small
  unset CLATTN_DEVICE
  # First a kernel with a fault of each kind: a checker that does not see them proves nothing about the others.
  cat >"$work/faulty.cl" <<'CL'
kernel void faulty(global int *a, local int *shared) {
  shared[0] = (int)get_local_id(0);
  a[get_global_id(0) + 1] = shared[0];
}
CL
  printf 'faulty.cl\nfaulty\n4 1 1\n4 1 1\n<size=16 fill=0>\n<size=4>\n' >"$work/faulty.sim"
  (cd "$work" && oclgrind-kernel --data-races faulty.sim) >"$logs/faulty.txt" 2>&1 || true
  expect "Oclgrind sees a write past the end" grep -q 'Invalid write' "$logs/faulty.txt"
  expect "Oclgrind sees a data race" grep -q 'data race' "$logs/faulty.txt"
  expect "its reports are recognised" oclgrind_reports "$logs/faulty.txt"
  expect "it is the device in use" grep -qi oclgrind <(oclgrind "$work/gcc/clattn" devices 2>&1)

  suite "$work/gcc" 300 "$oclgrind_tests" oclgrind --data-races >"$logs/oclgrind.txt" 2>&1
  cat "$logs/oclgrind.txt"
  if oclgrind_reports "$logs/oclgrind.txt" >"$logs/reports.txt"; then
    echo "FAILED: Oclgrind reports:"; head -n 40 "$logs/reports.txt"; count 0 1
  fi
}

step_sanitize() {
  built sanitize all -DCMAKE_C_COMPILER=gcc -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS=-O1 -DCLATTN_BUILD_TESTS=ON \
    -DCLATTN_SANITIZE=address,undefined
  # Criterion runs each test in a process of its own and does not look at how it ended, so leaks are found by their reports.
  rm -f "$logs"/report.*
  # LLVM, in a driver, gives the thread that sets it up a signal stack of its own; AddressSanitizer would take it for its own.
  export ASAN_OPTIONS=use_sigaltstack=0:log_path=$logs/report UBSAN_OPTIONS=print_stacktrace=1
  export LSAN_OPTIONS=suppressions=$root/tests/support/lsan.supp:print_suppressions=0
  pocl_only
  suite "$work/sanitize" 300
  count_reports "a sanitizer"
}

# Other drivers leak while they are asked for devices, and from code that is unloaded when that is seen, so that no suppression can
# name it.
pocl_only() {
  local pocl=/etc/OpenCL/vendors/pocl.icd
  [[ ! -f $pocl ]] || export OCL_ICD_VENDORS=$pocl
}

count_reports() { # WHO: each file $logs/report.* that is not empty is a failed test
  local report
  for report in "$logs"/report.*; do
    [[ -s $report ]] || continue
    echo "FAILED: $1 reports:"; head -n 30 "$report"; count 0 1
  done
}

# PoCL and CLBlast are not built with ThreadSanitizer, so what happens inside them is not looked at; all of clattn is. Criterion's
# memory does not fit into the address space that ThreadSanitizer leaves, so it is the random calls that run: contexts made and used
# in several threads at once, and one context used by one thread after the other. They run on rusticl: PoCL 3.1 enters a kernel into
# its cache twice if two threads use it for the first time at once, and aborts when both are done (pocl_release_dlhandle_cache).
step_threads() {
  built threads property -DCMAKE_C_COMPILER=clang -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS=-O1 -DCLATTN_BUILD_TESTS=ON \
    -DCLATTN_SANITIZE=thread
  rm -f "$logs"/report.*
  export TSAN_OPTIONS="ignore_noninstrumented_modules=1 log_path=$logs/report second_deadlock_stack=1" CLATTN_TEST_SET=small
  local rusticl
  rusticl=$(compgen -G '/etc/OpenCL/vendors/rusticl*.icd') || { count 0 0 1; return; }
  export OCL_ICD_VENDORS=$rusticl RUSTICL_ENABLE=llvmpipe CLATTN_DEVICE=llvmpipe
  expect "random calls in two threads" timeout 300 \
    "$work/threads/fuzz/property" --small --seed "$RANDOM" --threads 2 --seconds "$(quick_or 20 120)"
  count_reports "ThreadSanitizer"
}

# Every command, as far as it goes without compiling kernels: PoCL's compiler takes many minutes for that under Valgrind, so that
# whole calls are for --full.
step_valgrind() {
  build_gcc
  pocl_only
  rm -f "$logs"/report.*
  local wrapper="valgrind -q --error-exitcode=9 --leak-check=full --show-leak-kinds=definite --errors-for-leak-kinds=definite"
  wrapper+=" --suppressions=$root/tests/support/valgrind.supp --log-file=$logs/report.%p"
  local part
  for part in $(quick_or "host" "host device"); do
    expect "commands under Valgrind: $part" env CLATTN_SELF_CHECK=off \
      tests/cli/commands.sh "$part" "$work/valgrind" "$wrapper" "$work/gcc/clattn"
  done
  count_reports "Valgrind"
}

step_property() {
  build_gcc
  local seconds seed
  seconds=$(quick_or 40 300) seed=$(date +%s)
  expect "random calls on PoCL" timeout $((seconds + 320)) "$work/gcc/fuzz/property" --seed "$seed" --seconds "$seconds"
  if compgen -G '/etc/OpenCL/vendors/rusticl*.icd' >/dev/null; then
    export RUSTICL_ENABLE=llvmpipe CLATTN_DEVICE=llvmpipe
    expect "random calls on rusticl" timeout $((seconds + 320)) \
      "$work/gcc/fuzz/property" --small --seed "$seed" --seconds "$seconds"
  fi
}

# What a run finds is kept in build/check/fuzz; what it learns is not added to the corpus by itself.
step_fuzz() {
  built fuzz fuzzers -DCMAKE_C_COMPILER=clang -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS=-O1 -DCLATTN_BUILD_FUZZERS=ON
  local name
  mkdir -p "$work/fuzz/found"
  for name in npy safetensors parameters options; do
    mkdir -p "$work/fuzz/corpus/$name"
    expect "fuzz_$name" "$work/fuzz/fuzz/fuzz_$name" -max_total_time="$(quick_or 20 60)" -timeout=20 -rss_limit_mb=2048 \
      -print_final_stats=1 -verbosity=0 -artifact_prefix="$work/fuzz/found/$name-" \
      "$work/fuzz/corpus/$name" "tests/data/fuzz/$name"
  done
}

step_consumers() {
  build_gcc
  built static all -DCMAKE_C_COMPILER=gcc -DCMAKE_BUILD_TYPE=Debug -DBUILD_SHARED_LIBS=OFF
  rm -rf "$work/prefix" "$work/consumer"
  cmake --install "$work/gcc" --prefix "$work/prefix/shared"
  cmake --install "$work/static" --prefix "$work/prefix/static"
  mkdir -p "$work/consumer"
  local kind folder prefix
  for kind in shared static; do
    prefix=$work/prefix/$kind folder=$work/consumer/$kind
    expect "the installed program, $kind" "$prefix/bin/clattn" --version
    expect "find_package, $kind: build" with_cmake "$folder" "-DCMAKE_PREFIX_PATH=$prefix"
    expect "find_package, $kind: run" "$folder/consumer"
    expect "pkg-config, $kind: build" env PKG_CONFIG_PATH="$prefix/lib/pkgconfig" \
      make -C tests/consumer OUT="$folder/pkg" CC=gcc CFLAGS="-Wl,-rpath,$prefix/lib"
    expect "pkg-config, $kind: run" "$folder/pkg"
  done
  # As a sub-project, with an OpenCL that is not the system's: the same loader in a folder of its own.
  local own=$work/consumer/opencl
  mkdir -p "$own"
  cp -L "$(gcc -print-file-name=libOpenCL.so)" "$own/libOpenCL.so"
  ln -sfn "$(dirname "$(path_of_header CL/cl.h)")" "$own/CL"
  expect "sub-project, own OpenCL: build" with_cmake "$work/consumer/sub" "-DCLATTN_SOURCE=$root" -DBUILD_SHARED_LIBS=OFF \
    "-DOpenCL_INCLUDE_DIR=$own" "-DOpenCL_LIBRARY=$own/libOpenCL.so"
  expect "sub-project, own OpenCL: run" "$work/consumer/sub/consumer"
  expect "exported symbols are the header's" exported_symbols "$work/prefix/shared/lib/libclattn.so"
}

with_cmake() { # FOLDER OPTIONS...: the consumer, built with CMake
  local folder=$1; shift
  cmake -S tests/consumer -B "$folder" -DCMAKE_C_COMPILER=gcc "$@" && cmake --build "$folder" -j "$jobs"
}

path_of_header() { echo "#include <$1>" | gcc -E -x c - | sed -n "s#^\# 1 \"\(.*/$1\)\".*#\1#p" | head -n 1; }

exported_symbols() { # LIBRARY
  diff <(nm -D --defined-only "$1" | awk '{ print $3 }' | sort) \
    <(grep -A1 '^CLATTN_API' include/clattn/clattn.h | grep -v '^#' | grep -oE '\bclattn_[a-z0-9_]+\(' | tr -d '(' | sort -u)
}

step_program() {
  build_gcc
  local python=$work/venv/bin/python report=$logs/pytest.xml
  python_with "$work/venv" numpy safetensors pytest
  rm -f "$report"
  local status=0
  CLATTN=$work/gcc/clattn timeout 300 "$python" -m pytest -q -p no:cacheprovider --junitxml="$report" tests/cli || status=$?
  local tests=0 errors=0 failures=0 skipped=0
  if [[ -s $report ]]; then
    attribute() { grep -oE "<testsuite [^>]*" "$report" | grep -oE " $1=\"[0-9]+\"" | grep -oE '[0-9]+'; }
    tests=$(attribute tests) errors=$(attribute errors) failures=$(attribute failures) skipped=$(attribute skipped)
  fi
  local failed=$((errors + failures))
  ((status == 0 || failed > 0)) || failed=1
  count $((tests - errors - failures - skipped)) "$failed" "$skipped"
}

c_files() { find "$@" -name '*.[ch]' | sort; }

step_format() { c_files include src tests bench | xargs -r clang-format --dry-run -Werror; }

step_cppcheck() {
  c_files src bench | grep '\.c$' | xargs -r timeout 240 cppcheck --std=c11 --enable=warning,performance,portability \
    --inline-suppr --suppress=missingIncludeSystem --error-exitcode=1 --quiet -j "$jobs" -Iinclude -Isrc -Itests
}

step_tidy() {
  build_clang
  c_files src bench | grep '\.c$' |
    timeout 240 xargs -r -n 4 -P "$jobs" clang-tidy --quiet -p "$work/clang"
}

# ---------------------------------------------------------------------------------------------------------------- run

run_step() { # STEP: runs it, prints how it went, and leaves `passed failed skipped` in the file result of its logs
  local step=$1 started=$SECONDS status p f s verdict=ok note=''
  logs=$work/logs/$step counts=$logs/counts
  local log=$logs/log.txt
  rm -rf "$logs"
  mkdir -p "$logs"
  : >"$counts"
  # In a subshell of its own: as part of a condition, `set -e` would not hold in it.
  set +e
  (set -e; "step_$step") >"$log" 2>&1
  status=$?
  set -e
  read -r p f s < <(awk '{ p += $1; f += $2; s += $3 } END { print p + 0, f + 0, s + 0 }' "$counts")
  ((status == 0 || f > 0)) || f=1
  # A step of tests in which nothing ran has not shown anything.
  case $step in
    pocl | rusticl | intel | workitemrepl | oclgrind | sanitize | threads | consumers | program | valgrind | property | fuzz)
      ((p + f + s > 0)) || { echo "FAILED: no test was run" >>"$log"; f=1; } ;;
  esac
  ((f == 0)) || verdict=FAILED
  ((p + s == 0)) || note="$p passed, $f failed$( ((s == 0)) || echo ", $s skipped")"
  {
    printf '%-13s %-6s %4d s  %s\n' "$step" "$verdict" $((SECONDS - started)) "$note"
    ((f == 0)) || excerpt "$log"
  } >"$logs/report"
  cat "$logs/report"
  echo "$p $f $s" >"$logs/result"
}

excerpt() { # LOG: its failures and its end
  echo "--- ${1#"$root"/}: failures and end"
  grep -nE '^FAILED|\[FAIL\]|^FAILED |error:|Error:' "$1" | head -n 40 || true
  tail -n 25 "$1"
  echo "---"
}

workers=()
stop_workers() { for worker in "${workers[@]}"; do kill -- "-$worker" 2>/dev/null || true; done; }
trap stop_workers EXIT
trap 'exit 130' INT TERM

# Installing and compiling come first, and nothing can follow if they fail. Then two steps at a time: one has idle moments.
later=()
rm -f "$work"/logs/*/result
for step in "${steps[@]}"; do
  case $step in
    packages | build)
      run_step "$step"
      read -r _ f _ <"$work/logs/$step/result"
      ((f == 0)) || { steps=("$step"); later=(); break; } ;;
    *) later+=("$step") ;;
  esac
done
set -m # workers are process groups, so that an interrupt ends all that they started
for step in "${later[@]}"; do
  while (($(jobs -rp | wc -l) >= 2)); do wait -n || true; done
  run_step "$step" &
  workers+=("$!")
done
wait
workers=()

passed=0 failed=0 skipped=0
for step in "${steps[@]}"; do
  p=0 f=1 s=0
  [[ ! -f $work/logs/$step/result ]] || read -r p f s <"$work/logs/$step/result"
  passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
done
((passed + failed > 0 || ${#steps[@]} < ${#all_steps[@]})) || failed=1
echo "$passed passed, $failed failed$( ((skipped == 0)) || echo ", $skipped skipped")"
((failed == 0))
