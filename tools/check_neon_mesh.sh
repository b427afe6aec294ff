#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Whole meshes on AArch64 under qemu-user: builds the conformance programs there and on this machine, runs both, and
# compares the state hash of every layer, numeric type and rule that they write. Fetches Debian's arm64 libraries into
# the build folder and installs none. Needs g++-aarch64-linux-gnu, qemu-user, cmake, ninja-build.
# Usage: tools/check_neon_mesh.sh [build folder] [layer ...]
set -eu
source_folder=$(cd "$(dirname "$0")/.." && pwd)
build=${1:-$source_folder/build-neon-mesh}
[ $# -gt 0 ] && shift
mkdir -p "$build"
build=$(cd "$build" && pwd)
layers=${*:-$(sed -n 's/^WEFT_LAYER(\([a-z0-9_]*\),.*/\1/p' "$source_folder/mesh/layers/layers.def")}
. "$source_folder/tools/arm64_sysroot.sh"

mapfile -t targets < <(for layer in $layers; do echo "conformance_$layer"; done)
in_sysroot cmake -S "$source_folder" -B "$build/neon" -G Ninja -DCMAKE_BUILD_TYPE=Release -DWEFT_BENCH=OFF \
  -DWEFT_CLI=OFF > "$build/neon-cmake.log"
cmake --build "$build/neon" --target "${targets[@]}"
cmake -S "$source_folder" -B "$build/host" -G Ninja -DCMAKE_BUILD_TYPE=Release -DWEFT_BENCH=OFF -DWEFT_CLI=OFF \
  > "$build/host-cmake.log"
cmake --build "$build/host" --target "${targets[@]}"

rm -f "$build"/*.hashes
failed=
for layer in $layers; do
  WEFT_CONFORMANCE_HASHES=$build/host.hashes "$build/host/bin/conformance_$layer" > "$build/host.log" ||
    failed="$failed $layer(host)"
  WEFT_CONFORMANCE_HASHES=$build/neon.hashes qemu-aarch64 -L /usr/aarch64-linux-gnu -E LD_LIBRARY_PATH="$libraries" \
    "$build/neon/bin/conformance_$layer" > "$build/neon.log" || failed="$failed $layer(neon)"
  echo "$layer: $(wc -l < "$build/neon.hashes") hashes so far"
done
if ! cmp "$build/host.hashes" "$build/neon.hashes"; then
  diff "$build/host.hashes" "$build/neon.hashes" | head -20
  failed="$failed hashes"
fi
[ -z "$failed" ] || { echo "FAILED:$failed"; exit 1; }
echo "neon: $(wc -l < "$build/neon.hashes") state hashes as on this machine"
