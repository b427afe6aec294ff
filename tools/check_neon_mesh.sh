#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Whole meshes on AArch64 under qemu-user: builds the conformance program there, runs it and this machine's, and compares
# the state hash of every layer, numeric type and rule that they write (of both the same part; all with
# WEFT_TEST_FULL=1). Fetches Debian's arm64 libraries into the build folder and installs none. Needs
# g++-aarch64-linux-gnu, qemu-user (tools/setup.sh neon) and this machine's program, which WEFT_CONFORMANCE_HERE names
# (build/release/bin/conformance_tests). Usage: tools/check_neon_mesh.sh [build folder] [layer ...]
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

build_there conformance_tests
rm -f "$build"/*.hashes
failed=
for layer in $layers; do
  export WEFT_CONFORMANCE_LAYER=$layer
  WEFT_CONFORMANCE_HASHES=$build/host.hashes "$here" --gtest_filter=-*Gpu* > "$build/host.log" ||
    failed="$failed $layer(host)"
  WEFT_CONFORMANCE_HASHES=$build/neon.hashes qemu-aarch64 -L /usr/aarch64-linux-gnu -E LD_LIBRARY_PATH="$libraries" \
    "$build/neon/bin/conformance_tests" --gtest_filter=-*Gpu* > "$build/neon.log" || failed="$failed $layer(neon)"
  echo "$layer: $(wc -l < "$build/neon.hashes") hashes so far"
done
if ! cmp "$build/host.hashes" "$build/neon.hashes"; then
  diff "$build/host.hashes" "$build/neon.hashes" | head -20
  failed="$failed hashes"
fi
[ -z "$failed" ] || { echo "FAILED:$failed"; exit 1; }
echo "neon: $(wc -l < "$build/neon.hashes") state hashes as on this machine"
