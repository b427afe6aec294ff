#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Environments of the Python package: the trajectories of C++, Gymnasium's calls. Skipped (77) without numpy.

  WEFT_LIBRARY=.../libweft.so python_environments_test.py
"""
import copy
import json
import struct
import tempfile
import unittest

from package import ROOT, np, weft
from weft.environments import Box, Discrete

FILE = json.loads((ROOT / "tests/data/environment_trajectories.json").read_text())  # of tests/capi/environment_test.cpp


def action_of(environment, step):
    if isinstance(environment.action_space, Discrete):
        return step * 7 // 3 % environment.action_space.n
    return [step % 9 / 2 - 2]


class Environments(unittest.TestCase):
    def test_trajectories_are_those_of_cpp(self):
        self.assertEqual(sorted(weft.environments.names()), sorted(FILE["worlds"]))
        count = 0
        for name, rows in FILE["worlds"].items():
            environment = weft.Environment(name, length=FILE["length"])
            observation, info = environment.reset(seed=FILE["seed"])
            for step, row in enumerate(rows):
                self.assertEqual(observation.view(np.uint32).tolist(), row["observation"], f"{name} {step}")
                self.assertEqual(observation.shape, environment.observation_space.shape)
                other = copy.deepcopy(environment)
                answer = environment.step(action_of(environment, step))
                again = other.step(action_of(environment, step))
                self.assertEqual((answer[0].tolist(), answer[1:]), (again[0].tolist(), again[1:]))
                self.assertEqual(other.state_hash(), environment.state_hash())
                observation, reward, terminated, truncated, info = answer
                self.assertEqual(struct.unpack("<Q", struct.pack("<d", reward))[0], int(row["reward"]))
                self.assertEqual((terminated, truncated, info), (row["terminated"], row["truncated"], {}))
                if terminated or truncated:
                    self.assertRaisesRegex(ValueError, "ended", environment.step, action_of(environment, step))
                    observation, info = environment.reset()
                count += 1
        self.assertEqual(count, 60 * len(FILE["worlds"]))

    def test_episodes_are_functions_of_seed_and_number(self):
        environment = weft.environments.make("cartpole")
        first = [environment.reset(seed=7)[0].tolist(), environment.reset()[0].tolist()]
        self.assertNotEqual(first[0], first[1])
        self.assertEqual(environment.reset(seed=7, options={"episode": 1})[0].tolist(), first[1])
        self.assertNotEqual(environment.reset(seed=8)[0].tolist(), first[0])
        self.assertEqual(environment.state.dtype, np.float64)

    def test_spaces(self):
        cart, pendulum = weft.Environment("cartpole"), weft.Environment("pendulum")
        self.assertEqual((repr(cart.action_space), cart.observation_space.shape), ("Discrete(2)", (4,)))
        self.assertTrue(all(cart.action_space.contains(cart.action_space.sample()) for _ in range(20)))
        self.assertFalse(cart.action_space.contains(2))
        self.assertIsInstance(pendulum.action_space, Box)
        self.assertTrue(pendulum.action_space.contains(pendulum.action_space.sample()))
        self.assertTrue(pendulum.observation_space.contains(pendulum.reset(seed=1)[0]))

    def test_nonsense_is_refused(self):
        cart, pendulum = weft.Environment("cartpole"), weft.Environment("pendulum")
        self.assertRaisesRegex(ValueError, "begun", cart.step, 0)
        cart.reset(seed=1)
        pendulum.reset(seed=1)
        before = cart.state_hash()
        for action, kind in ((2, ValueError), (-1, ValueError), (2 ** 32, ValueError), (0.5, TypeError), ("a", TypeError)):
            self.assertRaises(kind, cart.step, action)
        for action in ([], [0, 0], [float("nan")]):
            self.assertRaises(ValueError, pendulum.step, action)
        for name in ("cart", "cartpole\0"):
            self.assertRaises(ValueError, weft.Environment, name)
        self.assertRaises(ValueError, weft.Environment, "memory_chain", length=-1)
        self.assertRaises(ValueError, cart.reset, seed=-1)
        self.assertRaises(weft.WeftError, cart.restore, pendulum.to_bytes())
        self.assertRaises(weft.WeftError, cart.restore, cart.to_bytes()[:-1])
        self.assertRaises(TypeError, cart.restore, "text")
        cart.restore(cart.to_bytes())
        self.assertEqual(cart.state_hash(), before)

    def test_an_agent_acts(self):
        network = json.loads((ROOT / "examples/cartpole.json").read_text())
        with tempfile.TemporaryDirectory() as folder:
            with weft.Agent(folder + "/agent", network, threads=1) as agent:
                agent.act(200)
                self.assertEqual(agent.statistics()["reinforcement"]["steps"], 200)
                there = agent.mesh.state_hash()
            with weft.Agent(folder + "/agent", threads=1) as agent:
                self.assertEqual(agent.mesh.state_hash(), there)
                self.assertEqual(agent.statistics()["reinforcement"]["steps"], 200)


if __name__ == "__main__":
    unittest.main()
