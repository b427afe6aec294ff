#!/bin/sh
# Shows the command of the systemd unit weft@flowers; its journal is kept in the directory flowers, where a second run
# goes on. Verifies the unit that WEFT_UNIT names, or else the one in /usr/local, if Weft is installed there. In an
# empty directory.
set -e
data=$(dirname "$0")/../data
weft new --from "$data/iris.csv" --epochs 1000000 -o flowers.json --force
weft run flowers.json --state flowers --checkpoint-every 100000 --log weft.log --on-hang abort --quiet &
weft top flowers --wait --once
kill -TERM $!
wait $! || true
unit=$(ls "${WEFT_UNIT:-/usr/local/lib/systemd/system/weft@.service}" || [ -z "$WEFT_UNIT" ])
[ -z "$unit" ] || systemd-analyze verify "$unit"
