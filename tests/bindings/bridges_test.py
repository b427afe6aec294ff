#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The Python package's ways to others: safetensors, PyTorch, river's calls, language models, `welvet`. Skipped (77)
without numpy; parts without PyTorch or ../shared/data are skipped and counted.

  WEFT_LIBRARY=.../libweft.so bridges_test.py
"""
import json
import pathlib
import struct
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHARED = ROOT.parent / "shared/data"
sys.path[:0] = [str(ROOT / "bindings/python"), str(ROOT / "bindings/python/compat")]
try:
    import numpy as np
except ImportError:
    print("no numpy here")
    sys.exit(77)
try:
    import torch
except ImportError:
    torch = None

import welvet  # noqa: E402

import weft  # noqa: E402
from weft import tensors  # noqa: E402

LAYERS = [{"type": "dense", "out": 5, "activation": "tanh"}, {"type": "dense", "out": 3}]


def mesh(seed=1):
    return weft.Mesh(weft.Network.chain(4, LAYERS, seed=seed), threads=1)


class Tensors(unittest.TestCase):
    def test_state_goes_into_a_file_and_back(self):
        first, second = mesh(1), mesh(2)
        state = tensors.state_dict(first)
        self.assertEqual({name: array.shape for name, array in state.items()},
                         {"0.weight": (5, 4), "0.bias": (5,), "2.weight": (3, 5), "2.bias": (3,)})
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "a.safetensors"
            tensors.save_file(state, path, {"by": "a test"})
            raw = path.read_bytes()
            length = struct.unpack("<Q", raw[:8])[0]  # as the format says (huggingface/safetensors)
            header = json.loads(raw[8:8 + length])
            self.assertEqual((length % 8, header["0.weight"]["shape"], header["__metadata__"]), (0, [5, 4], {"by": "a test"}))
            begin, end = header["2.bias"]["data_offsets"]
            self.assertEqual(np.frombuffer(raw[8 + length:][begin:end], "<f4").tolist(), state["2.bias"].tolist())
            tensors.load_state_dict(second, tensors.load_file(path))
        x = np.ones((2, 4), np.float32)
        self.assertEqual(first.forward({"x": x})["y"].tolist(), second.forward({"x": x})["y"].tolist())

    def test_bfloat16_stays_bfloat16(self):
        class Stored:  # of PyTorch's type, which numpy does not have
            dtype = "torch.bfloat16"

            def __init__(self, values):
                self.values = values

            def detach(self):
                return self
            cpu = detach

            def float(self):
                return self

            def numpy(self):
                return self.values

        # Bits of bfloat16: 1, -2.5, 3.140625, the smallest normal number.
        bits = np.array([0x3F80, 0xC020, 0x4049, 0x0080], np.uint32)
        values = (bits << 16).view(np.float32).reshape(2, 2)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "a.safetensors"
            tensors.save_file({"w": Stored(values), "one": np.float32(3)}, path)
            raw = path.read_bytes()
            length = struct.unpack("<Q", raw[:8])[0]
            header = json.loads(raw[8:8 + length])
            self.assertEqual((header["w"]["dtype"], header["w"]["shape"], header["one"]["shape"]), ("BF16", [2, 2], []))
            begin, end = header["w"]["data_offsets"]
            self.assertEqual(np.frombuffer(raw[8 + length:][begin:end], "<u2").tolist(), bits.tolist())
            self.assertEqual(tensors.load_file(path)["w"].tolist(), values.tolist())

    def test_what_does_not_fit_changes_nothing(self):
        made = mesh()
        state, before = tensors.state_dict(made), made.state_hash()
        self.assertRaisesRegex(ValueError, r"\['9.weight'\]", tensors.load_state_dict, made, {**state, "9.weight": 1})
        self.assertRaisesRegex(ValueError, r"2.bias: \[4\] against \[3\]", tensors.load_state_dict, made,
                               {**state, "2.bias": np.zeros(4), "0.weight": np.zeros((5, 4))})
        self.assertEqual(made.state_hash(), before)
        self.assertEqual(list(tensors.state_dict(made, ["first", "second"])),
                         ["first.weight", "first.bias", "second.weight", "second.bias"])

    @unittest.skipIf(torch is None, "PyTorch is not here")
    def test_torch_gives_the_same_answers(self):
        module = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.Tanh(), torch.nn.Linear(5, 3))
        made = mesh()
        tensors.load_state_dict(made, module.state_dict())
        x = np.random.RandomState(0).randn(7, 4).astype(np.float32)
        answer = made.forward({"x": x})["y"]
        np.testing.assert_allclose(answer, module(torch.from_numpy(x)).detach().numpy(), rtol=0, atol=1e-6)
        learner = weft.Learner(made)
        learner.learn({"x": x}, {"y": np.arange(7) % 3})
        learner.close()
        module.load_state_dict(tensors.to_torch(tensors.state_dict(made)))
        np.testing.assert_allclose(made.forward({"x": x})["y"], module(torch.from_numpy(x)).detach().numpy(), rtol=0,
                                   atol=1e-6)


class Online(unittest.TestCase):
    def test_classes_come_as_they_come(self):
        model = weft.OnlineClassifier(["a", "b"], most_classes=3)
        self.assertIsNone(model.predict_one({"a": 1}))
        right = 0
        for i in range(3000):
            x = {"a": i & 1, "b": i >> 1 & 1}
            y = "even" if (i ^ i >> 1) & 1 == 0 else "odd"
            right += i >= 2900 and model.predict_one(x) == y
            model.learn_one(x, y)
        self.assertEqual(right, 100)
        shares = model.predict_proba_one({"a": 1})
        self.assertEqual(set(shares), {"even", "odd"})
        self.assertAlmostEqual(sum(shares.values()), 1)
        model.learn_one({}, 3)
        self.assertRaisesRegex(ValueError, "class 4 of 3", model.learn_one, {}, 4)

    def test_values_are_scaled(self):
        model = weft.OnlineRegressor(["a"], hidden=())
        for i in range(4000):
            a = i * 7 % 11
            model.learn_one({"a": a}, 1000.0 + 50 * a)
        self.assertAlmostEqual(model.predict_one({"a": 5}), 1250, delta=10)


class Models(unittest.TestCase):
    @unittest.skipUnless((SHARED / "language/tinystories-656k").exists(), "no ../shared/data")
    def test_writes_the_text_of_a_reference_in_binary64(self):
        golden = json.loads((SHARED / "language/tinystories-656k-golden_greedy.json").read_text())
        heard = []
        with weft.LanguageModel(SHARED / "language/tinystories-656k", threads=1) as model:
            prompt = model.detokenize(golden["prompt_ids"][1:])  # the first one begins a text
            self.assertEqual(model.tokenize(prompt), golden["prompt_ids"])
            made = model.generate(prompt, tokens=30, temperature=0, ignores_ends=True, on_text=heard.append)
            self.assertEqual(made["prompt_ids"] + made["ids"], golden["ids"][:len(golden["prompt_ids"]) + 30])
            self.assertEqual("".join(heard), made["text"])

    @unittest.skipUnless((SHARED / "stories260K").exists(), "no ../shared/data")
    def test_writes_the_text_of_the_reference(self):
        golden = json.loads((SHARED / "stories260K/derived/golden_greedy.json").read_text())
        heard = []
        with weft.LanguageModel(SHARED / "stories260K/derived", threads=1) as model:
            made = model.generate("", tokens=30, temperature=0, ignores_ends=True, on_text=heard.append)
            self.assertEqual(made["prompt_ids"] + made["ids"], golden["ids"][:31])
            self.assertEqual("".join(heard), made["text"])
            ids = model.tokenize("Once upon a time")
            self.assertIn("Once upon a time", model.detokenize(ids))

            def stop(_):
                raise KeyboardInterrupt
            self.assertRaises(KeyboardInterrupt, model.generate, "Once", tokens=9, on_text=stop)
            self.assertRaises(TypeError, model.generate, "Once", tokens=9, stops="ab")
            self.assertRaises(ValueError, model.generate, "Once", tokens=0)
            self.assertEqual(model.generate("Once", tokens=5, seed=3)["text"], model.generate("Once", tokens=5, seed=3)["text"])

            # Defaults are those of `weft generate`.
            said = dict(tokens=128, temperature=0.8, top_k=40, top_p=0.95, min_p=0.05)
            self.assertEqual(model.generate("Once", seed=3)["ids"], model.generate("Once", seed=3, **said)["ids"])
            greedy = model.generate("Once", tokens=20, temperature=0)["ids"]
            self.assertEqual(model.generate("Once", tokens=20, top_p=0, seed=3)["ids"], greedy)
            loose = model.generate("Once", tokens=20, temperature=5.0, top_k=0, top_p=1, min_p=0, seed=3)["ids"]
            self.assertNotEqual(loose, model.generate("Once", tokens=20, temperature=5.0, seed=3)["ids"])

            self.assertEqual(model.generate("Once", tokens=3, temperature=0, logit_bias={77: 1e6})["ids"], [77] * 3)
            made = model.generate("Once", tokens=99, json_schema={"type": "array", "items": {"const": 7}, "minItems": 2,
                                                                        "maxItems": 3})
            self.assertEqual(set(json.loads(made["text"])), {7}, made)
            self.assertEqual(model.generate("Once", grammar='root ::= " hi"')["text"], " hi")
        self.assertRaises(OSError, weft.LanguageModel, "/no/where")


class Welvet(unittest.TestCase):
    def test_reloads_an_entity(self):
        made = mesh()
        network = welvet.Network.deserialize_entity(made.to_bytes(live=False))
        network.sync_inference_weights()
        x = [1.0, -2.0, 0.5, 3.0]
        answer = network.forward_polymorphic(x, [1, 4])
        self.assertEqual(answer, made.forward({"x": [x]})["y"][0].tolist())
        self.assertEqual(network.forward_polymorphic(x, [4]), answer)
        self.assertRaisesRegex(ValueError, r"shape \[1, 3\]", network.forward_polymorphic, x, [1, 3])
        self.assertRaisesRegex(ValueError, "3 values", network.forward_polymorphic, x[:3], [3])
        network.free()
        network.free()
        self.assertRaises(weft.WeftError, welvet.Network.deserialize_entity, b"no file")

    def test_a_sequence_begins_at_zero_every_time(self):
        made = weft.Mesh({"weft": 2, "inputs": {"x": [2, 2]}, "chain": [
            {"type": "lstm", "out": 1, "stateful": False, "output": "sequence"}]}, threads=1)
        network = welvet.Network.deserialize_entity(made.to_bytes(live=False))
        answers = [network.forward_polymorphic([1, -0.5, 0.25, 2], [2, 2]) for _ in range(2)]
        self.assertEqual(answers[0], answers[1])
        self.assertEqual(len(answers[0]), 2)  # tokens times hidden

    def test_a_second_operand_that_is_missing_is_zero(self):
        made = weft.Mesh({"weft": 2, "grid": {"x": 1}, "inputs": {"main": [2], "skip": [2]}, "layers": [
            {"type": "dense", "at": [0, 0, 0, 0], "out": 2, "from": ["main", "skip"]}],
            "outputs": {"y": [0, 0, 0, 0]}}, threads=1)
        network = welvet.Network(made)
        self.assertEqual(network.forward_polymorphic([1, 2], [2]), network.forward_polymorphic([1, 2, 0, 0], [2, 1, 2]))


if __name__ == "__main__":
    unittest.main()
