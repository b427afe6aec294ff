#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Sets up, builds and passes the tests, on a fresh Debian 12, as root or as a user with sudo.
#
#   tools/test.sh                       everything, as released
#   tools/test.sh PRESET [ARGUMENTS]    another preset of CMakePresets.json; further arguments go to ctest
# The same as `cmake --workflow --preset PRESET`, but CMAKE_BUILD_PARALLEL_LEVEL (jobs) and arguments are heeded.
set -eu
cd "$(dirname "$0")/.."
preset=${1:-release}
[ $# -eq 0 ] || shift
tools/setup.sh gpu
cmake --preset "$preset" -DWEFT_PRECOMPILE=all
cmake --build --preset "$preset"
export CTEST_PARALLEL_LEVEL="${CTEST_PARALLEL_LEVEL:-$(nproc)}"
exec ctest --preset "$preset" "$@"
