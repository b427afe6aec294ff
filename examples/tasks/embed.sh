#!/bin/sh
# A model inside a loop of 60 frames a second; WEFT_PREFIX is where Weft is installed. In an empty directory.
set -e
here=$(dirname "$0")
data=$(dirname "$0")/../data
weft new --from "$data/iris.csv" -o iris.json
weft run iris.json --save iris.entity
cmake -S "$here/embed" -B build -DCMAKE_PREFIX_PATH="${WEFT_PREFIX:-/usr/local}"
cmake --build build
./build/embed iris.entity
