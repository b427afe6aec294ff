#!/bin/sh
# A language model learns a text, one sequence at a time, is killed, goes on, and goes back to where it came from
# (docs/tuning.md).
#   tune.sh MODEL TEXT [KIND [TOKENS [SECONDS [FLAG...]]]]
# MODEL: a folder as Hugging Face keeps it. KIND: full or lora, a file beside this one. TOKENS: of a sequence. SECONDS:
# until it is killed. FLAG: for weft run, such as --freeze. In an empty directory, with weft on the path. The last tenth
# of the text is measured with.
set -e
here=$(cd "$(dirname "$0")" && pwd)
model=$1 text=$2 kind=${3:-full} tokens=${4:-64} seconds=${5:-5}
shift $(($# < 5 ? $# : 5))
labels=$(seq -s, -f n%g 0 $((tokens - 1)))
bytes=$(wc -c < "$text")
head -c $((bytes * 9 / 10)) "$text" | weft tokenize "$model" --no-special --literal --samples "$tokens" > learned.csv
tail -c $((bytes / 10)) "$text" | weft tokenize "$model" --no-special --literal --samples "$tokens" > held_out.csv
weft import "$model" --tokens "$tokens" -o model.entity
weft eval model.entity --data held_out.csv --label "$labels" --json > before.json

set -- run model.entity --data learned.csv --label "$labels" --held-out 0 --epochs 1 --learning "$here/$kind.json" \
  --state agent --quiet "$@"
timeout -s KILL "$seconds" weft "$@" || echo "killed after $seconds s"
weft "$@" --save tuned.entity
weft eval tuned.entity --data held_out.csv --label "$labels" --json > after.json

weft export tuned.entity --model model.entity --format hf -o tuned
weft export tuned.entity --model model.entity --format gguf -o tuned.gguf
for from in tuned tuned.gguf; do
  weft import "$from" --tokens "$tokens" -o again.entity
  weft hash again.entity
done
weft eval again.entity --data held_out.csv --label "$labels" --json > again.json
for when in before after again; do
  awk -v when="$when" -F'"loss":' '{ printf "%-7s %.4f bits a token\n", when, $2 / log(2) }' "$when.json"
done
