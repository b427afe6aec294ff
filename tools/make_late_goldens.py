#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/data/late.json: learning from targets that come late, in float64.

meet: a network 5-7-3 (tanh, softmax cross-entropy, plain gradient descent) whose errors go back over the activations
that were kept of a sample, with the weights of now; settled and pipelined, where an error moves one link a step.
river: delayed progressive validation of softmax regression in river's order (Montiel et al. 2021, "River: machine
learning for streaming data in Python", simulate_qa): before question i all answers due at i or earlier are released;
a prediction is the one made at its question. Needs numpy."""

import json
import pathlib

import numpy as np

RATE, DELAYS = 0.25, (1, 2, 7)


def softmax(y):
    e = np.exp(y - y.max())
    return e / e.sum()


class Network:
    def __init__(self, weights):
        self.w1, self.b1, self.w2, self.b2 = (np.array(w, dtype=np.float64) for w in weights)

    def weights(self):
        return [w.tolist() for w in (self.w1, self.b1, self.w2, self.b2)]

    def move_second(self, g, a1):
        self.w2 = self.w2 - RATE * np.outer(g, a1)
        self.b2 = self.b2 - RATE * g

    def move_first(self, d, a1, x):
        d = d * (1 - a1 * a1)
        self.w1 = self.w1 - RATE * np.outer(d, x)
        self.b1 = self.b1 - RATE * d


def gradient(y, target):
    kind, value, weight = target
    g = np.array(value) if kind == "gradient" else softmax(y) - np.eye(3)[value]
    return weight * g


def settled(weights, xs, events):
    net, kept, losses = Network(weights), {}, []
    for event in events:
        if event[0] == "observe":
            x = np.array(xs[event[1]])
            a1 = np.tanh(net.w1 @ x + net.b1)
            kept[event[1]] = (x, a1, net.w2 @ a1 + net.b2)
        elif event[0] == "teach":
            x, a1, y = kept.pop(event[1])
            target = event[2:]
            losses.append(-np.log(softmax(y)[target[1]]) if target[0] == "label" else 0.0)
            if target[2] == 0:
                continue
            g = gradient(y, target)
            d = net.w2.T @ g
            net.move_second(g, a1)
            net.move_first(d, a1, x)
    return net, losses


class Pipeline:
    """Ticks of two layers: an input enters at tick t, y is there at t + 2; an error enters a step and moves one link."""

    def __init__(self, weights):
        self.net, self.tick, self.slot, self.message = Network(weights), 0, None, None
        self.x, self.a1, self.y, self.targets = {}, {}, {}, {}

    def step(self, fires, entry):
        t, net = self.tick, self.net
        if fires:
            self.a1[t + 1] = np.tanh(net.w1 @ self.x[t] + net.b1)
            if t in self.a1:
                self.y[t + 1] = net.w2 @ self.a1[t] + net.b2
        before, self.message = self.message, None
        if entry is not None:
            end = entry + 2
            g = gradient(self.y[end], self.targets[entry])
            self.message = (net.w2.T @ g, entry)
            net.move_second(g, self.a1[end - 1])
        if before is not None:
            d, sample = before
            net.move_first(d, self.a1[sample + 1], self.x[sample])
        self.tick += fires

    def on_time(self):
        sample = self.tick - 2
        return sample if sample in self.targets and sample not in self.late else None

    def make_room(self):
        if self.slot is not None and self.on_time() is not None:
            self.step(False, self.slot)
            self.slot = None

    def fire(self, x):
        self.make_room()
        self.x[self.tick] = x
        entry, self.slot = (self.slot, None) if self.slot is not None else (self.on_time(), None)
        self.step(True, entry)

    late = frozenset()

    def teach(self, sample, target):
        if target[2] == 0:
            return
        if self.tick > sample + 2:
            if self.slot is not None:
                self.step(False, self.slot)
            self.slot = sample
            self.late = self.late | {sample}
        self.targets[sample] = target


def pipelined(weights, xs, events):
    pipe = Pipeline(weights)
    for event in events:
        if event[0] == "observe":
            pipe.fire(np.array(xs[event[1]]))
        elif event[0] == "teach":
            pipe.teach(event[1], event[2:])
    last = pipe.x[pipe.tick - 1]
    done = 0
    while done < 4 or pipe.slot is not None:
        pipe.fire(last)
        done += 1
    return pipe.net


def events_of(random, count):
    """Each sample: taught after a delay by a label or a gradient with a weight, or forgone."""
    due = []
    for i in range(count):
        kind = random.randint(10)
        if kind == 0:
            due.append((i + random.randint(1, 8), ["forgo", i]))
        elif kind < 4:
            value = np.round(random.randn(3) * 64).astype(int) / 64
            due.append((i + random.randint(0, 8), ["teach", i, "gradient", value.tolist(), random.randint(0, 4) / 2]))
        else:
            due.append((i + random.randint(0, 8), ["teach", i, "label", int(random.randint(3)), random.randint(0, 4) / 2]))
    events = []
    for i in range(count):
        events.append(["observe", i])
        events += [event for when, event in due if when == i]
    return events + [event for when, event in due if when >= count]


def river(xs, labels, delay):
    w, b = np.zeros((3, 5)), np.zeros(3)
    waiting, hits, predictions, answers = [], [], {}, []

    def release(until):
        nonlocal w, b
        while waiting and waiting[0][1] <= until:
            i = waiting.pop(0)[0]
            hits.append(int(predictions[i] == labels[i]))
            answers.append(i)
            x = np.array(xs[i])
            g = softmax(w @ x + b) - np.eye(3)[labels[i]]
            w, b = w - RATE * np.outer(g, x), b - RATE * g

    for i, x in enumerate(xs):
        release(i)
        predictions[i] = int(np.argmax(w @ np.array(x) + b))
        waiting.append((i, i + delay))
    release(len(xs) + delay)
    accuracy = (np.cumsum(hits) / np.arange(1, len(hits) + 1)).tolist()
    return {"delay": delay, "predictions": [predictions[i] for i in range(len(xs))], "hits": hits, "order": answers,
            "accuracy": accuracy, "w": w.tolist(), "b": b.tolist()}


def main():
    random = np.random.RandomState(5)
    xs = (np.round(random.randn(120, 5) * 256) / 256).tolist()
    weights = [(np.round(random.randn(*shape) * 128) / 256).tolist() for shape in ((7, 5), (7,), (3, 7), (3,))]
    labels = [int(np.argmax(np.array(x)[:3] * [1, -1, 1] + np.array(x)[2:])) for x in xs]
    events = events_of(random, len(xs))
    net, losses = settled(weights, xs, events)
    made = {"rate": RATE, "x": xs, "labels": labels, "weights": weights, "events": events,
            "settled": net.weights(), "losses": losses, "pipelined": pipelined(weights, xs, events).weights(),
            "river": [river(xs, labels, delay) for delay in DELAYS]}
    path = pathlib.Path(__file__).resolve().parents[1] / "tests/data/late.json"
    path.write_text(json.dumps(made) + "\n")


if __name__ == "__main__":
    main()
