#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds oneTBB with ThreadSanitizer from Debian's own source package: the packaged library is not instrumented, so
# every hand-over inside it looks like a race. The tsan preset finds the result through CMAKE_PREFIX_PATH.
#
#   tools/build_tbb_tsan.sh [PREFIX]      default: build/tbb-tsan beside this script's repository
#
# Needs apt (no root: the lists live in the build folder), cmake, ninja, g++. Does nothing when PREFIX is complete.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
prefix=${1:-$root/build/tbb-tsan}
compiler=${CXX:-g++}
if [ -e "$prefix/.complete" ]; then
  echo "$prefix is complete"
  exit 0
fi
mkdir -p "$prefix/source/lists/partial"
prefix=$(cd "$prefix" && pwd)
work=$prefix/source
cd "$work"

# Source lists of our own, made from the machine's: same archives, same keys, deb-src instead of deb.
mkdir -p sources.d
for list in /etc/apt/sources.list.d/*.sources; do
  [ -e "$list" ] || continue
  grep -q -i debian.org "$list" || continue
  sed 's/^Types:.*/Types: deb-src/' "$list" > "sources.d/$(basename "$list")"
done
for list in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
  [ -e "$list" ] || continue
  grep -i 'debian.org' "$list" | sed -n 's/^deb /deb-src /p' > "sources.d/$(basename "$list")"
  [ -s "sources.d/$(basename "$list")" ] || rm -f "sources.d/$(basename "$list")"
done
if [ -z "$(ls sources.d)" ]; then
  echo "deb-src http://deb.debian.org/debian bookworm main" > sources.d/debian.list
fi
apt_options="-o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts=$work/sources.d -o Dir::State::lists=$work/lists
  -o Dir::Cache::srcpkgcache= -o Dir::Cache::pkgcache= -o APT::Sandbox::User="
# shellcheck disable=SC2086  # the options are words
apt-get $apt_options -qq update
# shellcheck disable=SC2086
apt-get $apt_options -qq --download-only source onetbb

rm -rf tree && mkdir tree
tar -xf "$(ls onetbb_*.orig.tar.*  | head -n 1)" -C tree --strip-components=1
if [ -n "$(ls onetbb_*.debian.tar.* 2>/dev/null)" ]; then
  tar -xf "$(ls onetbb_*.debian.tar.* | head -n 1)" -C tree
  while read -r patch rest; do
    case $patch in ''|'#'*) continue ;; esac
    patch -d tree -p1 -s < "tree/debian/patches/$patch"
  done < tree/debian/patches/series
fi
# Only libtbb: the allocator would hide what the sanitizer watches, and hwloc bindings are our own business.
cmake -S tree -B build -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_CXX_COMPILER="$compiler" -DTBB_SANITIZE=thread \
  -DTBB_TEST=OFF -DTBB_EXAMPLES=OFF -DTBB_STRICT=OFF -DTBBMALLOC_BUILD=OFF -DTBB_DISABLE_HWLOC_AUTOMATIC_SEARCH=ON \
  -DCMAKE_INSTALL_PREFIX="$prefix" -DCMAKE_INSTALL_LIBDIR=lib
ninja -C build
ninja -C build install
touch "$prefix/.complete"
echo "configure with -DWEFT_SANITIZE=thread -DCMAKE_PREFIX_PATH=$prefix"
