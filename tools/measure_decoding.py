#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures language models of noise beside llama.cpp: tokens a second of one text, of 16 together and of a prompt of 512.

  tools/measure_decoding.py BIN LIBRARIES [--shape NAME] [--pairs WEFT:LLAMA,...] [--threads N] [--rounds N] [--scratch DIR]

BIN: the folder with weft and models_decode_bench. LIBRARIES: that of npm's @node-llama-cpp/linux-x64
(bench/peers/llama_texts.py). Of each pair of types both programs run in turn, --rounds times; a row has the medians,
Weft's over llama.cpp's better setting, and of decoding the share of the speed at which as many threads read the
weights' bytes in the same run; then that of all bytes that a token reads, keys and values too. A type "-" leaves that
program out; one of Weft's may name its granularity ("int4/block32_f16:q4_0").
"""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
FIGURES = ("decode", "together", "prefill")
PAIRS = "float32:f32,bfloat16:bf16,int8:q8_0,int4:q4_0,ternary:-"


def weft_figures(args, entity):
    environment = {**os.environ, "WEFT_BENCH_MODEL": str(entity), "WEFT_BENCH_THREADS": str(args.threads)}
    told = subprocess.run([args.bin / "models_decode_bench", "--benchmark_format=json"], env=environment, check=True,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
    rows = {row["name"].split("/")[0]: row for row in json.loads(told)["benchmarks"]}
    found = {name: rows[name]["tokens_s"] for name in FIGURES}
    return {**found, **{name: rows["decode"][name] for name in ("of_reading", "of_bytes", "weights_MB", "memory_GB_s")},
            **{name: rows["load_and_begin"][name] for name in ("load_s", "first_token_s", "prompt_s")}}


def llama_figures(args, kind):
    told = subprocess.run([sys.executable, ROOT / "bench/peers/llama_texts.py", args.libraries, args.shape, kind,
                           str(args.threads)], check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
    return json.loads(told.splitlines()[-1])


def median(rounds, name):
    return statistics.median(each[name] for each in rounds)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("libraries", type=pathlib.Path)
    parser.add_argument("--shape", default="smollm2-135m")
    parser.add_argument("--pairs", default=PAIRS)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scratch", type=pathlib.Path)
    args = parser.parse_args()
    scratch = args.scratch or pathlib.Path(tempfile.mkdtemp())
    folder = scratch / args.shape
    if not (folder / "model.safetensors").exists():
        subprocess.run([sys.executable, ROOT / "tools/make_synthetic_model.py", folder, args.shape], check=True)
    print(f"{args.shape}, {args.threads} threads, {args.rounds} rounds in turn\n"
          "| types | MB | decode | of reading; of all bytes (GB/s) | llama.cpp | times | 16 together | llama.cpp | times | of one text |"
          " prompt of 512 | llama.cpp | times | load, first token (prompt) |\n|" + "---|" * 14, flush=True)
    for pair in args.pairs.split(","):
        ours, theirs = pair.split(":")
        dtype, _, granularity = ours.partition("/")
        entity = scratch / f"{args.shape}-{dtype}-{granularity}.entity"
        if ours != "-":
            flags = ["--dtype", dtype, "--tokens", "1"] + (["--granularity", granularity] if granularity else [])
            subprocess.run([args.bin / "weft", "import", folder, "-o", entity] + flags, check=True,
                           stdout=subprocess.DEVNULL)
        weft, llama = [], []
        for _ in range(args.rounds):
            if ours != "-":
                weft.append(weft_figures(args, entity))
            if theirs != "-":
                llama.append(llama_figures(args, theirs))
            print(json.dumps({"pair": pair, "weft": weft[-1:], "llama": llama[-1:]}), file=sys.stderr, flush=True)
        entity.unlink(missing_ok=True)
        cells = [pair, f"{median(weft, 'weights_MB'):.0f}" if weft else ""]
        for name in FIGURES:
            mine = median(weft, name) if weft else None
            peer = median(llama, name) if llama else None
            cells.append(f"{mine:.1f}" if weft else "")
            if name == "decode":
                cells.append("{:.2f}; {:.2f} ({:.1f})".format(*(median(weft, key) for key in
                                                                ("of_reading", "of_bytes", "memory_GB_s"))) if weft else "")
            cells += [f"{peer:.1f}" if llama else "", f"{mine / peer:.2f}" if weft and llama else ""]
            if name == "together":
                cells.append(f"{mine / median(weft, 'decode'):.1f}" if weft else "")
        cells.append("{:.2f} s, {:.0f} ({:.0f}) ms".format(median(weft, "load_s"), 1e3 * median(weft, "first_token_s"),
                                                            1e3 * median(weft, "prompt_s")) if weft else "")
        print("| " + " | ".join(cells) + " |", flush=True)
    if not args.scratch:
        shutil.rmtree(scratch)


if __name__ == "__main__":
    main()
