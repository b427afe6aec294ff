#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C in each long call of the Python package: it is raised soon, and what was done until then is what shorter calls
do, to the bit. Skipped (77) without numpy.

  WEFT_LIBRARY=.../libweft.so python_interrupt_test.py
"""
import gc
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock

from package import ROOT, np, weft

from weft import _threads

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

    def interrupts(self, call, after=0.3):
        """The call is cut short by SIGINT; a call that runs to its end would take far longer than it may."""
        timer = threading.Timer(after, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        began = time.monotonic()
        try:
            with self.assertRaises(KeyboardInterrupt):
                call()
        finally:
            timer.join()
        print(f"{self._testMethodName}: raised {1000 * (time.monotonic() - began - after):.0f} ms after the signal")

    def interrupts_in_the_middle(self, make, call, done):
        """The same of what `make` gives, and later where a busy machine had done nothing yet; that and how much is done."""
        for after in (0.3, 1.0, 3.0, 9.0):
            made = make()
            self.interrupts(lambda: call(made), after)
            if done(made) > 0:
                break
        self.assertTrue(0 < done(made) < ROWS, done(made))
        return made, done(made)

    def comes_to(self, threads):
        """A thread that has done its work still needs a moment to go."""
        end = time.monotonic() + 30
        while (found := len(os.listdir("/proc/self/task"))) != threads and time.monotonic() < end:
            time.sleep(0.01)
        self.assertEqual(found, threads)

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
        mesh, done = self.interrupts_in_the_middle(lambda: weft.Mesh(NETWORK, threads=1), lambda mesh: mesh.run({"x": self.x}),
                                                   lambda mesh: mesh.ticks)
        other = weft.Mesh(NETWORK, threads=1)
        other.run({"x": self.x[:done]})
        self.assertEqual(other.state_hash(), mesh.state_hash())

    def test_learn(self):
        def make():
            return weft.Learner(weft.Mesh(NETWORK, threads=1), schedule="pipelined", optimizer={"type": "adamw", "lr": 0.001})

        learner, done = self.interrupts_in_the_middle(make, lambda learner: learner.learn({"x": self.x}, {"y": self.y}),
                                                      lambda learner: learner.counts()["samples"])
        other = make()
        other.learn({"x": self.x[:done]}, {"y": self.y[:done]})
        self.assertEqual(other.mesh.state_hash(), learner.mesh.state_hash())

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
        # The model writes 508 tokens, many more than it can in 5 ms; a signal comes in C or in a callback of C.
        with Signals() as signals, weft.LanguageModel(MODEL, threads=1) as model:
            for turn in range(40):
                with self.assertRaises(KeyboardInterrupt):
                    signals.come(0.005)
                    model.generate("Once upon a time", tokens=508, ignores_ends=True,
                                   on_text=None if turn % 2 else lambda text: None)
            self.assertEqual(len(model.generate("Once", tokens=5, ignores_ends=True)["ids"]), 5)

    @unittest.skipUnless(MODEL.exists(), "no ../shared/data")
    def test_generate_whenever_a_signal_comes(self):
        # Also while its thread begins and ends; a wait for what a signal left held would never end.
        with Signals() as signals, weft.LanguageModel(MODEL, threads=1) as model:
            gc.collect()  # what a signal raises in __del__ is lost, as everywhere in Python
            threads = len(os.listdir("/proc/self/task"))
            heard = 0
            for turn in range(600):
                try:
                    signals.come(1e-6 + turn * 2e-6)
                    model.generate("Once upon a time", tokens=3, ignores_ends=True)
                    signals.stop()
                except KeyboardInterrupt:
                    heard += 1
                self.assertTrue(signals.has_come or not heard)
            self.assertGreater(heard, 100)
            self.assertEqual(len(model.generate("Once", tokens=5, ignores_ends=True)["ids"]), 5)
            self.comes_to(threads)

    @unittest.skipUnless(MODEL.exists(), "no ../shared/data")
    def test_more_signals_leave_no_thread(self):
        with Signals() as signals, weft.LanguageModel(MODEL, threads=1) as model:
            gc.collect()  # what a signal raises in __del__ is lost, as everywhere in Python
            threads = len(os.listdir("/proc/self/task"))

            def begin_and_generate(turn):
                signals.come(0.002, 20e-6 + turn * 1e-6, 2 + turn % 3, within="begin_and_generate")
                model.generate("Once upon a time", tokens=508, ignores_ends=True)

            for turn in range(200):
                with self.assertRaises(KeyboardInterrupt):
                    begin_and_generate(turn)
                while signals.left > 0:
                    pass
                ids = model.generate("Once", tokens=1, ignores_ends=True)["ids"]  # not busy, as a thread that was left would be
                self.assertEqual(len(ids), 1)
            self.comes_to(threads)

    def test_no_signal_is_lost_in_a_log_function(self):
        with tempfile.TemporaryDirectory() as folder, Signals() as signals:
            agent = weft.Agent(folder + "/agent", {**NETWORK, "learning": {}}, threads=1)
            os.rename(folder + "/agent", folder + "/elsewhere")  # no checkpoint can be written, and a line tells of it
            lines = []
            weft.set_log(lambda level, text: lines.append(text))
            for turn in range(40):
                with self.assertRaises(KeyboardInterrupt):
                    signals.come(0.001 + turn * 1e-5)
                    end = time.monotonic() + 60
                    while time.monotonic() < end:
                        try:
                            agent.checkpoint()
                        except weft.WeftError:
                            pass
            os.rename(folder + "/elsewhere", folder + "/agent")
            agent.close()
            weft.set_log(None)
            self.assertGreater(len(lines), 40)



class Logs(unittest.TestCase):
    def logs(self, *lines):
        """Output of a program that logs by `log()`. It hangs where it waits for a thread that is not there."""
        program = ["import os, sys, tempfile, weft", "folder = tempfile.TemporaryDirectory()",
                   f"agent = weft.Agent(folder.name + '/agent', {({**NETWORK, 'learning': {}})!r}, threads=1)",
                   "os.rename(folder.name + '/agent', folder.name + '/elsewhere')",
                   "def log():", "    try:", "        agent.checkpoint()", "    except weft.WeftError:", "        pass", *lines,
                   "os.rename(folder.name + '/elsewhere', folder.name + '/agent')"]
        return subprocess.run([sys.executable, "-B", "-c", "\n".join(program)], capture_output=True, text=True, timeout=120,
                              check=True, env={**os.environ, "PYTHONPATH": str(ROOT / "bindings/python")}).stdout

    def test_a_log_function_raises_where_nobody_is_told(self):
        self.assertEqual(self.logs("heard = []",
                                   "def take(level, text):",
                                   "    heard.append(text)",
                                   "    raise ValueError(text)",
                                   "weft.set_log(take)",
                                   "sys.stderr.close()",
                                   "log(), log()",
                                   "weft.set_log(None, 5)",
                                   "print(len(heard) >= 2)"), "True\n")

    def test_a_child_process_sets_its_own_log_function(self):
        self.assertEqual(self.logs("lines = []",
                                   "weft.set_log(lambda level, text: lines.append(text))",
                                   "log()",
                                   "child = os.fork()",
                                   "if child == 0:",
                                   "    weft.set_log(lambda level, text: None)",
                                   "    weft.set_log(None)",
                                   "    os._exit(7)",
                                   "status = os.waitpid(child, 0)[1]",
                                   "weft.set_log(None)",
                                   "print(os.WEXITSTATUS(status), len(lines) > 0)"), "7 True\n")


class Signals:
    """Signals that raise KeyboardInterrupt, as Ctrl-C does."""

    def __enter__(self):
        self.left, self.has_come, self.within = 0, False, None
        self.before = signal.signal(signal.SIGALRM, self.raised)
        return self

    def raised(self, _, frame):
        self.left -= 1
        self.has_come = True
        if self.left <= 0:
            signal.setitimer(signal.ITIMER_REAL, 0)
        while self.within and frame and frame.f_code.co_name != self.within:
            frame = frame.f_back
        if frame:
            raise KeyboardInterrupt

    def come(self, after, every=0.0, times=1, within=None):
        """`within`: raised where a function of that name runs, and nowhere else."""
        self.left, self.within = times, within
        signal.setitimer(signal.ITIMER_REAL, after, every)

    def stop(self):
        signal.setitimer(signal.ITIMER_REAL, 0)

    def __exit__(self, *_):
        self.stop()
        signal.signal(signal.SIGALRM, self.before)


class WithoutAThread(unittest.TestCase):
    """Calls that call back where no other thread is needed, or where Python begins none as it ends."""

    def check(self):
        taken, told = [], []

        def call(give):
            for value in (b"a", b"", b"b", b"c"):
                told.append(give(value))
                if not told[-1]:
                    raise weft.WeftError(17, "interrupted", "stopped")

        def take(value):
            taken.append(value)
            if value == b"b" and len(taken) > 3:
                raise KeyError("of take")

        _threads.run(call, take)
        self.assertEqual((taken, told), ([b"a", b"b", b"c"], [True] * 4))
        with self.assertRaisesRegex(KeyError, "of take"):
            _threads.run(call, take)
        self.assertEqual((taken[3:], told[4:]), ([b"a", b"b"], [True, True, False]))
        with self.assertRaisesRegex(ValueError, "of call"):
            _threads.run(lambda give: int("of call"), take)
        _threads.run_apart(lambda: taken.append("apart"))
        self.assertEqual(taken[5:], ["apart"])

    def test_a_thread_that_cannot_begin(self):
        before = time.monotonic()
        with unittest.mock.patch.object(_threads._thread, "start_new_thread", side_effect=RuntimeError("at shutdown")):
            self.check()
        self.assertLess(time.monotonic() - before, 0.9)  # nothing waits for it

    def test_a_thread_that_is_waited_for_needs_no_other(self):
        raised = []

        def body():
            try:
                idents = []
                _threads.run(lambda give: idents.append(threading.get_ident()), print)
                self.assertEqual(idents, [threading.get_ident()])
                self.check()
            except BaseException as error:
                raised.append(error)

        thread = threading.Thread(target=body)
        thread.start()
        thread.join()
        self.assertEqual(raised, [])


class Ends(unittest.TestCase):
    """A thread in a callback of C when the interpreter ends would be stopped there, and the process with it."""

    def ends(self, *lines):
        before = time.monotonic()
        program = "\n".join(["import os, sys, tempfile, threading, time, weft", *lines, "time.sleep(0.3)"])
        done = subprocess.run([sys.executable, "-B", "-c", program], capture_output=True, text=True, timeout=120, check=False,
                              env={**os.environ, "PYTHONPATH": str(ROOT / "bindings/python")})
        told = [line for line in done.stderr.splitlines() if not line.startswith("weft: warning: ")]
        self.assertEqual((done.returncode, told), (0, []))
        self.assertLess(time.monotonic() - before, 60)
        return done.stdout

    @unittest.skipUnless(MODEL.exists(), "no ../shared/data")
    def test_with_a_daemon_that_writes(self):
        for wants in ("None", "lambda text: None"):
            self.ends(f"model = weft.LanguageModel({str(MODEL)!r}, threads=1)",
                      "def work():",
                      "    while True:",
                      f"        model.generate('Once', tokens=508, ignores_ends=True, on_text={wants})",
                      "threading.Thread(target=work, daemon=True).start()")

    @unittest.skipUnless(MODEL.exists(), "no ../shared/data")
    def test_with_a_thread_that_is_waited_for(self):
        said = self.ends(f"model = weft.LanguageModel({str(MODEL)!r}, threads=1)",
                         "def work():",
                         "    for _ in range(9):",
                         "        ids = model.generate('Once', tokens=400, ignores_ends=True)['ids']",
                         "    print(len(ids))",
                         "threading.Thread(target=work).start()")
        self.assertEqual(said, "400\n")

    def test_with_a_daemon_that_logs(self):
        said = self.ends(f"network = {({**NETWORK, 'learning': {}})!r}",
                         "lines = []",
                         "weft.set_log(lambda level, text: lines.append(text))",
                         "folder = tempfile.TemporaryDirectory()",
                         "agent = weft.Agent(folder.name + '/agent', network, threads=1)",
                         "os.rename(folder.name + '/agent', folder.name + '/elsewhere')",
                         "def work():",
                         "    while True:",
                         "        try:",
                         "            agent.checkpoint()",
                         "        except weft.WeftError:",
                         "            time.sleep(0.001)",
                         "threading.Thread(target=work, daemon=True).start()",
                         "time.sleep(0.3)",
                         "print(len(lines) > 0)")
        self.assertEqual(said, "True\n")


if __name__ == "__main__":
    unittest.main()
