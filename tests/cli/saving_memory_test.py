#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Memory that saving a mesh takes above the mesh: at most 64 MiB, whatever its size.

  saving_memory_test.py WEFT [--width N]   the mesh: a dense layer [N, N] of float32, by default 4096 (64 MiB)

Checked by the peak of resident memory of `weft run --save` and `--checkpoint` against the same run that keeps nothing;
of a session taken out of the saved model and put back against the same run; and of `weft morph`, `pack` and `pack
--plain` against the mesh's bytes, or none. `weft inspect` reads headers alone: of the saved model, and of files that
declare 4 GiB of weights. Mapped pages of a file count too. An agent (`weft run --state`) writes beside
the running mesh from one copy of its state: told, and checked against that.
"""
import argparse
import json
import os
import pathlib
import struct
import sys
import tempfile

MIB = 1 << 20
LIMIT = 64 * MIB


def peak(command):
    """Bytes of resident memory at the peak of a program that must succeed."""
    child = os.spawnv(os.P_NOWAIT, command[0], command)
    _, status, usage = os.wait4(child, 0)
    if status != 0:
        sys.exit(f"{' '.join(command)}: status {status}")
    return usage.ru_maxrss * 1024


def write_model(folder, width):
    rows = [",".join(f"{(i * 37 + r * 11) % 17 / 16:g}" for i in range(width)) + f",{r % 10}" for r in range(6)]
    (folder / "data.csv").write_text(",".join(f"x{i}" for i in range(width)) + ",label\n" + "\n".join(rows) + "\n")
    network = {
        "weft": 2, "name": "wide", "grid": {"x": 2}, "inputs": {"x": [width]},
        "layers": [{"at": [0, 0, 0, 0], "type": "dense", "out": width, "activation": "tanh"},
                   {"at": [0, 0, 1, 0], "type": "dense", "out": 10}],
        "outputs": {"y": [0, 0, 1, 0]},
        "learning": {"rule": "backprop", "schedule": "settle", "loss": "cross_entropy",
                     "optimizer": {"type": "momentum", "lr": 0.001}},
        "stream": {"csv": "data.csv", "held_out": 0, "epochs": 1}}
    (folder / "net.json").write_text(json.dumps(network))


def declare_weights(folder):
    """Sparse files of 4 GiB of weights: a network of Loom, a language model of Loom, safetensors."""
    blobs = [{"path": f"layers.{i}", "offset": i << 30, "length": 1 << 30, "dtype": "float32", "native": True}
             for i in range(4)]
    layers = [{"z": 0, "y": 0, "x": 0, "l": i, "type": "Dense", "activation": "Tanh", "input_height": 1 << 14,
               "output_height": 1 << 14} for i in range(4)]
    network = {"id": "wide", "depth": 1, "rows": 1, "cols": 1, "layers_per_cell": 4, "layers": layers}
    section = {"architecture": "llama_style_decoder", "hidden_size": 1 << 14, "vocab_size": 1 << 14}
    headers = {"loom.entity": {"format_version": 1, "network": network, "blobs": blobs},
               "model.entity": {"format_version": 1, "network": network, "transformer": section, "blobs": blobs},
               "m.safetensors": {f"{i}.weight": {"dtype": "F32", "shape": [1 << 14, 1 << 14],
                                                 "data_offsets": [i << 30, (i + 1) << 30]} for i in range(4)}}
    for name, header in headers.items():
        text = json.dumps(header).encode()
        start = (b"" if name.endswith("s") else struct.pack("<8sHH", b"ENTITY\0\0", 1, 0)) + struct.pack("<Q", len(text))
        (folder / name).write_bytes(start + text)
        os.truncate(folder / name, len(start) + len(text) + (4 << 30))
    return [str(folder / name) for name in headers]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("weft")
    parser.add_argument("--width", type=int, default=4096)
    given = parser.parse_args()
    failures = 0

    def check(what, found, limit):
        nonlocal failures
        print(f"{what}: {found / MIB:.0f} MiB, at most {limit / MIB:.0f}", flush=True)
        failures += found > limit

    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_model(folder, given.width)
        weft, net = given.weft, str(folder / "net.json")
        mesh = given.width * given.width * 4
        run = [weft, "run", net, "--threads", "1", "--quiet", "--max-samples", "2"]
        alone = peak(run)
        print(f"the run alone: {alone / MIB:.0f} MiB, a mesh of {mesh / MIB:.0f}", flush=True)
        check("run --save, above the run", peak(run + ["--save", str(folder / "a.entity")]) - alone, LIMIT)
        # Weights, velocities, and both again in the snapshot.
        check("run --state, above the run", peak(run + ["--state", str(folder / "agent")]) - alone, 2 * mesh + LIMIT)
        saved, session = str(folder / "a.entity"), str(folder / "s.entity")
        check("hash of the saved model, above the run", peak([weft, "hash", saved]) - alone, LIMIT)
        check("session detach, above the run",
              peak([weft, "session", "detach", saved, "--session", "0", "-o", session]) - alone, LIMIT)
        check("session attach, above the run",
              peak([weft, "session", "attach", saved, session, "-o", str(folder / "e.entity")]) - alone, LIMIT)
        check("run --checkpoint, above the run", peak(run + ["--checkpoint", str(folder / "c")]) - alone, LIMIT)
        for file in [saved] + declare_weights(folder):
            check(f"inspect {pathlib.Path(file).name}", peak([weft, "inspect", file, "--json"]), LIMIT)
        check("morph", peak([weft, "morph", net, "--dtype", "float32", "-o", str(folder / "b.entity")]), mesh + LIMIT)
        check("pack", peak([weft, "pack", str(folder / "b.entity"), "-o", str(folder / "p.entity")]), LIMIT)
        check("pack --plain",
              peak([weft, "pack", str(folder / "p.entity"), "--plain", "-o", str(folder / "q.entity")]), LIMIT)
        if (folder / "b.entity").read_bytes() != (folder / "q.entity").read_bytes():
            failures += 1
            print("what was packed and unpacked is not what it was")
        check("morph of a file", peak([weft, "morph", str(folder / "b.entity"), "--dtype", "float32", "-o",
                                       str(folder / "d.entity")]), mesh + LIMIT)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
