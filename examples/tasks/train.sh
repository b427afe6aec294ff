#!/bin/sh
# Train on a table with text labels; ends with accuracy, loss and the confusion matrix. In an empty directory.
set -e
data=$(dirname "$0")/../data
weft new --from "$data/iris.csv" -o iris.json
weft run iris.json --save iris.entity
