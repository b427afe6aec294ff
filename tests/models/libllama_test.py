#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""GGUF files of `weft export` in libllama of npm's @node-llama-cpp/linux-x64 3.22.1: logits of every family against a
reference in binary64, a vocabulary, a text. Skipped (77) without LLAMA_LIBRARIES or ../shared/data.

  LLAMA_LIBRARIES=.../bins/linux-x64 libllama_test.py WEFT
"""
import ctypes
import json
import math
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = ROOT.parent / "shared/data"
LANGUAGE, STORIES = DATA / "language", DATA / "stories260K/derived"
FAMILIES = LANGUAGE / "families"
sys.path.insert(0, str(ROOT / "bench/peers"))
import llama_texts  # noqa: E402

# Bytes and words of that version's parameters. A NaN that is let through shows that the first is another flag.
CHECK_TENSORS = 73
N_CTX, N_THREADS, N_THREADS_BATCH, FLASH_ATTENTION, TYPE_K, TYPE_V = 0, 7, 8, 13, 26, 27
F32, F16, ERROR_LEVEL = 0, 1, 4
# Of the largest logit. With float32 weights and cache libllama rounds to float32 alone, but looks GELU up in a table:
# its input and its value are rounded to binary16, by 2^-11 of them, whoever wrote the file.
ERROR, TABLE_ERROR = 2e-5, 2.0**-11
CANNOT = {"bitnet-2b4t-style": "libllama's bitnet has silu and float inputs, this one relu2 and inputs of int8"}
# Name, folder, what it writes, the key of its first logits, how many of 245 texts its vocabulary can write.
MODELS = (("tinystories-656k", LANGUAGE / "tinystories-656k", LANGUAGE / "tinystories-656k-golden_greedy.json",
           "logits_first", 51), ("stories260K", STORIES, STORIES / "golden_greedy.json", "logits_step0", 245))
# The first of these are read and no more. With the others the reference's first token stays the highest: it leads by
# an eighth of the largest logit, and they round to 2^-8 of a value or better.
TYPES = ("q4_0", "q4_1", "q5_0", "q5_1", "mxfp4", "q1_0", "q2_0")
CLOSE_TYPES = ("float16", "bfloat16", "q8_0")


class Libllama:
    def __init__(self, folder):
        self.said = []
        self.library = llama_texts.load(folder)
        self.log = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)(self.hear)
        self.library.llama_log_set(self.log, None)
        self.library.llama_model_get_vocab.restype = ctypes.c_void_p

    def hear(self, level, text, _):
        if level >= ERROR_LEVEL:
            self.said.append(text.decode("utf8", "replace"))

    def model(self, path):
        """The model, its values checked; None where it is refused, which `said` tells."""
        self.said.clear()
        parameters = self.library.llama_model_default_params()
        ctypes.cast(ctypes.byref(parameters), ctypes.POINTER(ctypes.c_bool))[CHECK_TENSORS] = True
        model = self.library.llama_model_load_from_file(str(path).encode(), parameters)
        return Model(self.library, ctypes.c_void_p(model)) if model else None


class Model:
    def __init__(self, library, model):
        self.library, self.model = library, model
        self.vocabulary = ctypes.c_void_p(library.llama_model_get_vocab(model))
        self.tokens = library.llama_vocab_n_tokens(self.vocabulary)

    def text(self, length):
        """A context of one text, one thread, a cache of float32, without flash attention."""
        parameters = self.library.llama_context_default_params()
        words = parameters.words
        known = (*words[:4], words[FLASH_ATTENTION], words[TYPE_K], words[TYPE_V])
        assert known == (512, 2048, 512, 1, -1, F16, F16), "another version of libllama"
        words[N_CTX], words[N_THREADS], words[N_THREADS_BATCH], words[FLASH_ATTENTION] = length, 1, 1, 0
        words[TYPE_K] = words[TYPE_V] = F32
        return Text(self, length, ctypes.c_void_p(self.library.llama_init_from_model(self.model, parameters)))

    def logits(self, ids, at_once):
        """Of each position; `at_once` tokens in a call."""
        text = self.text(64)
        return [row for at in range(0, len(ids), at_once) for row in text.take(ids[at:at + at_once])]

    def tokenize(self, text):
        raw = text.encode()
        out = (ctypes.c_int32 * (len(raw) + 8))()
        count = self.library.llama_tokenize(self.vocabulary, raw, len(raw), out, len(out), True, True)
        return out[:count]

    def ends(self, token):
        return bool(self.library.llama_vocab_is_eog(self.vocabulary, token) & 1)


class Text:
    def __init__(self, model, length, context):
        assert context.value, "no context"
        self.model, self.library, self.context, self.position = model, model.library, context, 0
        self.batch = self.library.llama_batch_init(length, 0, 1)

    def take(self, ids):
        """The logits after each."""
        batch = self.batch
        batch.count = len(ids)
        for i, token in enumerate(ids):
            batch.token[i], batch.pos[i], batch.seq_count[i], batch.logits[i] = token, self.position + i, 1, 1
            batch.seq[i][0] = 0
        code = self.library.llama_decode(self.context, batch)
        assert code == 0, f"llama_decode: {code}"
        self.position += len(ids)
        return [self.library.llama_get_logits_ith(self.context, i)[:self.model.tokens] for i in range(len(ids))]


def weft(*arguments):
    return subprocess.run([WEFT, *map(str, arguments)], capture_output=True, text=True)


def read(path):
    return json.loads(path.read_text())


def writable(text, folder):
    """True where a vocabulary has all characters: libllama ends the process at others where it has no tokens of bytes.
    Names of special tokens inside a text are cut out by rules of its own."""
    vocabulary = read(folder / "tokenizer.json")["model"]["vocab"]
    return "<0x00>" in vocabulary or set(text.replace(" ", "\u2581")) <= set("".join(vocabulary)) - {"<"}


def highest(row):
    return row.index(max(row))


def largest(rows):
    return max(abs(value) for row in rows for value in row)


def difference(rows, others):
    return largest([[a - b for a, b in zip(row, other, strict=True)] for row, other in zip(rows, others, strict=True)])


class Export(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.libllama = Libllama(LIBRARIES)
        cls.scratch = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.scratch.name)

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def exported(self, source, *options):
        """The file that `weft export` writes of a folder."""
        entity, file = self.folder / "m.entity", self.folder / "m.gguf"
        for command in (("import", source, "-o", entity, "--tokens", 1),
                        ("export", entity, "--format", "gguf", "-o", file, *options)):
            ran = weft(*command)
            self.assertEqual(ran.returncode, 0, ran.stderr)
        return file

    def loaded(self, file):
        model = self.libllama.model(file)
        self.assertIsNotNone(model, "".join(self.libllama.said))
        return model

    def test_a_file_with_a_nan_is_refused(self):
        """So that all others are known to be checked."""
        file = self.exported(FAMILIES / "llama")
        file.write_bytes(file.read_bytes()[:-4] + struct.pack("<f", math.nan))
        self.assertIsNone(self.libllama.model(file))
        self.assertIn("invalid data", "".join(self.libllama.said))

    def test_families_have_the_logits_of_a_binary64_reference(self):
        for folder in sorted(FAMILIES.iterdir()):
            name = folder.name
            if name in CANNOT:
                print(f"{name}: skipped: {CANNOT[name]}")
                continue
            with self.subTest(name):
                golden, config = read(folder / "golden.json"), read(folder / "config.json")
                ids, gelu = golden["ids"], "gelu" in str(config.get("hidden_act", config.get("activation_function")))
                model = self.loaded(self.exported(folder))
                by_one, at_once = model.logits(ids, 1), model.logits(ids, len(ids))
                # A cap's slope is at most 1, so what stands before the cap says how far logits may be off.
                scale, cap = largest(golden["logits"]), config.get("final_logit_softcapping")
                if cap:
                    scale = cap * math.atanh(min(scale / cap, 1 - 2.0**-53))
                error = max(difference(rows, golden["logits"]) for rows in (by_one, at_once)) / scale
                print(f"{name}: {error:.2g} of the largest logit, {scale:.4g}")
                self.assertLess(error, TABLE_ERROR if gelu else ERROR)
                other = folder / "model-f32.gguf"  # written by other hands, from the same values
                if other.exists():
                    error = difference(by_one, self.loaded(other).logits(ids, 1)) / scale
                    # Gemma's norms are w + 1 there and w in the folder: each way rounds.
                    self.assertLessEqual(error, ERROR if name.startswith("gemma") else 0)

    def test_texts_and_vocabularies_are_the_references(self):
        texts = read(LANGUAGE / "tokenizer_goldens.json")
        for name, folder, golden, logits, count in MODELS:
            with self.subTest(name):
                golden, model = read(golden), self.loaded(self.exported(folder, "--type", "float32"))
                ids = golden["ids"][:len(golden.get("prompt_ids", [1]))]
                text, new = model.text(512), ids
                while len(ids) < len(golden["ids"]):
                    rows = text.take(new)
                    if new is ids:
                        error = difference(rows[-1:], [golden[logits]]) / largest([golden[logits]])
                        print(f"{name}: {error:.2g} of the largest logit")
                        self.assertLess(error, ERROR)
                    new = [highest(rows[-1])]
                    ids = ids + new
                self.assertEqual(ids, golden["ids"])
                self.assertEqual([model.ends(token) for token in (2, 3, 5)], [True, False, False])
                known = [(text, ids) for text, ids in zip(texts["texts"], texts["tokenizers"][name]["ids"], strict=True)
                         if writable(text, folder)]
                self.assertEqual(len(known), count)
                for text, ids in known:
                    self.assertEqual(model.tokenize(text), ids, text)

    def test_parts_are_the_whole_file(self):
        golden, folder = read(LANGUAGE / "tinystories-656k-golden_greedy.json"), LANGUAGE / "tinystories-656k"
        whole = self.loaded(self.exported(folder)).logits(golden["prompt_ids"], 1)
        self.exported(folder, "--shard-size", "400K")
        parts = sorted(self.folder.glob("m-*.gguf"))
        self.assertGreater(len(parts), 2)
        self.assertEqual(self.loaded(parts[0]).logits(golden["prompt_ids"], 1), whole)

    def test_types_are_read(self):
        golden = read(LANGUAGE / "tinystories-656k-golden_greedy.json")
        for kind in TYPES + CLOSE_TYPES:
            with self.subTest(kind):
                model = self.loaded(self.exported(LANGUAGE / "tinystories-656k", "--type", kind))
                row = model.logits(golden["prompt_ids"], 1)[-1]
                self.assertTrue(all(map(math.isfinite, row)))
                if kind in CLOSE_TYPES:
                    self.assertEqual(highest(row), golden["steps"][0]["id"])


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


if __name__ == "__main__":
    if not os.environ.get("LLAMA_LIBRARIES"):
        skip("LLAMA_LIBRARIES names no folder with libllama")
    if not FAMILIES.is_dir() or not STORIES.is_dir():
        skip("no ../shared/data")
    LIBRARIES, WEFT = pathlib.Path(os.environ["LLAMA_LIBRARIES"]), sys.argv[1]
    if not (LIBRARIES / "libllama.v0.5.0.so").exists():
        sys.exit(f"LLAMA_LIBRARIES: {LIBRARIES} has no libllama.v0.5.0.so: unpack @node-llama-cpp/linux-x64 3.22.1")
    unittest.main(argv=sys.argv[:1])
