#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds the WebAssembly package in build/web/package (docs/web.md). Needs Debian's emscripten: group [web] of
# tools/packages.txt.
set -eu
cd "$(dirname "$0")/.."
command -v emcmake >/dev/null || { echo "build_web.sh: no emcmake; in Debian: apt-get install emscripten" >&2; exit 1; }
export NODE_PATH="${NODE_PATH:+$NODE_PATH:}/usr/share/nodejs"  # Debian's acorn, for a node that is not Debian's
[ -f build/web/build.ninja ] || emcmake cmake -S bindings/web -B build/web -G Ninja >/dev/null
if command -v ccache >/dev/null; then export EM_COMPILER_WRAPPER="${EM_COMPILER_WRAPPER-ccache}"; fi
cmake --build build/web "$@"
for module in simd scalar; do
  printf '%s: %s bytes gzipped\n' "$module" "$(gzip -9 -c build/web/package/weft_$module.wasm | wc -c)"
done
