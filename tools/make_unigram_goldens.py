#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes tests/data/text/unigram.json: a Unigram tokenizer with a table of SentencePiece's, and the ids that libllama
(from keys of a GGUF file) and the Rust tokenizers (from a tokenizer.json) make of texts.

    LLAMA_LIBRARIES=FOLDER TOKENIZERS=FOLDER make_unigram_goldens.py TEXT FOLDER > unigram.json

LLAMA_LIBRARIES: as tests/models/libllama_test.py. TOKENIZERS: an unpacked `npm pack tokenizers@0.23.2`. TEXT: what
the vocabulary is trained on, by python3-sentencepiece 0.1.97 in FOLDER (tinyshakespeare's first 120,000 characters).
"""
import base64
import ctypes
import json
import os
import pathlib
import struct
import subprocess
import sys

import sentencepiece

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "bench/peers"))
import llama_texts  # noqa: E402

VOCAB_ONLY = 72  # the byte of that version's parameters
RULES = [("\t", " "), ("\n", " "), ("\u3000", " "), ("\u00a0", " "), ("\ufb01", "fi"), ("\u00bd", "1\u20442"),
         ("e\u0301", "\u00e9"), ("\u212b", "\u00c5"), ("\uff76\uff9e", "\u30ac"), ("\uff76", "\u30ab"),
         ("\u200b", ""), ("\u2167", "VIII"), ("A\u030a", "\u00c5")]
MORE = ("Grüße aus München façade naïve Ångström señor Łódź " * 20 +
        "Съешь же ещё этих мягких французских булок " * 20 +
        "私は東京に住んでいます " * 20 + " if (x[0] != y && !z) { return } 123456789 3.14 " * 20)
TEXTS = ["", "a", " ", "   ", "Hello, World!", "  two  spaces ", "tab\tnew\nline\r\n",
         "to be or not to be, that is the question",
         "na\u00efve cafe\u0301 \u212b \ufb01 A\u030a e\u0301\u0302", "\uff76\uff9e \uff76 \uff76\u3099",
         "\u200b x\u200by \u200b", "\u2167 \u00bd\u00bd", "\u4f60\u597d \u79c1\u306f\u6771\u4eac",
         "\U0001f600\U0001f468\u200d\U0001f469 ok", "[X] a[X]b [X", "</s> <pad> <unk> x</s>y",
         "\u2581a\u2581\u2581b \u2581", "unknown \u0e01\u0e33\u0e01 \u0939\u093f", "thethethe THE The", "a" * 40,
         "Gr\u00fc\u00dfe aus M\u00fcnchen", "  [X]  spaces  [X] ", "what\u3000is\u00a0this", "e\u0301" * 3 + "e",
         "x\u0000y"]
CASES = [{"add_space_prefix": a, "remove_extra_whitespaces": r, "has_table": t}
         for a in (True, False) for r in (True, False) for t in (True, False)]
# Keys that are not there.
CASES.append({"add_space_prefix": None, "remove_extra_whitespaces": None, "has_table": True})


def fields(data):
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value
    while at < len(data):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
        else:
            size = {1: 8, 5: 4}.get(key & 7) or varint()
            yield key >> 3, data[at:at + size]
            at += size


def trained(text, folder):
    (folder / "rules.tsv").write_text("".join("\t".join(" ".join(f"{ord(c):X}" for c in side) for side in rule) + "\n"
                                              for rule in RULES))
    (folder / "corpus.txt").write_text(text + "\n" + MORE)
    sentencepiece.SentencePieceTrainer.train(
        input=str(folder / "corpus.txt"), model_prefix=str(folder / "unigram"), vocab_size=400, model_type="unigram",
        pad_id=0, eos_id=1, unk_id=2, bos_id=-1, character_coverage=0.9995, minloglevel=2,
        user_defined_symbols=["[X]"], normalization_rule_tsv=str(folder / "rules.tsv"), num_threads=1)
    tokens, scores, kinds, table = [], [], [], b""
    for number, value in fields((folder / "unigram.model").read_bytes()):
        if number == 1:
            row = dict(fields(value))
            tokens.append(row[1].decode())
            scores.append(struct.unpack("<f", row[2])[0] if 2 in row else 0.0)
            kinds.append(row.get(3, 1))
        if number == 3:
            table = dict(fields(value))[2]
    return tokens, scores, kinds, table


def gguf(model, case):
    """The file of a vocabulary alone."""
    def text(value):
        raw = value.encode()
        return struct.pack("<Q", len(raw)) + raw

    def array(kind, values):
        return struct.pack("<IQ", kind, len(values)) + b"".join(values)
    pairs = [("general.architecture", 8, text("llama"))]
    for key, value in (("context_length", 64), ("embedding_length", 64), ("feed_forward_length", 64),
                       ("block_count", 1), ("attention.head_count", 1)):
        pairs.append((f"llama.{key}", 4, struct.pack("<I", value)))
    pairs.append(("llama.attention.layer_norm_rms_epsilon", 6, struct.pack("<f", 1e-5)))
    prefix = "tokenizer.ggml."
    pairs += [(prefix + "model", 8, text("t5")), (prefix + "pre", 8, text("default")),
              (prefix + "tokens", 9, array(8, [text(token) for token in model["tokens"]])),
              (prefix + "scores", 9, array(6, [struct.pack("<f", score) for score in model["scores"]])),
              (prefix + "token_type", 9, array(5, [struct.pack("<i", kind) for kind in model["kinds"]]))]
    for key, of in (("eos_token_id", 1), ("unknown_token_id", 2), ("padding_token_id", 0)):
        if case["add_space_prefix"] is not None:
            pairs.append((prefix + key, 4, struct.pack("<I", of)))
    for key in ("add_space_prefix", "remove_extra_whitespaces"):
        if case[key] is None:
            continue
        pairs.append((prefix + key, 7, struct.pack("<B", case[key])))
    if case["has_table"]:
        table = [bytes([b]) for b in base64.b64decode(model["table"])]
        pairs.append((prefix + "precompiled_charsmap", 9, array(0, table)))
    return (b"GGUF" + struct.pack("<IQQ", 3, 0, len(pairs)) +
            b"".join(text(key) + struct.pack("<I", kind) + value for key, kind, value in pairs))


def tokenizer_json(model, case):
    spaces = [{"type": "WhitespaceSplit"}] if case["remove_extra_whitespaces"] else []
    scheme = "always" if case["add_space_prefix"] else "never"
    spaces.append({"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": scheme, "split": False})
    added = [{"id": i, "content": token, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
              "special": kind != 4}
             for i, (token, kind) in enumerate(zip(model["tokens"], model["kinds"])) if kind != 1]
    table = {"type": "Precompiled", "precompiled_charsmap": model["table"]} if case["has_table"] else None
    first, second = ({"Sequence": {"id": name, "type_id": 0}} for name in "AB")
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added,
            "normalizer": table,
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": spaces},
            "post_processor": {"type": "TemplateProcessing", "pair": [first, second],
                               "single": [first, {"SpecialToken": {"id": "</s>", "type_id": 0}}],
                               "special_tokens": {"</s>": {"id": "</s>", "ids": [1], "tokens": ["</s>"]}}},
            "decoder": {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": scheme, "split": False},
            "model": {"type": "Unigram", "unk_id": 2, "byte_fallback": False,
                      "vocab": [list(pair) for pair in zip(model["tokens"], model["scores"])]}}


RUN_RUST = """const {Tokenizer} = require(process.argv[2]); const fs = require('fs');
const given = JSON.parse(fs.readFileSync(process.argv[3])); (async () => { const out = [];
for (const one of given.tokenizers) {
  const t = Tokenizer.fromString(JSON.stringify(one)); const ids = [], decoded = [];
  for (const x of given.texts) { const e = await t.encode(x, null, {addSpecialTokens: true}); ids.push(e.getIds());
    decoded.push(await t.decode(e.getIds(), false)); } out.push({ids, decoded}); }
console.log(JSON.stringify(out)); })();"""


def main():
    folder = pathlib.Path(sys.argv[2])
    tokens, scores, kinds, table = trained(pathlib.Path(sys.argv[1]).read_text()[:120000], folder)
    model = {"tokens": tokens, "scores": scores, "kinds": kinds, "table": base64.b64encode(table).decode()}
    library = llama_texts.load(pathlib.Path(os.environ["LLAMA_LIBRARIES"]))
    library.llama_model_get_vocab.restype = ctypes.c_void_p
    cases = []
    for case in CASES:
        file = folder / "vocabulary.gguf"
        file.write_bytes(gguf(model, case))
        parameters = library.llama_model_default_params()
        ctypes.cast(ctypes.byref(parameters), ctypes.POINTER(ctypes.c_bool))[VOCAB_ONLY] = True
        loaded = library.llama_model_load_from_file(str(file).encode(), parameters)
        vocabulary = ctypes.c_void_p(library.llama_model_get_vocab(ctypes.c_void_p(loaded)))
        ids = []
        for text in TEXTS:
            raw, out = text.encode(), (ctypes.c_int32 * 512)()
            count = library.llama_tokenize(vocabulary, raw, len(raw), out, len(out), True, True)
            ids.append(list(out[:count]))
        cases.append({**case, "llama": ids})
    (folder / "rust.js").write_text(RUN_RUST)
    given = {"texts": TEXTS, "tokenizers": [tokenizer_json(model, case) for case in CASES]}
    (folder / "rust.json").write_text(json.dumps(given))
    package = str(pathlib.Path(os.environ["TOKENIZERS"], "index.js").resolve())
    made = subprocess.run(["node", folder / "rust.js", package, folder / "rust.json"], capture_output=True, text=True,
                          check=True)
    for case, one in zip(cases, json.loads(made.stdout)):
        case["rust"], case["rust_decoded"] = one["ids"], one["decoded"]
    json.dump({"made_by": "tools/make_unigram_goldens.py: sentencepiece 0.1.97, libllama 0.5.0, Rust tokenizers 0.23.2",
               **model, "texts": TEXTS, "cases": cases}, sys.stdout, ensure_ascii=False, separators=(",", ":"))
    print()


main()
