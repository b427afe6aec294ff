# SPDX-License-Identifier: Apache-2.0
# Sourced by tools/check_neon_*.sh with `build` set: Debian's arm64 libraries below $build/sysroot, none of them
# installed, and $build/toolchain.cmake. Sets sysroot and libraries, and build_there TARGET..., which builds for it in
# $build/neon; scripts that are given one build folder share what is built.
sysroot=$build/sysroot
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
      libgtest-dev libhwy1 libhwy-dev nlohmann-json3-dev libicu72 libicu-dev libcli11-dev prometheus-cpp-dev \
      libprometheus-cpp-core1.0
    for package in *.deb; do dpkg -x "$package" "$sysroot"; done
  )
  ln -s /usr/include/boost "$sysroot/usr/include/boost"  # headers alone, the same for every machine
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
set(CMAKE_SHARED_LINKER_FLAGS_INIT "-Wl,-rpath-link,$libraries")
set(CMAKE_CROSSCOMPILING_EMULATOR "qemu-aarch64;-L;/usr/aarch64-linux-gnu;-E;LD_LIBRARY_PATH=$libraries")
END

build_there() {
  PKG_CONFIG_LIBDIR=$sysroot/usr/lib/aarch64-linux-gnu/pkgconfig:$sysroot/usr/share/pkgconfig \
    PKG_CONFIG_SYSROOT_DIR=$sysroot \
    cmake -S "$source_folder" -B "$build/neon" -G Ninja -DCMAKE_TOOLCHAIN_FILE="$build/toolchain.cmake" \
    -DCMAKE_BUILD_TYPE=Release "-DCMAKE_CXX_FLAGS_RELEASE=-O2 -DNDEBUG" -DWEFT_BENCH=OFF -DWEFT_EXAMPLES=OFF \
    -DWEFT_GPU=OFF -DWEFT_PRECOMPILE=all -DWEFT_UNITY=ON > "$build/neon-cmake.log" &&
    cmake --build "$build/neon" --target "$@"
}
