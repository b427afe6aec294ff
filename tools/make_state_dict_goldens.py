#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes tests/data/models/state_dicts/: state_dicts of small PyTorch modules as safetensors files, and outputs.json, what
the modules make of numbers (tests/models/state_dict_import_test.cpp).

    tools/make_state_dict_goldens.py

Needs PyTorch 1.13 (tools/setup.sh data). Files are written in the order of the format's reference writer: by type, then
by name.
"""

import json
import pathlib
import struct

import torch
from torch import nn

FOLDER = pathlib.Path(__file__).resolve().parents[1] / "tests/data/models/state_dicts"
TYPES = {torch.float32: "F32", torch.int64: "I64", torch.bfloat16: "BF16"}


def save(name, module):
    header, data = {}, b""
    state = sorted(module.state_dict().items(), key=lambda row: (row[1].dtype != torch.int64, row[0]))
    for key, value in state:
        flat = value.contiguous()
        raw = (flat.view(torch.int16) if value.dtype == torch.bfloat16 else flat).numpy().tobytes()
        header[key] = {"dtype": TYPES[value.dtype], "shape": list(value.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    (FOLDER / (name + ".safetensors")).write_bytes(struct.pack("<Q", len(text)) + text + data)


class Classifier(nn.Module):
    """Names without numbers: the widths alone say the order."""

    def __init__(self):
        super().__init__()
        self.reduce, self.expand, self.answer = nn.Linear(12, 5), nn.Linear(5, 9), nn.Linear(9, 3)

    def forward(self, x):
        return self.answer(torch.tanh(self.expand(torch.tanh(self.reduce(x)))))


class Pictures(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn1, self.conv2 = nn.Conv2d(1, 4, 3, bias=False), nn.BatchNorm2d(4), nn.Conv2d(4, 6, (3, 2))
        self.fc1, self.fc2 = nn.Linear(6 * 4 * 5, 8), nn.Linear(8, 2)

    def forward(self, x):
        x = torch.relu(self.conv2(torch.relu(self.bn1(self.conv1(x)))))
        return self.fc2(torch.relu(self.fc1(x.flatten(1))))


class Recurrent(nn.Module):
    def __init__(self, kind, layers):
        super().__init__()
        self.rnn, self.head = kind(4, 6, layers, batch_first=True), nn.Linear(6, 3)

    def forward(self, x):
        return self.head(self.rnn(x)[0])


class Words(nn.Module):
    """An embedding, attention of all tokens to all, and a gated unit."""

    def __init__(self):
        super().__init__()
        self.step0_embed = nn.Embedding(90, 8)
        self.step1_attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.step2_norm = nn.LayerNorm(8)
        self.step3_mlp = nn.ModuleDict({"gate_proj": nn.Linear(8, 12, bias=False), "up_proj": nn.Linear(8, 12, bias=False),
                                        "down_proj": nn.Linear(12, 8, bias=False)})
        self.step4_head = nn.Linear(8, 90, bias=False)

    def forward(self, x):
        x = self.step0_embed(x)
        x = self.step2_norm(self.step1_attention(x, x, x, need_weights=False)[0])
        m = self.step3_mlp
        return self.step4_head(m["down_proj"](nn.functional.silu(m["gate_proj"](x)) * m["up_proj"](x)))


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(7)
    sequential = nn.Sequential(nn.Linear(6, 10), nn.ReLU(), nn.LayerNorm(10), nn.Linear(10, 10), nn.ReLU(), nn.Linear(10, 4))
    pictures = Pictures()
    pictures.bn1.running_mean.normal_()
    pictures.bn1.running_var.uniform_(0.5, 2)
    nn.init.normal_(pictures.bn1.weight), nn.init.normal_(pictures.bn1.bias)
    plain = nn.Sequential(nn.Linear(6, 7), nn.Linear(7, 2)).to(torch.bfloat16)
    rows = {"sequential": (sequential, torch.randn(1, 6)), "classifier": (Classifier(), torch.randn(1, 12)),
            "pictures": (pictures, torch.randn(1, 1, 8, 8)), "lstm": (Recurrent(nn.LSTM, 2), torch.randn(1, 5, 4)),
            "gru": (Recurrent(nn.GRU, 1), torch.randn(1, 5, 4)), "words": (Words(), torch.tensor([[3, 80, 7, 7, 0]])),
            "bfloat16": (plain, torch.randn(1, 6))}
    outputs = {}
    for name, (module, x) in rows.items():
        save(name, module)
        with torch.no_grad():
            y = module.eval().double()(x if x.dtype == torch.int64 else x.double())
        outputs[name] = {"shape": list(x.shape[1:]), "x": x.flatten().tolist(), "y": y.flatten().tolist()}
    (FOLDER / "outputs.json").write_text(json.dumps(outputs, indent=1) + "\n")


if __name__ == "__main__":
    main()
