#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The rival of `weft bench layers`: training steps (forward, backward, SGD) of one network by PyTorch.

  torch_steps.py mlp|convolution|lstm|attention THREADS

Reads how many steps to do, a number a line; answers with the seconds of one, their median, and the process's peak of
resident memory in KiB.
"""
import os
import resource
import sys
import time

os.environ.setdefault("OPENBLAS_CORETYPE", "SkylakeX")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import torch  # noqa: E402  (the environment comes first)
from torch import nn  # noqa: E402

SAMPLES = 8


class Lstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(128, 128, batch_first=True)

    def forward(self, x):
        return self.lstm(x)[0]


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(256, 8, batch_first=True)

    def forward(self, x):
        return self.attention(x, x, x, need_weights=False)[0]


def classes(batch):
    return [torch.randint(0, 10, (batch,)) for _ in range(SAMPLES)], nn.CrossEntropyLoss()


def values(*shape):
    return [torch.randn(*shape) for _ in range(SAMPLES)], nn.MSELoss()


def build(name):
    if name == "mlp":
        net = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 10))
        return net, (32, 784), *classes(32)
    if name == "convolution":
        net = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10))
        return net, (32, 1, 28, 28), *classes(32)
    if name == "lstm":
        return Lstm(), (32, 32, 128), *values(32, 32, 128)
    return Attention(), (4, 128, 256), *values(4, 128, 256)


def main():
    torch.set_num_threads(int(sys.argv[2]))
    torch.manual_seed(0)
    net, shape, targets, loss = build(sys.argv[1])
    inputs = [torch.randn(*shape) for _ in range(SAMPLES)]
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)

    def step(i):
        optimizer.zero_grad(set_to_none=True)
        loss(net(inputs[i % SAMPLES]), targets[i % SAMPLES]).backward()
        optimizer.step()

    for line in sys.stdin:
        times = []
        for i in range(int(line)):
            start = time.perf_counter()
            step(i)
            times.append(time.perf_counter() - start)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        print(f"{sorted(times)[len(times) // 2]:.9f} {peak}", flush=True)


if __name__ == "__main__":
    main()
