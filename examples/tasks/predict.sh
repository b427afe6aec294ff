#!/bin/sh
# Ask a model: a class for each row, then its report card. In an empty directory.
set -e
data=$(dirname "$0")/../data
weft new --from "$data/iris.csv" -o iris.json
weft run iris.json --save iris.entity
printf '5.0,3.4,1.5,0.2\n6.1,2.9,4.7,1.4\n7.2,3.2,6.0,1.8\n' | weft predict iris.entity --data - --probabilities
weft predict iris.entity --data "$data/iris.csv" --report
