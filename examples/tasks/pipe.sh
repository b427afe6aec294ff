#!/bin/sh
# Learn what a generator pipes in, die by kill -9, go on at the row that was next, and ask the directory. In an empty one.
set -e
weft new --in 2 --hidden 16 --out 2 -o line.json
awk 'BEGIN { while (1) { a = i % 61 - 30; b = i++ % 59 - 29; print a / 20 "," b / 20 "," (a + b > 0) } }' | timeout -s KILL 2 weft run line.json --data - --state line.agent --quiet || true
next=$(weft run line.json --data - --state line.agent --json < /dev/null | sed -n '/"found"/s/.*"rows":\([0-9]*\).*/\1/p')
awk -v i="$next" 'BEGIN { while (n++ < 5000) { a = i % 61 - 30; b = i++ % 59 - 29; print a / 20 "," b / 20 "," (a + b > 0) } }' | weft run line.json --data - --state line.agent
weft replay line.agent --verify
printf '1.2,0.3\n-0.5,-0.25\n' | weft predict line.agent --data -
