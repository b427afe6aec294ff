# SPDX-License-Identifier: Apache-2.0
"""The program, or the library, stripped, is no larger than it may be. Skipped (77) where it is not built as it is shipped."""
import argparse, os, shutil, subprocess, sys, tempfile

MOST = 18_200_000  # 12 until the server came, which takes 0.9; planetbridging and the page 0.3, chats and grammars 0.3,
# drift, narrow pasts, tools and formats of texts 0.3; stored samples, tasks, plots and journals over HTTP 0.3, products
# of codes as they are stored 0.1; smaller tiles of shaders, rules on every layer 0.4; learners taken over by
# other rules, weights of rows, traces of gated cells 0.1; other programs as environments, games 0.1; graphs of ONNX 0.5;
# adapters of low rank, several environments 0.1; traces on devices, prefix cache and guesses, weights alone, BitNet,
# attention out of its parts, swaps of weights 0.6; files of Loom whole, real values as actions, marks 0.2; texts on
# devices, layers of containers in types of their own, attention in shares, request logs 0.4; binary16
# scales, masks of attention, rotary positions and codes of ONNX 0.3; models in parts, replaced as one, policies of layers
# inside, attention as one operator of ONNX 0.1; int8 inputs in graphs, weights of a network that is there, llama.cpp's other
# samplers, models from memory, configurations as transformers read them, external data of ONNX 0.2
parser = argparse.ArgumentParser()
parser.add_argument("program")
for each in ("strip", "build", "sanitize"):
    parser.add_argument("--" + each)
parser.add_argument("--most", type=int, default=MOST)
given = parser.parse_args()
if given.build != "Release" or given.sanitize:
    print("only what is shipped has a bound: this is", given.build, given.sanitize)
    sys.exit(77)
if not shutil.which(given.strip):
    print("no strip here")
    sys.exit(77)
with tempfile.TemporaryDirectory() as folder:
    copy = os.path.join(folder, "weft")
    subprocess.run([given.strip, "-o", copy, given.program], check=True)
    size = os.path.getsize(copy)
print(f"{size:,} bytes of at most {given.most:,}")
sys.exit(size > given.most)
