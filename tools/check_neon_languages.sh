#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Python and C# on AArch64 under qemu-user: Debian's own interpreters of arm64, fetched into the build folder and not
# installed, load libweft.so of AArch64 and replay the rows of tools/check_neon_mesh.sh, which is run before: every layer
# in every numeric type, each to the state hash of this machine. C# is left out, and named, where Mono's compiler is not.
# Usage: tools/check_neon_languages.sh [build folder]
set -eu
source_folder=$(cd "$(dirname "$0")/.." && pwd)
build=$(cd "${1:-$source_folder/build-neon}" && pwd)
rows=$build/host.rows
[ -s "$rows" ] || { echo "check_neon_languages: no rows $rows (tools/check_neon_mesh.sh writes them)" >&2; exit 2; }
. "$source_folder/tools/arm64_sysroot.sh"

root=$build/languages
if [ ! -e "$root/complete" ]; then
  mkdir -p "$root/debs"
  (
    cd "$root/debs"
    export APT_CONFIG=$build/apt/apt.conf
    apt-get -qq download libc6 libgcc-s1 libstdc++6 zlib1g libffi8 libexpat1 python3.11-minimal libpython3.11-minimal \
      libpython3.11-stdlib python3-numpy libblas3 liblapack3 libgfortran5 mono-runtime-sgen mono-runtime-common \
      libmono-corlib4.5-cil libmono-corlib4.5-dll libmono-system4.0-cil libmono-system-core4.0-cil mono-4.0-gac mono-gac \
      libgssapi-krb5-2 libkrb5-3 libkrb5support0 libk5crypto3 libcom-err2 libkeyutils1  # libmono-native's
    for package in *.deb; do dpkg -x "$package" "$root"; done
  )
  touch "$root/complete"
fi
build_there weft_shared
library=$build/neon/lib/libweft.so
system=$root/usr/lib/aarch64-linux-gnu
# there VARIABLE=VALUE... PROGRAM ARGUMENT...
there() {
  local set=()
  while [[ $1 == *=* ]]; do set+=(-E "$1") && shift; done
  qemu-aarch64 -L "$root" -E LD_LIBRARY_PATH="$system:$system/blas:$system/lapack:$root/lib/aarch64-linux-gnu:$libraries" \
    "${set[@]}" "$root/usr/bin/$1" "${@:2}"
}

failed=
python=$(there PYTHONPATH="$root/usr/lib/python3/dist-packages" WEFT_LIBRARY="$library" python3.11 -B \
  "$source_folder/tests/bindings/replay_rows.py" "$rows") || failed=" Python"
echo "neon: through Python: $python"
if command -v mcs > /dev/null; then
  /usr/bin/python3 -B "$source_folder/tests/bindings/conformance_rows.py" --lines "$rows" "$build/rows.txt"
  mcs -warnaserror+ -langversion:7 "-out:$build/Replay.exe" "$source_folder/bindings/csharp/Weft.cs" \
    "$source_folder/tests/bindings/CsharpConformance.cs"
  ln -sf "$library" "$build/libweft.so"
  csharp=$(cd "$build" &&
    there MONO_PATH="$root/usr/lib/mono/4.5" MONO_CFG_DIR="$root/etc" mono-sgen Replay.exe rows.txt) || failed="$failed C#"
  echo "neon: through C#: $csharp"
else
  echo "neon: through C#: no mcs here"
fi
[ -z "$failed" ] || { echo "FAILED:$failed"; exit 1; }
