#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The rival of `weft bench gpu`: PyTorch on CUDA, float32 without TF32. Prints one JSON object: seconds by name."""
import json
import statistics
import time

import torch

if not torch.cuda.is_available():
    raise SystemExit("no CUDA device")
torch.backends.cuda.matmul.allow_tf32 = False
torch.backends.cudnn.allow_tf32 = False
torch.manual_seed(1)
device = torch.device("cuda")


def seconds(step, repeats, rounds=15):
    """Median over rounds of the seconds of one step; 100 ms to warm up, since the card idles slowly."""
    end = time.perf_counter() + 0.1
    while time.perf_counter() < end:
        step()
        torch.cuda.synchronize()
    times = []
    for _ in range(rounds):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(repeats):
            step()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - begin) / repeats)
    return statistics.median(times)


found = {"device": torch.cuda.get_device_name()}
a = torch.empty(1 << 30, dtype=torch.float32, device=device).normal_()
b = torch.empty_like(a)
found["copy"] = seconds(lambda: b.copy_(a), 5)
found["copy_bytes"] = 8 * a.numel()
del a, b

w = torch.randn(8192, 8192, device=device)
x = torch.randn(8192, device=device)
found["gemv"] = seconds(lambda: torch.mv(w, x), 100)
m, n = torch.randn(4096, 4096, device=device), torch.randn(4096, 4096, device=device)
found["gemm"] = seconds(lambda: torch.mm(m, n), 10)
del w, m, n

net = torch.nn.Sequential(torch.nn.Linear(784, 2048), torch.nn.Tanh(), torch.nn.Linear(2048, 2048), torch.nn.Tanh(),
                          torch.nn.Linear(2048, 10)).to(device)
images, labels = torch.randn(256, 784, device=device), torch.randint(0, 10, (256,), device=device)
loss = torch.nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(net.parameters(), lr=1e-4)


def train():
    optimizer.zero_grad(set_to_none=True)
    loss(net(images), labels).backward()
    optimizer.step()


found["mlp"] = seconds(train, 50)

cells = 65536
weights, bias = torch.randn(cells, 64, 64, device=device) * 0.1, torch.randn(cells, 64, 1, device=device)
values = torch.randn(cells, 64, 1, device=device)
found["cells_65536"] = seconds(lambda: torch.tanh(torch.baddbmm(bias, weights, values)), 10)
del weights, values
torch.backends.cudnn.benchmark = True
# batch, channels, side, outputs, kernel, stride, padding: those of bench/weft_gpu/convolutions.cpp.
SHAPES = [(64, 64, 56, 64, 3, 1, 1), (64, 128, 28, 128, 3, 1, 1), (64, 256, 14, 256, 3, 1, 1),
          (64, 512, 7, 512, 3, 1, 1), (64, 128, 56, 128, 3, 2, 1), (64, 256, 28, 64, 1, 1, 0),
          (64, 3, 112, 64, 7, 2, 3), (256, 16, 14, 32, 3, 1, 1)]
for i, (batch, channels, side, out, kernel, stride, padding) in enumerate(SHAPES):
    x = torch.randn(batch, channels, side, side, device=device)
    w = torch.randn(out, channels, kernel, kernel, device=device)
    forward = lambda: torch.nn.functional.conv2d(x, w, stride=stride, padding=padding)
    dy = torch.randn_like(forward())

    def backward(of_input, of_weight):
        torch.ops.aten.convolution_backward(dy, x, w, [0], [stride] * 2, [padding] * 2, [1, 1], False, [0, 0], 1,
                                            [of_input, of_weight, False])

    found[f"convolve {i}"] = seconds(forward, 10, 7)
    found[f"convolve_transposed {i}"] = seconds(lambda: backward(True, False), 10, 7)
    found[f"convolve_outer {i}"] = seconds(lambda: backward(False, True), 10, 7)
print(json.dumps(found))
