# SPDX-License-Identifier: Apache-2.0
"""`loom-stream` as the Python package planetbridging runs it: by pipe and by files, against numpy, and reloaded by the
module `welvet`. Bad documents, and what is left behind where it is ended midway.

  tests/bindings/loom_stream_test.py LOOM_STREAM
"""
import concurrent.futures
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "bindings/python"), str(ROOT / "bindings/python/compat"), str(ROOT / "tests/bindings")]
import numpy as np  # noqa: E402
import loom_stream_references as references  # noqa: E402

PROGRAM = sys.argv.pop(1)
EXAMPLES = {each["name"]: each for each in json.loads((ROOT / "tests/data/bridge/examples.json").read_text())}
LIMIT = 1e-6  # the client passes what is below 1e-5
RMSNORM = EXAMPLES["q"]["payload"]


def run(document, *words, **options):
    text = document if isinstance(document, (str, bytes)) else json.dumps(document)
    if isinstance(text, str):
        text = text.encode()
    return subprocess.run([PROGRAM, *map(str, words)], input=text, capture_output=True, timeout=120, **options)


class Streaming(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def stream(self, document, *words):
        done = run(document, *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr, b"")
        answer = json.loads(done.stdout)
        self.assertEqual(answer["status"], "ok")
        self.assertGreater(os.path.getsize(answer["entity_path"]), 0)
        return answer

    def refused(self, document, part, *words, code=1):
        done = run(document, *words)
        self.assertEqual(done.returncode, code, (done.stdout, part))
        answer = json.loads(done.stdout)
        self.assertEqual(answer["status"], "error")
        self.assertIn(part, answer["message"])
        self.assertIn(part, done.stderr.decode())
        self.assertEqual(len(done.stderr.splitlines()), 1)
        self.assertEqual(sorted(self.folder.rglob("*.entity*")), [])

    def near(self, found, wanted, limit=LIMIT):
        wanted = np.asarray(wanted, float)
        found = np.asarray(found, float).reshape(wanted.shape)
        self.assertLess(np.abs(found - wanted).max(), limit) if limit else self.assertTrue((found == wanted).all())

    def small(self, **changes):
        return {"bedrock": "rmsnorm", "models_dir": str(self.folder / "m"), "inputs": [[[1, 2, -2], [0.5, 0, 0.25]]],
                "payload": {**RMSNORM, **changes}}


class Answers(Streaming):
    def test_every_example_by_its_fixture(self):
        self.assertEqual(len({each["bedrock"] for each in EXAMPLES.values()}), 13)
        for example in EXAMPLES.values():
            with self.subTest(example["name"]):
                payload = example["payload"]
                np.savez_compressed(self.folder / payload["fixture_version"],
                                    **{name: np.array(rows, float) for name, rows in example["fixture"].items()})
                answer = self.stream({"bedrock": example["bedrock"], "models_dir": str(self.folder / "m"),
                                      "fixtures_dir": str(self.folder), "payload": payload})
                self.near(answer["outputs"], example["outputs"], 0 if example["bedrock"] in ("embedding",
                                                                                             "residual") else LIMIT)
                self.assertEqual(answer["layer_count"], example["layer_count"])
                self.assertEqual(answer.get("weight_bytes", 0), example["weight_bytes"])
                self.assertEqual(answer["sample_count"], len(example["outputs"]))
                self.assertEqual(answer["output_dim"], len(example["outputs"][0]))
                name = payload["model_id"]
                self.assertEqual(answer["entity_path"], str(self.folder / "m/test" / name / f"{name}.stream.entity"))

    def test_random_networks_against_numpy(self):
        for bedrock, make in references.KINDS.items():
            for seed in range(3):
                with self.subTest(bedrock, seed=seed):
                    random = np.random.default_rng(seed)
                    payload, shape, reference = make(random)
                    x = references.samples(bedrock, random, 20, shape)
                    answer = self.stream({"bedrock": bedrock, "output_path": str(self.folder / "a/b.entity"),
                                          "inputs": x.tolist(), "payload": payload})
                    wanted = np.array([np.ravel(reference(each)) for each in x])
                    self.near(answer["outputs"], wanted, 0 if bedrock == "embedding" else LIMIT)
                    self.assertEqual(answer["entity_path"], str(self.folder / "a/b.entity"))

    def test_fixtures_are_cut_to_the_network(self):
        random = np.random.default_rng(5)
        for bedrock, given in {"dense": (4, 128), "cnn1": (4, 2, 64), "cnn2": (4, 3, 32, 32), "cnn3": (4, 2, 16, 16,
                                                                                                       16),
                               "mha": (4, 7, 16), "lstm": (4, 8, 9), "cnn2 without a channel": (4, 1, 6, 5)}.items():
            bedrock = bedrock.split()[0]
            with self.subTest(bedrock, given=given):
                payload, shape, reference = references.KINDS[bedrock](random)
                x = random.standard_normal(given)
                np.savez(self.folder / "f.npz", x_test=x, x_train=np.zeros(3))
                answer = self.stream({"bedrock": bedrock, "models_dir": str(self.folder / "m"), "fixture_version": "f",
                                      "fixtures_dir": str(self.folder), "payload": {**payload, "planet": "p",
                                                                                    "model_id": "m"}})
                cut = np.zeros((4, *shape))
                places = tuple(slice(min(a, b)) for a, b in zip(given[1:], shape))
                cut[(slice(None), *places)] = x[(slice(None), *places)]
                self.near(answer["outputs"], np.array([np.ravel(reference(each)) for each in cut]))

    def test_rows_are_cut_to_output_dim(self):
        payload, shape, reference = references.KINDS["cnn2"](np.random.default_rng(1))
        x = np.random.default_rng(2).standard_normal((3, *shape))
        document = {"bedrock": "cnn2", "output_path": str(self.folder / "c.entity"), "inputs": x.tolist(),
                    "payload": {**payload, "output_dim": 1}}
        self.near(self.stream(document)["outputs"], [[np.ravel(reference(each))[0]] for each in x])
        mixer = EXAMPLES["mixer_all_v1"]
        inputs = [[*np.ravel(row)] for row in mixer["fixture"]["x_test"]]
        answer = self.stream({"bedrock": "mixer", "output_path": str(self.folder / "m.entity"), "inputs": inputs,
                              "payload": {**mixer["payload"], "output_dim": 10}})
        self.near(answer["outputs"], np.pad(mixer["outputs"], ((0, 0), (0, 2))))

    def test_where_the_document_and_the_flags_say_files_go(self):
        bare = {**RMSNORM, "fixture_version": ""}
        answer = self.stream(bare, "-bedrock", "rmsnorm", f"--root={self.folder}", "-skip-infer")
        self.assertEqual(answer["entity_path"], str(self.folder / "python/rmsnorm/models/test/q/q.stream.entity"))
        self.assertNotIn("outputs", answer)
        self.assertNotIn("max_abs_diff", answer)
        dense = {**EXAMPLES["d"]["payload"], "fixture_version": ""}
        self.assertNotIn("outputs", self.stream({"payload": dense, "output_path": str(self.folder / "new/x.entity")}))
        self.assertNotIn("outputs", self.stream({**self.small(), "skip_infer": True}))
        self.assertEqual(sorted(self.folder.rglob("*.tmp")), [])

    def test_inputs_of_other_forms(self):
        document = {"output_path": str(self.folder / "d.entity"), "payload": EXAMPLES["d"]["payload"], "inputs": [1, 0,
                                                                                                                  2, 9]}
        self.near(self.stream(document)["outputs"], EXAMPLES["d"]["outputs"][:1])
        ids = {"bedrock": "embedding", "output_path": str(self.folder / "e.entity"),
               "payload": EXAMPLES["e"]["payload"],
               "inputs": [[-1, 63, 2.9], [1e30, -0.5, 3]]}
        self.near(self.stream(ids)["outputs"], [[0, 0, 0, 0, -0.75, 1.5], [0, 0, 0.5, -1, 0, 0]], 0)

    def test_two_at_the_same_path(self):
        path = self.folder / "same.entity"
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            jobs = [pool.submit(run, {**self.small(), "output_path": str(path)}) for _ in range(8)]
            self.assertEqual([job.result().returncode for job in jobs], [0] * 8)
        self.assertEqual(list(self.folder.iterdir()), [path])

    def test_a_large_document(self):
        rows = np.random.default_rng(3).standard_normal((30000, 6)).reshape(30000, 2, 3)
        answer = self.stream({**self.small(), "inputs": rows.tolist()})
        gain = np.array(RMSNORM["layers"][0]["weights"])
        wanted = rows / np.sqrt((rows ** 2).mean(2, keepdims=True) + 1e-6) * gain
        self.near(answer["outputs"], wanted.reshape(30000, 6), 2e-6)


class Refusals(Streaming):
    def test_documents(self):
        deep = "[" * 100_000
        for document, part in [
                ("", "stdin is empty"), ("{}", "neither"), ("[1]", "neither"), ("{", "stdin:1:"), (deep, "64 levels"),
                ('{"payload": NaN}', "stdin:1:"), ('{"payload": {}, "payload": {}}', "given twice"), (b"\xff\xfe",
                                                                                                      "stdin:1:"),
                ({"payload": [], "output_path": "x"}, "payload is no object"),
                ({"payload": {}, "output_path": str(self.folder / "x.entity")}, "layers is missing"),
                ({"payload": RMSNORM, "bedrock": "dnse", "output_path": "x"}, 'unknown bedrock "dnse"'),
                ({"payload": RMSNORM}, "models_dir or output_path required"),
                ({"payload": {**RMSNORM, "planet": "../x"}, "models_dir": str(self.folder)}, "planet is '../x'"),
                ({"payload": {**RMSNORM, "model_id": "a/b"}, "models_dir": str(self.folder)}, "model_id is 'a/b'"),
                ({"payload": {**RMSNORM, "planet": ""}, "models_dir": str(self.folder)}, "planet is ''"),
                ({**self.small(), "fixture_version": "../f"}, "fixture_version is '../f'"),
                ({**self.small(), "skip_infer": 1}, "skip_infer is 1"),
                (self.small(planet=3), "planet is 3")]:
            with self.subTest(part):
                self.refused(document, part)
        self.refused(self.small(), "no flag", "word")
        self.refused(self.small(), "no flag of loom-stream", "-no")
        self.refused(self.small(), "needs a value", "-root")

    def test_layers(self):
        layer = RMSNORM["layers"][0]
        for change, part in [
                ({"weights": [1, 2]}, "layer 0: weights has 2 numbers, expected 3"),
                ({"weights": [1, 2, 3, 4]}, "layer 0: weights has 4 numbers, expected 3"),
                ({"weights": None}, "layer 0: weights has 0 numbers"), ({"weights": [1, "2", 3]},
                                                                        "weights[1] is \"2\""),
                ({"weights": [1, 1e300, 3]}, "weights[1] is 1e+300, more than a float32 holds"),
                ({"index": 1}, "layer 0: index is 1, expected 0"), ({"kind": "cnn1"},
                                                                    "kind is 'cnn1', expected 'rmsnorm'"),
                ({"dim": 0}, "dim is 0, expected"), ({"dim": -1}, "dim is -1"), ({"dim": 2 ** 31}, "dim is 2147483648"),
                ({"dim": 3.5}, "dim is 3.5"), ({"dim": "3"}, 'dim is "3"')]:
            with self.subTest(part):
                self.refused(self.small(layers=[{**layer, **change}]), part)
        self.stream(self.small(layers=[{**layer, "dim": 3.0, "index": None, "kind": "", "more": 1}]))

    def test_shapes_that_do_not_fit(self):
        mha, conv = EXAMPLES["m"]["payload"], EXAMPLES["c1"]["payload"]
        both = EXAMPLES["d"]["payload"]["layers"]
        for bedrock, payload, part in [
                ("dense", {"layers": [both[0], {**both[1], "input_dim": 3, "weights": [0] * 6}]},
                 "layer 1: input 3, but layer 0 gives 2"),
                ("dense", {"layers": [both[0], {**both[1], "index": 0}]}, "layer 1: index is 0, expected 1"),
                ("dense", {"layers": [{**both[0], "activation": "gelu"}]}, "activation is 'gelu'"),
                ("dense", {"layers": [{**both[0], "weights": [1] * 5}]}, "weights has 5 numbers, expected 2x3 = 6"),
                ("mha", {**mha, "layers": [{**mha["layers"][0], "head_dim": 3}]},
                 "head_dim is 3, expected an even number"),
                ("mha", {**mha, "layers": [{**mha["layers"][0], "num_heads": 3, "num_kv_heads": 2}]},
                 "does not divide"),
                ("cnn1", {**conv, "layers": [{**conv["layers"][0], "kernel_size": 8}]}, "kernel_size is 8"),
                ("embedding", {**EXAMPLES["e"]["payload"], "layers": EXAMPLES["e"]["payload"]["layers"] * 2},
                 "layer 1: index"),
                ("mixer", {**EXAMPLES["mixer_all_v1"]["payload"], "model_id": "mixer_all_v2"},
                 "layers has 10, expected 16")]:
            with self.subTest(part):
                self.refused({"bedrock": bedrock, "output_path": str(self.folder / "x.entity"),
                              "payload": {**payload, "fixture_version": ""}}, part)

    def test_inputs(self):
        for inputs, part in [([[[1, 2], [3, 4]]], "input row 0 has 2 columns, expected 3"),
                             ([[1, 2]], "input row 0 has the shape"),
                             ([[[1, 2, 3], [1, 2]]], "all samples need one shape"), ([[["a"]]], "expected a number"),
                             (3, "expected a list of samples"), ([[[1e39, 0, 0]]], "input not finite")]:
            with self.subTest(part):
                self.refused({**self.small(), "inputs": inputs}, part)
        dense = {"output_path": str(self.folder / "d.entity"), "payload": EXAMPLES["d"]["payload"], "inputs": [[1, 2]]}
        self.refused(dense, "input row 0 has 2 values, expected 3")
        self.refused({**dense, "inputs": [[3e38, -3e38, 3e38]],
                      "payload": {"layers": [{"input_dim": 3, "output_dim": 1, "weights": [3, -3, 3]}]}}, "not finite")

    def test_fixtures(self):
        def ask():
            document = {**self.small(), "fixtures_dir": str(self.folder), "payload": {**RMSNORM,
                                                                                      "fixture_version": "f"}}
            del document["inputs"]
            return document
        path = self.folder / "f.npz"
        self.refused(ask(), "f.npz")
        good = np.ones((2, 2, 3))
        for arrays, part in [({"other": good}, "'x_test' is not in it; there are: other"),
                             ({"x_test": good.astype(">f8")}, "big-endian"), ({"x_test": np.asfortranarray(good)},
                                                                              "Fortran order"),
                             ({"x_test": good.astype(object)}, "pickle"), ({"x_test": good[:, :, :2]},
                                                                           "has 2 columns, expected 3"),
                             ({"x_test": good * np.nan}, "input not finite"), ({"x_test": np.array(3.0)}, "one number"),
                             ({"x_test": good.astype("c8")}, "known are")]:
            with self.subTest(part):
                np.savez_compressed(path, **arrays)
                self.refused(ask(), part)
        np.savez(path, x_test=good)
        whole = path.read_bytes()
        for cut in (0, 10, len(whole) // 2, len(whole) - 1):
            path.write_bytes(whole[:cut])
            self.refused(ask(), "no zip archive")
        path.write_bytes(whole.replace(np.float64(1).tobytes(), np.float64(2).tobytes(), 1))
        self.refused(ask(), "checksum")
        np.savez(path, x_main_test=np.ones((1, 2, 2)))
        residual = EXAMPLES["x"]["payload"]
        self.refused({"bedrock": "residual", "models_dir": str(self.folder / "m"), "fixtures_dir": str(self.folder),
                      "payload": {**residual, "fixture_version": "f"}}, "'x_skip_test' is not in it")
        np.savez(path, x_test=good.astype("<f4"))
        self.near(self.stream(ask())["outputs"], np.tile([1, 0.5, -2], (2, 2)), 2e-6)


class Endings(Streaming):
    def test_a_reader_that_has_gone(self):
        rows = np.ones((20000, 2, 3)).tolist()
        process = subprocess.Popen([PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        process.stdout.close()
        process.stdin.write(json.dumps({**self.small(), "inputs": rows}).encode())
        process.stdin.close()
        self.assertNotEqual(process.wait(60), 0)
        self.assertEqual([path.suffix for path in self.folder.rglob("*") if path.is_file()], [".entity"])

    def test_a_signal_leaves_the_whole_file_or_none(self):
        payload = {"layers": [{"input_dim": 256, "output_dim": 4096, "weights": [0.5] * (256 * 4096)}]}
        document = json.dumps({"output_path": str(self.folder / "big.entity"), "inputs": [[1.0] * 256] * 200,
                               "payload": payload}).encode()
        ended = 0
        for wait in (0.05, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0):
            process = subprocess.Popen([PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
            process.stdin.write(document)
            process.stdin.close()
            time.sleep(wait)
            process.send_signal(signal.SIGTERM)
            ended += process.wait(60) != 0
            for path in self.folder.iterdir():
                self.assertEqual(path.name, "big.entity")
                self.assertGreater(path.stat().st_size, 4 * 256 * 4096)
        self.assertGreater(ended, 0)

    @unittest.skipUnless(os.path.exists("/dev/full"), "no /dev/full")
    def test_a_full_disk_for_stdout(self):
        with open("/dev/full", "wb") as full:
            done = subprocess.run([PROGRAM], input=json.dumps(self.small()).encode(), stdout=full,
                                  stderr=subprocess.PIPE)
        self.assertNotEqual(done.returncode, 0)

    def test_a_place_where_no_file_can_be_written(self):
        (self.folder / "file").write_text("x")
        self.refused({**self.small(), "output_path": str(self.folder / "file/x.entity")}, "cannot be made")
        (self.folder / "d").mkdir()
        (self.folder / "d/x").mkdir()
        (self.folder / "d/x/y").write_text("x")
        self.refused({**self.small(), "output_path": str(self.folder / "d/x")}, str(self.folder / "d/x"))


@unittest.skipUnless(os.environ.get("WEFT_LIBRARY"), "WEFT_LIBRARY is not set")
class Reloads(Streaming):
    """The third leg of the client's ladder: the file in the module `welvet`, one sample a call."""

    def reloaded(self, path, values, shape):
        from welvet import Network
        network = Network.deserialize_entity(pathlib.Path(path).read_bytes())
        self.addCleanup(network.free)
        network.sync_inference_weights()
        return network.forward_polymorphic(values, shape)

    def test_random_networks(self):
        for bedrock, make in references.KINDS.items():
            with self.subTest(bedrock):
                random = np.random.default_rng(11)
                payload, shape, reference = make(random)
                x = references.samples(bedrock, random, 3, shape)
                answer = self.stream({"bedrock": bedrock, "output_path": str(self.folder / "r.entity"),
                                      "inputs": x.tolist(),
                                      "payload": payload})
                for row, found in zip(x, answer["outputs"]):
                    passed = (1, *shape) if bedrock == "dense" else shape
                    self.near(self.reloaded(answer["entity_path"], row.ravel().tolist(), list(passed)),
                              np.ravel(reference(row)))
                    self.near(self.reloaded(answer["entity_path"], row.ravel().tolist(), list(passed)), found, 0)

    def test_mixers_and_half_a_residual(self):
        for name in ("mixer_all_v1", "mixer_all_v2"):
            example = EXAMPLES[name]
            answer = self.stream({"bedrock": "mixer", "output_path": str(self.folder / "x.entity"), "skip_infer": True,
                                  "payload": example["payload"]})
            ids = example["fixture"].get("token_ids_test", [[], []])
            for row, tokens, wanted in zip(example["fixture"]["x_test"], ids, example["outputs"]):
                values = [*np.ravel(row), *tokens]
                self.near(self.reloaded(answer["entity_path"], values, [len(values)]), wanted)
        zeros = self.reloaded(answer["entity_path"], [0.0] * 8, [1, 1, 2, 2, 2])
        self.near(zeros, self.reloaded(answer["entity_path"], [0.0] * 10, [10]), 0)
        answer = self.stream({"bedrock": "residual", "output_path": str(self.folder / "y.entity"), "skip_infer": True,
                              "payload": EXAMPLES["x"]["payload"]})
        self.near(self.reloaded(answer["entity_path"], [1, 2, 3, 4], [2, 2]), [1, 2, 3, 4], 0)


if __name__ == "__main__":
    unittest.main()
