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
sysroot=$build/sysroot
layers=${*:-$(sed -n 's/^WEFT_LAYER(\([a-z0-9_]*\),.*/\1/p' "$source_folder/mesh/layers/layers.def")}
libraries=$sysroot/usr/lib/aarch64-linux-gnu:$sysroot/lib/aarch64-linux-gnu

if [ ! -e "$sysroot/complete" ]; then
  mkdir -p "$build"/apt/{lists,cache/archives}/partial "$build/apt/debs" "$sysroot"
  touch "$build/apt/status"
  cat > "$build/apt/apt.conf" <<END
APT::Architecture "arm64";
APT::Architectures { "arm64"; };
Dir::State "$build/apt";
Dir::State::lists "$build/apt/lists";
Dir::State::status "$build/apt/status";
Dir::Cache "$build/apt/cache";
Acquire::Languages "none";
END
  (
    cd "$build/apt/debs"
    export APT_CONFIG=$build/apt/apt.conf
    apt-get -qq update
    apt-get -qq download libtbb12 libtbb-dev libtbbmalloc2 libtbbbind-2-5 libhwloc15 libhwloc-dev libxxhash0 \
      libxxhash-dev libspdlog1.10 libspdlog-dev libfmt9 libfmt-dev zlib1g zlib1g-dev libzstd1 libzstd-dev libudev1 \
      libgtest-dev libhwy1 libhwy-dev nlohmann-json3-dev
    for package in *.deb; do dpkg -x "$package" "$sysroot"; done
  )
  touch "$sysroot/complete"
fi

cat > "$build/toolchain.cmake" <<END
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_FIND_ROOT_PATH $sysroot)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_CXX_FLAGS_INIT "-isystem $sysroot/usr/include/aarch64-linux-gnu")
set(CMAKE_EXE_LINKER_FLAGS_INIT "-Wl,-rpath-link,$libraries")
set(CMAKE_CROSSCOMPILING_EMULATOR "qemu-aarch64;-L;/usr/aarch64-linux-gnu")
END
mapfile -t targets < <(for layer in $layers; do echo "conformance_$layer"; done)
PKG_CONFIG_LIBDIR=$sysroot/usr/lib/aarch64-linux-gnu/pkgconfig PKG_CONFIG_SYSROOT_DIR=$sysroot \
  cmake -S "$source_folder" -B "$build/neon" -G Ninja -DCMAKE_BUILD_TYPE=Release -DWEFT_BENCH=OFF -DWEFT_CLI=OFF \
  -DCMAKE_TOOLCHAIN_FILE="$build/toolchain.cmake" > "$build/neon-cmake.log"
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
