#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The schema of network files against the examples, against networks that are wrong, and against the readers.

  network_schema_test.py WEFT

The last part reads the sources: every key that a reader asks for must be a key of the schema's object and the other way
round, and the schema's lists of names must be the lists of the code. Options come from the program's own rows.
Needs python3-jsonschema.
"""
import copy
import json
import pathlib
import re
import sys
import unittest

try:
    import jsonschema
except ImportError:
    print("python3-jsonschema is missing (tools/setup.sh installs it)")
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import make_network_schema  # noqa: E402

SCHEMA = json.loads(make_network_schema.written(make_network_schema.schema(sys.argv[1])))
LAYERS = make_network_schema.layers(sys.argv.pop(1))
DEFS = SCHEMA["$defs"]
GOOD = {
    "weft": 2, "name": "all", "seed": 7, "grid": {"z": 1, "y": 1, "x": 3, "layers": 2}, "inputs": {"in": [2, 2]},
    "layers": [
        {"at": [0, 0, 0, 0], "type": "dense", "out": 8, "from": ["in", [0, 0, 2, 1]], "activation": "tanh", "bias": False},
        {"at": [0, 0, 0, 1], "type": "leaky_integrator", "rate": 0.25, "policy": "hold", "device": "cpu", "view": [8], "shape": [8]},
        {"at": [0, 0, 1, 0], "type": "softmax", "temperature": 2, "neighbours": "moore", "combine": "avg",
         "kind": "entmax", "alpha": 1.25, "groups": 2},
        {"at": [0, 0, 1, 1], "type": "swiglu", "out": 6, "hidden": 24, "gate": "relu2", "bias": True, "init": "he"},
        {"at": [0, 0, 2, 0], "type": "rnn", "out": 5, "activation": "relu", "init": "uniform"},
        {"at": [0, 0, 0, 2], "type": "conv2d", "out": 4, "kernel": [3, 2], "stride": 2, "padding": [1, 0], "dilation": 1,
         "groups": 2, "activation": "relu", "bias": False, "init": "he", "view": [2, 4, 4]},
        {"at": [0, 0, 1, 2], "type": "conv_transposed1d", "out": 4, "kernel": 3, "stride": 2, "output_padding": 1},
        {"at": [0, 0, 2, 2], "type": "avg_pool", "kernel": 2, "ceil_mode": True, "count_include_pad": False},
        {"at": [0, 0, 0, 3], "type": "max_pool", "kernel": 2, "stride": 1, "padding": 1, "dilation": 2},
        {"at": [0, 0, 1, 3], "type": "adaptive_avg_pool", "size": [1, 1]},
        {"at": [0, 1, 0, 0], "type": "attention", "heads": 4, "kv_heads": 2, "context": 8, "rope": "half", "rope_theta": 500,
         "rope_scaling": "llama3", "rope_factor": 8, "rope_high_freq_factor": 2, "qk_norm": "rms", "epsilon": 1e-6},
        {"at": [0, 1, 1, 0], "type": "metacognition", "above": 3, "action": "morph", "to": "int8", "min_ticks": 2},
        {"at": [0, 1, 2, 0], "type": "softmax", "kind": "grid", "axes": [0, 2]},
        {"at": [0, 1, 0, 1], "type": "sequential", "dtype": "int8", "activation_dtype": "fp8_e4m3", "gradient_dtype": "fp8_e5m2", "layers": [
            {"type": "rms_norm", "name": "n", "from": ["input"], "policy": "restart"},
            {"type": "parallel", "merge": "filter", "top_k": 1, "name": "p", "layers": [
                {"type": "dense", "out": 4}, {"type": "shared", "at": [0, 0, 0, 0]},
                {"type": "sequential", "layers": [{"type": "their_own", "out": 4, "sharpness": 3}]}]},
            {"type": "residual", "from": ["n", "p"]}]},
        {"at": [0, 1, 1, 1], "type": "parallel", "merge": "grid_scatter", "grid": [1, 2, 2], "places": [0, 1, 1, 0, 0, 1],
         "layers": [{"type": "dense", "out": 4}, {"type": "lstm", "out": 4}]},
        {"at": [0, 0, 2, 1], "type": "their_own", "sharpness": 3, "is_on": True, "mode": "x", "steps": [1, 2.5], "dtype": "int8"},
        {"repeat": {"z": 1, "y": [0, 2], "x": [0, 3, 2]}, "type": "identity", "from": [
            "in", {"offset": [-1, 0, 0, 0]}, {"stencil": "moore", "radius": 2, "centre": True, "edge": "wrap",
                                              "offset": [0, 0, 1, 0]}]}],
    "outputs": {"y": [0, 0, 1, 0]},
    "supervision": {"policy": "restart", "max_restarts": 2, "window": 100, "escalation": "isolate"},
    "device": "vulkan:part of a name",
    "learning": {"rule": "dfa", "schedule": "pipelined", "optimizer": {"type": "adamw", "lr": 0.01}},
    "stream": {"csv": "x.csv", "label": "kind", "skip": ["id", 2], "separator": "tab", "header": "present",
               "missing": "mean", "fill": [0.5, 1], "classes": ["a", "b"], "labels": ["kind", 7], "targets": [1],
               "head_classes": [["a", "b"], [], ["a", "b"]], "target_mean": [2], "target_deviation": [0.5],
               "stratified": True, "split_seed": 3,
               "drift": {"kind": "pixels", "at": 0.25}},
}
CHAIN = {"weft": 2, "inputs": {"x": [4]}, "chain": [
    {"type": "standardize", "mean": [1, 2, 3, 4], "deviation": [1, 1, 2, 0.5]},
    {"type": "dense", "out": 8, "activation": "tanh", "dtype": "int8"}, {"type": "their_own", "sharpness": 3},
    {"type": "sequential", "layers": [{"type": "dense", "out": 3}]},
    {"type": "running_standardize", "kind": "ema", "decay": 0.999, "epsilon": 1e-4},
    {"type": "select", "first": [0, 2], "count": [1, 2], "step": [1, -1]}, {"type": "magnitude"},
    {"type": "soft_cap", "cap": 2}, {"type": "crelu", "axis": "last"}, {"type": "position_embedding", "positions": 5, "stateful": True}]}


def function_body(path, head):
    text = (ROOT / path).read_text()
    start = text.index("{\n", text.index(head))
    return text[start:text.index("\n}\n", start)]


def asked_keys(body, reader=r"reader"):
    return set(re.findall(reader + r"\.\w+\(\"(\w+)\"", body))


def layer(network, kind, nth=0):
    """The nth layer of a type in the grid."""
    return [own for own in network["layers"] if own["type"] == kind][nth]


def inner(network, *path):
    """A layer inside the sequential: its place in each of the lists on the way."""
    own = layer(network, "sequential")
    for place in path:
        own = own["layers"][place]
    return own


def listed(path, name):
    return re.findall(r"\"(\w+)\"", re.search(name + r"\s*[={]([^;]*);", (ROOT / path).read_text()).group(1))


def rows(path):
    return re.findall(r"^WEFT_\w+\((\w+),", (ROOT / path).read_text(), re.MULTILINE)


class NetworkSchema(unittest.TestCase):
    validator = jsonschema.Draft202012Validator(SCHEMA)

    def assert_valid(self, network):
        errors = [f"{list(e.absolute_path)}: {e.message}" for e in self.validator.iter_errors(network)]
        self.assertEqual(errors, [])

    def test_is_a_schema(self):
        jsonschema.Draft202012Validator.check_schema(SCHEMA)

    def test_takes_every_example(self):
        examples = sorted((ROOT / "examples").glob("*.json"))
        self.assertTrue(examples)
        for path in examples:
            with self.subTest(path.name):
                self.assert_valid(json.loads(path.read_text()))

    def test_takes_every_layer_of_the_conformance_tests(self):
        for kind, rows_of_kind in json.loads((ROOT / "tests/conformance/layers.json").read_text()).items():
            for row in rows_of_kind:
                with self.subTest(kind, layer=row["layer"]):
                    own = {"type": kind, **row["layer"]}
                    network = {"weft": 2, "grid": {}, "layers": [{"at": [0, 0, 0, 0], **own}]}
                    self.assert_valid(network)
                    if kind != "metacognition" and "tied" not in row:  # weights are borrowed by cells alone
                        network["layers"] = [{"at": [0, 0, 0, 0], "type": "sequential", "layers": [own]}]
                        self.assert_valid(network)

    def test_takes_a_network_that_uses_everything(self):
        self.assert_valid(GOOD)

    def test_takes_a_chain_or_a_grid_with_layers(self):
        self.assert_valid(CHAIN)
        for name, plant in {
            "a grid beside it": lambda n: n.update(grid={}),
            "layers beside it": lambda n: n.update(layers=GOOD["layers"]),
            "no layer": lambda n: n.update(chain=[]),
            "a place": lambda n: n["chain"][1].update(at=[0, 0, 0, 0]),
            "sources": lambda n: n["chain"][1].update({"from": ["x"]}),
            "no width": lambda n: n["chain"][1].pop("out"),
            "an option of another type": lambda n: n["chain"][1].update(rate=0.5),
            "means without deviations": lambda n: n["chain"][0].pop("deviation"),
        }.items():
            with self.subTest(name):
                network = copy.deepcopy(CHAIN)
                plant(network)
                self.assertFalse(self.validator.is_valid(network))

    def test_takes_what_only_one_softmax_has(self):
        network = copy.deepcopy(GOOD)
        del network["layers"][2]["alpha"]
        network["layers"][2].update(kind="gumbel", straight_through=True)
        self.assert_valid(network)

    def test_refuses_what_the_reader_refuses(self):
        faults = {
            "no version": lambda n: n.pop("weft"),
            "another version": lambda n: n.update(weft=3),
            "no grid": lambda n: n.pop("grid"),
            "an empty axis": lambda n: n["grid"].update(z=0),
            "an unknown key": lambda n: n.update(layer=[]),
            "an unknown key of a grid": lambda n: n["grid"].update(w=1),
            "no layers": lambda n: n.update(layers=[]),
            "a place of three numbers": lambda n: n["layers"][0].update(at=[0, 0, 0]),
            "a negative place": lambda n: n["layers"][0].update(at=[0, 0, 0, -1]),
            "a width of zero": lambda n: n["layers"][0].update(out=0),
            "an input of no width": lambda n: n["inputs"].update(more=[]),
            "an option of another type": lambda n: n["layers"][0].update(rate=0.5),
            "an option out of range": lambda n: n["layers"][1].update(rate=2),
            "an option that is a list of texts": lambda n: layer(n, "their_own").update(mode=["x"]),
            "an input of nine axes": lambda n: n["inputs"].update(more=[1] * 9),
            "a view with an empty axis": lambda n: n["layers"][0].update(view=[4, 0]),
            "an unknown activation": lambda n: n["layers"][0].update(activation="tahn"),
            "an activation that an rnn lacks": lambda n: n["layers"][4].update(activation="gelu"),
            "a gate that swiglu lacks": lambda n: n["layers"][3].update(gate="tanh"),
            "an unknown softmax": lambda n: n["layers"][2].update(kind="hardmax"),
            "an alpha below one": lambda n: n["layers"][2].update(alpha=0.5),
            "an alpha of another kind": lambda n: n["layers"][2].update(kind="sparsemax"),
            "a straight-through entmax": lambda n: n["layers"][2].update(straight_through=True),
            "groups of half a value": lambda n: n["layers"][2].update(groups=1.5),
            "a convolution without a kernel": lambda n: n["layers"].append({"at": [0, 0, 0, 2], "type": "conv2d", "out": 4}),
            "a dilated mean": lambda n: n["layers"].append(
                {"at": [0, 0, 0, 2], "type": "avg_pool", "kernel": 2, "dilation": 2}),
            "a hidden width of half a value": lambda n: n["layers"][3].update(hidden=2.5),
            "a kernel of three numbers over two axes": lambda n: layer(n, "conv2d").update(kernel=[3, 3, 3]),
            "no axes for a grid": lambda n: layer(n, "softmax", 1).pop("axes"),
            "axes for no grid": lambda n: layer(n, "softmax", 1).update(kind="standard"),
            "groups of a grid": lambda n: layer(n, "softmax", 1).update(groups=2),
            "a mask of halves": lambda n: layer(n, "softmax", 1).update(kind="masked", mask=[0.5, 1]),
            "a base for no rope": lambda n: layer(n, "attention").update(rope="none"),
            "a factor for no scaling": lambda n: layer(n, "attention").update(rope_scaling="none"),
            "what only llama3 has": lambda n: layer(n, "attention").update(rope_scaling="linear"),
            "an epsilon for no norm": lambda n: layer(n, "attention").pop("qk_norm"),
            "a morph into nothing": lambda n: layer(n, "metacognition").pop("to"),
            "a dtype to reset to": lambda n: layer(n, "metacognition").update(action="reset"),
            "a cooldown of three ticks": lambda n: layer(n, "metacognition").update(cooldown=3),
            "a width of a container": lambda n: layer(n, "sequential").update(out=4),
            "an empty container": lambda n: layer(n, "sequential").update(layers=[]),
            "a dense layer that holds layers": lambda n: n["layers"][0].update(layers=[{"type": "identity"}]),
            "experts kept of no mixture": lambda n: layer(n, "parallel").update(top_k=1),
            "no places on a grid": lambda n: layer(n, "parallel").pop("places"),
            "a place inside a container": lambda n: inner(n, 0).update(at=[0, 0, 0, 0]),
            "a shared layer without a place": lambda n: inner(n, 1, 1).pop("at"),
            "a place as a source inside": lambda n: inner(n, 2).update({"from": [[0, 0, 0, 0], "p"]}),
            "an activation_dtype inside a container": lambda n: inner(n, 0).update(activation_dtype="int8"),
            "an isolated layer inside": lambda n: inner(n, 0).update(policy="isolate"),
            "an unknown key inside": lambda n: inner(n, 0).update(epsilom=1e-5),
            "an option of another type inside": lambda n: inner(n, 1, 0).update(rate=0.5),
            "an option out of range inside": lambda n: inner(n, 0).update(epsilon=2),
            "a dense layer without a width inside": lambda n: inner(n, 1, 0).pop("out"),
            "a list of texts deep inside": lambda n: inner(n, 1, 2, 0).update(sharpness=["x"]),
            "a watcher inside": lambda n: inner(n, 0).update(type="metacognition", above=1),
            "a name on the grid": lambda n: n["layers"][0].update(name="first"),
            "a place and a repetition": lambda n: layer(n, "identity").update(at=[0, 0, 0, 0]),
            "neither place nor repetition": lambda n: layer(n, "identity").pop("repeat"),
            "an axis that no grid has": lambda n: layer(n, "identity")["repeat"].update(w=1),
            "a range of one number": lambda n: layer(n, "identity")["repeat"].update(x=[1]),
            "an empty range from the start": lambda n: layer(n, "identity")["repeat"].update(x=[0, 0]),
            "a step of nothing": lambda n: layer(n, "identity")["repeat"].update(x=[0, 2, 0]),
            "an offset of half a cell": lambda n: layer(n, "identity")["from"][1].update(offset=[0, 0.5, 0, 0]),
            "an offset of three axes": lambda n: layer(n, "identity")["from"][1].update(offset=[0, 0, 0]),
            "a relative source from nowhere": lambda n: layer(n, "identity")["from"][1].pop("offset"),
            "a radius of no stencil": lambda n: layer(n, "identity")["from"][1].update(radius=2),
            "a radius too far": lambda n: layer(n, "identity")["from"][2].update(radius=9),
            "an unknown stencil": lambda n: layer(n, "identity")["from"][2].update(stencil="none"),
            "an unknown edge": lambda n: layer(n, "identity")["from"][2].update(edge="reflect"),
            "a repetition inside a container": lambda n: inner(n, 0).update(repeat={}),
            "a relative source inside a container": lambda n: inner(n, 2).update({"from": [{"offset": [0, 0, 0, 0]}]}),
            "an unknown dtype": lambda n: n["layers"][0].update(dtype="float31"),
            "activations in a type for weights alone": lambda n: n["layers"][0].update(activation_dtype="int4"),
            "an empty port name": lambda n: n["layers"][0].update({"from": [""]}),
            "no sources in a list": lambda n: n["layers"][0].update({"from": []}),
            "an unknown device": lambda n: n.update(device="gpu"),
            "an escalation to restart": lambda n: n["supervision"].update(escalation="restart"),
            "an unknown rule": lambda n: n["learning"].update(rule="magic"),
            "a momentum above one": lambda n: n["learning"]["optimizer"].update(momentum=1.5),
            "a stream from nowhere": lambda n: n["stream"].pop("csv"),
            "a drift without its kind": lambda n: n["stream"]["drift"].pop("kind"),
            "no pass": lambda n: n["stream"].update(epochs=0),
            "an unknown separator": lambda n: n["stream"].update(separator="#"),
            "a column 0": lambda n: n["stream"].update(label=0),
            "an answer to missing values that there is not": lambda n: n["stream"].update(missing="median"),
            "a class twice": lambda n: n["stream"].update(classes=["a", "a"]),
        }
        for name, plant in faults.items():
            with self.subTest(name):
                network = copy.deepcopy(GOOD)
                plant(network)
                self.assertFalse(self.validator.is_valid(network))

    def test_has_the_keys_that_the_readers_ask_for(self):
        network = "mesh/network/network_json.cpp"
        # Layers inside a container have a name, and containers layers: not every layer of the grid.
        all_keys = asked_keys("".join(function_body(network, head) for head in (
            "Result<LayerSpec> read_layer(", "Status read_place(", "Status read_numbers(")))
        layer_keys = all_keys - {"name", "layers"}
        self.assertEqual(set(DEFS["inner_base"]["properties"]) - layer_keys, {"name"})
        root_body = function_body(network, "Result<NetworkSpec> read_network(") + function_body(
            network, "Status read_cells(")
        sections = set(re.findall(r"section\(reader, \"(\w+)\"", root_body))
        for schema, keys in [
            (SCHEMA, asked_keys(root_body) | sections),
            (SCHEMA["properties"]["grid"], asked_keys(function_body(network, "Result<GridShape> read_grid("), "grid")),
            (DEFS["layer_base"], layer_keys),
            (DEFS["chain_base"], layer_keys - {"at", "repeat", "from", "neighbours", "combine"}),
            (DEFS["supervision"], asked_keys(function_body(network, "SupervisionRule> read_supervision("))),
        ]:
            self.assertTrue(keys)
            self.assertEqual(set(schema["properties"]), keys)
        self.assertEqual(set(listed(network, "kOwn")), all_keys)

    def test_knows_every_layer(self):
        self.assertEqual(sorted(LAYERS), sorted(rows("mesh/layers/layers.def")))
        for name, listed_layer in LAYERS.items():
            with self.subTest(name):
                self.assertTrue(listed_layer["formula"] and listed_layer["takes"] and listed_layer["gives"])
                own = set(DEFS[f"options_{name}"]["properties"]) - {"out"}
                self.assertEqual(own, {row["key"] for row in listed_layer["options"]} - {"out"})
                for base, places in (("layer", "layer_base"), ("chain", "chain_base"), ("inner", "inner_base")):
                    if name == "metacognition" and base == "inner":
                        continue
                    keys = set(DEFS[f"{base}_{name}"]["properties"])
                    self.assertEqual(keys - own - {"out"}, set(DEFS[places]["properties"]) - {"out"})

    def test_puts_every_option_on_the_page(self):
        page = make_network_schema.page(LAYERS)
        for name, listed_layer in LAYERS.items():
            part = page[page.index(f"\n## {name}\n"):].split("\n## ")[1]
            for row in listed_layer["options"]:
                self.assertIn(f"| `{row['key']}` |", part)

    def test_has_the_names_of_the_code(self):
        network = "mesh/network/network_json.cpp"
        base = DEFS["layer_base"]["properties"]
        for schema, names in [
            (base["combine"], listed(network, "kCombines")),
            (DEFS["policy"], listed(network, "kPolicies")),
            (DEFS["activation"], rows("kernels/activations.def")),
            (DEFS["dtype"], rows("core/dtypes.def")),
            (DEFS["value_dtype"], ["float32", *rows("kernels/narrow_types.def")]),
            (DEFS["init"],
             re.findall(r"kind == \"(\w+)\"", (ROOT / "mesh/layers/init.cpp").read_text())),
        ]:
            self.assertEqual(sorted(schema["enum"]), sorted(names))
        layers = sorted(rows("mesh/layers/layers.def"))
        inside = [name for name in layers if name != "metacognition"]
        self.assertEqual(DEFS["inner_registered"]["properties"]["type"]["not"]["enum"], [*layers, "shared"])
        self.assertEqual(DEFS["inner_layer"]["oneOf"],
                         [{"$ref": f"#/$defs/inner_{name}"} for name in (*inside, "shared", "registered")])
        for place in ("layer", "chain"):
            self.assertEqual(DEFS[f"{place}_registered"]["properties"]["type"]["not"]["enum"], layers)
            own = "layer" if place == "layer" else "chain_layer"
            self.assertEqual(DEFS[own]["oneOf"],
                             [{"$ref": f"#/$defs/{place}_{name}"} for name in (*layers, "registered")])


if __name__ == "__main__":
    unittest.main()
