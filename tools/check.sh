#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Before a commit: format, layers, documents, headers alone, clang-tidy, then the presets dev and asan.
#
#   tools/check.sh           everything
#   tools/check.sh --quick   all but the two presets
#   tools/check.sh --base REV   clang-tidy looks at what changed since REV (default: the upstream branch, else HEAD)
# Needs tools/setup.sh check.
set -euo pipefail
cd "$(dirname "$0")/.."
quick=
base=$(git rev-parse --verify -q '@{upstream}' || echo HEAD)
while [ $# -gt 0 ]; do
  case $1 in
    --quick) quick=1 ;;
    --base) base=$2 && shift ;;
    *) sed -n '3,8s/^# \{0,1\}//p' "$0" >&2 && exit 2 ;;
  esac
  shift
done
jobs=${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}
say() { printf '\n== %s\n' "$*"; }

say format
git ls-files '*.hpp' '*.cpp' '*.h' | xargs -r -n 64 -P "$jobs" clang-format --dry-run -Werror

say layers, classes, documents
python=/usr/bin/python3
"$python" -B tools/check_layers.py
"$python" -B tools/check_words.py
"$python" -B tools/rooms.py --check
"$python" -B tools/count_layer_files.py
"$python" -B tools/count_addition_files.py
"$python" -B tools/make_benchmarks.py --check
"$python" -B tests/tools/check_layers_test.py -q
"$python" -B tools/check_unity.py
"$python" -B tests/tools/check_unity_test.py -q
"$python" -B tools/check_classes.py
"$python" -B tests/tools/check_classes_test.py -q
"$python" -B tests/docs/quotes_test.py -q

say headers alone
cmake --preset dev > /dev/null
# Most by the .cpp of their name, which includes them first: so with the libraries.
ninja -C build/dev -t targets all | sed -nE 's/^([a-z]*_headers|libweft_[a-z]*\.a): .*/\1/p' |
  xargs -r ninja -C build/dev -j "$jobs" --quiet

say "clang-tidy (changed since $base)"
{ git diff --name-only --diff-filter=d "$base"; git ls-files --others --exclude-standard; } | sort -u |
  grep -E "^($("$python" -B tools/rooms.py --list | paste -sd '|'))/.*\.cpp$" |
  xargs -r -n 1 -P "$jobs" clang-tidy -p build/dev --quiet || [ "${PIPESTATUS[2]}" -eq 1 ]

[ -z "$quick" ] || exit 0
say dev
cmake --workflow --preset dev
say asan
cmake --workflow --preset asan
