#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The WebAssembly package in node and in Chromium, both modules, to the hashes of the native library: rules, all layers in
all numeric types, activations, late targets, agents' journals; and the pages of examples/web. Skipped (77), which ctest
counts, where there is no node or no package (`tools/build_web.sh` builds one, CI does not), or no Chromium for its part.

  WEFT_LIBRARY=.../libweft.so web_test.py PACKAGE [WEFT]
"""
import base64
import gzip
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "bindings/python"), str(ROOT / "bindings/web"), str(ROOT / "tests/bindings")]
package = pathlib.Path(sys.argv[1])
node = shutil.which("node")
if not node or not (package / "weft_simd.wasm").exists():
    print(f"{'no node' if not node else f'no {package}/weft_simd.wasm: tools/build_web.sh'}")
    sys.exit(77)
try:
    import numpy as np
except ImportError:
    print("no numpy here")
    sys.exit(77)
from python_test import digits_stream  # noqa: E402

import flush_floats  # noqa: E402
import web_chromium  # noqa: E402
import weft  # noqa: E402

DTYPES = ("float64 float32 float16 bfloat16 fp8_e4m3 fp8_e5m2 fp4 int64 int32 int16 int8 int4 int2 uint64 uint32 uint16 "
          "uint8 uint4 uint2 ternary binary").split()


def learned(name, network, inputs, labels=None, values=None, options=None, samples=None):
    mesh = weft.Mesh(network, threads=1)
    learner = weft.Learner(mesh, **(options or {}))
    targets = labels if labels is not None else values
    learner.learn(inputs, targets, samples)
    learner.drain()
    row = {"name": name, "network": network, "options": options, "hash": mesh.state_hash(),
           "samples": len(next(iter(inputs.values()))),
           "inputs": {key: np.asarray(x, np.float32).reshape(-1).tolist() for key, x in inputs.items()}}
    row["labels" if labels is not None else "values"] = {
        key: np.asarray(y).reshape(-1).tolist() for key, y in targets.items()}
    return row


def ticked(name, network, random, ticks=6):
    mesh = weft.Mesh(network, threads=1)
    inputs = {port["name"]: random.randn(port["width"]).astype(np.float32) for port in mesh.description["inputs"]}
    for port, values in inputs.items():
        mesh.set_input(port, values)
    mesh.tick(ticks)
    return {"name": name, "network": network, "ticks": ticks, "hash": mesh.state_hash(),
            "inputs": {key: x.tolist() for key, x in inputs.items()}}


def expected():
    """Rows for node: networks, samples, and the native hashes."""
    random = np.random.RandomState(1)
    digits = json.loads((ROOT / "examples/digits.json").read_text())
    x, y = digits_stream(300)
    hashes = json.loads((ROOT / "tests/data/golden_hashes.json").read_text())
    rows = {"learned": [], "ticked": []}
    for rule in ("backprop", "fw_dtp", "dfa", "chain", "gap"):
        for schedule in ("settle", "pipelined"):
            options = json.loads(json.dumps(digits["learning"]))
            if rule != options["rule"]:
                del options["step_limit"], options["optimizer"]["lr"]
            row = learned(f"digits {rule} {schedule}", digits, {"pixels": x}, {"digit": y},
                          options={**options, "rule": rule, "schedule": schedule})
            golden = hashes.get(f"examples/digits.json --rule {rule} --schedule {schedule} --max-samples 300")
            assert golden in (None, row["hash"]), row["name"]
            rows["learned"].append(row)
    for example in ("digits_cnn", "digits_gru", "digits_transformer", "digits_moe"):
        network = json.loads((ROOT / f"examples/{example}.json").read_text())
        (port, _), = network["inputs"].items()
        (output, _), = network["outputs"].items() if "outputs" in network else [("y", None)]
        rows["learned"].append(learned(example, network, {port: x[:40]}, {output: y[:40]}))
    for dtype in DTYPES:
        network = {"weft": 2, "inputs": {"x": [40]}, "chain": [
            {"type": "dense", "out": 33, "activation": "tanh", "dtype": dtype}, {"type": "dense", "out": 5, "dtype": dtype}]}
        rows["ticked"].append(ticked(f"dense {dtype}", network, random))
        rows["learned"].append(learned(f"dense {dtype} learns", network, {"x": random.randn(20, 40)},
                                       {"y": random.randint(0, 5, 20)}))
    for activation in ("relu", "leaky_relu", "tanh", "sigmoid", "elu", "silu", "gelu", "gelu_tanh", "softplus", "mish"):
        network = {"weft": 2, "inputs": {"x": [20]}, "chain": [
            {"type": "dense", "out": 17, "activation": activation}, {"type": "dense", "out": 2}]}
        rows["learned"].append(learned(activation, network, {"x": random.randn(20, 20)}, values={"y": random.randn(20, 2)},
                                       options={"loss": "mse", "optimizer": {"type": "adamw"}}))
    rows["learned"] += list(all_layers(random))
    rows["learned"] += list(tiny(random))
    rows["learned"] += list(of_every_kind(np.random.RandomState(2)))
    rows["acted"] = [acted(kind) for kind in ("cartpole", "acrobot")]
    rows["late"] = [late_run(name, options, random) for name, options in (
        ("meets", {"late": "meet", "patience": 4}), ("shows again", {"late": "again", "patience": 4}),
        ("meets, pipelined", {"late": "meet", "patience": 8, "schedule": "pipelined"}))]
    return rows


OPTIMIZERS = ({"type": "sgd", "lr": 0.01}, {"type": "momentum", "lr": 0.01}, {"type": "momentum", "nesterov": True, "lr": 0.01},
              {"type": "adamw"}, {"type": "rmsprop", "centered": True, "momentum": 0.5}, {"type": "lion"})
MOVERS = ("identity", "dropout", "select", "max_pool", "adaptive_max_pool")  # layers that give an input's number on as it is


def near(random, exponent, *shape):
    """Numbers of 2^exponent to 2^(exponent + 2), either sign."""
    return np.ldexp(random.uniform(1, 4, shape) * random.choice([-1, 1], shape), exponent).astype(np.float32)


def tiny(random):
    """Inputs of 2^-126 to 2^-124, so that many products, and some sums, of them are flushed: under every optimizer, and
    through every layer. Subnormal inputs among them too, which count as zeros, but where a layer moves them as they are."""
    for activation in ("linear", "relu", "tanh", "sigmoid", "gelu"):
        network = {"weft": 2, "inputs": {"x": [21]}, "chain": [
            {"type": "dense", "out": 37, "activation": activation}, {"type": "dense", "out": 5}]}
        for optimizer in OPTIMIZERS:
            options = {"rule": "backprop", "optimizer": optimizer}
            yield learned(f"flushed results, {activation}, {optimizer}", network, {"x": near(random, -126, 12, 21)},
                          {"y": random.randint(0, 5, 12)}, options=options)
        x = near(random, -126, 12, 21) * np.where(random.rand(12, 21) < 0.3, np.float32(2**-6), np.float32(1))
        yield learned(f"subnormal inputs, {activation}", network, {"x": x}, {"y": random.randint(0, 5, 12)},
                      options={"rule": "backprop", "optimizer": {"type": "momentum", "lr": 0.01}})
        yield learned(f"subnormal targets, {activation}", network, {"x": x}, values={"y": near(random, -129, 12, 5)},
                      options={"rule": "backprop", "loss": "mse", "optimizer": {"type": "momentum", "lr": 0.01}})
    # Quotients by 2 that are exact and tiny, and would round to 2^-126.
    x = np.nextafter(np.float32(2**-125), np.float32(0)) * random.choice([-1, 1], (12, 21)).astype(np.float32)
    network = {"weft": 2, "inputs": {"x": [21]}, "chain": [
        {"type": "activation", "activation": "silu"}, {"type": "dense", "out": 5, "bias": False}]}
    yield learned("tiny quotients", network, {"x": x}, {"y": random.randint(0, 5, 12)}, options={"rule": "backprop"})
    for kind, cases in json.loads((ROOT / "tests/conformance/layers.json").read_text()).items():
        for number, case in enumerate(cases):
            width = int(np.prod(case["in"]))
            for dtype in ("float32", "bfloat16", "int8", "ternary"):
                network = layer_network(kind, case, dtype)
                if network is None or "indices" in case:
                    continue
                for exponent in (-126, -130) if kind not in MOVERS else (-126,):
                    options = {"rule": "backprop", "optimizer": {"type": "momentum", "lr": 0.01}}
                    yield learned(f"2^{exponent}, {kind} {number} {dtype}", network, {"x": near(random, exponent, 6, width)},
                                  {"y": random.randint(0, 4, 6)}, options=options)


def of_every_kind(random):
    """Inputs of each kind that the vector kernels take another way with: zeros, few bits, short steps, sums that stand half
    way between two floats, results far from 1. Of 150 inputs: two chunks of 64, and a part of one."""
    shape = (20, 150)
    zeros = random.rand(*shape) < 0.5
    kinds = {"pixels": random.randint(0, 17, shape) / 16, "one of ten": random.rand(*shape) < 0.1,
             "few bits": np.ldexp(random.randint(-128, 128, shape), random.randint(-12, 12, shape)),
             "short steps": random.randint(-2048, 2048, shape) / 4096, "half zeros": np.where(zeros, 0, random.randn(*shape)),
             "negative zeros": np.where(zeros, -0.0, random.randn(*shape)), "zeros": np.zeros(shape),
             "one alone": np.eye(*shape) * random.randn(*shape)}
    kinds |= {f"2^{exponent}": near(random, exponent, *shape) for exponent in (-100, -65, -60, -30, 20, 50)}
    kinds["2^-120 and 1"] = np.where(zeros, near(random, -120, *shape), random.randn(*shape))
    kinds["2^-63 and zeros"] = np.where(zeros, near(random, -63, *shape), 0)
    network = {"weft": 2, "inputs": {"x": [150]}, "chain": [
        {"type": "dense", "out": 37, "activation": "relu"}, {"type": "dense", "out": 5}]}
    for kind, x in kinds.items():
        lr = 0.01 * float(np.abs(x).max(initial=1)) ** -2
        for optimizer in ({"type": "momentum", "lr": lr}, {"type": "momentum", "lr": lr, "dampening": 0, "nesterov": True}):
            yield learned(f"{kind}, {optimizer}", network, {"x": x.astype(np.float32)}, {"y": random.randint(0, 5, shape[0])},
                          options={"rule": "backprop", "optimizer": optimizer})


def acted(kind):
    """An agent that acts in an environment and learns from it."""
    network = json.loads((ROOT / "examples/cartpole.json").read_text())
    world = weft.Environment(kind)
    network["reinforcement"]["environment"] = {"type": kind}
    network["inputs"] = {"observation": list(world.observation_space.shape)}
    network["layers"][0]["layers"][-1]["out"] = world.action_space.n
    with tempfile.TemporaryDirectory() as folder, weft.Agent(folder + "/agent", network, threads=1) as agent:
        agent.act(300)
        return {"name": f"acts in {kind}", "network": network, "steps": 300, "hash": agent.mesh.state_hash()}


def all_layers(random):
    """Each layer of tests/conformance/layers.json in each numeric type, three side by side under a dense head, learned."""
    types = set()
    for kind, cases in json.loads((ROOT / "tests/conformance/layers.json").read_text()).items():
        for number, case in enumerate(cases):
            for dtype in DTYPES:
                network = layer_network(kind, case, dtype)
                if network is None:
                    continue
                types.add(kind)
                width = int(np.prod(case["in"]))
                x = random.randint(0, case["indices"], (6, width)) if "indices" in case else random.randn(6, width)
                yield learned(f"{kind} {number} {dtype}", network, {"x": x}, {"y": random.randint(0, 4, 6)},
                              options={"rule": "backprop", "optimizer": {"type": "momentum", "lr": 0.01}})
    listed = {line.split("(")[1].split(",")[0] for line in (ROOT / "mesh/layers/layers.def").read_text().splitlines()
              if line.startswith("WEFT_LAYER")}
    assert types == listed, f"layers without a row: {listed - types}"


def layer_network(kind, case, dtype):
    """None: the layer has nothing that is stored in that type."""
    layer = {"type": kind, "from": ["x"], **case["layer"]}
    layers = []
    if "watches" in case:
        layer["from"] = [[0, 1, 1, 0]]
        layers.append({"at": [0, 1, 1, 0], "type": "dense", "out": case["watches"], "from": ["x"]})
    if dtype != "float32":
        layer["dtype"] = dtype
    layers = [{"at": [0, 0, x, 0], **layer} for x in range(3)] + layers
    network = {"weft": 2, "seed": 5, "grid": {"y": 2, "x": 3}, "inputs": {"x": case["in"]}, "layers": layers,
               "outputs": {"bare": [0, 0, 0, 0]}}
    try:
        width = 3 * weft.Mesh(network, threads=1).description["outputs"][0]["width"]
    except weft.WeftError:
        assert dtype != "float32"
        return None
    layers.append({"at": [0, 1, 0, 0], "type": "dense", "out": 4, "from": [[0, 0, x, 0] for x in range(3)], "view": [width]})
    return {**network, "outputs": {"y": [0, 1, 0, 0]}}


def late_run(name, options, random):
    """Targets that come later, as labels, weighted, as gradients, or never; some tickets expire."""
    network = {"weft": 2, "inputs": {"x": [3]}, "chain": [
        {"type": "dense", "out": 8, "activation": "tanh"}, {"type": "dense", "out": 2}]}
    mesh = weft.Mesh(network, threads=1)
    learner = weft.Learner(mesh, **options)
    tickets, steps = [], []
    for i in range(40):
        x = random.randn(3).astype(np.float32)
        steps.append(["observe", {"x": x.tolist()}])
        tickets.append(learner.observe({"x": x}))
        of = i - 2
        if of < 0 or of % 7 == 6:
            continue
        if of % 7 == 2:
            steps.append(["gradient", of, {"y": [0.25, -0.25]}])
            learner.teach(tickets[of], {}, gradients={"y": [0.25, -0.25]})
        elif of % 7 == 3:
            steps.append(["teach", of, {"y": [1]}, [0.5]])
            learner.teach(tickets[of], {"y": [1]}, weights=[0.5])
        elif of % 7 == 4:
            steps.append(["forgo", of])
            learner.forgo(tickets[of])
        else:
            steps.append(["teach", of, {"y": [of % 2]}])
            learner.teach(tickets[of], {"y": [of % 2]})
    if options.get("schedule") == "pipelined":
        learner.drain()
        steps.append(["drain"])
    answer = learner.answer(tickets[-1], "y")
    counts = {key: learner.counts()[key] for key in ("observed", "taught", "forgone", "expired")}
    assert counts["expired"] > 0 and counts["forgone"] > 0
    learner.drain()
    return {"name": f"late, {name}", "network": network, "options": options, "steps": steps, "hash": mesh.state_hash(),
            "answer": [float(value) for value in answer], "counts": counts}


def directories(folder):
    """Agents' data directories, of the library's and of the program's, and where each ended."""
    place = pathlib.Path(folder) / "library.agent"
    network = {"weft": 2, "inputs": {"x": [2]}, "chain": [
        {"type": "dense", "out": 16, "activation": "tanh"}, {"type": "dense", "out": 2, "dtype": "int8"}],
        "learning": {"rule": "fw_dtp", "late": "meet", "patience": 4}}
    with weft.Agent(place, network) as agent:
        for i in range(60):
            ticket = agent.learner.observe({"x": [i & 1, i >> 1 & 1]})
            if i % 5:
                agent.learner.teach(ticket, {"y": [(i ^ i >> 1) & 1]})
            if i == 30:
                agent.checkpoint()
        agent.learner.drain()
        agent.mesh.set_input("x", [1, 0])
        agent.note("reward", "1")
        agent.mark()
        made = [("an agent with late targets", place, agent.mesh.ticks, agent.mesh.state_hash())]
    if len(sys.argv) > 2:
        place = pathlib.Path(folder) / "program.agent"
        words = [sys.argv[2], "run", ROOT / "examples/digits.json", "--state", place, "--max-samples", "3000",
                 "--checkpoint-every", "1000", "--json"]
        subprocess.run(list(map(str, words)), check=True, stdout=subprocess.DEVNULL)
        told = subprocess.run([sys.argv[2], "replay", str(place), "--verify", "--json"], check=True, capture_output=True)
        done = json.loads(told.stdout.splitlines()[-1])
        made.append(("a run of weft run --state", place, done["tick"], done["state_hash"]))
    return [{"name": name, "tick": tick, "hash": state, "folder": str(place), "files": {
        str(path.relative_to(place)): base64.b64encode(path.read_bytes()).decode()
        for path in sorted(place.rglob("*")) if path.is_file() and path.name != "lock"}} for name, place, tick, state in made]


PROGRAM = re.compile(r"<!-- run: prints (.*?) -->\n```js\n(.*?)```", re.DOTALL)


def documented(folder):
    """Programs of the documents in node, the package as npm would have it beside them: they print what is said."""
    place = pathlib.Path(folder) / "documents"
    (place / "node_modules").mkdir(parents=True)
    os.symlink(package.resolve(), place / "node_modules/weft")
    count = 0
    for document in ("docs/web.md", "bindings/web/README.md"):
        text = (ROOT / document).read_text()
        programs = PROGRAM.findall(text)
        assert programs and len(programs) == text.count("```js\n"), f"{document}: a program without what it prints"
        for printed, program in programs:
            (place / "program.mjs").write_text(program)
            done = subprocess.run([node, place / "program.mjs"], cwd=place, capture_output=True, text=True, check=False)
            assert done.returncode == 0 and " ".join(done.stdout.split()) == printed, f"{program}\n{done.stdout}{done.stderr}"
            count += 1
    print(f"{count} programs of documents print what they say")


for module in ("simd", "scalar"):  # what a visitor loads is one of them, and weft.mjs
    size = sum(len(gzip.compress((package / name).read_bytes(), 9)) for name in (f"weft_{module}.wasm", "weft.mjs"))
    print(f"{module}: {size} bytes gzipped")
    assert size <= 1_500_000, size
    unflushed = flush_floats.rewrite((package / f"weft_{module}.wasm").read_bytes())[1]
    assert unflushed == 0, f"{module}: {unflushed} scalar operations that flush nothing"
with tempfile.TemporaryDirectory() as folder:
    documented(folder)
    path, file = pathlib.Path(folder) / "expected.json", pathlib.Path(folder) / "web.entity"
    rows = expected()
    rows["directories"] = directories(folder)
    rows["folder"] = rows["directories"][0]["folder"]
    path.write_text(json.dumps(rows))
    subprocess.run([node, ROOT / "tests/bindings/web_test.mjs", package, path, file], check=True)
    mesh = weft.Mesh.load(file)  # written by the module
    assert mesh.state_hash() == file.with_name("web.entity.hash").read_text()
    print("a file of the module's is read natively, to the same hash")
    sys.exit(web_chromium.check(package, path))
