#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Learners of the Python package: files that go on, expired tickets, progressive validation. Skipped (77) without numpy.

  WEFT_LIBRARY=.../libweft.so python_learning_test.py
"""
import copy
import math
import pathlib
import pickle
import tempfile
import unittest

from package import np, weft

NETWORK = {"weft": 2, "inputs": {"x": [2]}, "chain": [{"type": "dense", "out": 4, "activation": "tanh"},
                                                      {"type": "dense", "out": 2}]}


class Files(unittest.TestCase):
    def test_a_learner_goes_on_as_if_it_had_not_stopped(self):
        x = np.random.RandomState(1).randn(60, 2).astype(np.float32)
        y = (x[:, 0] * x[:, 1] > 0).astype(np.int64)
        for optimizer in ("sgd", "momentum", "adamw", "rmsprop", "lion"):
            for schedule in ("settle", "pipelined"):
                first = weft.Learner(weft.Mesh(NETWORK, threads=1), schedule=schedule, rule="backprop",
                                    optimizer={"type": optimizer, "lr": 0.02})
                first.learn({"x": x[:30]}, {"y": y[:30]})
                with tempfile.TemporaryDirectory() as folder:
                    first.save(folder + "/learner.entity")
                    others = [weft.Learner.load(pathlib.Path(folder) / "learner.entity", threads=1),
                              weft.Learner.load(first.mesh.to_bytes()), weft.Learner.load(bytearray(first.to_bytes())),
                              pickle.loads(pickle.dumps(first)), copy.deepcopy(first)]
                first.learn({"x": x[30:]}, {"y": y[30:]})
                first.drain()
                for other in others:
                    self.assertEqual(other.counts()["samples"], 30)
                    other.learn({"x": x[30:]}, {"y": y[30:]})
                    other.drain()
                    self.assertEqual(other.mesh.state_hash(), first.mesh.state_hash(), f"{optimizer} {schedule}")

    def test_a_file_without_a_learner_is_refused(self):
        mesh = weft.Mesh(NETWORK, threads=1)
        with self.assertRaisesRegex(weft.WeftFileError, "holds no learner"):
            weft.Learner.load(mesh.to_bytes())
        self.assertRaises(OSError, weft.Learner.load, "/no/where.entity")
        self.assertRaises(weft.WeftError, weft.Learner.load, b"no file")

    def test_layers_are_measured(self):
        learner = weft.Learner(weft.Mesh(NETWORK, threads=1), rule="fw_dtp")
        self.assertEqual(len(learner.diagnostics()), 0)
        learner.measure()
        for number in range(6):
            learner.learn({"x": [[number, 1]]}, {"y": [number % 2]})
        layers = learner.diagnostics()
        self.assertGreater(len(layers), 1)
        self.assertEqual(layers.dtype.names, ("at", "error", "budget", "update", "relative_update", "weight", "error_age"))
        self.assertTrue((layers["error"] > 0).all() and (layers["weight"] > 0).all())
        self.assertTrue(((layers["budget"] >= 0) & (layers["budget"] <= 1)).all())
        np.testing.assert_allclose(layers["relative_update"], layers["update"] / layers["weight"], rtol=1e-5)
        self.assertEqual(len({tuple(at) for at in layers["at"]}), len(layers))

    def test_tickets_expire(self):
        first = weft.Learner(weft.Mesh(NETWORK, threads=1), late="again", patience=2)
        tickets = [first.observe({"x": [number, 1]}) for number in range(6)]
        self.assertEqual(first.expired(), tickets[:3])
        self.assertEqual(weft.Learner.load(first.to_bytes()).counts()["expired"], 3)
        with self.assertRaises(weft.WeftError) as caught:
            first.teach(tickets[0], {"y": 1})
        self.assertEqual(caught.exception.name, "timed_out")
        first.scores()
        self.assertEqual(first.expired(), [])


class Mean:
    """The mean absolute error, with river's calls."""

    def __init__(self):
        self.sum, self.count = 0.0, 0

    def update(self, y_true, y_pred):
        self.sum += abs(float(y_true) - float(y_pred))
        self.count += 1

    def get(self):
        return self.sum / self.count if self.count else 0.0


class Last:
    """A model of river's calls that says what it learned last."""

    def __init__(self):
        self.said, self.log = None, []

    def predict_one(self, x):
        self.log.append(("predict", x["t"]))
        return self.said

    def learn_one(self, x, y):
        self.log.append(("learn", x["t"]))
        self.said = y


class Progressive(unittest.TestCase):
    def test_models_of_rivers_calls(self):
        model = weft.OnlineClassifier(["a", "b"])
        stream = [({"a": i & 1, "b": i >> 1 & 1}, "odd" if (i ^ i >> 1) & 1 else "even") for i in range(3000)]
        steps = list(weft.progressive_validation(model, stream, window=100, every=1000))
        self.assertEqual([step.samples for step in steps], [1000, 2000, 3000])
        self.assertEqual(steps[-1].recent_accuracy, 1.0)
        self.assertTrue(math.isnan(steps[-1].error) and steps[-1].metric is None)

    def test_values_and_a_metric(self):
        model = weft.OnlineRegressor(["a"], hidden=())
        stream = [({"a": i * 7 % 11}, 3.0 * (i * 7 % 11) + 1) for i in range(3000)]
        last = list(weft.progressive_validation(model, stream, window=100, metric=Mean()))[-1]
        self.assertLess(last.recent_error, 1.0)
        self.assertAlmostEqual(last.metric, last.error)
        self.assertTrue(math.isnan(last.accuracy))
        learner = weft.Learner(weft.Mesh(NETWORK, threads=1), loss="mse")
        steps = list(weft.progressive_validation(learner, (([i % 2, 1], [0.5, i % 2]) for i in range(2000)), window=50))
        self.assertLess(steps[-1].recent_error, 0.05)

    def test_targets_come_later(self):
        # With a delay of 2 the target of sample t comes before sample t + 2 is predicted (river's order of events).
        model = Last()
        stream = [({"t": t}, t % 2) for t in range(5)]
        last = list(weft.progressive_validation(model, stream, delay=2))[-1]
        self.assertEqual(model.log, [("predict", 0), ("predict", 1), ("learn", 0), ("predict", 2), ("learn", 1),
                                     ("predict", 3), ("learn", 2), ("predict", 4), ("learn", 3), ("learn", 4)])
        # Said: None, None, 0, 1, 0 against 0, 1, 0, 1, 0; numbers, hence absolute differences; None is far from all.
        self.assertEqual(last.samples, 5)
        self.assertRaises(ValueError, next, weft.progressive_validation(model, stream, delay=-1))


if __name__ == "__main__":
    unittest.main()
