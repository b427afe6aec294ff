#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The Python package against the library: golden hashes, errors, files, interrupts. Skipped (77) without numpy.

  WEFT_LIBRARY=.../libweft.so python_test.py
"""
import contextlib
import csv
import gzip
import io
import json
import os
import pathlib
import pickle
import platform
import signal
import struct
import tempfile
import threading
import time
import unittest

from package import ROOT, np, weft

XOR = {"weft": 2, "inputs": {"x": [2]}, "chain": [{"type": "dense", "out": 16, "activation": "tanh"},
                                                  {"type": "dense", "out": 2}], "learning": {"rule": "fw_dtp"}}
X = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], np.float32)
Y = np.array([0, 1, 1, 0])


class Philox:
    """Random numbers as docs/numerics.md has them (Salmon et al. 2011): how `weft run` draws its samples."""

    def __init__(self, seed, place, purpose):
        self.key, self.words, self.index = (seed & 0xFFFFFFFF, seed >> 32), [], 0
        self.place = (place & 0xFFFFFFFF, (place >> 32 | purpose << 4) & 0xFFFFFFFF)

    def block(self, index):
        c, k = [index & 0xFFFFFFFF, index >> 32, *self.place], list(self.key)
        for _ in range(10):
            p, q = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
            c = [q >> 32 ^ c[1] ^ k[0], q & 0xFFFFFFFF, p >> 32 ^ c[3] ^ k[1], p & 0xFFFFFFFF]
            k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
        return c

    def below(self, bound):
        threshold = (2 ** 32 - bound) % bound
        while True:
            if not self.words:
                self.words = self.block(self.index)[::-1]
                self.index += 1
            product = self.words.pop() * bound
            if (product & 0xFFFFFFFF) >= threshold:
                return product >> 32


def shuffled(items, place):
    items, random = list(items), Philox(0, place, 2)
    for i in range(len(items), 1, -1):
        j = random.below(i)
        items[i - 1], items[j] = items[j], items[i - 1]
    return items


def digits_stream(samples):
    """The first samples that `weft run examples/digits.json --max-samples N` shows: [N, 64], [N]."""
    with gzip.open(ROOT / "examples/data/digits.csv.gz", "rt") as file:
        rows = [row for row in csv.reader(file)]
    if not rows[0][0].replace(".", "").isdigit():
        rows = rows[1:]
    table = np.array(rows, np.float32)
    split, drift, epoch = 2 ** 35, 2 ** 35 + 1, 2 ** 35 + 2
    held_out = round(0.2 * len(table))
    train = shuffled(range(len(table)), split)[held_out:]
    order = shuffled(train, epoch)[:samples]
    cycle = shuffled(range(10), drift)[:3]
    labels = dict(zip(range(10), range(10)))
    labels.update(zip(cycle, cycle[1:] + cycle[:1]))
    y = [int(table[row, -1]) for row in order]
    y = [labels[label] if i >= round(0.4 * samples) else label for i, label in enumerate(y)]
    return table[order, :-1] * np.float32(0.0625), np.array(y)


class Golden(unittest.TestCase):
    def test_digits_end_where_the_program_ends(self):
        network = json.loads((ROOT / "examples/digits.json").read_text())
        hashes = json.loads((ROOT / "tests/data/golden_hashes.json").read_text())
        x, y = digits_stream(300)
        count = 0
        for rule in ("backprop", "fw_dtp", "dfa", "chain", "gap"):
            for schedule in ("settle", "pipelined"):
                row = f"examples/digits.json --rule {rule} --schedule {schedule} --max-samples 300"
                if row not in hashes:
                    continue
                for threads in (1, 2):
                    mesh = weft.Mesh(network, threads=threads)
                    options = json.loads(json.dumps(network["learning"]))
                    if rule != options["rule"]:  # `--rule` begins with the other rule's step sizes
                        del options["step_limit"], options["optimizer"]["lr"]
                    learner = weft.Learner(mesh, **{**options, "rule": rule, "schedule": schedule})
                    learner.learn({"pixels": x}, {"digit": y})
                    learner.drain()
                    self.assertEqual(mesh.state_hash(), hashes[row], row)
                    count += 1
        self.assertGreaterEqual(count, 8)


class Calls(unittest.TestCase):
    def setUp(self):
        self.mesh = weft.Mesh(XOR, threads=1)

    def test_learns_and_predicts(self):
        with weft.Learner(self.mesh) as learner:
            for _ in range(500):
                learner.learn({"x": X}, {"y": Y})
            self.assertEqual(learner.predict({"x": X})["y"].argmax(1).tolist(), Y.tolist())
            self.assertEqual(learner.predict_one(X[1]).tolist(), learner.predict({"x": X[1:2]}, session=0)["y"][0].tolist())
            scores = learner.scores()
            self.assertEqual((len(scores), len(learner.scores())), (2000, 0))
            self.assertEqual(scores["label"][:4].tolist(), Y.tolist())
            learner.learn_one(X[0], 0)
            self.assertEqual(learner.counts()["samples"], 2001)
            self.assertRaises(ValueError, learner.learn_one, X[0], -1)
            self.assertRaises(ValueError, learner.learn_one, X[0], 2 ** 32)
            self.assertRaises(ValueError, learner.predict_one, [1])
            self.assertRaises(TypeError, learner.predict_one, [1 + 1j, 0])
            self.assertRaises(TypeError, learner.mesh.set_input, "x", np.array([1j, 0]))
            for x in ([0, 1], np.array([0, 1]), np.array([[0], [1]]), np.array([9, 0, 9, 1])[1::2]):
                self.assertEqual(learner.predict_one(x).tolist(), learner.predict_one(X[1]).tolist())
        self.mesh.tick(3)

    def test_validates_progressively(self):
        learner = weft.Learner(self.mesh, optimizer={"lr": 0.1})
        stream = ((X[i % 4], Y[i % 4]) for i in range(2000))
        steps = list(weft.progressive_validation(learner, stream, window=100, every=600))
        self.assertEqual([step.samples for step in steps], [600, 1200, 1800, 2000])
        self.assertEqual(steps[-1].recent_accuracy, 1.0)
        self.assertLess(steps[-1].accuracy, 1.0)
        self.assertEqual(learner.counts()["samples"], 2000)
        self.assertEqual(list(weft.progressive_validation(learner, [])), [])

    def test_learns_later(self):
        learner = weft.Learner(self.mesh, late="meet", patience=4)
        ticket = learner.observe({"x": X[0]})
        self.assertEqual(learner.answer(ticket, "y").shape, (2,))
        learner.teach(ticket, {"y": 1}, weights=2.0)
        learner.teach(learner.observe({"x": X[1]}), {}, gradients={"y": [0.5, -0.5]})
        learner.forgo(learner.observe({"x": X[2]}))
        self.assertEqual({k: learner.counts()[k] for k in ("observed", "taught", "forgone")},
                         {"observed": 3, "taught": 2, "forgone": 1})

    def test_scores_samples_before_it_learns_them(self):
        network = {"weft": 2, "seed": 5, "inputs": {"x": [2]}, "chain": [{"type": "dense", "out": 8, "activation": "tanh"},
                                                                         {"type": "dense", "out": 2}]}
        learner = weft.Learner(weft.Mesh(network, threads=1), optimizer={"type": "sgd", "lr": 0.1},
                               anomaly={"score": "deviation"})
        said = []
        for i in range(20):
            said.append(learner.score_one(X[i % 4], int(Y[i % 4])))
            learner.learn_one(X[i % 4], int(Y[i % 4]))
        self.assertEqual(learner.scores()["anomaly"].tolist(), said)
        before = learner.mesh.state_hash()
        # Of C++: tests/learning/anomaly_test.cpp.
        self.assertEqual(struct.pack(">f", learner.score_one([1, 1], 1)).hex(), "3c6c39d4")
        self.assertRaisesRegex(weft.WeftValueError, "below 2", learner.score_one, [1, 1], 2)
        self.assertRaises(weft.WeftValueError, learner.score_one, [1, 1], -1)
        self.assertEqual(learner.mesh.state_hash(), before)
        learner = weft.Learner(weft.Mesh(network, threads=1), loss="mse", anomaly={"score": "loss"})
        self.assertEqual(struct.pack(">f", learner.score_one([1, 1], [0.25, -1.5])).hex(), "3fdfecb8")
        self.assertRaisesRegex(weft.WeftValueError, "not_finite", learner.score_one, [1, 1], [0, float("nan")])
        learner = weft.Learner(weft.Mesh(network, threads=1))
        self.assertRaisesRegex(weft.WeftValueError, "anomaly", learner.score_one, [1, 1], 1)

    def test_errors_have_code_name_and_text(self):
        learner = weft.Learner(self.mesh)
        for call, kind, name, text in [
                (lambda: learner.learn_one([1, 2, 3], 0), ValueError, "shape_mismatch", "3"),
                (lambda: learner.learn_one([1, float("nan")], 0), ValueError, "not_finite", "x"),
                (lambda: self.mesh.set_input("z", [1]), ValueError, "unknown_name", "'z'"),
                (lambda: self.mesh.tick(), ValueError, "invalid_argument", "rule"),
                (lambda: weft.Mesh.load("/no/where.entity"), FileNotFoundError, "not_found", "/no/where.entity"),
                (lambda: weft.Mesh({**XOR, "sed": 1}), ValueError, "unknown_name", "sed: "),
                (lambda: weft.Mesh.load(b"ENTITY"), weft.WeftError, None, "bytes")]:
            with self.assertRaises(weft.WeftError) as caught:
                call()
            self.assertIsInstance(caught.exception, kind)
            self.assertIn(text, caught.exception.text)
            if name:
                self.assertEqual((caught.exception.name, str(caught.exception)[:len(name)]), (name, name))
            again = pickle.loads(pickle.dumps(caught.exception))
            self.assertEqual((again.code, again.text), (caught.exception.code, caught.exception.text))
        self.assertRaises(ValueError, learner.learn, {"x": X}, {"y": [0, 1]})
        self.assertRaises(ValueError, learner.learn, {"x": X}, {"y": [0, 1, -1, 0]})
        learner.close()
        self.assertRaises(weft.WeftError, learner.drain)
        learner.close()

    def test_arrays_are_not_copied_and_of_any_kind(self):
        from weft import _library
        self.assertIs(_library.floats(X), X)
        for x in (X.tolist(), X.astype(np.float64), np.asfortranarray(X), X[::-1][::-1], X.astype(np.int8)):
            a, b = weft.Mesh(XOR, threads=1), weft.Mesh(XOR, threads=1)
            self.assertEqual(a.run({"x": x})["y"].tolist(), b.run({"x": X})["y"].tolist())
            self.assertEqual(a.state_hash(), b.state_hash())

    def test_saves_loads_and_rolls_back(self):
        self.mesh.set_input("x", [1, 0])
        self.mesh.tick(5)
        kept, there = self.mesh.take_snapshot(), self.mesh.state_hash()
        copy = pickle.loads(pickle.dumps(self.mesh))
        with tempfile.TemporaryDirectory() as folder:
            self.mesh.save(folder + "/a.entity")
            loaded = weft.Mesh.load(pathlib.Path(folder) / "a.entity")
        self.mesh.tick(2)
        self.assertNotEqual(self.mesh.state_hash(), there)
        self.mesh.restore_snapshot(kept)
        self.assertEqual({m.state_hash() for m in (self.mesh, copy, loaded)}, {there})

    def test_weights_sessions_and_commands(self):
        weights = self.mesh.weights((0,))
        self.assertEqual(weights.shape, (16, 2))
        self.mesh.set_weights((0,), weights * 2)
        self.assertEqual(self.mesh.weights([0, 0, 0, 0]).tolist(), (weights * 2).tolist())
        self.mesh.morph((1,), "int8")
        self.assertEqual(self.mesh.description["layers"][1]["dtype"], "int8")
        self.assertEqual(self.mesh.add_session(), 1)
        self.assertEqual(self.mesh.attach_session(self.mesh.detach_session(0)), 2)
        answer = self.mesh.command("probe", (1,))
        self.assertIsNone(answer.done_at)
        self.mesh.tick()
        self.assertEqual((answer.done_at, answer.values.shape), (0, (2,)))
        self.assertRaises(ValueError, self.mesh.command, "prob", (1,))
        self.assertEqual(self.mesh.run({"x": np.zeros((4, 3, 2))})["y"].shape, (4, 3, 2))
        self.assertEqual(self.mesh.statistics()["sessions"], 3)

    def test_builds_layer_by_layer(self):
        built = (weft.Network.grid(x=2).input("x", 2).layer("dense", (0,), out=16, activation="tanh", source=["x"])
                 .layer("dense", (1,), out=2).output("y", (1,)).set(learning={"rule": "fw_dtp"}))
        self.assertEqual(weft.Mesh(built).state_hash(), self.mesh.state_hash())
        self.assertIn("2 layers", repr(built))
        for picture in (built._repr_svg_(), self.mesh._repr_svg_()):
            self.assertIn("dense 16", picture)

    def test_an_agent_goes_on(self):
        hashes = []
        with tempfile.TemporaryDirectory() as folder:
            for times in (1, 2, 3):
                with weft.Agent(folder + "/agent", XOR if times == 1 else None) as agent:
                    self.assertEqual([agent.mesh.state_hash()] if hashes else [], hashes[-1:])
                    agent.learner.learn_one(X[1], 1)
                    agent.note("reward", "1")
                    agent.checkpoint() if times == 2 else agent.acknowledge()
                    self.assertEqual(agent.learner.counts()["samples"], times)
                    self.assertIsNone(agent.statistics()["last_error"])
                    hashes.append(agent.mesh.state_hash())
                self.assertRaises(weft.WeftError, agent.mesh.tick)

    def test_an_interrupt_stops_between_ticks(self):
        timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        began = time.monotonic()
        with self.assertRaises(KeyboardInterrupt):
            self.mesh.tick(10 ** 12)
        self.assertLess(time.monotonic() - began, 10)
        ticks = self.mesh.ticks
        self.assertGreater(ticks, 0)
        other = weft.Mesh(XOR, threads=1)
        other.tick(ticks)
        self.assertEqual(other.state_hash(), self.mesh.state_hash())

    def test_lists_devices_and_logs(self):
        self.assertEqual(weft.devices()[0]["selector"], "cpu")
        weft.set_log(lambda level, text: None)
        weft.set_log(None)

    def test_log_lines_go_to_a_function(self):
        lines, later = [], []
        with tempfile.TemporaryDirectory() as folder:
            agent = weft.Agent(folder + "/agent", XOR, threads=1)
            os.rename(folder + "/agent", folder + "/elsewhere")

            def warn():
                self.assertRaises(weft.WeftError, agent.checkpoint)

            weft.set_log(lambda level, text: lines.append((level, text)))
            for _ in range(20):
                warn()
            weft.set_log(lambda level, text: later.append((level, text)), 3)
            count = len(lines)
            warn()
            weft.set_log(None, 5)
            warn()
            os.rename(folder + "/elsewhere", folder + "/agent")
            agent.close()
            weft.set_log(None)
        self.assertGreaterEqual(count, 20)
        self.assertEqual((len(lines), len(later) > 0), (count, True))
        for level, text in lines + later:
            self.assertEqual(level, 3)
            self.assertIn("checkpoint", text)

    def test_an_exception_of_a_log_function_is_shown_and_no_more(self):
        def wrong(level, text):
            raise ValueError("this one")

        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()) as shown:
            agent = weft.Agent(folder + "/agent", XOR, threads=1)
            os.rename(folder + "/agent", folder + "/elsewhere")
            weft.set_log(wrong)
            self.assertRaises(weft.WeftError, agent.checkpoint)
            os.rename(folder + "/elsewhere", folder + "/agent")
            agent.close()
            weft.set_log(None)
        self.assertIn("ValueError: this one", shown.getvalue())

    @unittest.skipUnless(platform.machine() == "x86_64", "what others flush may differ")
    def test_tells_that_no_result_differs(self):
        mesh = weft.Mesh(XOR, threads=1)
        mesh.set_input(mesh.description["inputs"][0]["name"], [2.0 ** -126] * 2)
        mesh.tick(3)
        self.assertIs(weft.take_flushed_results(), False)


if __name__ == "__main__":
    unittest.main()
