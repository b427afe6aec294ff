#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""examples/tuning/tune.sh does what docs/tuning.md says, on a part of the text: a language model learns, in full or by
adapters, beside a frozen head; killed in the middle it ends as an unbroken run does, and HF and GGUF say the same.

  tuning_test.py WEFT

Skipped, and counted, without ../shared/data.
"""
import json
import os
import pathlib
import re
import struct
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = next((p for p in (ROOT.parent / "shared/data", ROOT.parent.parent / "shared/data") if p.is_dir()), None)
TOKENS, BYTES, SECONDS, HEAD = 32, 60_000, "0.5", "7,0,0,0"
ONE = ["--threads", "1"]  # so small a model is not faster on more


def tensors(path):
    """Bytes by name of a safetensors file."""
    raw = path.read_bytes()
    size = struct.unpack("<Q", raw[:8])[0]
    body = raw[8 + size:]
    return {name: body[slice(*row["data_offsets"])] for name, row in json.loads(raw[8:8 + size]).items()
            if name != "__metadata__"}


def told(command, folder, environment):
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=400, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{command}: exit {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def check(weft, kind, flags, folder):
    model = DATA / "stories260K/derived"
    text = folder / "text.txt"
    text.write_bytes((DATA / "tinyshakespeare/input.txt").read_bytes()[:BYTES])
    environment = os.environ | {"PATH": f"{weft.parent}:{os.environ['PATH']}"}
    script = ROOT / "examples/tuning/tune.sh"
    output = told(["sh", script, model, text, kind, str(TOKENS), SECONDS, *ONE, *flags], folder,
                  environment)
    assert "killed after" in output, output
    bits = {when: float(value) for when, value in re.findall(r"^(\w+) +([\d.]+) bits a token$", output, re.MULTILINE)}
    assert bits["after"] < bits["before"] - 1, output
    assert bits["again"] == bits["after"], output
    hashes = re.findall(r"^[0-9a-f]{32}$", output, re.MULTILINE)
    assert len(hashes) == 2 and hashes[0] == hashes[1], output

    labels = ",".join(f"n{i}" for i in range(TOKENS))
    told([weft, "run", "model.entity", "--data", "learned.csv", "--label", labels, "--held-out", "0", "--epochs", "1",
          "--learning", ROOT / f"examples/tuning/{kind}.json", "--quiet", *ONE, *flags, "--save", "unbroken.entity"],
         folder, environment)
    ends = [told([weft, "hash", name], folder, environment) for name in ("tuned.entity", "unbroken.entity")]
    assert ends[0] == ends[1], f"{kind} {flags}: killed and gone on {ends[0]}, unbroken {ends[1]}"

    told([weft, "replay", "agent", "--verify"], folder, environment)

    was, now = tensors(model / "model.safetensors"), tensors(folder / "tuned/model.safetensors")
    assert was.keys() == now.keys()
    stays = {name for name in was if was[name] == now[name]}
    wanted = {name for name in was if flags and ("embed_tokens" in name or "lm_head" in name)}
    if kind == "lora":
        wanted |= {name for name in was if "norm" in name}
    assert stays == wanted, f"{kind} {flags}: stay as they were: {sorted(stays)}, expected {sorted(wanted)}"
    return bits


def main():
    weft = pathlib.Path(sys.argv[1]).resolve()
    if DATA is None:
        print("skipped 3 of 3: no ../shared/data")
        sys.exit(77)
    for kind, flags in (("full", []), ("full", ["--freeze", HEAD]), ("lora", ["--freeze", HEAD])):
        with tempfile.TemporaryDirectory() as folder:
            print(kind, *flags, check(weft, kind, flags, pathlib.Path(folder)), flush=True)


if __name__ == "__main__":
    main()
