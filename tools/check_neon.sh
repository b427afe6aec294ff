#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds core, kernels and the kernel tests for AArch64 and runs them under qemu-user: NEON against the scalar path.
# Needs g++-aarch64-linux-gnu, qemu-user, googletest, libhwy-dev. Usage: tools/check_neon.sh [build folder] [test ...]
set -eu
source_folder=$(cd "$(dirname "$0")/.." && pwd)
build=${1:-$source_folder/build-neon}
[ $# -gt 0 ] && shift
compiler=${WEFT_NEON_CXX:-aarch64-linux-gnu-g++}
emulator=${WEFT_NEON_RUNNER:-qemu-aarch64}
jobs=${WEFT_JOBS:-$(nproc)}
gtest=/usr/src/googletest/googletest
command -v ccache > /dev/null && compiler="ccache $compiler"
mkdir -p "$build/include" "$build/objects"
# Highway is headers alone here; a link of its own keeps the host's other headers out of the cross build.
ln -sfn /usr/include/hwy "$build/include/hwy"
flags="-std=c++20 -O2 -DNDEBUG -ffp-contract=off -Wall -Wextra -Wno-unused-parameter -Wno-psabi
  -I$source_folder -I$build/include -isystem $gtest/include -I$gtest"

cd "$source_folder"
# Of core, what kernels use and what needs no library: the log and the state hash stay out.
core=$(ls core/*.cpp | grep -v -e core/log.cpp -e core/state_hash.cpp)
kernels=$(find kernels -name '*.cpp')
if [ $# -gt 0 ]; then tests=$(printf 'tests/kernels/%s_test.cpp\n' "$@"); else tests=$(ls tests/kernels/*_test.cpp); fi
shared=$(ls tests/kernels/*.cpp | grep -v _test.cpp)  # what tests share
{
  for file in $core $kernels $shared $tests; do echo "$file $(echo "$file" | tr / _)"; done
  echo "$gtest/src/gtest-all.cc gtest-all"
  echo "$gtest/src/gtest_main.cc gtest-main"
} > "$build/sources"
# Objects are made anew: ccache, where it is, knows which have not changed.
xargs -P "$jobs" -L 1 sh -c "exec $(echo $compiler $flags | sed 's/"/\\"/g') -c \"\$0\" -o \"$build/objects/\$1.o\"" < "$build/sources"
objects=$(for file in $core $kernels $shared; do echo "$build/objects/$(echo "$file" | tr / _).o"; done)
failed=0
for test in $tests; do
  name=$(basename "$test" _test.cpp)
  # Static, so that the emulator needs no libraries of the target.
  $compiler -static -pthread -Wl,--no-warnings "$build/objects/$(echo "$test" | tr / _).o" $objects \
    "$build/objects/gtest-all.o" "$build/objects/gtest-main.o" -o "$build/$name"
  if WEFT_TEST_RUNNER=$emulator "$emulator" "$build/$name" --gtest_brief=1; then
    echo "neon: $name passed"
  else
    echo "neon: $name FAILED"
    failed=1
  fi
done
exit $failed
