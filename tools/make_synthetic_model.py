#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A language model with noise for weights, to measure speed with: what it writes means nothing. A folder as Hugging
Face keeps it, in bfloat16, two bytes a weight.

  tools/make_synthetic_model.py FOLDER [SHAPE] [LAYERS]

SHAPE: smollm2-135m, tinyllama-1.1b (with a head that is the embedding's, 1.03 billion weights) or bitnet-2b (without
its norms inside). LAYERS: the shape's by default.
"""
import json
import pathlib
import random
import struct
import sys

SHAPES = {"smollm2-135m": {"width": 576, "heads": 9, "key_heads": 3, "inner": 1536, "tokens": 49152, "layers": 30},
          "tinyllama-1.1b": {"width": 2048, "heads": 32, "key_heads": 4, "inner": 5632, "tokens": 32000, "layers": 22},
          "bitnet-2b": {"width": 2560, "heads": 20, "key_heads": 5, "inner": 6912, "tokens": 128256, "layers": 30}}


CHUNK = 1 << 24  # values that are drawn at once: Random.randbytes() gives up to 2^28 bytes


def noise(count, seed):
    """Values of 2^-8 to 2^-6 of either sign, piece by piece."""
    high = bytes(0x80 * (i & 1) | 0x3B + (i >> 1 & 1) for i in range(256))
    rng = random.Random(seed)
    for at in range(0, count, CHUNK):
        values = bytearray(rng.randbytes(2 * min(CHUNK, count - at)))
        values[1::2] = values[1::2].translate(high)
        yield bytes(values)


def tensors(shape):
    """Names, shapes; norms have one dimension."""
    width, inner = shape["width"], shape["inner"]
    keys = width // shape["heads"] * shape["key_heads"]
    yield "model.embed_tokens.weight", (shape["tokens"], width)
    for i in range(shape["layers"]):
        at = f"model.layers.{i}."
        yield at + "input_layernorm.weight", (width,)
        yield at + "post_attention_layernorm.weight", (width,)
        for name, rows in (("q_proj", width), ("k_proj", keys), ("v_proj", keys), ("o_proj", width)):
            yield f"{at}self_attn.{name}.weight", (rows, width)
        for name, of in (("gate_proj", (inner, width)), ("up_proj", (inner, width)), ("down_proj", (width, inner))):
            yield f"{at}mlp.{name}.weight", of
    yield "model.norm.weight", (width,)


def byte_letters():
    """The letters by which byte-level vocabularies write bytes, as GPT-2 has them."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in plain]
    return [chr(byte) for byte in plain] + [chr(256 + i) for i in range(len(others))]


def tokenizer(tokens):
    letters = byte_letters()
    vocabulary = {"<|endoftext|>": 0, **{letter: 1 + i for i, letter in enumerate(letters)}}
    for i in range(len(vocabulary), tokens):
        vocabulary[f"w{i}"] = i
    special = {"id": 0, "content": "<|endoftext|>", "single_word": False, "lstrip": False, "rstrip": False,
               "normalized": False, "special": True}
    bytes_of = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [special], "normalizer": None,
            "pre_tokenizer": bytes_of, "post_processor": None, "decoder": bytes_of,
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                      "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "vocab": vocabulary,
                      "merges": []}}


def config(shape):
    return {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": shape["width"],
            "intermediate_size": shape["inner"], "num_hidden_layers": shape["layers"],
            "num_attention_heads": shape["heads"],
            "num_key_value_heads": shape["key_heads"], "vocab_size": shape["tokens"], "max_position_embeddings": 8192,
            "rms_norm_eps": 1e-05, "rope_theta": 100000, "hidden_act": "silu", "tie_word_embeddings": True,
            "attention_bias": False, "mlp_bias": False, "bos_token_id": 0, "eos_token_id": 0, "torch_dtype": "bfloat16"}


def main(folder, shape):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config(shape)))
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer(shape["tokens"])))
    header, at = {}, 0
    for name, of in tensors(shape):
        size = 2 * of[0] * (of[1] if len(of) == 2 else 1)
        header[name] = {"dtype": "BF16", "shape": list(of), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(folder / "model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for seed, (_, of) in enumerate(tensors(shape)):
            file.writelines(noise(of[0] * of[1], seed) if len(of) == 2 else [struct.pack("<H", 0x3F80) * of[0]])


if __name__ == "__main__":
    arguments = sys.argv[2:]
    name = arguments.pop(0) if arguments and not arguments[0].isdigit() else "smollm2-135m"
    if len(sys.argv) < 2 or name not in SHAPES or len(arguments) > 1:
        sys.exit(__doc__)
    main(pathlib.Path(sys.argv[1]), {**SHAPES[name], **({"layers": int(arguments[0])} if arguments else {})})
