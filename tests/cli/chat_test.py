#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`weft chat` and the sampling options of `weft generate`, with a trained model of ../shared/data.

  chat_test.py WEFT
JSON that was written under a schema is checked by python3-jsonschema. Without the shared data: skipped, and counted.
"""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

import jsonschema

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = ROOT.parent / "shared/data/language/tinystories-656k"
BYTES = ROOT.parent / "shared/data/stories260K/derived"  # a model with tokens for all bytes, so that it can write JSON
WEFT = pathlib.Path(sys.argv.pop(1)).resolve()

SCHEMAS = [
    {"type": "object", "properties": {"name": {"type": "string", "maxLength": 8}, "age": {"type": "integer"}, "pets": {
        "type": "array", "items": {"enum": ["cat", "dog", None, 3.5]}, "minItems": 1, "maxItems": 3}},
     "required": ["name", "pets"], "additionalProperties": False},
    {"anyOf": [{"type": "boolean"}, {"const": {"a": [1, "b"]}}, {"type": "array", "items": {"type": "null"}, "maxItems": 2}]},
    {"type": "array", "items": {"$ref": "#/$defs/pair"}, "minItems": 2, "maxItems": 2, "$defs": {"pair": {
        "type": "object", "properties": {"x": {"type": "number"}, "y": {"type": ["null", "boolean"]}}, "required": ["y"]}}},
]


def run(*arguments, text="", code=0):
    done = subprocess.run([WEFT, *map(str, arguments)], input=text, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == code, (arguments, done.returncode, done.stderr)
    return done


def generate(*arguments, model=MODEL):
    return json.loads(run("generate", model, "--prompt", "Once upon a time", "--json", *arguments).stdout)


def chat(text, *arguments):
    done = run("chat", MODEL, "--template", "chatml", "--tokens", 12, "--json", *arguments, text=text)
    return [json.loads(line) for line in done.stdout.splitlines()]


@unittest.skipUnless(MODEL.is_dir(), "no ../shared/data")
class Tokenize(unittest.TestCase):
    def test_takes_a_text_a_line(self):
        texts = ["Once upon a time", "a\nb\tc", "", "na\u00efve \U0001f600 <|start_story|>"]
        lines = "\n".join(json.dumps(each) for each in texts)
        for flags in ((), ("--no-special",), ("--literal",)):
            alone = [run("tokenize", MODEL, "--ids", *flags, text=each).stdout for each in texts]
            self.assertEqual(run("tokenize", MODEL, "--batch", *flags, text=lines).stdout, "".join(alone))
            self.assertEqual(run("tokenize", MODEL, "--batch", *flags, text=lines + "\n").stdout, "".join(alone))
        self.assertIn("line 2", run("tokenize", MODEL, "--batch", text='"a"\nb\n', code=3).stderr)
        self.assertIn("line 1: expected a JSON text", run("tokenize", MODEL, "--batch", text="[1]\n", code=3).stderr)
        self.assertIn("--batch", run("tokenize", MODEL, "words", "--batch", code=2).stderr)


@unittest.skipUnless(MODEL.is_dir(), "no ../shared/data")
class Chat(unittest.TestCase):
    def test_keeps_what_was_said(self):
        first, second, third, fourth = chat("Hello!\n\nMore.\n/reset\nHello!\nMore.\n")
        self.assertEqual(first["text"], third["text"], "/reset begins anew")
        self.assertEqual(second["text"], fourth["text"])
        self.assertEqual(first["kept"], 0)
        self.assertGreater(second["kept"], 0, "tokens of the first turn are not computed anew")
        self.assertGreater(third["kept"], 0, "both conversations begin with the same words")
        self.assertGreater(first["peak_memory_bytes"], 1 << 20)
        other = chat("Hello!\n", "--system", "Be brief.")
        self.assertNotEqual(other[0]["text"], first["text"])

    def test_streams_text_and_tells_times(self):
        done = run("chat", MODEL, "--template", "raw", "--tokens", 5, text="Once upon a time\nThen\n")
        self.assertEqual(len(done.stdout.splitlines()), 2, done.stdout)
        self.assertRegex(done.stderr, r"^weft: 2 answers, \d+ .*\+ 10 tokens, \d+ and \d+ a second, .*B at most\n$")

    def test_ends_an_answer_by_ctrl_c(self):
        process = subprocess.Popen([WEFT, "chat", MODEL, "--template", "raw", "--ignore-end", "--tokens", "400"],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        process.stdin.write(b"Once upon a time\n/reset\n" * 8)
        process.stdin.close()
        os.read(process.stdout.fileno(), 1)
        process.send_signal(signal.SIGINT)
        process.stdout.read()
        told = process.stderr.read().decode()
        process.stdout.close()
        process.stderr.close()
        self.assertEqual(process.wait(60), 0, told)
        self.assertIn("8 answers", told)
        self.assertNotIn(f"+ {8 * 400} tokens", told, "one of them was cut")

    def test_goes_on_where_the_context_is_full(self):
        done = run("chat", MODEL, "--template", "raw", "--tokens", 2, "--context", 16, "--ignore-end", "--json", code=3,
                   text="Once upon a time\nThere was a big dog and a cat and a bird who liked to play in the park\nThen\n")
        self.assertEqual(sum("ids" in json.loads(line) for line in done.stdout.splitlines()), 2, done.stdout + done.stderr)
        self.assertIn("message 2: the prompt has", done.stderr)
        self.assertIn("/reset begins anew, a larger --context holds more", done.stderr)
        self.assertIn("1 of 3 messages have no answer", done.stderr)
        self.assertIn("above the 512", run("chat", MODEL, "--template", "raw", "--context", 600, text="x", code=3).stderr)

    def test_warns_once_of_two_begins(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "t.jinja"
            path.write_text("{{ bos_token }}{{ bos_token }}{{ messages[0].content }}")
            done = run("chat", BYTES, "--template", path, "--tokens", 4, text="Once\nThen\n")
            self.assertEqual(done.stderr.count("begins with two tokens \"<s>\""), 1, done.stderr)
            path.write_text("{{ bos_token }}{{ messages[0].content }}")
            self.assertNotIn("two tokens", run("chat", BYTES, "--template", path, "--tokens", 4, text="Once").stderr)

    def test_refuses_before_it_prints(self):
        words = "dog " * 600
        for code, told, flags in ((3, "--context", ("--prompt", words)), (3, "token 99999", ("--prompt", "x", "--logit-bias", "99999=3")),
                                  (3, "above the 512", ("--prompt", "x", "--context", 600)),
                                  (3, "another vocabulary", ("--prompt", "x", "--draft", BYTES)),
                                  (2, "token 3 has one already", ("--prompt", "x", "--logit-bias", "3=1", "--logit-bias", "3=2"))):
            done = run("generate", MODEL, "--tokens", 3, *flags, code=code)
            self.assertEqual(done.stdout, "", told)
            self.assertIn(told, done.stderr)
        self.assertTrue(run("generate", MODEL, "--tokens", 3, "--prompt", "Once").stdout.startswith("Once"))

    def test_begins_without_a_prompt(self):
        def made(prompt, text=""):
            return json.loads(run("generate", BYTES, "--prompt", prompt, "--json", "--tokens", 8, "--seed", 1, text=text).stdout)
        self.assertEqual(made("")["prompt_ids"], [1])
        self.assertEqual(made("-")["ids"], made("")["ids"])
        self.assertEqual(made("-", text="Once")["ids"], made("Once")["ids"])

    def test_draws_as_the_model_says(self):
        with tempfile.TemporaryDirectory() as folder:
            model = pathlib.Path(folder) / "m"
            model.mkdir()
            for each in MODEL.iterdir():
                (model / each.name).write_bytes(each.read_bytes())
            own = json.loads((MODEL / "generation_config.json").read_text())
            flags = ("--tokens", 12, "--seed", 3)
            greedy = generate(*flags, "--temperature", 0)["ids"]
            self.assertEqual(generate(*flags, "--preset", "hf")["ids"], greedy, "do_sample is false there")
            (model / "generation_config.json").write_text(json.dumps(own | {"do_sample": True, "temperature": 1.5, "top_k": 7}))
            asked = generate(*flags, "--preset", "hf", model=model)["ids"]
            self.assertNotEqual(asked, generate(*flags, model=model)["ids"])
            self.assertEqual(generate(*flags, model=model)["ids"], generate(*flags)["ids"], "llama.cpp's values")
            self.assertEqual(generate(*flags, "--preset", "hf", "--temperature", 0, model=model)["ids"], greedy, "flags win")
            told = run("generate", model, "--prompt", "x", "--tokens", 1).stderr
            self.assertIn("generation_config.json has do_sample true, temperature 1.5, top_k 7; --preset hf takes them", told)
            (model / "generation_config.json").write_text(json.dumps(own | {"num_beams": 4}))
            self.assertIn("num_beams", run("generate", model, "--prompt", "x", "--preset", "hf", code=3).stderr)

    def test_takes_the_steps_of_llama_cpp(self):
        flags = ("--tokens", 12, "--seed", 3)
        usual, greedy = generate(*flags)["ids"], generate(*flags, "--temperature", 0)["ids"]
        order = "penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature"
        self.assertEqual(generate(*flags, "--samplers", order)["ids"], usual)
        for other in (("--samplers", "top_k"), ("--mirostat", 1), ("--mirostat", 2, "--mirostat-tau", 8, "--mirostat-eta", 0.2),
                      ("--xtc-probability", 1, "--xtc-threshold", 0.05), ("--dynatemp-range", 0.7), ("--temperature", 1.5),
                      ("--dry-multiplier", 20, "--dry-allowed-length", 0, "--dry-sequence-breaker", "none")):
            self.assertNotEqual(generate(*flags, *other)["ids"], usual, other)
        self.assertEqual(generate(*flags, "--top-n-sigma", 0.0001)["ids"], greedy)
        self.assertEqual(generate(*flags, "--mirostat", 2, "--mirostat-tau", 0)["ids"], greedy)
        for ways in (("--draft-lookup",), ("--draft", MODEL)):
            for steps in (("--mirostat", 2), ("--xtc-probability", 0.5, "--dry-multiplier", 1)):
                self.assertEqual(generate(*flags, *steps, *ways)["ids"], generate(*flags, *steps)["ids"], (ways, steps))
        for wrong, told in ((("--samplers", "top_k;topp"), '--samplers: "topp" is none of penalties;dry'),
                            (("--samplers", "xtc;xtc"), '--samplers: "xtc" is there twice'),
                            (("--mirostat", 3), "--mirostat"), (("--mirostat", 0.5), "--mirostat: found 0.5, expected a whole"),
                            (("--xtc-probability", "nan"), "--xtc-probability"), (("--dry-base", 0.5), "--dry-base"),
                            (("--dry-sequence-breaker", ""), "--dry-sequence-breaker: "),
                            (("--dry-sequence-breaker", "x" * 41), "41 bytes are more than 40"),
                            (("--preset", "vllm"), "--preset")):
            self.assertIn(told, run("generate", MODEL, "--prompt", "x", *wrong, code=2).stderr)

    def test_takes_templates_from_files(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "t.jinja"
            path.write_text("{{ bos_token }}{% for m in messages %}{{ m.content }}{% endfor %}")
            self.assertTrue(run("chat", MODEL, "--template", path, "--tokens", 4, text="Once").stdout.strip())
            path.write_text("{{ raise_exception('no ' ~ messages[0].content) }}")
            self.assertIn("refuses this conversation: no Once", run("chat", MODEL, "--template", path, text="Once", code=2).stderr)
            path.write_text("{% nosuch %}")
            self.assertIn(f"{path}: chat template:1:4: tag 'nosuch'", run("chat", MODEL, "--template", path, text="x", code=3).stderr)
        self.assertIn("chatml, llama2", run("chat", MODEL, text="x", code=3).stderr, "the model has none")
        self.assertIn("chatml, llama2", run("chat", MODEL, "--template", "none", text="x", code=3).stderr)

    def test_writes_json_that_a_schema_takes(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "schema.json"
            for schema in SCHEMAS:
                path.write_text(json.dumps(schema))
                for seed in range(3):
                    made = generate("--json-schema", path, "--seed", seed, "--tokens", 400, "--temperature", 1.2, model=BYTES)
                    self.assertEqual(made["end"], "end", made["text"])
                    jsonschema.validate(json.loads(made["text"]), schema)
            path.write_text('{"type": "array"}')
            told = run("generate", MODEL, "--prompt", "x", "--json-schema", path, code=3).stderr
            self.assertIn("no token of the vocabulary may come here", told, "it has none with [")
            self.assertIn(f"grammar '{path}'", told)
            path.write_text('{"type": "string", "pattern": "a"}')
            told = run("generate", MODEL, "--prompt", "x", "--json-schema", path, code=3).stderr
            self.assertIn(f"{path}: schema.pattern: this keyword is not known here", told)

    def test_writes_what_a_grammar_takes(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "g.gbnf"
            path.write_text('root ::= " " ("yes" | "no") ("!" | "?"){2}')
            self.assertRegex(generate("--grammar", path)["text"], r"^ (yes|no)[!?]{2}$")
            path.write_text('root ::= root "a"')
            self.assertIn("left recursion", run("generate", MODEL, "--prompt", "x", "--grammar", path, code=3).stderr)
            both = run("generate", MODEL, "--prompt", "x", "--grammar", path, "--json-schema", path, code=2)
            self.assertIn("give one of them", both.stderr)

    def test_samples_as_it_is_told(self):
        plain = generate("--temperature", 0, "--tokens", 6)
        banned = generate("--temperature", 0, "--tokens", 6, "--logit-bias", f"{plain['ids'][0]}=-inf")
        self.assertNotIn(plain["ids"][0], banned["ids"])
        forced = generate("--temperature", 0, "--tokens", 3, "--logit-bias", "77=1e6", "--logit-bias", "78=1e5")
        self.assertEqual(forced["ids"], [77] * 3)
        turned = generate("--temperature", 0, "--tokens", 9, "--logit-bias", "77=10", "--logit-bias", "78=9.5", "--top-k", 0,
                          "--logit-bias", "79=9", "--frequency-penalty", 1, "--presence-penalty", 1, "--penalty-window", 0)
        self.assertGreater(len(set(turned["ids"])), 3)
        once = generate("--temperature", 0, "--tokens", 100, "--no-repeat-ngram", 2, "--ignore-end")
        pairs = list(zip(once["ids"], once["ids"][1:]))
        self.assertEqual(len(pairs), len(set(pairs)), "no pair comes twice")
        self.assertNotEqual(generate("--typical-p", 0.2, "--seed", 3)["ids"], generate("--seed", 3)["ids"])
        self.assertNotEqual(generate("--repetition-penalty", 1.5, "--seed", 3)["ids"], generate("--seed", 3)["ids"])
        guesses = ("--temperature", 0.7, "--seed", 5, "--tokens", 60, "--repetition-penalty", 1.1, "--ignore-end")
        alone = generate(*guesses)
        self.assertNotIn("guessed_tokens", alone)
        for how in (("--draft-lookup",), ("--draft", MODEL), ("--draft", MODEL, "--draft-lookup", "--draft-tokens", 31)):
            made = generate(*guesses, *how)
            self.assertEqual(made["ids"], alone["ids"])
            self.assertLessEqual(made.get("guessed_right", 0), made.get("guessed_tokens", 0))
        self.assertGreater(made["guessed_right"], 20, "it guesses what it writes itself")
        other = run("generate", MODEL, "--prompt", "x", "--draft", BYTES, code=3).stderr
        self.assertIn("the draft model has another vocabulary than the model", other)
        beyond = run("generate", MODEL, "--prompt", "x", "--logit-bias=1000000=1", code=3).stderr
        self.assertRegex(beyond, r"token 1000000, the model has \d+$")
        for bad in ("5", "x=1", "5=", "5=nan", "5=inf", "-5=1"):
            told = run("generate", MODEL, "--prompt", "x", f"--logit-bias={bad}", code=2).stderr
            self.assertIn(bad, told)


if __name__ == "__main__":
    unittest.main()
