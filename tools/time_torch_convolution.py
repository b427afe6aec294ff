#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch's time for the training step of bench/mesh/convolution_bench.cpp: the median and the least of 300, in us.
With one thread that is the thread's own time, as there.

Needs Debian's python3-torch (1.13.1). Its best configuration here:

  OPENBLAS_CORETYPE=SkylakeX OMP_WAIT_POLICY=passive /usr/bin/python3 tools/time_torch_convolution.py
"""
import time

import torch


def step_times(threads, steps=300):
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Conv2d(1, 16, 3, padding=1), torch.nn.ReLU(), torch.nn.Conv2d(16, 32, 3, padding=1))
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-6)
    x = torch.randn(32, 1, 28, 28)
    dy = torch.ones(32, 32, 28, 28)
    clock = time.thread_time if threads == 1 else time.perf_counter
    times = []
    for _ in range(steps):
        start = clock()
        optimizer.zero_grad()
        net(x).backward(dy)
        optimizer.step()
        times.append((clock() - start) * 1e6)
    return sorted(times)


for threads in (1, 2):
    times = step_times(threads)
    print(f"{threads} threads: median {times[len(times) // 2]:.0f} us, least {times[0]:.0f} us")
