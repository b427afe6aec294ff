#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Small forms of what docs/benchmarks.md says of learning that goes on for months; the whole ones are tools/measure_*.py.

Each limit lies four standard deviations of its runs (of the mean of three, where three are run) from their mean, as
found with the seeds that are named. The same seeds give the same bits everywhere, so no run is lucky.
"""

import json
import math
import pathlib
import statistics
import subprocess
import sys
import tempfile
import types
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import measure_chase  # noqa: E402
import measure_plasticity  # noqa: E402
import measure_reinforcement  # noqa: E402
import measure_text  # noqa: E402
import measure_turns  # noqa: E402

WEFT = pathlib.Path(sys.argv.pop(1)).resolve()


def last_of(network, *words):
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(network, file)
        file.flush()
        done = subprocess.run([WEFT, words[0], file.name, "--json", "--threads", "1", *map(str, words[1:])],
                              capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise AssertionError(done.stdout[-500:] + done.stderr[-500:])
    return json.loads(done.stdout.splitlines()[-1])


class Chase(unittest.TestCase):
    """Chase or avoid, 6,000 samples that turn round every 2,000, settled."""

    # Mean and standard deviation of the accuracy, seeds 0 to 9. Chance is 0.25.
    MEASURED = {"backprop": (0.8871, 0.0054), "gap": (0.7540, 0.0491), "chain": (0.8520, 0.0166),
                "fw_dtp": (0.8148, 0.0207), "dfa": (0.8022, 0.0227), "dtp": (0.9097, 0.0124), "sdtp": (0.8806, 0.0357),
                "local_ce": (0.7961, 0.0157), "gap_difference": (0.9141, 0.0078), "chain_original": (0.8891, 0.0047),
                "gap_original": (0.4487, 0.0526)}
    # Seeds of which the mean is held to the limit. By one, that of gap_original would lie below chance.
    SEEDS = {"gap_original": 3}

    def test_every_rule_follows_the_turns(self):
        self.assertEqual(set(self.MEASURED), set(measure_chase.RULES))
        args = types.SimpleNamespace(activation="tanh", defaults=False, set=[], flip=2000)
        data = [measure_chase.rows(6000, 2000, seed) for seed in range(max(self.SEEDS.values()))]
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "network.json"
            for rule, (mean, deviation) in self.MEASURED.items():
                path.write_text(json.dumps(measure_chase.network(rule, "settle", args)), encoding="utf-8")
                seeds = self.SEEDS.get(rule, 1)
                limit = mean - 4 * deviation / math.sqrt(seeds)
                found = [measure_chase.run(WEFT, path, data[seed], seed) for seed in range(seeds)]
                with self.subTest(rule=rule, found=found):
                    self.assertGreater(limit, 0.25)
                    self.assertGreater(statistics.mean(run["accuracy"] for run in found), limit)
                    self.assertEqual([run["changes"] for run in found], [2] * seeds)


class Acting(unittest.TestCase):
    # Mean return and its standard deviation in 15,000 steps of cartpole, actor's first layer sparse, seeds 0 to 7. At
    # random 22.
    MEASURED = {"float32": (152.7, 15.6), "bfloat16": (155.3, 14.3), "int8": (154.4, 12.4), "ternary": (130.8, 5.1)}

    def mean_return(self, environment, steps, *changes):
        return last_of(measure_reinforcement.network(environment, changes), "live", "--steps", steps, "--seed", 0,
                       "--quiet")["mean_return"]

    def test_balls_are_caught(self):
        # In the paper's form, 30,000 steps, seeds 0 to 9: 0.95 (0.10). Chance is below 0.
        self.assertGreater(self.mean_return("catch_ball", 30000, *measure_reinforcement.PAPER), 0.95 - 4 * 0.10)

    def test_poles_are_balanced_by_weights_of_few_bits(self):
        for dtype, (mean, deviation) in self.MEASURED.items():
            few = [f"layers.{part}.{change}" for part in (0, 1) for change in (f'dtype="{dtype}"', "qat=true")]
            changes = [measure_reinforcement.PAPER[0], *([] if dtype == "float32" else few)]
            with self.subTest(dtype=dtype):
                self.assertGreater(self.mean_return("cartpole", 15000, *changes), mean - 4 * deviation)


    def test_sixteen_environments_teach_one_network(self):
        # 2,000 steps of sixteen cartpoles, seeds 0 to 9: 258.8 (11.4). As many steps of one: 13 to 72.
        changes = ["reinforcement.environments=16"]
        self.assertGreater(self.mean_return("cartpole", 2000, *changes), 258.8 - 4 * 11.4)

    def test_arms_are_swung_up(self):
        # In the paper's form, 120,000 steps, seeds 0 to 7: -96.9 (7.2). At random -500.
        self.assertGreater(self.mean_return("acrobot", 120000, *measure_reinforcement.PAPER), -96.9 - 4 * 7.2)

    def test_a_pendulum_is_swung_up_by_real_values(self):
        # examples/pendulum.json, 100,000 steps, seeds 0 to 9: -255.0 (39.7). At random -1,200.
        network = json.loads((ROOT / "examples/pendulum.json").read_text())
        found = last_of(network, "live", "--steps", 100000, "--seed", 0, "--quiet")["mean_return"]
        self.assertGreater(found, -255.0 - 4 * 39.7)

    def test_a_weak_car_gets_up_its_mountain(self):
        # examples/mountain_car.json, 250,000 steps, seeds 0 to 9: -112.0 (6.8). At random -200.
        network = json.loads((ROOT / "examples/mountain_car.json").read_text())
        found = last_of(network, "live", "--steps", 250000, "--seed", 0, "--quiet")["mean_return"]
        self.assertGreater(found, -112.0 - 4 * 6.8)

    def test_two_games_in_turn_are_not_forgotten(self):
        # Turns of 4,000 steps, 8 rounds, networks of 2x32: reward of 1,000 steps in the last two rounds, seeds 0 to 9.
        measured = {"falling": (12.61, 2.02), "shooter": (151.6, 7.81)}
        args = types.SimpleNamespace(first="falling", second="shooter", every=4000, rounds=8, width=32, set=[], seconds=0,
                                     weft=WEFT)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "network.json"
            path.write_text(json.dumps(measure_turns.network(args)), encoding="utf-8")
            runs = [measure_turns.play(args, path, seed)[0][0] for seed in range(3)]
        for game, (name, (mean, deviation)) in enumerate(measured.items()):
            first, last = ([statistics.mean(run[game::2][part]) for run in runs] for part in (slice(2), slice(-2, None)))
            with self.subTest(game=name, first=first, last=last):
                self.assertGreater(statistics.mean(last), mean - 4 * deviation / math.sqrt(3))
                self.assertGreater(statistics.mean(last), 0.95 * statistics.mean(first))


class Text(unittest.TestCase):
    def test_text_is_learned_forward_in_time(self):
        """The text of LICENSE, which nobody changes: `diagonal` with tanh of the state, one pass over 11,358 bytes."""
        text = (ROOT / "LICENSE").read_bytes()
        places = {byte: place for place, byte in enumerate(sorted(set(text)))}
        codes = [places[byte] for byte in text]
        rows = b"x,next\n" + b"".join(b"%d,%d\n" % pair for pair in zip(codes, codes[1:]))
        bits, _ = measure_text.run(WEFT, "diagonal_state 64 96 1", 0.001, rows, len(places), len(codes) - 1, 0)
        # Seeds 0 to 9: 3.052 (0.0107). By the byte before alone 3.565.
        self.assertLess(bits, 3.052 + 4 * 0.0107)
        self.assertLess(bits, self.counted_pairs(codes, len(places)))

    @staticmethod
    def counted_pairs(codes, count):
        """Bits a byte of the best guess by the byte before: counts so far, each begun at 1/13."""
        seen, bits = [[1 / 13] * count for _ in range(count)], 0.0
        for before, now in zip(codes, codes[1:]):
            bits -= math.log2(seen[before][now] / sum(seen[before]))
            seen[before][now] += 1
        return bits / (len(codes) - 1)


class Told:
    """Takes what a run tells while it goes on."""

    def put(self, _):
        pass


class Plasticity(unittest.TestCase):
    """Pixels that are permuted anew in each task, online accuracy over all tasks."""

    def accuracies(self, arm, seed, **protocol):
        args = types.SimpleNamespace(weft=WEFT, **protocol)
        return measure_plasticity.run((arm, seed), args, Told())["tasks"]

    def test_units_that_begin_anew_keep_the_power_to_learn(self):
        # 80 tasks of 300 digits, rate 0.1, seeds 0 to 9; mean over all tasks, and of the last 16 over the first 16.
        measured = {"redo 500 0.1": (0.5258, 0.0043, 1.000, 0.025), "initial 0.03": (0.5118, 0.0037, 0.989, 0.031)}
        protocol = {"tasks": 81, "samples": 300, "lr": 0.1, "mnist": None}
        plain = self.accuracies("plain", 0, **protocol)
        # Without a remedy 0.342 (0.012), and 0.513 (0.086) at the end: the protocol is one that takes it away.
        self.assertLess(statistics.mean(plain), 0.342 + 4 * 0.012)
        for arm, (mean, deviation, kept, spread) in measured.items():
            found = self.accuracies(arm, 0, **protocol)
            with self.subTest(arm=arm):
                self.assertGreater(statistics.mean(found), mean - 4 * deviation)
                self.assertGreater(statistics.mean(found[-16:]) / statistics.mean(found[:16]), kept - 4 * spread)

    def test_permuted_pixels_are_learned_with_tools(self):
        # 16 tasks of 300 digits, rate 0.01, seeds 0 to 9.
        for arm, mean, deviation in (("plain", 0.6132, 0.0098),
                                     ("ema 0.99 0.1 + layer_norm + initial 0.003", 0.7011, 0.0082)):
            found = self.accuracies(arm, 0, tasks=17, samples=300, lr=0.01, mnist=None)
            with self.subTest(arm=arm):
                self.assertGreater(statistics.mean(found), mean - 4 * deviation)


class Forgetting(unittest.TestCase):
    """Digits of 8x8 in a network 64-64-10, means of seeds 0 to 2; each with the same without a remedy beside it."""

    def accuracy(self, tasks, epochs, learning, seed):
        network = {"weft": 2, "inputs": {"pixels": [64]},
                   "chain": [{"type": "dense", "out": 64, "activation": "relu", "init": "he"},
                             {"type": "dense", "out": 10}],
                   "learning": {"learners": 4} | learning,
                   "stream": {"csv": str(ROOT / "examples/data/digits.csv.gz"), "scale": 0.0625, "held_out": 0.2,
                              "epochs": epochs, "tasks": tasks}}
        return last_of(network, "run", "--seed", seed)["tasks"]["accuracy"]

    def check(self, tasks, epochs, learning, remedies, measured):
        plain = [self.accuracy(tasks, epochs, learning, seed) for seed in range(3)]
        self.check_mean(plain, *measured["none"], -1)
        for name, remedy in remedies.items():
            found = [self.accuracy(tasks, epochs, learning | remedy, seed) for seed in range(3)]
            with self.subTest(remedy=name, found=found, plain=plain):
                self.check_mean(found, *measured[name], 1)
                for one, other in zip(found, plain):
                    self.assertGreater(one, other)

    def check_mean(self, found, mean, deviation, sign):
        self.assertGreater(sign * sum(found) / 3, sign * mean - 4 * deviation / math.sqrt(3))

    def test_five_permutations(self):
        every = 718  # updates of a task: 1,437 digits twice, four at once
        self.check({"kind": "permuted", "count": 5, "scenario": "domain"}, 2,
                   {"optimizer": {"type": "adamw", "lr": 0.002, "weight_decay": 0}},
                   {"er": {"replay": {"method": "er", "capacity": 100, "samples": 4}},
                    "ewc": {"consolidation": {"method": "ewc", "strength": 100, "every": every}},
                    "si": {"consolidation": {"method": "si", "strength": 10, "every": every}}},
                   {"none": (0.5803, 0.0434), "er": (0.8184, 0.0168), "ewc": (0.6826, 0.0237), "si": (0.6828, 0.0389)})

    def test_pairs_of_digits_that_turn(self):
        self.check({"kind": "turning", "count": 1, "scenario": "class"}, 3, {"optimizer": {"type": "sgd", "lr": 0.05}},
                   {"er": {"replay": {"method": "er", "capacity": 200, "samples": 12}}},
                   {"none": (0.2446, 0.0218), "er": (0.5523, 0.0283)})


if __name__ == "__main__":
    unittest.main()
