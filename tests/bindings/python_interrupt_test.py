#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C in each long call of the Python package: it is raised soon, and what was done until then is what shorter calls
do, to the bit. Skipped (77) without numpy.

  WEFT_LIBRARY=.../libweft.so python_interrupt_test.py
"""
import json
import os
import signal
import tempfile
import threading
import time
import unittest

from package import ROOT, np, weft

MODEL = ROOT.parent / "shared/data/stories260K/derived"
NETWORK = {"weft": 2, "inputs": {"x": [16]}, "chain": [{"type": "dense", "out": 256, "activation": "tanh"},
                                                       {"type": "dense", "out": 256, "activation": "tanh"},
                                                       {"type": "dense", "out": 4}]}
ROWS = 1_500_000


class Interrupts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.x = np.resize(np.random.RandomState(0).rand(1000, 16).astype(np.float32), (ROWS, 16))
        cls.y = np.arange(ROWS) % 4

    def setUp(self):
        self.mesh = weft.Mesh(NETWORK, threads=1)

    def interrupts(self, call):
        """The call is cut short by SIGINT; a call that runs to its end would take far longer than it may."""
        timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        began = time.monotonic()
        try:
            with self.assertRaises(KeyboardInterrupt):
                call()
        finally:
            timer.join()
        print(f"{self._testMethodName}: raised {1000 * (time.monotonic() - began - 0.3):.0f} ms after the signal")

    def test_tick(self):
        self.interrupts(lambda: self.mesh.tick(10 ** 12))
        other = weft.Mesh(NETWORK, threads=1)
        other.tick(self.mesh.ticks)
        self.assertEqual(other.state_hash(), self.mesh.state_hash())

    def test_tick_for(self):
        began = time.monotonic()
        self.interrupts(lambda: self.mesh.tick_for(3600.0))
        self.assertLess(time.monotonic() - began, 1800)
        other = weft.Mesh(NETWORK, threads=1)
        other.tick(self.mesh.ticks)
        self.assertEqual(other.state_hash(), self.mesh.state_hash())
        before = self.mesh.ticks
        done = self.mesh.tick_for(0.05)
        self.assertEqual(self.mesh.ticks, before + done)
        self.assertGreater(done, 1)
        self.assertEqual(self.mesh.tick_for(0), 0)

    def test_run(self):
        self.interrupts(lambda: self.mesh.run({"x": self.x}))
        done = self.mesh.ticks
        self.assertTrue(0 < done < ROWS, done)
        other = weft.Mesh(NETWORK, threads=1)
        other.run({"x": self.x[:done]})
        self.assertEqual(other.state_hash(), self.mesh.state_hash())

    def test_learn(self):
        learner = weft.Learner(self.mesh, schedule="pipelined", optimizer={"type": "adamw", "lr": 0.001})
        self.interrupts(lambda: learner.learn({"x": self.x}, {"y": self.y}))
        done = learner.counts()["samples"]
        self.assertTrue(0 < done < ROWS, done)
        other = weft.Learner(weft.Mesh(NETWORK, threads=1), schedule="pipelined", optimizer={"type": "adamw", "lr": 0.001})
        other.learn({"x": self.x[:done]}, {"y": self.y[:done]})
        self.assertEqual(other.mesh.state_hash(), self.mesh.state_hash())

    def test_forward_and_predict(self):
        before = self.mesh.state_hash()
        self.interrupts(lambda: self.mesh.forward({"x": self.x}))
        learner = weft.Learner(self.mesh)
        before_learner = self.mesh.state_hash()
        self.interrupts(lambda: learner.predict({"x": self.x}))
        self.assertEqual(self.mesh.state_hash(), before_learner)
        few = self.x[:3000]
        parts = [self.mesh.forward({"x": few[begin:begin + 7]})["y"] for begin in range(0, 3000, 7)]
        self.assertEqual(self.mesh.forward({"x": few})["y"].tobytes(), np.concatenate(parts).tobytes())
        parts = [learner.predict({"x": few[begin:begin + 7]})["y"] for begin in range(0, 3000, 7)]
        self.assertEqual(learner.predict({"x": few})["y"].tobytes(), np.concatenate(parts).tobytes())
        learner.close()
        self.assertEqual(self.mesh.state_hash(), before)

    def test_drain(self):
        # So deep that its errors take long to arrive.
        deep = {"weft": 2, "inputs": {"x": [256]}, "chain": 150 * [{"type": "dense", "out": 256, "activation": "tanh"}]}
        learner, other = [weft.Learner(weft.Mesh(deep, threads=1), schedule="pipelined", loss="mse") for _ in range(2)]
        for each in (learner, other):
            each.learn({"x": np.ones((1, 256))}, {"y": np.ones((1, 256))})
        other.drain()
        self.interrupts(learner.drain)
        while True:  # the draining ends by itself
            try:
                self.assertEqual(learner.mesh.state_hash(), other.mesh.state_hash())
                break
            except weft.WeftError as error:
                self.assertEqual(error.name, "busy")
                time.sleep(0.01)

    def test_act(self):
        network = json.loads((ROOT / "examples/cartpole.json").read_text())
        with tempfile.TemporaryDirectory() as folder:
            with weft.Agent(folder + "/one", network, threads=1) as agent, \
                    weft.Agent(folder + "/other", network, threads=1) as other:
                self.interrupts(lambda: agent.act(10 ** 12))
                done = agent.statistics()["reinforcement"]["steps"]
                self.assertGreater(done, 0)
                other.act(done)
                self.assertEqual(other.mesh.state_hash(), agent.mesh.state_hash())

    @unittest.skipUnless(MODEL.exists(), "no ../shared/data")
    def test_generate(self):
        def interrupt(*_):
            raise KeyboardInterrupt

        # The model writes 508 tokens, many more than it can in 5 ms; a signal comes in C or in a callback of C.
        before = signal.signal(signal.SIGALRM, interrupt)
        try:
            with weft.LanguageModel(MODEL, threads=1) as model:
                for turn in range(40):
                    with self.assertRaises(KeyboardInterrupt):
                        signal.setitimer(signal.ITIMER_REAL, 0.005)
                        model.generate("Once upon a time", tokens=508, ignores_ends=True,
                                       on_text=None if turn % 2 else lambda text: None)
                self.assertEqual(len(model.generate("Once", tokens=5, ignores_ends=True)["ids"]), 5)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)


if __name__ == "__main__":
    unittest.main()
