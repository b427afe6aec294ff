#!/bin/sh
# Shows the command of the systemd unit weft@flowers; its journal is kept in the directory flowers. In an empty
# directory.
set -e
data=$(dirname "$0")/../data
weft new --from "$data/iris.csv" --epochs 1000000 -o flowers.json
weft run flowers.json --state flowers --checkpoint-every 100000 --log weft.log --on-hang abort --quiet &
weft top flowers --wait --once
kill -TERM $!
systemd-analyze verify "${WEFT_UNIT:-/usr/local/lib/systemd/system/weft@.service}"
