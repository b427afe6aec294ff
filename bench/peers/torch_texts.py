#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The rival of `weft-bench-gpu --only decoding`: PyTorch on CUDA, language models of noise. Prints one JSON object a row:
tokens a second of one text behind 1,024 others, its step captured as a CUDA graph, and of a prompt of 512.

  bench/peers/torch_texts.py [SHAPE] [TYPE]      a shape of tools/make_synthetic_model.py; float32, bfloat16: both, all

Keys and values lie in a buffer of kPlaces and a mask hides what is not written yet, so that one graph serves each
place: PyTorch's own attention reads all of them. float32 is without TF32, as Weft's is exact. Queries, keys and values
are one product and so are both gates, which is the fewest kernels that PyTorch takes.
"""
import json
import pathlib
import statistics
import sys
import time

import torch
from torch.nn import functional

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
from make_synthetic_model import SHAPES  # noqa: E402

PLACES, BEFORE, PROMPT, ROUNDS, STEPS = 1600, 1024, 512, 5, 64
TYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


class Texts:
    def __init__(self, shape, dtype):
        width, inner, self.heads, self.key_heads = (shape[k] for k in ("width", "inner", "heads", "key_heads"))
        self.size = width // self.heads
        keys = self.size * self.key_heads

        def matrix(rows, columns):
            return torch.randn(rows, columns, dtype=dtype, device="cuda") / columns**0.5

        self.blocks = [{"qkv": matrix(width + 2 * keys, width), "o": matrix(width, width),
                        "gates": matrix(2 * inner, width), "down": matrix(width, inner)} for _ in range(shape["layers"])]
        self.table = matrix(shape["tokens"], width)
        self.gain = torch.ones(width, dtype=dtype, device="cuda")
        self.kept = torch.zeros(shape["layers"], 2, self.key_heads, PLACES, self.size, dtype=dtype, device="cuda")
        angles = torch.outer(torch.arange(PLACES, device="cuda").float(),
                             10000 ** (-torch.arange(0, self.size, 2, device="cuda").float() / self.size))
        self.cos, self.sin = angles.cos().to(dtype), angles.sin().to(dtype)
        self.columns = torch.arange(PLACES, device="cuda")

    def turn(self, x, places):
        a, b = x.chunk(2, -1)
        cos, sin = self.cos[places], self.sin[places]
        return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)

    def step(self, tokens, places):
        """Logits behind the last of `tokens`, whose places are `places`."""
        x = self.table[tokens]
        mask = self.columns <= places[:, None]
        for block, (keys, values) in zip(self.blocks, self.kept):
            h = functional.linear(functional.rms_norm(x, (x.shape[-1],), self.gain), block["qkv"])
            q, k, v = h.split((self.heads * self.size, self.key_heads * self.size, self.key_heads * self.size), -1)
            q, k, v = (t.view(len(tokens), -1, self.size).transpose(0, 1) for t in (q, k, v))
            keys.index_copy_(1, places, self.turn(k, places))
            values.index_copy_(1, places, v)
            y = functional.scaled_dot_product_attention(self.turn(q, places)[None], keys[None], values[None],
                                                        attn_mask=mask, enable_gqa=True)[0]
            x = x + functional.linear(y.transpose(0, 1).reshape(len(tokens), -1), block["o"])
            gate, up = functional.linear(functional.rms_norm(x, (x.shape[-1],), self.gain), block["gates"]).chunk(2, -1)
            x = x + functional.linear(functional.silu(gate) * up, block["down"])
        return functional.linear(functional.rms_norm(x[-1], (x.shape[-1],), self.gain), self.table)


def median_rate(run, tokens):
    """Tokens a second: the median of rounds, the first of which only warms up."""
    rates = []
    for _ in range(ROUNDS + 1):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        run()
        torch.cuda.synchronize()
        rates.append(tokens / (time.perf_counter() - begin))
    return statistics.median(rates[1:])


def decoding(texts):
    token = torch.zeros(1, dtype=torch.long, device="cuda")
    place = torch.full((1,), BEFORE, dtype=torch.long, device="cuda")

    def step():
        token.copy_(texts.step(token, place).argmax().reshape(1))
        place.add_(1)

    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()

    def run():
        place.fill_(BEFORE)
        for _ in range(STEPS):
            graph.replay()
            token.item()  # a reader of the text wants each token

    return median_rate(run, STEPS)


def prompts(texts):
    tokens = torch.arange(PROMPT, device="cuda")
    return median_rate(lambda: [texts.step(tokens, tokens) for _ in range(4)], 4 * PROMPT)


def main():
    if not torch.cuda.is_available():
        raise SystemExit("no CUDA device")
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.set_grad_enabled(False)
    shapes = sys.argv[1:2] or ["smollm2-135m", "tinyllama-1.1b"]
    for shape in shapes:
        for dtype in sys.argv[2:3] or TYPES:
            torch.manual_seed(1)
            texts = Texts(SHAPES[shape], TYPES[dtype])
            print(json.dumps({"device": torch.cuda.get_device_name(), "torch": torch.__version__, "shape": shape,
                              "type": dtype, "tokens_s": round(decoding(texts), 1),
                              "prompt_tokens_s": round(prompts(texts))}), flush=True)
            del texts
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
