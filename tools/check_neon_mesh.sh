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
rm -f "$build"/*.hashes "$build"/*.rows "$build"/*.log
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

rows=--gtest_filter=Conformance.WritesRowsForOtherLanguages
for layer in $layers; do
  export WEFT_CONFORMANCE_LAYER=$layer
  WEFT_CONFORMANCE_ROWS=$build/host.rows "$here" $rows >> "$build/host.log" || failed="$failed $layer(host)"
  WEFT_CONFORMANCE_ROWS=$build/neon.rows there conformance_tests $rows >> "$build/neon.log" ||
    failed="$failed $layer(neon)"
  echo "$layer: $(wc -l < "$build/neon.rows") rows so far"
done
same rows
[ -n "$failed" ] || echo "neon: $(echo "$layers" | wc -w) layers," \
  "$(sed 's/.*"name":"[a-z0-9_]* [0-9]* \([a-z0-9_]*\).*/\1/' "$build/neon.rows" | sort -u | wc -l) types," \
  "$(wc -l < "$build/neon.rows") rows, each with the state hash of this machine"

told=$(WEFT_CONFORMANCE_ROWS=$build/host.rows there capi_tests --gtest_filter=CConformance.*) || failed="$failed C"
echo "neon: through C: $(echo "$told" | grep -o '[0-9]* rows, [0-9]* mismatches' || echo none)"

if [ "${WEFT_NEON_ROWS:-0}" != 1 ]; then
  for layer in $layers; do
    export WEFT_CONFORMANCE_LAYER=$layer
    WEFT_CONFORMANCE_HASHES=$build/host.hashes "$here" --gtest_filter=-*Gpu* > "$build/host.log" ||
      failed="$failed $layer(host)"
    WEFT_CONFORMANCE_HASHES=$build/neon.hashes there conformance_tests --gtest_filter=-*Gpu* > "$build/neon.log" ||
      failed="$failed $layer(neon)"
    echo "$layer: $(wc -l < "$build/neon.hashes") hashes so far"
  done
  same hashes
  [ -n "$failed" ] || echo "neon: $(wc -l < "$build/neon.hashes") state hashes of conformance tests as on this machine"
fi
[ -z "$failed" ] || { echo "FAILED:$failed"; exit 1; }
