#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Sets up, builds and passes the tests, on a fresh Debian 12, as root or as a user with sudo.
#
#   tools/test.sh                       everything, as released
#   tools/test.sh PRESET [ARGUMENTS]    another preset of CMakePresets.json; further arguments go to ctest
# The same as `cmake --workflow --preset PRESET`, but CMAKE_BUILD_PARALLEL_LEVEL (jobs) and arguments are heeded, and files
# are compiled in batches. Tests of very many rows take some always and the others in turn, conformance by type: the slice goes round
# with the commits; WEFT_TEST_SLICE=N asks for one, WEFT_TEST_FULL=1 for everything.
set -eu
cd "$(dirname "$0")/.."
preset=${1:-release}
[ $# -eq 0 ] || shift
tools/setup.sh gpu
cmake --preset "$preset" -DWEFT_PRECOMPILE=all -DWEFT_UNITY=ON
cmake --build --preset "$preset"
export CTEST_PARALLEL_LEVEL="${CTEST_PARALLEL_LEVEL:-$(nproc)}"
if [ "${WEFT_TEST_FULL:-0}" != 1 ]; then
  export WEFT_TEST_SLICE="${WEFT_TEST_SLICE:-$(git rev-list --count HEAD 2> /dev/null || echo 0)}"
  # Mesa's software device hands each dispatch to threads of its own, whose waking costs more than they compute. Tests run
  # beside each other anyway; three of room gpu, with all operations among them, keep its threads.
  export LP_NUM_THREADS="${LP_NUM_THREADS:-0}"
  echo "tools/test.sh: conformance and others of very many rows run slice $WEFT_TEST_SLICE; WEFT_TEST_FULL=1 runs all"
fi
exec ctest --preset "$preset" "$@"
