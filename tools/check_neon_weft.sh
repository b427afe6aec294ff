#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The program `weft` on AArch64 under qemu-user: README's main job, a data directory begun on this machine and continued
# there, the other way round, and its journal replayed: to the state hashes of this machine's program. Fetches Debian's
# arm64 libraries into the build folder and installs none. Needs g++-aarch64-linux-gnu, qemu-user (tools/setup.sh neon)
# and the program of this machine. Usage: tools/check_neon_weft.sh [build folder [program]]
set -eu
source_folder=$(cd "$(dirname "$0")/.." && pwd)
build=${1:-$source_folder/build-neon}
here=${2:-$source_folder/build/release/bin/weft}
mkdir -p "$build"
build=$(cd "$build" && pwd)
[ -x "$here" ] || { echo "check_neon_weft: no program $here (tools/run.sh builds it)" >&2; exit 2; }
. "$source_folder/tools/arm64_sysroot.sh"

build_there weft
there=$build/neon/weft.sh
cat > "$there" <<END
#!/bin/sh
exec qemu-aarch64 -L /usr/aarch64-linux-gnu -E LD_LIBRARY_PATH="$libraries" "$build/neon/bin/weft" "\$@"
END
chmod +x "$there"

failed=0
# same WHAT ONE OTHER: compares two results.
same() {
  if [ -n "$2" ] && [ "$2" = "$3" ]; then
    echo "neon: $1: $2"
  else
    echo "neon: $1 FAILED: $2 here, $3 on AArch64"
    failed=1
  fi
}
hash_of() { grep -o '"state_hash":"[^"]*"' "$1" | tail -n 1 | cut -d'"' -f4; }
results=$build/results
rm -rf "$results"
mkdir "$results"
cd "$results"

# README's main job, and whether AArch64 says that all of its bits must be those of x86-64.
"$here" run "$source_folder/examples/digits.json" --quiet --json > main.here
begin=$(date +%s%N)
"$there" run "$source_folder/examples/digits.json" --quiet --json > main.there
echo "neon: the main job took $((($(date +%s%N) - begin) / 1000000)) ms under qemu-aarch64;" \
  "isa $("$there" doctor --json | grep -o '"active":"[a-z0-9_]*"')," \
  "$(grep -o '"flushed_results":[a-z]*' main.there | tail -n 1)"
same "main job" "$(hash_of main.here)" "$(hash_of main.there)"

# A data directory: five ways to run it for four passes and four more.
sed -e 's/, "drift": {[^}]*}//' -e "s#\"data/#\"$source_folder/examples/data/#" "$source_folder/examples/digits.json" \
  > stream.json
passes() { "$1" run stream.json --state "$2" --epochs "$3" --quiet --json; }
passes "$here" begun 4 > begun.here
cp -r begun here_here
cp -r begun here_there
passes "$there" there_here 4 > begun.there
same "four passes in a data directory" "$(hash_of begun.here)" "$(hash_of begun.there)"
passes "$here" here_here 8 > here_here.out
passes "$there" here_there 8 > here_there.out
passes "$here" there_here 8 > there_here.out
same "begun here, continued there" "$(hash_of here_here.out)" "$(hash_of here_there.out)"
same "begun there, continued here" "$(hash_of here_here.out)" "$(hash_of there_here.out)"

# Journals: each replayed on the other machine, compared with every marker and checkpoint on the way.
"$there" replay here_here --verify --json > replay.there
"$here" replay here_there --verify --json > replay.here
same "journal of here replayed there" "$(hash_of here_here.out)" "$(hash_of replay.there)"
same "journal of both replayed here" "$(hash_of here_there.out)" "$(hash_of replay.here)"
echo "neon: $(grep -o '"records":[0-9]*' replay.there) and $(grep -o '"compared":[0-9]*' replay.there)"

# Every numeric type of weights.
for dtype in $(grep -o '^WEFT_DTYPE([a-z0-9_]*' "$source_folder/core/dtypes.def" | cut -d'(' -f2); do
  "$here" run stream.json --dtype "$dtype" --epochs 1 --quiet --json > dtype.here 2> /dev/null || continue
  "$there" run stream.json --dtype "$dtype" --epochs 1 --quiet --json > dtype.there
  same "$dtype" "$(hash_of dtype.here)" "$(hash_of dtype.there)"
done
exit $failed
