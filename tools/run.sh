#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Sets up, builds the program and lets a mesh learn handwritten digits from a stream. Arguments go to `weft run`:
#
#   tools/run.sh                                 examples/digits.json as it is
#   tools/run.sh --rule dfa --schedule settle    another way to learn; `--help` lists the others
set -eu
cd "$(dirname "$0")/.."
tools/setup.sh
log=build/release-build.log
mkdir -p build
[ -x build/release/bin/weft ] || echo "building weft, some minutes the first time; what the compiler says goes to $log" >&2
if ! { cmake --preset release -DWEFT_PRECOMPILE=all -DWEFT_UNITY=ON &&
  cmake --build --preset release --target weft; } > "$log" 2>&1; then
  cat "$log" >&2
  exit 1
fi
exec build/release/bin/weft run examples/digits.json "$@"
