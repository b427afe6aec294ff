#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A language model that has learned nothing yet: a folder as Hugging Face keeps it, weights drawn from a seed.

  make_model.py FOLDER [llama|bitnet] [SEED]

Llama of 2.76 million weights (width 192, 6 blocks, 6 heads over 2 of keys and values, 512 inside, 2,048 tokens, one
matrix for the embedding and the head), or BitNet's blocks of the same size: norms inside, relu2, ternary weights of the
blocks and their inputs int8 with one scale a token. The tokenizer is the one beside this file. Weights are uniform with a deviation of 0.02, of matrices that end a block of 0.02 / sqrt(12).
"""
import json
import math
import pathlib
import random
import shutil
import struct
import sys

WIDTH, BLOCKS, HEADS, KEY_HEADS, INNER, TOKENS, CONTEXT = 192, 6, 6, 2, 512, 2048, 256
KEYS = WIDTH // HEADS * KEY_HEADS


def tensors(kind):
    """Names, shapes, deviations; norms have one dimension, and are 1."""
    small = 0.02 / math.sqrt(2 * BLOCKS)
    yield "model.embed_tokens.weight", (TOKENS, WIDTH), 0.02
    for i in range(BLOCKS):
        at = f"model.layers.{i}."
        yield at + "input_layernorm.weight", (WIDTH,), 0
        for name, rows, deviation in (("q", WIDTH, 0.02), ("k", KEYS, 0.02), ("v", KEYS, 0.02), ("o", WIDTH, small)):
            yield f"{at}self_attn.{name}_proj.weight", (rows, WIDTH), deviation
        yield at + "post_attention_layernorm.weight", (WIDTH,), 0
        for name, of, deviation in (("gate", (INNER, WIDTH), 0.02), ("up", (INNER, WIDTH), 0.02), ("down", (WIDTH, INNER), small)):
            yield f"{at}mlp.{name}_proj.weight", of, deviation
        if kind == "bitnet":
            yield at + "self_attn.attn_sub_norm.weight", (WIDTH,), 0
            yield at + "mlp.ffn_sub_norm.weight", (INNER,), 0
    yield "model.norm.weight", (WIDTH,), 0


def config(kind):
    # As BitNet is trained: weights are float32 here, and ternary wherever they are loaded.
    more = {"quantization_config": {"quant_method": "bitnet", "linear_class": "autobitlinear",
                                    "quantization_mode": "online"}} if kind == "bitnet" else {}
    names = {"llama": ("LlamaForCausalLM", "silu"), "bitnet": ("BitNetForCausalLM", "relu2")}[kind]
    return {"architectures": [names[0]], "model_type": kind, "hidden_act": names[1], "hidden_size": WIDTH,
            "intermediate_size": INNER, "num_hidden_layers": BLOCKS, "num_attention_heads": HEADS,
            "num_key_value_heads": KEY_HEADS, "vocab_size": TOKENS, "max_position_embeddings": CONTEXT,
            "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "tie_word_embeddings": True, "bos_token_id": 0,
            "eos_token_id": 0, "torch_dtype": "float32", **more}


def main(folder, kind, seed):
    draw = random.Random(seed)
    header, parts, at = {}, [], 0
    for name, shape, deviation in tensors(kind):
        count, most = math.prod(shape), deviation * math.sqrt(3)
        values = [draw.uniform(-most, most) if deviation else 1.0 for _ in range(count)]
        parts.append(struct.pack(f"<{count}f", *values))
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [at, at + 4 * count]}
        at += 4 * count
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config(kind), indent=1) + "\n")
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + b"".join(parts))
    shutil.copy(pathlib.Path(__file__).with_name("tokenizer.json"), folder)


if __name__ == "__main__":
    kinds = sys.argv[2] if len(sys.argv) > 2 else "llama"
    if not 2 <= len(sys.argv) <= 4 or kinds not in ("llama", "bitnet"):
        sys.exit(__doc__)
    main(pathlib.Path(sys.argv[1]), kinds, int(sys.argv[3]) if len(sys.argv) > 3 else 1)
