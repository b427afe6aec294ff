#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs what Weft needs from Debian 12's own packages (tools/packages.txt), as root or through sudo. What is there
# already is left alone, so a second run needs neither root nor network.
#
#   tools/setup.sh [check] [fuzz] [peers] [gpu] [neon] [riscv] [service] [data] [web] [packages] [shells] [served]
#                  [page] [bindings]
#
# The group [build] always, others by name.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
wanted=" build $* "
group=
groups=' '
missing=
while read -r line; do
  case $line in
    '' | '#'*) continue ;;
    '['*) group=${line#?} group=${group%?} groups="$groups$group " ;;
    *)
      if [ -z "$group" ]; then
        echo "tools/setup.sh: tools/packages.txt names $line before any [group]; give it one" >&2
        exit 1
      fi
      case $wanted in
        *" $group "*)
          state=$(dpkg-query -W -f '${db:Status-Status}' "$line" 2>/dev/null || true)
          [ "$state" = installed ] || missing="$missing $line"
          ;;
      esac
      ;;
  esac
done < "$here/packages.txt"
for name in $wanted; do
  case $groups in
    *" $name "*) ;;
    *)
      echo "tools/setup.sh: no group [$name] in tools/packages.txt; groups:$groups" >&2
      exit 1
      ;;
  esac
done
[ -n "$missing" ] || exit 0

if [ "$(id -u)" -eq 0 ]; then
  as_root=
elif command -v sudo > /dev/null; then
  as_root=sudo
  [ -z "${CI:-}" ] || as_root="sudo -n"
else
  echo "tools/setup.sh: these packages are missing and neither root nor sudo is at hand:$missing" >&2
  exit 1
fi
# shellcheck disable=SC2086  # lists of words
{
  $as_root apt-get -qq update < /dev/null
  $as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o Dpkg::Use-Pty=0 --no-install-recommends install $missing \
    < /dev/null > /dev/null
}
echo "tools/setup.sh: installed$missing" >&2
