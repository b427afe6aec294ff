#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Whole meshes on AArch64 under qemu-user: builds the conformance program there, runs it and this machine's, and compares
# state hashes. First the rows that other languages replay: every layer in every numeric type, ticking and learning by
# both schedules; those of this machine are replayed there through the C ABI too. Then, where WEFT_NEON_ROWS=1 does not say
# that they are all, the conformance tests: rules, late targets, threads, sessions (of both machines the same part; all
# with WEFT_TEST_FULL=1). Fetches Debian's arm64 libraries into the build folder and installs none. Needs
# g++-aarch64-linux-gnu, qemu-user (tools/setup.sh neon) and this machine's program, which WEFT_CONFORMANCE_HERE names
# (build/release/bin/conformance_tests).
# Usage: tools/check_neon_mesh.sh [build folder] [layer ...]
set -eu
source_folder=$(cd "$(dirname "$0")/.." && pwd)
build=${1:-$source_folder/build-neon}
[ $# -gt 0 ] && shift
here=${WEFT_CONFORMANCE_HERE:-$source_folder/build/release/bin/conformance_tests}
[ -x "$here" ] || { echo "check_neon_mesh: no program $here (tools/test.sh builds it)" >&2; exit 2; }
mkdir -p "$build"
build=$(cd "$build" && pwd)
layers=${*:-$(sed -n 's/^WEFT_LAYER(\([a-z0-9_]*\),.*/\1/p' "$source_folder/mesh/layers/layers.def")}
. "$source_folder/tools/arm64_sysroot.sh"

build_there conformance_tests capi_tests
rm -f "$build"/*.hashes "$build"/*.rows
failed=
there() {
  qemu-aarch64 -L /usr/aarch64-linux-gnu -E LD_LIBRARY_PATH="$libraries" "$build/neon/bin/$1" "${@:2}"
}
# same KIND: what this machine wrote against what AArch64 did.
same() {
  cmp -s "$build/host.$1" "$build/neon.$1" && [ -s "$build/neon.$1" ] && return
  diff "$build/host.$1" "$build/neon.$1" | grep -o '^[<>].\{0,60\}\|"hash":"[^"]*"\|"name":"[^"]*"' | head -20 || true
  failed="$failed $1"
}

# each KIND STEP: STEP LAYER FOLDER for every layer, as many at once as there are cores; what it writes to FOLDER/host.KIND
# and FOLDER/neon.KIND is joined in the layers' order.
each() {
  local layer running=0
  for layer in $layers; do
    mkdir -p "$build/layers/$layer"
    rm -f "$build/layers/$layer"/*
    if [ $((running += 1)) -gt "$(nproc)" ]; then wait -n || true; fi
    (
      export WEFT_CONFORMANCE_LAYER=$layer
      "$2" "$build/layers/$layer" || echo "$layer" > "$build/layers/$layer/failed"
      echo "$layer: $(wc -l < "$build/layers/$layer/neon.$1") $1"
    ) &
  done
  wait
  for layer in $layers; do
    cat "$build/layers/$layer/host.$1" >> "$build/host.$1" || true
    cat "$build/layers/$layer/neon.$1" >> "$build/neon.$1" || true
    if [ -e "$build/layers/$layer/failed" ]; then failed="$failed $layer" && tail -n 20 "$build/layers/$layer"/*.log; fi
  done
}

write_rows() {
  local rows=--gtest_filter=Conformance.WritesRowsForOtherLanguages
  WEFT_CONFORMANCE_ROWS=$1/host.rows "$here" $rows > "$1/host.log" &&
    WEFT_CONFORMANCE_ROWS=$1/neon.rows there conformance_tests $rows > "$1/neon.log"
}
each rows write_rows
same rows
[ -n "$failed" ] || echo "neon: $(echo "$layers" | wc -w) layers," \
  "$(sed 's/.*"name":"[a-z0-9_]* [0-9]* \([a-z0-9_]*\).*/\1/' "$build/neon.rows" | sort -u | wc -l) types," \
  "$(wc -l < "$build/neon.rows") rows, each with the state hash of this machine"

told=$(WEFT_CONFORMANCE_ROWS=$build/host.rows there capi_tests --gtest_filter=CConformance.*) || failed="$failed C"
echo "neon: through C: $(echo "$told" | grep -o '[0-9]* rows, [0-9]* mismatches' || echo none)"

if [ "${WEFT_NEON_ROWS:-0}" != 1 ]; then
  run_tests() {
    WEFT_CONFORMANCE_HASHES=$1/host.hashes "$here" --gtest_filter=-*Gpu* > "$1/host.log" &&
      WEFT_CONFORMANCE_HASHES=$1/neon.hashes there conformance_tests --gtest_filter=-*Gpu* > "$1/neon.log"
  }
  each hashes run_tests
  same hashes
  [ -n "$failed" ] || echo "neon: $(wc -l < "$build/neon.hashes") state hashes of conformance tests as on this machine"
fi
[ -z "$failed" ] || { echo "FAILED:$failed"; exit 1; }
