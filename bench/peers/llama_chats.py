#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The peer of server_chat_bench: libllama of npm's @node-llama-cpp/linux-x64 3.22.1 in this process, with a model of the
shape of SmolLM2-135M, Q8_0 and noise: tokens a second of 16 texts at once, written greedily after prompts of 24 tokens.

  bench/peers/llama_chats.py FOLDER-OF-LIBRARIES [THREADS] [TOKENS]        2 threads, 48 tokens
"""
import ctypes
import os
import pathlib
import random
import struct
import sys
import tempfile
import time

import numpy

WIDTH, HEADS, KEY_HEADS, INNER, TOKENS, LAYERS = 576, 9, 3, 1536, 49152, 30
TEXTS, PROMPT = 16, 24
HEAD = WIDTH // HEADS
F32, Q8_0 = 0, 8


def tensors():
    """Names, shapes as ggml has them (columns first), types."""
    yield "token_embd.weight", (WIDTH, TOKENS), Q8_0
    for i in range(LAYERS):
        at = f"blk.{i}."
        yield at + "attn_norm.weight", (WIDTH,), F32
        yield at + "ffn_norm.weight", (WIDTH,), F32
        for name, rows in (("attn_q", WIDTH), ("attn_k", KEY_HEADS * HEAD), ("attn_v", KEY_HEADS * HEAD), ("attn_output", WIDTH)):
            yield f"{at}{name}.weight", (WIDTH, rows), Q8_0
        for name, shape in (("ffn_gate", (WIDTH, INNER)), ("ffn_up", (WIDTH, INNER)), ("ffn_down", (INNER, WIDTH))):
            yield f"{at}{name}.weight", shape, Q8_0
    yield "output_norm.weight", (WIDTH,), F32


def content(shape, kind, draw):
    count = numpy.prod(shape, dtype=int)
    if kind == F32:
        return numpy.ones(count, "<f4").tobytes()
    blocks = numpy.empty((count // 32, 34), numpy.uint8)
    blocks[:, 2:] = numpy.frombuffer(draw.randbytes(count), numpy.uint8).reshape(-1, 32)
    blocks[:, :2] = numpy.frombuffer(struct.pack("<e", 2.0**-12), numpy.uint8)
    return blocks.tobytes()


def text(value):
    return struct.pack("<Q", len(value)) + value.encode()


def write_model(path):
    keys = {"block_count": LAYERS, "context_length": 2048, "embedding_length": WIDTH, "feed_forward_length": INNER,
            "attention.head_count": HEADS, "attention.head_count_kv": KEY_HEADS, "vocab_size": TOKENS,
            "rope.dimension_count": HEAD}
    head = text("general.architecture") + struct.pack("<I", 8) + text("llama")
    head += text("tokenizer.ggml.model") + struct.pack("<I", 8) + text("no_vocab")
    head += text("llama.attention.layer_norm_rms_epsilon") + struct.pack("<If", 6, 1e-5)
    for key, value in keys.items():
        head += text("llama." + key) + struct.pack("<II", 4, value)
    draw, offset, table, parts = random.Random(1), 0, b"", []
    for name, shape, kind in tensors():
        data = content(shape, kind, draw)
        data += bytes(-len(data) % 32)
        table += text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, offset)
        offset += len(data)
        parts.append(data)
    start = b"GGUF" + struct.pack("<IQQ", 3, len(parts), len(keys) + 3) + head + table
    path.write_bytes(start + bytes(-len(start) % 32) + b"".join(parts))


class Parameters(ctypes.Structure):
    _fields_ = [("words", ctypes.c_int32 * 128)]


class Batch(ctypes.Structure):
    _fields_ = [("count", ctypes.c_int32), ("token", ctypes.POINTER(ctypes.c_int32)), ("embd", ctypes.c_void_p),
                ("pos", ctypes.POINTER(ctypes.c_int32)), ("seq_count", ctypes.POINTER(ctypes.c_int32)),
                ("seq", ctypes.POINTER(ctypes.POINTER(ctypes.c_int32))), ("logits", ctypes.POINTER(ctypes.c_int8))]


def load(folder):
    for name in ("libggml-base.so", "libggml.v0.5.0.so", "libllama.v0.5.0.so"):
        library = ctypes.CDLL(str(folder / name), mode=ctypes.RTLD_GLOBAL)
        if name.startswith("libggml.v"):
            library.ggml_backend_load_all_from_path(str(folder).encode())
    quiet = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)(lambda *_: None)
    library.llama_log_set(quiet, None)
    library.kept = quiet
    for name, kind in (("llama_model_default_params", Parameters), ("llama_context_default_params", Parameters),
                       ("llama_model_load_from_file", ctypes.c_void_p), ("llama_init_from_model", ctypes.c_void_p),
                       ("llama_batch_init", Batch), ("llama_get_logits_ith", ctypes.POINTER(ctypes.c_float))):
        getattr(library, name).restype = kind
    library.llama_backend_init()
    return library


def main(folder, threads, tokens):
    library = load(folder)
    with tempfile.TemporaryDirectory() as scratch:
        path = pathlib.Path(scratch, "noise.gguf")
        write_model(path)
        model = library.llama_model_load_from_file(str(path).encode(), library.llama_model_default_params())
    assert model, "the model cannot be loaded"
    parameters = library.llama_context_default_params()
    assert tuple(parameters.words[:4]) == (512, 2048, 512, 1), "another version of libllama"
    parameters.words[0], parameters.words[3] = 256 * TEXTS, TEXTS
    parameters.words[7] = parameters.words[8] = threads
    context = ctypes.c_void_p(library.llama_init_from_model(ctypes.c_void_p(model), parameters))
    assert context.value, "no context"
    batch = library.llama_batch_init(TEXTS * PROMPT, 0, 1)

    def decode(items):
        """Items of token, position, text, and whether its logits are asked for; the likeliest tokens of those."""
        batch.count = len(items)
        for i, (token, position, of, asked) in enumerate(items):
            batch.token[i], batch.pos[i], batch.seq_count[i], batch.logits[i] = token, position, 1, asked
            batch.seq[i][0] = of
        assert library.llama_decode(context, batch) == 0
        return [int(numpy.ctypeslib.as_array(library.llama_get_logits_ith(context, i), (TOKENS,)).argmax())
                for i, item in enumerate(items) if item[3]]

    last = decode([(17 + 31 * (i + of) % 4000, i, of, i == PROMPT - 1) for of in range(TEXTS) for i in range(PROMPT)])
    begin = time.monotonic()
    for n in range(tokens):
        last = decode([(last[of], PROMPT + n, of, 1) for of in range(TEXTS)])
    took = time.monotonic() - begin
    print(f"libllama, {threads} threads, {TEXTS} texts: {TEXTS * tokens / took:.1f} tokens a second")
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    if not 2 <= len(sys.argv) <= 4:
        sys.exit(__doc__)
    main(pathlib.Path(sys.argv[1]), *([int(each) for each in sys.argv[2:]] + [2, 48][len(sys.argv) - 2:]))
