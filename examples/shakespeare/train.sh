#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A language model from nothing: 2.76 million weights learn Shakespeare's plays, and write.
#   train.sh TEXT [KIND [EPOCHS [FLAG...]]]
# TEXT: the plays (tinyshakespeare's input.txt). KIND: llama, or ternary, whose blocks have weights of -1, 0 and 1 alone.
# EPOCHS: 8. FLAG: for weft run, such as --threads. In an empty directory, with weft on the path. The last tenth of
# the text is measured with. `weft run` is gone on with where it was killed: start the script again. What it came to
# stands in docs/tuning.md, "From nothing": llama 2.184 bits a byte, ternary 2.187.
set -e
here=$(cd "$(dirname "$0")" && pwd)
text=$1 kind=${2:-llama} epochs=${3:-8}
shift $(($# < 3 ? $# : 3))
tokens=128
labels=$(seq -s, -f n%g 0 $((tokens - 1)))
bytes=$(wc -c < "$text")
case $kind in
  llama) shape=llama ;;
  ternary) shape=bitnet ;;
  *) echo "train.sh: $kind is no kind; llama or ternary" >&2; exit 2 ;;
esac
[ -f "$kind/config.json" ] || python3 "$here/make_model.py" "$kind" "$shape"
[ -f learned.csv ] || {
  head -c $((bytes * 9 / 10)) "$text" | weft tokenize "$kind" --no-special --literal --samples $tokens > learned.part
  mv learned.part learned.csv
}
tail -c $((bytes / 10)) "$text" > held_out.txt
weft tokenize "$kind" --no-special --literal --samples $tokens < held_out.txt > held_out.csv
# The course of the rate ends with the last update: 8 sequences are one.
updates=$((($(wc -l < learned.csv) - 1) * epochs / 8))
sed "s/UPDATES/$updates/" "$here/$kind.json" > learning.json
if [ ! -f "$kind.entity" ]; then
  # Ternary are the blocks, by the description; as in BitNet the matrix of the embedding and the head stays float32.
  weft import "$kind" --tokens $tokens $([ "$kind" = ternary ] && echo --qat) -o begun.entity
  mv begun.entity "$kind.entity"
fi
weft run $kind.entity --data learned.csv --label "$labels" --held-out 0 --epochs "$epochs" --learning learning.json \
  --state "$kind-state" --save $kind-learned.entity "$@"
weft eval $kind-learned.entity --data held_out.csv --label "$labels" --json > $kind-measured.json
weft export $kind-learned.entity --model $kind.entity --format hf -o $kind-learned
awk -F'"loss":' -v samples=$(($(wc -l < held_out.csv) - 1)) -v tokens=$tokens -v bytes="$(wc -c < held_out.txt)" \
  '{ printf "%.4f nats a token, %.4f bits a byte\n", $2, $2 / log(2) * samples * tokens / bytes }' $kind-measured.json
weft generate $kind-learned --prompt 'ROMEO:' --tokens 120 --temperature 0.8 --seed 1
