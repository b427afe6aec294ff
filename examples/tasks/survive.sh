#!/bin/sh
# Live through kill -9 on new data; ends with the proof that not a bit was lost. In an empty directory.
set -e
data=$(dirname "$0")/../data
weft new --from "$data/iris.csv" -o iris.json
awk 'NR == 1 || NR % 2' "$data/iris.csv" > later.csv
timeout -s KILL 1 weft run iris.json --data later.csv --epochs 20000 --state iris.agent --quiet || true
weft run iris.json --data later.csv --epochs 20000 --state iris.agent
weft replay iris.agent --verify
