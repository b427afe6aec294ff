#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/data/drift.json: streams, the warnings and changes that detectors of drift see in them, and samples of
the generators of streams.

Each detector is written down anew from its paper, in float64, with lists where learning/drift keeps a few numbers. The
streams `doc_*` are those of river's documentation (rng.choices of Python's random), `moa_values` that of CapyMOA's
(numpy's seed 0), whose alarms are public; this program ends with an error unless its own are the same (`PUBLIC`). KSWIN
draws by Philox here and sees the same. Page-Hinkley is river's, which sums up otherwise than MOA's. `ddm` takes errors:
of MOA's stream, whose later values are 4 to 7, it is compared up to where MOA has a root of a number below 0.
"""
import json
import math
import pathlib
import random

import numpy


class Adwin:
    """Bifet and Gavalda 2007, ADWIN2: an exponential histogram of at most 5 buckets of a size."""

    def __init__(self, delta=0.002, clock=32, buckets=5, least=5, grace=10):
        self.delta, self.clock, self.buckets, self.least, self.grace = delta, clock, buckets, least, grace
        self.rows, self.seen = [[]], 0  # rows[i]: buckets (sum, squares about their mean) of 2^i values, oldest first

    def totals(self):
        """Count, sum and squares about the mean of all buckets, by merging from the oldest to the newest."""
        n, total, squares = 0, 0.0, 0.0
        for i in reversed(range(len(self.rows))):
            for s, q in self.rows[i]:
                n, total, squares = merge(n, total, squares, 2 ** i, s, q)
        return n, total, squares

    def add(self, x):
        self.rows[0].append((float(x), 0.0))
        self.seen += 1
        i = 0
        while len(self.rows[i]) > self.buckets:
            if i + 1 == len(self.rows):
                self.rows.append([])
            (s1, q1), (s2, q2) = self.rows[i][:2]
            del self.rows[i][:2]
            _, s, q = merge(2 ** i, s1, q1, 2 ** i, s2, q2)
            self.rows[i + 1].append((s, q))
            i += 1
        n = self.totals()[0]
        if self.seen % self.clock or n <= self.grace:
            return 0
        level, cut = 0, True
        while cut:
            cut = False
            n, total, squares = self.totals()
            variance = squares / n
            confidence = math.log(2.0 * math.log(n) / self.delta)
            n0, sum0 = 0, 0.0
            order = [(i, b) for i in reversed(range(len(self.rows))) for b in self.rows[i]]
            for i, (s, _) in order[:-1]:
                n0 += 2 ** i
                sum0 += s
                n1, sum1 = n - n0, total - sum0
                if n1 < self.least:
                    break
                if n0 < self.least:
                    continue
                m = 1.0 / (n0 - self.least + 1) + 1.0 / (n1 - self.least + 1)
                bound = math.sqrt(2.0 * m * variance * confidence) + 2.0 / 3.0 * m * confidence
                if abs(sum0 / n0 - sum1 / n1) > bound:
                    level, cut = 2, True
                    break
            if cut:
                while not self.rows[-1]:
                    self.rows.pop()
                self.rows[-1].pop(0)
                while len(self.rows) > 1 and not self.rows[-1]:
                    self.rows.pop()
        return level


def merge(n1, s1, q1, n2, s2, q2):
    """Chan, Golub and LeVeque 1979."""
    if n1 == 0:
        return n2, s2, q2
    d = s1 / n1 - s2 / n2
    return n1 + n2, s1 + s2, q1 + q2 + d * d * n1 * n2 / (n1 + n2)


class PageHinkley:
    """Page 1954; Mouss et al. 2004: means of all values, sums that forget."""

    def __init__(self, delta=0.005, threshold=50.0, alpha=0.9999, warm=30):
        self.delta, self.threshold, self.alpha, self.warm = delta, threshold, alpha, warm
        self.restart()

    def restart(self):
        self.n, self.mean, self.up, self.down, self.low, self.high = 0, 0.0, 0.0, 0.0, math.inf, -math.inf

    def add(self, x):
        self.n += 1
        self.mean += (x - self.mean) / self.n
        self.up = self.alpha * self.up + (x - self.mean - self.delta)
        self.down = self.alpha * self.down + (x - self.mean + self.delta)
        self.low, self.high = min(self.low, self.up), max(self.high, self.down)
        if self.n >= self.warm and max(self.up - self.low, self.high - self.down) > self.threshold:
            self.restart()
            return 2
        return 0


class Ddm:
    """Gama, Medas, Castillo and Rodrigues 2004."""

    def __init__(self, warm=30, warning=2.0, change=3.0):
        self.warm, self.warning, self.change = warm, warning, change
        self.restart()

    def restart(self):
        self.n, self.errors, self.p, self.s = 0, 0, math.inf, math.inf

    def add(self, x):
        self.n += 1
        self.errors += x
        p = self.errors / self.n
        s = math.sqrt(max(p * (1 - p), 0) / self.n)
        if self.n <= self.warm:
            return 0
        if p + s <= self.p + self.s:
            self.p, self.s = p, s
        if p + s > self.p + self.change * self.s:
            self.restart()
            return 2
        return int(p + s > self.p + self.warning * self.s)


class Eddm:
    """Baena-Garcia et al. 2006."""

    def __init__(self, warning_ratio=0.95, change_ratio=0.9, warm=30):
        self.alpha, self.beta, self.warm = warning_ratio, change_ratio, warm
        self.restart()

    def restart(self):
        self.n, self.last, self.distances, self.most = 0, 0, [], 0.0

    def add(self, x):
        self.n += 1
        if not x:
            return 0
        self.distances.append(self.n - self.last)
        self.last = self.n
        if self.n < self.warm:
            return 0
        count = len(self.distances)
        mean = sum(self.distances) / count
        end = mean + 2 * math.sqrt(sum((d - mean) ** 2 for d in self.distances) / max(count - 1, 1))
        self.most = max(self.most, end)
        if count < self.warm:
            return 0
        if end / self.most < self.beta:
            self.restart()
            return 2
        return int(end / self.most < self.alpha)


class HddmA:
    """Frias-Blanco et al. 2015, the A-test: Hoeffding's bound of means; errors that become more."""

    def __init__(self, change=0.001, warning=0.005):
        self.change, self.warning = change, warning
        self.restart()

    def restart(self):
        self.n, self.sum, self.cut_n, self.cut_sum = 0, 0.0, 0, 0.0

    def add(self, x):
        self.n += 1
        self.sum += x

        def end(total, n):
            return total / n + math.sqrt(math.log(1 / self.change) / (2 * n))
        if self.cut_n == 0 or end(self.sum, self.n) <= end(self.cut_sum, self.cut_n):
            self.cut_n, self.cut_sum = self.n, self.sum
        if self.cut_n == self.n:
            return 0
        rise = self.sum / self.n - self.cut_sum / self.cut_n

        def is_beyond(confidence):
            m = (self.n - self.cut_n) / (self.cut_n * self.n)
            return rise >= math.sqrt(m / 2 * math.log(2 / confidence))
        if is_beyond(self.change):
            self.restart()
            return 2
        return int(is_beyond(self.warning))


class HddmW:
    """The same, the W-test: McDiarmid's bound of exponential means."""

    def __init__(self, change=0.001, warning=0.005, share=0.05):
        self.change, self.warning, self.share = change, warning, share
        self.restart()

    def restart(self):
        self.all, self.before, self.after, self.least = None, None, None, math.inf

    def moved(self, mean, x):
        if mean is None:
            return x, 1.0
        keep = 1 - self.share
        return self.share * x + keep * mean[0], self.share ** 2 + keep ** 2 * mean[1]

    def add(self, x):
        self.all = self.moved(self.all, float(x))
        end = self.all[0] + math.sqrt(self.all[1] * math.log(1 / self.change) / 2)
        if end < self.least:
            self.least, self.before, self.after = end, self.all, None
            return 0
        self.after = self.moved(self.after, float(x))
        rise, weight = self.after[0] - self.before[0], self.after[1] + self.before[1]
        if rise > math.sqrt(weight * math.log(1 / self.change) / 2):
            self.restart()
            return 2
        return int(rise > math.sqrt(weight * math.log(1 / self.warning) / 2))


DRIFT, GENERATOR = 8, 9  # rows of RandomPurpose


class Draws:
    """Philox 4x32-10 (Salmon et al. 2011), addressed as core/philox.hpp says."""

    def __init__(self, seed, place, purpose):
        self.key = (seed & 0xFFFFFFFF, seed >> 32)
        self.place = (place & 0xFFFFFFFF, place >> 32 | purpose << 4)
        self.position = 0

    def word(self):
        block, self.position = divmod(self.position, 4)[0], self.position + 1
        c, k = [block & 0xFFFFFFFF, block >> 32, *self.place], list(self.key)
        for _ in range(10):
            p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
            c = [p1 >> 32 ^ c[1] ^ k[0], p1 & 0xFFFFFFFF, p0 >> 32 ^ c[3] ^ k[1], p0 & 0xFFFFFFFF]
            k = [k[0] + 0x9E3779B9 & 0xFFFFFFFF, k[1] + 0xBB67AE85 & 0xFFFFFFFF]
        return c[(self.position - 1) % 4]

    def uniform(self):
        return (self.word() >> 8) / 2 ** 24

    def below(self, bound):
        while True:
            product = self.word() * bound
            if product & 0xFFFFFFFF >= (2 ** 32 - bound) % bound:
                return product >> 32

    def normal(self):
        return sum(self.word() >> 8 for _ in range(12)) / 2 ** 24 - 6


class Kswin:
    """Raab, Heusinger and Schleif 2020; draws without putting back, in order (Knuth's algorithm S)."""

    def __init__(self, confidence=0.005, window=100, recent=30, seed=0):
        self.window, self.recent, self.seed, self.values, self.n = window, recent, seed, [], 0
        self.bound = math.sqrt(-math.log(confidence) / recent)

    def add(self, x):
        self.values = (self.values + [x])[-self.window:]
        self.n += 1
        if len(self.values) < self.window:
            return 0
        older, latest = self.values[:-self.recent], self.values[-self.recent:]
        draws, drawn = Draws(self.seed, self.n - 1, DRIFT), []
        for i, value in enumerate(older):
            if len(drawn) < self.recent and draws.below(len(older) - i) < self.recent - len(drawn):
                drawn.append(value)
        share = [lambda at, of=of: sum(v <= at for v in of) / self.recent for of in (drawn, latest)]
        if max(abs(share[0](at) - share[1](at)) for at in drawn + latest) <= self.bound:
            return 0
        self.values = latest
        return 2


def noisy(draws, label, classes, noise):
    return label if draws.uniform() >= noise else (label + 1 + draws.below(classes - 1)) % classes


def sea(draws, task, _):
    x = [10 * draws.uniform() for _ in range(3)]
    return x, noisy(draws, int(x[0] + x[1] > (8, 9, 7, 9.5)[task % 4]), 2, 0.1)


def hyperplane(draws, task, planes, seed=7):
    if planes.get("task") != task:
        own = Draws(seed, 2 ** 35 + task, GENERATOR)
        planes.update(task=task, w=[own.uniform() for _ in range(10)], d=[1, 1])
    w = planes["w"]
    x = [draws.uniform() for _ in range(10)]
    y = noisy(draws, int(sum(a * b for a, b in zip(w, x)) >= sum(w) / 2), 2, 0.05)
    for i in range(2):
        w[i] += planes["d"][i] * 0.001
        if draws.uniform() < 0.1:
            planes["d"][i] *= -1
    return x, y


def agrawal(draws, task, _):
    salary = 20e3 + 130e3 * draws.uniform()
    commission = 0 if salary >= 75e3 else 10e3 + 65e3 * draws.uniform()
    age, level, car, zipcode = 20 + draws.below(61), draws.below(5), 1 + draws.below(20), draws.below(9)
    value = (0.5 + draws.uniform()) * (9 - zipcode) * 100e3
    years, loan = 1 + draws.below(30), 500e3 * draws.uniform()
    young, old = age < 40, age >= 60
    middle = not young and not old
    k = [50 <= v / 1000 <= 100 if young else 75 <= v / 1000 <= 125 if middle else 25 <= v / 1000 <= 75
         for v in (salary, salary + commission)]
    s, l = salary / 1000, loan / 1000
    taught = level in ((0, 1) if young else (1, 2, 3) if middle else (2, 3, 4))
    income, equity = 2 / 3 * (salary + commission), 0.1 * value * (years - 20) if years >= 20 else 0
    rules = [
        lambda: young or old,
        lambda: k[0],
        lambda: taught,
        lambda: (25 <= s <= 75 if taught else 50 <= s <= 100) if young else
                (50 <= s <= 100 if taught else 75 <= s <= 125) if middle else
                (50 <= s <= 100 if taught else 25 <= s <= 75),
        lambda: (100 <= l <= 300 if k[0] else 200 <= l <= 400) if young else
                (200 <= l <= 400 if k[0] else 300 <= l <= 500) if middle else
                (300 <= l <= 500 if k[0] else 100 <= l <= 300),
        lambda: k[1],
        lambda: income - loan / 5 - 20e3 > 0,
        lambda: income - 5000 * level - 20e3 > 0,
        lambda: income - 5000 * level - loan / 5 - 10e3 > 0,
        lambda: income - 5000 * level + equity / 5 - 10e3 > 0]
    label = 0 if rules[task % 10]() else 1
    return [salary, commission, age, level, car, zipcode, value, years, loan], noisy(draws, label, 2, 0)


def friedman(draws, task, _):
    x = [draws.uniform() for _ in range(10)]
    a, b, c, d, e = [x[i] for i in ((0, 1, 2, 3, 4), (3, 4, 1, 0, 2))[task % 2]]
    return x, 10 * math.sin(math.pi * a * b) + 20 * (c - 0.5) ** 2 + 10 * d + 5 * e + draws.normal()


def led(draws, task, _):
    lit = ["abcefg", "cf", "acdeg", "acdfg", "bcdf", "abdfg", "abdefg", "acf", "abcdefg", "abcdfg"]
    digit = draws.below(10)
    x = []
    for segment in "abcdefg":
        on = segment in lit[digit]
        x.append(int(on != (draws.uniform() < 0.1)))
    x += [draws.below(2) for _ in range(17)]
    for i in range((0, 1, 3, 5, 7)[task % 5]):
        x[i], x[7 + i] = x[7 + i], x[i]
    return x, digit


def slowly_changing(draws, task, kept, seed=7):
    """Dohare et al. 2024: threshold units of weights 1 and -1, with the threshold 0.7 * 21 less the negative ones."""
    if "units" not in kept:
        own = Draws(seed, 2 ** 35, GENERATOR)
        kept["units"] = [[2 * own.below(2) - 1 for _ in range(21)] for _ in range(100)]
        kept["out"] = [2 * own.below(2) - 1 for _ in range(100)]
        kept["begin"] = [own.below(2) for _ in range(15)]
    x = list(kept["begin"])
    for change in range(1, task + 1):
        bit = Draws(seed, 2 ** 35 + change, GENERATOR).below(15)
        x[bit] = 1 - x[bit]
    x += [draws.below(2) for _ in range(5)]
    y = 0
    for unit, out in zip(kept["units"], kept["out"]):
        y += out * (sum(w * v for w, v in zip(unit, x + [1])) > 0.7 * 21 - unit.count(-1))
    return x, y


GENERATORS = {"sea": sea, "hyperplane": hyperplane, "agrawal": agrawal, "friedman": friedman, "led": led,
              "slowly_changing": slowly_changing}


def samples(name, count=400, every=40, width=20, seed=7):
    """`count` samples, a task every 40, which comes in the course of 20."""
    rows, kept = [], {}
    for n in range(count):
        changes, since = divmod(n, every)
        draws = Draws(seed, n, GENERATOR)
        task = changes
        if changes and since < width:
            turn = Draws(seed, n, GENERATOR)
            turn.position = 2 ** 32
            task -= int(not turn.uniform() * width < since)
        x, y = GENERATORS[name](draws, task, kept)
        rows.append([task, [float(f"{v:.9g}") for v in x] if n % 10 == 3 else [], float(f"{y:.9g}")])
    return rows


DETECTORS = {"adwin": Adwin, "page_hinkley": PageHinkley, "ddm": Ddm, "eddm": Eddm, "hddm_a": HddmA, "hddm_w": HddmW,
             "kswin": Kswin}

PUBLIC = [  # river's documentation: detector, options, stream, first warnings, changes
    ("adwin", {}, "doc_values", [], [1023]),
    ("page_hinkley", {}, "doc_values", [], [1006]),
    ("kswin", {"confidence": 0.0001}, "doc_values", [], [1016]),
    ("ddm", {}, "doc_errors", [1084, 1492], [1334]),
    ("eddm", {"warning_ratio": 0.8, "change_ratio": 0.75}, "doc_errors", [1059], [1278]),
    ("hddm_a", {}, "doc_errors", [451], [1206]),
    ("hddm_w", {}, "doc_errors", [451], [1077]),
    # CapyMOA's documentation of each class, which prints changes alone
    ("adwin", {"confidence": 0.001}, "moa_values", None, [1023, 1055]),
    ("ddm", {}, "moa_errors", None, [1005]),
    ("hddm_a", {"confidence": 1e-10}, "moa_values", None, [999, 1019, 1330]),
    ("hddm_w", {"share": 0.001}, "moa_values", None, [1234]),
]
ARGUMENTS = {"adwin": {"confidence": "delta"}, "hddm_a": {"confidence": "change"}}  # of the classes above


def streams():
    values = random.Random(12345)
    errors = random.Random(42)
    own = random.Random(7)
    rates = [0.3, 0.05, 0.5, 0.2]
    numpy.random.seed(0)
    moa = [int(value) for value in numpy.random.randint(2, size=2000)]
    moa[999:] = [int(numpy.random.randint(4, high=8)) for _ in range(999, 2000)]
    return {
        "doc_values": values.choices([0, 1], k=1000) + values.choices(range(4, 8), k=1000),
        "doc_errors": errors.choices([0, 1], k=1000) + errors.choices([0, 1], k=1000, weights=[0.3, 0.7]),
        "moa_values": moa,
        "moa_errors": moa[:1030],
        "errors": [int(own.random() < rates[i // 1500]) for i in range(6000)],
        "slow_errors": [int(own.random() < 0.1 + 0.4 * min(max(i - 2000, 0), 2000) / 2000) for i in range(6000)],
        "walk": [int(1000 * (own.gauss(0, 1) + (2 if i % 4000 >= 2000 else 0))) / 1000 for i in range(8000)],
    }


def alarms(name, options, stream):
    """First warnings of a row, and changes."""
    detector = DETECTORS[name](**{ARGUMENTS.get(name, {}).get(key, key): value for key, value in options.items()})
    warnings, changes, is_warned = [], [], False
    for i, x in enumerate(stream):
        level = detector.add(x)
        if level == 1 and not is_warned:
            warnings.append(i)
            is_warned = True
        if level == 2:
            changes.append(i)
            is_warned = False
    return warnings, changes


def main():
    all_streams = streams()
    rows = []
    for name, options, stream, warnings, changes in PUBLIC:
        found = alarms(name, options, all_streams[stream])
        if found[1] != changes or warnings not in (None, found[0]):
            raise SystemExit(f"{name}: {found} where the documentation has {(warnings, changes)}")
        rows.append({"detector": name, "options": options, "stream": stream, "public": True, "warnings": found[0],
                     "changes": changes})
    for name in DETECTORS:
        is_binary = name not in ("adwin", "page_hinkley", "kswin")
        for stream in ("errors", "slow_errors") if is_binary else ("errors", "slow_errors", "walk"):
            warnings, changes = alarms(name, {}, all_streams[stream])
            rows.append({"detector": name, "options": {}, "stream": stream, "public": False, "warnings": warnings,
                         "changes": changes})
    for row in rows:
        print(row["detector"], row["stream"], row["warnings"][:8], row["changes"])
    path = pathlib.Path(__file__).parents[1] / "tests/data/drift.json"
    lines = [f' "{name}": {json.dumps(values, separators=(",", ":"))}' for name, values in all_streams.items()]
    text = '{"streams": {\n' + ",\n".join(lines) + '},\n"alarms": [\n'
    text += ",\n".join(" " + json.dumps(row) for row in rows) + '],\n"samples": {\n'
    made = {name: samples(name) for name in GENERATORS}
    text += ",\n".join(f' "{name}": {json.dumps(all_, separators=(",", ":"))}' for name, all_ in made.items())
    path.write_text(text + "}}\n")


if __name__ == "__main__":
    main()
