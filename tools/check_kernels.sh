#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds core, kernels and the kernel tests for another machine and runs them under qemu-user: its instruction sets
# against the scalar path, and that against float64. Of a machine with several kinds of CPU, the first runs all tests and
# the others those that choose among instruction sets.
# Needs the cross compiler, qemu-user (tools/setup.sh neon), googletest, libhwy-dev.
# Usage: tools/check_kernels.sh aarch64|riscv64 [build folder] [test ...]
set -eu
source_folder=$(cd "$(dirname "$0")/.." && pwd)
machine=${1:-}
without=
case $machine in
  # CPU of qemu:widest instruction set that it has.
  aarch64) cpus="max:neon_dotprod cortex-a57:neon" ;;
  riscv64)
    cpus="rv64:scalar"
    # Tests whose values are flushed numbers, which RISC-V keeps (docs/numerics.md).
    without=Dequantize.RoundsOnceAndFlushesAtTheEndsOfTheRange:Dequantize.KeepsSubnormalsOfBfloat16AndRoundsFloat64
    without=$without:FormulaBits.*:LinearDequantized.TakesScalesAtTheEndsOfTheRange
    without=$without:Quantize.ScalarCodecsDoNotSeeTheFlushing
    without=$without:Math.StaysWithinTwoUlpOfTheCorrectlyRoundedValue:Math.HasTheDocumentedEdges:*EveryOperation*
    ;;
  *)
    echo "check_kernels: machine '$machine': expected aarch64 or riscv64" >&2
    exit 2
    ;;
esac
build=${2:-$source_folder/build-$machine}
shift $(($# < 2 ? $# : 2))
compiler=$machine-linux-gnu-g++
jobs=${WEFT_JOBS:-$(nproc)}
gtest=/usr/src/googletest/googletest
command -v ccache > /dev/null && compiler="ccache $compiler"
mkdir -p "$build/include" "$build/objects"
# Highway is headers alone here; a link of its own keeps the host's other headers out of the cross build.
ln -sfn /usr/include/hwy "$build/include/hwy"
flags="-std=c++20 -O2 -DNDEBUG -ffp-contract=off -Wall -Wextra -Wno-unused-parameter -Wno-psabi
  -DWEFT_SOURCE_DIR='\"$source_folder\"' -I$source_folder -I$build/include -isystem $gtest/include -I$gtest"

cd "$source_folder"
# Of core, what kernels use and what needs no library: the log and the state hash stay out.
core=$(ls core/*.cpp | grep -v -e core/log.cpp -e core/state_hash.cpp)
kernels=$(find kernels -name '*.cpp')
if [ $# -gt 0 ]; then tests=$(printf 'tests/kernels/%s_test.cpp\n' "$@"); else tests=$(ls tests/kernels/*_test.cpp); fi
shared="$(ls tests/kernels/*.cpp | grep -v _test.cpp) tests/support/source_path.cpp"  # what tests share
{
  for file in $core $kernels $shared $tests; do echo "$file $(echo "$file" | tr / _)"; done
  echo "$gtest/src/gtest-all.cc gtest-all"
  echo "$gtest/src/gtest_main.cc gtest-main"
} > "$build/sources"
# Objects are made anew: ccache, where it is, knows which have not changed.
xargs -P "$jobs" -L 1 sh -c "exec $(echo $compiler $flags) -c \"\$0\" -o \"$build/objects/\$1.o\"" < "$build/sources"
objects=$(for file in $core $kernels $shared; do echo "$build/objects/$(echo "$file" | tr / _).o"; done)
failed=0
# run CPU WIDEST NAME: a test's program on a CPU.
run() {
  emulator="qemu-$machine -cpu $1"
  if WEFT_TEST_BEST_ISA=$2 WEFT_TEST_RUNNER=$emulator \
    $emulator "$build/$3" --gtest_brief=1 "--gtest_filter=-$without"; then
    echo "$machine: $3 passed on $1"
  else
    echo "$machine: $3 FAILED on $1"
    failed=1
  fi
}
for test in $tests; do
  name=$(basename "$test" _test.cpp)
  # Static, so that the emulator needs no libraries of the target.
  if ! $compiler -static -pthread "$build/objects/$(echo "$test" | tr / _).o" $objects "$build/objects/gtest-all.o" \
    "$build/objects/gtest-main.o" -o "$build/$name" 2> "$build/link.log"; then
    cat "$build/link.log"  # else it warns of googletest's getaddrinfo, at each program
    exit 1
  fi
  is_first=yes
  for cpu in $cpus; do
    case $is_first:$name in
      yes:* | no:isa | no:linear_integer*) run "${cpu%:*}" "${cpu#*:}" "$name" ;;
    esac
    is_first=no
  done
done
exit $failed
