#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes golden_v1.entity, and the corpus of loom_entity_fuzz, from docs/formats/loom_entity.md alone: a second writer.

/usr/bin/python3 tests/data/formats/make_loom_entity.py
"""
import json
import pathlib
import struct

HERE = pathlib.Path(__file__).parent
CORPUS = HERE.parent / "fuzz" / "loom_entity"


def layer(level, kind, **keys):
    return {"z": 0, "y": 0, "x": 0, "l": level, "type": kind, "activation": "Tanh", "dtype": "float32",
            "softmax_type": "Standard", **keys}


def blob(level, kind, data, scale=1.0, native=True):
    return level, kind, data, scale, native


def write(path, layers, blobs, version=1, **more):
    rows, payload = [], b""
    for level, kind, data, scale, native in blobs:
        rows.append({"path": level if isinstance(level, str) else f"layers.{level}", "offset": len(payload), "length": len(data), "dtype": kind,
                     "scale": scale, "native": native})
        payload += data
    network = {"id": "network", "depth": 1, "rows": 1, "cols": 1, "layers_per_cell": max(len(layers), 1),
               "layers": layers}
    header = json.dumps({"format_version": 1, "network": network, "blobs": rows, **more}, separators=(",", ":")).encode()
    path.write_bytes(struct.pack("<8sHHQ", b"ENTITY\0\0", version, 0, len(header)) + header + payload)


def floats(count):
    return struct.pack(f"<{count}f", *[(i * 37 % 11 - 5) / 8 for i in range(count)])


golden = [layer(0, "Dense", input_height=3, output_height=2), layer(1, "RMSNorm", input_height=2, output_height=2)]
weights = [blob(0, "int4", bytes([0x1E, 0x78, 0x03]), 0.25), blob(1, "float32", struct.pack("<2f", 1.5, -0.125))]
write(HERE / "golden_v1.entity", golden, weights)

CORPUS.mkdir(exist_ok=True)
write(CORPUS / "golden.v1", golden, weights)
write(CORPUS / "empty.v1", [], [])
write(CORPUS / "lstm.v1", [layer(0, "LSTM", input_height=2, output_height=2, seq_length=3)], [blob(0, "float32", floats(40))])
write(CORPUS / "rnn.v1", [layer(0, "RNN", input_height=2, output_height=1)], [blob(0, "bfloat16", floats(4)[:8])])
write(CORPUS / "norms.v1", [layer(0, "LayerNorm", input_height=2), layer(1, "Softmax", softmax_type="Grid", softmax_rows=2, softmax_cols=1)],
      [blob(0, "fp8e4m3", bytes([0x38, 0xBC, 0x30, 0x08]), 0.5)])
write(CORPUS / "swiglu.v1", [layer(0, "SwiGLU", input_height=2, output_height=2)], [blob(0, "fp4", bytes([0x12, 0x34, 0x50, 0x9A, 0xBC, 0xD0, 1, 2, 0x34]), 2.0)])
write(CORPUS / "conv.v1",
      [layer(0, "CNN2", input_channels=1, input_height=3, input_width=3, filters=2, kernel_size=2, stride=1, output_height=2, output_width=2),
       layer(1, "ConvTransposed2D", input_channels=2, input_height=2, input_width=2, filters=1, kernel_size=2, stride=1, output_height=3, output_width=3)],
      [blob(0, "binary", bytes([0xA5]), 0.5), blob(1, "ternary", bytes([0x1C, 0xC1]), 0.5)])
write(CORPUS / "attention.v1", [layer(0, "MultiHeadAttention", d_model=2, num_heads=1)], [blob(0, "float16", bytes(48))])
write(CORPUS / "embedding.v1", [layer(0, "Embedding", vocab_size=3, embedding_dim=2, seq_length=2)], [blob(0, "uint2", bytes([0x1B, 0x10]), 1.0)])
write(CORPUS / "masters.v1", [layer(0, "Dense", input_height=1, output_height=1)], [blob(0, "INT8", floats(1), 0.1, False)])
write(CORPUS / "refused.v1", [layer(0, "Parallel", parallel_branches=[layer(0, "Dense")])], [])
inner = [layer(0, "Dense", input_height=2, output_height=2), layer(1, "Residual"),
         layer(2, "KMeans", num_clusters=1)]
write(CORPUS / "nested.v1",
      [layer(0, "Sequential", sequential_layers=inner[:2]),
       layer(1, "Parallel", combine_mode="concat", parallel_branches=[inner[2], inner[0]]),
       layer(2, "Metacognition", meta_observed_layer=layer(0, "RMSNorm", input_height=3))],
      [blob("layers.0.sequential_layers.0", "float32", floats(4)),
       blob("layers.1.parallel_branches.0", "float32", floats(2)),
       blob("layers.1.parallel_branches.1", "int8", bytes([1, 2, 3, 4]), 0.5),
       blob("layers.2.meta_observed_layer", "float32", floats(3))])
block = [layer(0, "RMSNorm", input_height=4),
         layer(1, "MultiHeadAttention", d_model=4, num_heads=2, num_kv_heads=2, head_dim=2),
         layer(2, "RMSNorm", input_height=4), layer(3, "SwiGLU", input_height=4, output_height=4)]
dims = {"num_layers": 1, "num_heads": 2, "num_kv_heads": 2, "head_dim": 2, "intermediate_size": 4}
section = {"architecture": "llama_style_decoder", "hidden_size": 4, "vocab_size": 3, "lm_head_tied": True,
           "has_final_norm": True, "dims": dims}
ends = [blob("transformer.embeddings", "FLOAT32", floats(12), native=False),
        blob("transformer.final_norm", "FLOAT32", floats(4), native=False)]
norms = [blob(0, "float32", floats(4)), blob(2, "float32", floats(4))]
write(CORPUS / "model.v1", block, norms + [blob(1, "float32", floats(80)), blob(3, "float32", floats(60))] + ends,
      transformer=section)
q4 = struct.pack("<IIf", 1, 4, 0.5) + bytes(i * 37 % 256 & 0x77 for i in range(8)) + bytes(8)
write(CORPUS / "blocks.v1", block,
      norms + [blob(f"layers.1.q4_0.{200 + i}", "Q4_0", q4) for i in range(4)]
      + [blob(f"layers.3.q4_0.{100 + i}", "Q4_0", q4) for i in range(3)]
      + [blob("layers.3.biases", "FLOAT32", floats(12), native=False)] + ends, transformer=section)
write(CORPUS / "ternary.v1", block,
      norms + [blob(f"layers.{part}.bitnet_ternary.{10000 + 16 * i}", "BITNET_TERNARY",
                    struct.pack("<IIIfII4I", 4, 4, 16 * i, 0.5, 1, 4, *[0x18] * 4))
               for part, count in ((1, 4), (3, 3)) for i in range(count)] + ends,
      transformer={**section, "dims": {**dims, "activation": "ReLU2"}})
write(CORPUS / "transformer.v1", golden, weights, transformer={"hidden_size": 4})
write(CORPUS / "version2.v1", golden, weights, version=2)
