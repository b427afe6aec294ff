#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Fetches the programs that tests compare Weft with, from the npm registry, each of one version and checked by its SHA-512:
# libllama, onnxruntime, OpenAI's client (350 MB, unpacked 900). Nothing of them is part of Weft. Prints what tests read:
#
#   eval "$(tools/fetch_peers.sh build/peers)"     then ctest -R 'models|cli.openai'; needs npm
set -euo pipefail
mkdir -p "${1:?usage: tools/fetch_peers.sh FOLDER}"
cd "$1"

# fetch NAME VERSION SHA-512, in base64: unpacked in the folder of its name
fetch() {
  local folder=$PWD/$1
  [ -e "$folder/.fetched-$2" ] && return
  local packed
  packed=$(npm pack --silent "$1@$2")
  if [ "$(openssl dgst -sha512 -binary "$packed" | base64 -w 0)" != "$3" ]; then
    echo "tools/fetch_peers.sh: $1@$2 is not what it was: its SHA-512 differs" >&2
    exit 1
  fi
  rm -rf "$folder"
  mkdir -p "$folder"
  tar xzf "$packed" -C "$folder" --strip-components=1
  rm "$packed"
  touch "$folder/.fetched-$2"
}

fetch @node-llama-cpp/linux-x64 3.22.1 \
  5uCCDNqWCNfaAm8aR/Uzxbo4HBpKgNF91kCHPepKhgMgV2OAmatoefbOlMihsqCiH2Od35E/eUHQCFbfRBJuOg==
fetch openai 6.49.0 aYCc0C6L864eR6WSYIwQGyXriw/nIyZx0ObvhzOEVuk0zoBDpynjSbrionWI7q65B5H8jJX0DXR9snEzM6bfPg==
mkdir -p node_modules
(
  cd node_modules
  fetch onnxruntime-node 1.30.0 \
    twhs1C2C/BFkz1yc5OY0KIU2GUq6DURO7hD4bx5Q2Qy3nAMJwRXW8xU3NVczE29VA9lolLOYepoD8fjTGOfIqw==
  fetch onnxruntime-common 1.30.0 \
    7fdVWjAID1dVhH/G8qK3APARunV4VkBFoCQAP7qp4Wkab0mrorvmc+sqiT+mKXOzDqdjN5j+/Z9nb4gzNPWcyA==
)
echo "export LLAMA_LIBRARIES='$PWD/@node-llama-cpp/linux-x64/bins/linux-x64'"
echo "export ONNXRUNTIME='$PWD'"
echo "export WEFT_OPENAI_PACKAGE='$PWD/openai'"
