#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A language model with the shape of SmolLM2-135M and noise for weights, to measure speed with: what it writes means
nothing. A folder as Hugging Face keeps it, in bfloat16, about 270 MB.

  tools/make_synthetic_model.py FOLDER [LAYERS]        30 layers by default
"""
import json
import pathlib
import random
import struct
import sys

WIDTH, HEADS, KEY_HEADS, INNER, TOKENS = 576, 9, 3, 1536, 49152
HEAD = WIDTH // HEADS


def noise(count, seed):
    """Values of 2^-8 to 2^-6 of either sign."""
    high = bytes(0x80 * (i & 1) | 0x3B + (i >> 1 & 1) for i in range(256))
    rng = random.Random(seed)
    values = bytearray(rng.randbytes(2 * count))
    values[1::2] = values[1::2].translate(high)
    return bytes(values)


def tensors(layers):
    """Names, shapes; norms have one dimension."""
    yield "model.embed_tokens.weight", (TOKENS, WIDTH)
    for i in range(layers):
        at = f"model.layers.{i}."
        yield at + "input_layernorm.weight", (WIDTH,)
        yield at + "post_attention_layernorm.weight", (WIDTH,)
        for name, rows in (("q_proj", WIDTH), ("k_proj", KEY_HEADS * HEAD), ("v_proj", KEY_HEADS * HEAD), ("o_proj", WIDTH)):
            yield f"{at}self_attn.{name}.weight", (rows, WIDTH)
        for name, shape in (("gate_proj", (INNER, WIDTH)), ("up_proj", (INNER, WIDTH)), ("down_proj", (WIDTH, INNER))):
            yield f"{at}mlp.{name}.weight", shape
    yield "model.norm.weight", (WIDTH,)


def byte_letters():
    """The letters by which byte-level vocabularies write bytes, as GPT-2 has them."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in plain]
    return [chr(byte) for byte in plain] + [chr(256 + i) for i in range(len(others))]


def tokenizer():
    letters = byte_letters()
    vocabulary = {"<|endoftext|>": 0, **{letter: 1 + i for i, letter in enumerate(letters)}}
    for i in range(len(vocabulary), TOKENS):
        vocabulary[f"w{i}"] = i
    special = {"id": 0, "content": "<|endoftext|>", "single_word": False, "lstrip": False, "rstrip": False,
               "normalized": False, "special": True}
    bytes_of = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [special], "normalizer": None,
            "pre_tokenizer": bytes_of, "post_processor": None, "decoder": bytes_of,
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                      "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "vocab": vocabulary,
                      "merges": []}}


def config(layers):
    return {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": WIDTH,
            "intermediate_size": INNER, "num_hidden_layers": layers, "num_attention_heads": HEADS,
            "num_key_value_heads": KEY_HEADS, "vocab_size": TOKENS, "max_position_embeddings": 8192,
            "rms_norm_eps": 1e-05, "rope_theta": 100000, "hidden_act": "silu", "tie_word_embeddings": True,
            "attention_bias": False, "mlp_bias": False, "bos_token_id": 0, "eos_token_id": 0, "torch_dtype": "bfloat16"}


def main(folder, layers):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config(layers)))
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer()))
    header, parts, at = {}, [], 0
    for seed, (name, shape) in enumerate(tensors(layers)):
        count = shape[0] * (shape[1] if len(shape) == 2 else 1)
        parts.append(noise(count, seed) if len(shape) == 2 else struct.pack("<H", 0x3F80) * count)
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [at, at + 2 * count]}
        at += 2 * count
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(folder / "model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for part in parts:
            file.write(part)


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    main(pathlib.Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) == 3 else 30)
