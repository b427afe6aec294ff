#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Nonsense through the Python package: each is refused by an exception, and changes nothing. Skipped (77) without numpy.

  WEFT_LIBRARY=.../libweft.so python_input_test.py
"""
import os
import pickle
import tempfile
import unittest

from package import ROOT, np, weft

from weft import tensors

NETWORK = {"weft": 2, "inputs": {"x": [2]}, "chain": [{"type": "dense", "out": 3, "activation": "tanh"},
                                                      {"type": "dense", "out": 2}]}
MODEL = ROOT.parent / "shared/data/stories260K/derived"
NAN, INF = float("nan"), float("inf")


class Texts(unittest.TestCase):
    def test_a_nul_within_a_text_is_refused(self):
        mesh = weft.Mesh(NETWORK, threads=1)
        before = mesh.state_hash()
        learner = weft.Learner(weft.Mesh(NETWORK, threads=1), late="meet", patience=2)
        with tempfile.TemporaryDirectory() as folder:
            agent = weft.Agent(folder + "/agent", {**NETWORK, "learning": {}}, threads=1)
            place = folder + "/a\0b"
            calls = [lambda: mesh.set_input("x\0junk", [1, 1]), lambda: mesh.output("y\0"),
                     lambda: mesh.run({"x\0": np.ones((2, 2))}), lambda: mesh.forward({"x\0": np.ones((2, 2))}),
                     lambda: mesh.run({"x": np.ones((2, 2))}, outputs=["y\0"]),
                     lambda: mesh.save(place), lambda: weft.Mesh.load(place), lambda: weft.Learner.load(place),
                     lambda: weft.Network.load(place), lambda: mesh.morph((0,), "int8\0"),
                     lambda: mesh.morph((0,), "int8", "row\0"), lambda: mesh.command("morph", (0,), dtype="int8\0"),
                     lambda: weft.Mesh(NETWORK, executor="graph\0"), lambda: weft.Mesh(NETWORK, device="cpu\0"),
                     lambda: weft.Network.grid("a\0b"), lambda: weft.Network.grid().input("x\0", 1),
                     lambda: weft.Network.grid().output("x\0", (0,)), lambda: weft.Network.grid().set(**{"seed\0": 1}),
                     lambda: weft.Network("{}", source="a\0"), lambda: learner.learn({"x": [[1, 1]]}, {"y\0": [1]}),
                     lambda: learner.answer(0, "y\0"), lambda: learner.teach(0, {"y\0": 1}),
                     lambda: learner.observe({"x\0": [1, 1]}), lambda: learner.predict({"x\0": [[1, 1]]}),
                     lambda: agent.note("a\0", "b"), lambda: agent.note("a", "\0b"), lambda: weft.Agent(place),
                     lambda: weft.Agent(folder, durability="tick\0"), lambda: weft.Agent(folder, identity="a\0"),
                     lambda: weft.LanguageModel(place), lambda: weft.LanguageModel(folder, "a\0")]
            for number, call in enumerate(calls):
                with self.assertRaisesRegex(weft.WeftValueError, "NUL", msg=str(number)) as caught:
                    call()
                self.assertEqual((caught.exception.code, caught.exception.name), (2, "invalid_argument"))
            agent.close()
            self.assertEqual(sorted(os.listdir(folder)), ["agent"])
        self.assertEqual(mesh.state_hash(), before)
        for number, call in enumerate([lambda: mesh.set_input(b"x", [1, 1]), lambda: mesh.set_input(None, [1, 1]),
                                       lambda: mesh.attach_session("text"), lambda: mesh.morph((0,), 8)]):
            self.assertRaises(weft.WeftTypeError, call)


class Numbers(unittest.TestCase):
    def test_a_number_out_of_range_is_refused_and_not_wrapped(self):
        mesh = weft.Mesh(NETWORK, threads=1)
        learner = weft.Learner(weft.Mesh(NETWORK, threads=1), late="meet", patience=2)
        before = mesh.state_hash()
        of_session = [lambda n: mesh.set_input("x", [1, 1], n), lambda n: mesh.output("y", n),
                      lambda n: mesh.output((0,), n), mesh.state_hash, mesh.remove_session, mesh.reset_session,
                      mesh.detach_session, lambda n: learner.predict({"x": [[1, 1]]}, session=n),
                      lambda n: mesh.weights((0,), n), lambda n: mesh.set_weights((0,), np.zeros((3, 2)), n),
                      lambda n: mesh.run({}, n)]
        of_64_bits = [mesh.tick, learner.forgo, lambda n: learner.answer(n, "y"),
                      lambda n: learner.teach(n, {"y": 1}), lambda n: mesh.command("probe", (0,), number=n),
                      lambda n: mesh.command("probe", (0,), not_before=n), lambda n: mesh.command("probe", (0,), parameter=n),
                      lambda n: weft.Mesh(NETWORK, max_memory=n), lambda n: weft.Mesh(NETWORK, executor_seed=n),
                      lambda n: weft.Mesh(NETWORK, threads=n), lambda n: weft.Mesh(NETWORK, sessions=n),
                      lambda n: weft.Agent("none", checkpoint_every=n), lambda n: weft.Agent("none", keep=n),
                      lambda n: weft.Agent("none", checkpoint_bytes=n), lambda n: weft.LanguageModel("none", max_memory=n)]
        of_32_bits = [lambda n: mesh.output((n,)), lambda n: mesh.weights((0, 0, n, 0)), lambda n: mesh.morph((n, 0, 0), "int8"),
                      lambda n: weft.Network.grid(x=n), lambda n: weft.Network.grid().layer("dense", (n,), out=1)]
        for calls, values in ((of_session, (-1, 2 ** 64)), (of_64_bits, (-1, 2 ** 64)), (of_32_bits, (-1, 2 ** 32))):
            for number, call in enumerate(calls):
                for value in values:
                    with self.assertRaisesRegex(weft.WeftValueError, str(value), msg=f"{number} {value}") as caught:
                        call(value)
                    self.assertEqual((caught.exception.code, caught.exception.name), (4, "out_of_range"))
                self.assertRaises(weft.WeftTypeError, call, 1.5)
        self.assertRaisesRegex(ValueError, "5 numbers", mesh.output, (0, 0, 0, 0, 0))
        self.assertRaisesRegex(ValueError, "level", weft.set_log, None, 9)
        for seconds in (-1, NAN, INF):
            self.assertRaisesRegex(ValueError, "seconds", mesh.tick_for, seconds)
        self.assertEqual(mesh.state_hash(), before)

    def test_more_memory_than_allowed_is_refused_with_both_numbers(self):
        with self.assertRaisesRegex(MemoryError, "1000 bytes|1000 B") as caught:
            weft.Mesh({"weft": 2, "inputs": {"x": [1000]}, "chain": [{"type": "dense", "out": 1000}]}, threads=1,
                      max_memory=1000)
        numbers = [word for word in caught.exception.text.replace(",", "").split() if word[:1].isdigit()]
        self.assertGreaterEqual(len(numbers), 2, caught.exception.text)


class Samples(unittest.TestCase):
    def test_samples_of_which_one_is_refused_change_nothing(self):
        learner = weft.Learner(weft.Mesh(NETWORK, threads=1))
        x, y = np.ones((200, 2), np.float32), np.zeros(200, np.int64)
        bad = x.copy()
        bad[150, 1] = NAN
        for inputs, labels in ((bad, y), (x, np.where(np.arange(200) == 170, 2, 0))):
            with self.assertRaises(ValueError):
                learner.learn({"x": inputs}, {"y": labels})
            self.assertEqual(learner.counts()["samples"], 0)
        mesh = weft.Mesh(NETWORK, threads=1)
        self.assertRaises(ValueError, mesh.run, {"x": bad})
        self.assertEqual(mesh.ticks, 0)


    def test_a_gradient_beside_a_target_is_refused_and_not_mixed_up(self):
        network = {"weft": 2, "inputs": {"x": [2]}, "chain": [{"type": "dense", "out": 1}]}
        learner = weft.Learner(weft.Mesh(network, threads=1), late="meet", patience=4, loss="mse")
        ticket = learner.observe({"x": [1, 2]})
        before = learner.mesh.state_hash()
        with self.assertRaisesRegex(ValueError, "gradient beside labels or values"):
            learner.teach(ticket, {"y": [7.0]}, gradients={"y": [0.5]})
        self.assertEqual(learner.mesh.state_hash(), before)
        learner.teach(ticket, {"y": [7.0]})
        self.assertNotEqual(learner.mesh.state_hash(), before)


class Kinds(unittest.TestCase):
    def test_a_value_of_another_kind_is_a_type_error(self):
        mesh = weft.Mesh(NETWORK, threads=1)
        learner = weft.Learner(weft.Mesh(NETWORK, threads=1), late="meet", patience=2)
        online, world = weft.OnlineClassifier(["a"]), weft.Environment("cartpole")
        kept = mesh.take_snapshot()
        calls = [weft.Learner, mesh.restore_snapshot, mesh.take_snapshot, mesh.run, mesh.forward, learner.learn,
                 learner.predict, learner.observe, lambda v: learner.learn({"x": [[1, 1]]}, v),
                 lambda v: learner.teach(0, v), lambda v: learner.teach(0, {}, gradients=v), online.predict_one,
                 lambda v: online.learn_one(v, 0), lambda v: world.reset(options=v), tensors.names, tensors.state_dict,
                 lambda v: tensors.load_state_dict(v, {}), lambda v: tensors.save_file(v, "none")]
        online.learn_one({"a": 1.0}, 0)
        for number, call in enumerate(calls):
            for value in (-5, "text", [1, 2], object()):
                if call == learner.learn:
                    self.assertRaises(weft.WeftTypeError, call, value, {"y": [1]})
                else:
                    self.assertRaises(weft.WeftTypeError, call, value)
        self.assertRaises(weft.WeftTypeError, tensors.load_state_dict, mesh, 5)
        for call in (lambda: learner.learn_one(object(), 0), lambda: mesh.tick_for("a"), lambda: mesh.output(5),
                     lambda: mesh.set_input("x", [1j, 2]), lambda: learner.learn_one(np.array([1j, 2]), 0),
                     lambda: weft.Mesh.load(5), lambda: weft.Mesh({"weft": object()}), lambda: weft.Learner(mesh, rule=object()),
                     lambda: online.learn_one({"a": object()}, 0), lambda: online.learn_one({"a": 1}, [1]),
                     lambda: weft.set_log(5)):
            with self.assertRaises(weft.WeftTypeError) as caught:
                call()
            self.assertEqual((caught.exception.code, caught.exception.name), (2, "invalid_argument"))
        for call in (lambda: mesh.set_input("x", "ab"), lambda: learner.learn_one(["a", 1], 0), lambda: mesh.set_input("x", [[1], [1, 2]]),
                     lambda: learner.predict_one([10 ** 400, 1]), lambda: mesh.command("prob", (0,)),
                     lambda: online.learn_one({"a": "word"}, 0), lambda: mesh.set_input("\ud800", [1, 2])):
            with self.assertRaises(weft.WeftValueError) as caught:
                call()
            self.assertEqual(caught.exception.code, {"unknown_name": 6}.get(caught.exception.name, 2))
        mesh.to_bytes(live=None)  # any truth will do
        mesh.restore_snapshot(kept)

    def test_what_python_itself_would_refuse_has_a_code_too(self):
        mesh, learner = weft.Mesh(NETWORK, threads=1), weft.Learner(weft.Mesh(NETWORK, threads=1))
        online, values = weft.OnlineClassifier(["a"]), weft.OnlineRegressor(["a"])
        world, several = weft.Environment("cartpole"), np.array([1, 2])
        x, state = {"x": [[1, 1]]}, tensors.state_dict(mesh)

        def progress(model=online, stream=(({"a": 1}, 0),), **options):
            return list(weft.progressive_validation(model, stream, **options))

        for call in (lambda: weft.Network.chain(2, 5), lambda: weft.Network.grid().layer("dense", (0,), out=1, source=5),
                     lambda: weft.OnlineClassifier(["a"], hidden=16), lambda: weft.OnlineRegressor(["a"], hidden=["a"]),
                     lambda: weft.OnlineClassifier(5), lambda: weft.OnlineClassifier([[1]]),
                     lambda: online.learn_one({"a": 1}, several), lambda: mesh.forward(x, outputs=5),
                     lambda: mesh.run(x, outputs=5), lambda: learner.predict(x, outputs=5), lambda: mesh.run(x, outputs=[5]),
                     lambda: mesh.run(x, outputs=[[]]), lambda: learner.measure(several), lambda: learner.scores(several),
                     lambda: weft.Mesh(NETWORK, pin=several), lambda: weft.Mesh(NETWORK, keeps_masters=several),
                     lambda: weft.Mesh.load("none", pin=several), lambda: weft.Mesh.load("none", keeps_masters=several),
                     lambda: weft.Agent("none", learns=several), lambda: weft.Agent("none", salvage=several),
                     lambda: weft.Agent("none", pin=several), lambda: mesh.save("none", several),
                     lambda: mesh.to_bytes(several), lambda: mesh.attach_session(b"", several),
                     lambda: world.action_space.seed("x"), lambda: world.observation_space.seed("x"),
                     lambda: learner.learn({}, {}, samples="a"), lambda: mesh.command(several, (0,)),
                     lambda: progress(window="a"), lambda: progress(delay="a"), lambda: progress(every="a"),
                     lambda: progress(stream=5), lambda: progress(stream=[5]), lambda: progress(model=5),
                     lambda: progress(values, [({"a": 1}, object())]), lambda: tensors.load_file(None),
                     lambda: tensors.load_file(5), lambda: tensors.save_file(state, 5),
                     lambda: tensors.save_file(state, "none", notes=5),
                     lambda: tensors.save_file(state, "none", notes={"a": object()}),
                     lambda: tensors.save_file({(1, 2): [1.0]}, "none"), lambda: tensors.names(mesh, prefixes=5),
                     lambda: tensors.to_torch(5), lambda: mesh.run(dict)):
            with self.assertRaises(weft.WeftTypeError) as caught:
                call()
            self.assertEqual((caught.exception.code, caught.exception.name), (2, "invalid_argument"))
            self.assertTrue(caught.exception.text)
        ragged = [[1], [1, 2]]
        for call in (lambda: progress(window=0), lambda: progress(stream=[(1, 2, 3)]), lambda: learner.learn(x, {"y": ragged}),
                     lambda: learner.learn({"x": np.float32(1)}, {"y": [1]}), lambda: learner.predict({"x": np.array(1, "f")}),
                     lambda: learner.teach(0, {"y": ragged}), lambda: tensors.save_file({"w": ragged}, "none"),
                     lambda: tensors.load_state_dict(mesh, {5: 1, "a": 1}), lambda: mesh.tick_for(10 ** 400)):
            with self.assertRaises(weft.WeftValueError) as caught:
                call()
            self.assertTrue(caught.exception.code and caught.exception.name and caught.exception.text)
        for given in (ragged, ["a"] * 4, np.full(4, 1j), 5, None, ["0.5"] * 4):
            self.assertFalse(world.observation_space.contains(given))
        self.assertTrue(world.observation_space.contains(np.zeros(4)))
        world.action_space.seed(None)
        self.assertFalse(os.path.exists("none"))

    def test_the_number_of_an_open_file_is_no_path(self):
        with tempfile.TemporaryFile() as file:
            for call in (tensors.load_file, lambda number: tensors.save_file({}, number)):
                self.assertRaisesRegex(weft.WeftTypeError, "is no path", call, file.fileno())
            os.fstat(file.fileno())  # it is open still

    @unittest.skipUnless(MODEL.exists(), "no ../shared/data")
    def test_options_of_a_language_model(self):
        several = np.array([1, 2])
        with weft.LanguageModel(MODEL, threads=1) as model:
            wrong = [{name: value} for name in ("temperature", "top_p", "min_p", "typical_p", "repetition_penalty",
                                                "presence_penalty", "frequency_penalty", "stops", "logit_bias", "on_text",
                                                "top_k", "penalty_window", "ignores_ends", "grammar", "json_schema",
                                                "preset", "mirostat", "mirostat_tau", "dry_penalty_last_n", "top_n_sigma")
                     for value in ("a", several, 1j, object(), {5: "a"})]
            for options in [*wrong, {"stops": None}, {"stops": 5}]:
                (name, value), = options.items()
                if name == "ignores_ends" and not isinstance(value, np.ndarray):
                    continue
                with self.assertRaises(weft.WeftError, msg=str(options)) as caught:
                    model.generate("Once", tokens=1, **options)
                self.assertTrue(caught.exception.code and caught.exception.name and caught.exception.text)
                if not isinstance(value, str) and name not in ("stops", "json_schema"):
                    self.assertIsInstance(caught.exception, weft.WeftTypeError)
            for name, value in (("mirostat", 3), ("mirostat", -1), ("mirostat_tau", -1), ("mirostat_tau", float("nan")),
                                ("dry_base", 0.5), ("dry_penalty_last_n", -2), ("dry_allowed_length", 2 ** 40),
                                ("xtc_probability", 1.5), ("dry_sequence_breakers", [""]), ("samplers", "topk"),
                                ("dry_sequence_breakers", ["a"] * 10000), ("samplers", ["top_k", "top_k"])):
                with self.assertRaises(weft.WeftError, msg=name) as caught:
                    model.generate("Once", tokens=1, **{name: value})
                self.assertIn(name, caught.exception.text)
            greedy, usual = model.generate("Once", tokens=40, temperature=0)["ids"], model.generate("Once", tokens=40)["ids"]
            for same in ({"preset": "hf"}, {"top_n_sigma": 1e-4}, {"mirostat": 2, "mirostat_tau": 0}):
                self.assertEqual(model.generate("Once", tokens=40, **same)["ids"], greedy, same)
            for same in ({"preset": "llama.cpp"}, {"top_n_sigma": 0}, {"dry_multiplier": 1, "dry_penalty_last_n": 0},
                         {"samplers": "penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature".split(";")}):
                self.assertEqual(model.generate("Once", tokens=40, **same)["ids"], usual, same)
            self.assertNotEqual(model.generate("Once", tokens=40, samplers="")["ids"], usual)
            folder = {each.name: each.read_bytes() for each in MODEL.iterdir() if each.suffix in (".json", ".safetensors")}
            gguf = bytearray(next(MODEL.glob("*.gguf")).read_bytes())
            for given in (folder, gguf, memoryview(gguf)):
                with weft.LanguageModel.from_bytes(given, threads=1) as own:
                    self.assertEqual(own.generate("Once", tokens=40)["ids"], usual)
            for wrong in (5, "a", None, {"config.json": "a"}, {5: b"a"}):
                self.assertRaises(weft.WeftTypeError, weft.LanguageModel.from_bytes, wrong)
            for wrong in ({}, b"", b"abc", {"a/b": b"", "c": b""}, {"config.json": b"{}", "model.safetensors": b""}):
                self.assertRaises(weft.WeftError, weft.LanguageModel.from_bytes, wrong)
            for ids in (5, None, "a", ["a"], several * 1j):
                self.assertRaises(weft.WeftTypeError, model.detokenize, ids)
            self.assertEqual(model.generate("Once", tokens=3, temperature=0, top_k=0, top_p=0, min_p=0, penalty_window=0,
                                            logit_bias={})["ids"], model.generate("Once", tokens=3, temperature=0)["ids"])

    def test_a_damaged_file_of_tensors_is_a_value_error(self):
        with tempfile.TemporaryDirectory() as folder:
            path = folder + "/weights.safetensors"
            for header in (b"[]", b"5", b'{"w": 3}', b'{"w": {}}', b'{"w": {"dtype": "F32", "shape": [1]}}', b"{", b"\xff",
                           b'{"w": {"dtype": "F32", "shape": [1], "data_offsets": ["a", 4]}}',
                           b'{"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 8]}}',
                           b'{"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}}',
                           b'{"w": {"dtype": [], "shape": [1], "data_offsets": [0, 4]}}', b"[" * 100000):
                with open(path, "wb") as file:
                    file.write(len(header).to_bytes(8, "little") + header + bytes(4))
                self.assertRaisesRegex(weft.WeftValueError, "parse_failed: .*no safetensors file", tensors.load_file, path)
            with self.assertRaises(weft.WeftFileNotFoundError) as caught:
                tensors.load_file(folder + "/none")
            self.assertEqual((caught.exception.code, caught.exception.name), (11, "not_found"))
            with self.assertRaises(weft.WeftFileError) as caught:
                tensors.save_file({}, folder)
            self.assertEqual((caught.exception.code, caught.exception.name), (12, "storage"))


class Codes(unittest.TestCase):
    def test_codes_of_the_package_are_those_of_the_library(self):
        from weft import errors
        for name, code in errors._CODES.items():
            self.assertEqual(weft._library.lib.status_name(code).decode(), name)
        for name in errors._KINDS:
            self.assertIn(name, [weft._library.lib.status_name(code).decode() for code in [*range(1, 19), *range(1000, 1004)]])

    def test_what_is_not_there_is_a_file_or_a_lookup(self):
        mesh = weft.Mesh(NETWORK, threads=1)
        later = weft.Learner(weft.Mesh(NETWORK, threads=1), late="meet", patience=4, schedule="pipelined")
        ticket = later.observe({"x": [1, 1]})
        answer = mesh.command("probe", (1,))
        for call in (lambda: weft.Mesh({}), lambda: weft.Network("{}"), lambda: later.answer(ticket, "y"),
                     lambda: answer.values):
            with self.assertRaises(weft.WeftLookupError) as caught:
                call()
            self.assertIsInstance(caught.exception, LookupError)
            self.assertNotIsInstance(caught.exception, OSError)
            self.assertEqual((caught.exception.code, caught.exception.name), (11, "not_found"))
        with tempfile.TemporaryDirectory() as folder:
            mesh.save(folder + "/mesh.entity")
            for call in (lambda: weft.Mesh.load(folder + "/none"), lambda: weft.Network.load(folder + "/none"),
                         lambda: weft.Learner.load(folder + "/none"), lambda: weft.Learner.load(folder + "/mesh.entity"),
                         lambda: weft.Learner.load(mesh.to_bytes()), lambda: weft.Agent(folder + "/none"),
                         lambda: weft.LanguageModel(folder + "/none"), lambda: mesh.save(folder + "/none/mesh.entity")):
                with self.assertRaises(weft.WeftFileNotFoundError) as caught:
                    call()
                self.assertIsInstance(caught.exception, FileNotFoundError)
                self.assertNotIsInstance(caught.exception, LookupError)
                self.assertEqual(caught.exception.name, "not_found")
                self.assertEqual(str(caught.exception), f"not_found: {caught.exception.text}")

    def test_no_text_names_a_call_of_c(self):
        environment = weft.Environment("cartpole")
        learning = {**NETWORK, "learning": {}}
        with tempfile.TemporaryDirectory() as folder, weft.Agent(folder + "/agent", learning, threads=1) as agent:
            mesh = weft.Mesh(NETWORK, threads=1)
            learner = weft.Learner(mesh)
            kept = weft.Snapshot()
            for call in (lambda: environment.step(0), lambda: environment.restore(b"x" * 100), lambda: weft.Learner(agent.mesh),
                         lambda: weft.Learner(mesh), lambda: agent.mesh.run({"x": np.ones((1, 2))}), lambda: agent.mesh.to_bytes(),
                         lambda: agent.mesh.take_snapshot(), lambda: agent.mesh.restore_snapshot(kept),
                         lambda: agent.mesh.set_weights((0,), np.zeros((3, 2))), lambda: agent.mesh.morph((0,), "int8"),
                         lambda: weft.Learner.load(weft.Mesh(NETWORK).to_bytes()), lambda: weft.Agent(folder + "/none"),
                         lambda: learner.score_one([1, 1], 0), lambda: agent.act(1)):
                with self.assertRaises(weft.WeftError) as caught:
                    call()
                self.assertNotRegex(caught.exception.text, r"weft_|WEFT_|::|\w\(")


class Online(unittest.TestCase):
    def test_a_refused_sample_leaves_the_model_as_it_was(self):
        def classes():
            return weft.OnlineClassifier(["a", "b"], most_classes=2)

        def values():
            return weft.OnlineRegressor(["a", "b"])

        good = [({"a": 1.0, "b": 2.0}, 1), ({"a": 0.5, "b": -2.0}, 0), ({"a": 3}, 1), ({"b": 1e3}, 0)]
        bad = {classes: [({"a": NAN}, 0), ({"a": INF}, 0), ({"a": 1e300}, 0), ({"a": 1.0}, "third"), ({"b": NAN}, "new"),
                         ({"a": 1.0}, NAN), ({"a": 1.0}, None)],
               values: [({"a": NAN}, 1.0), ({"a": -INF}, 1.0), ({"a": 1.0}, NAN), ({"a": 1.0}, INF), ({"a": 1e200}, 1.0),
                        ({"a": 1.0}, 1e200)]}
        for make, samples in bad.items():
            plain, tried = make(), make()
            for x, y in good:
                plain.learn_one(x, y)
                tried.learn_one(x, y)
                for wrong_x, wrong_y in samples:
                    if wrong_y in ("third",) and len(tried.classes) < 2:
                        continue
                    with self.assertRaises(weft.WeftValueError, msg=f"{wrong_x} {wrong_y}"):
                        tried.learn_one(wrong_x, wrong_y)
                self.assertRaises((ValueError, TypeError), tried.learn_one, {"a": "word"}, 0)
                self.assertEqual(tried.mesh.state_hash(), plain.mesh.state_hash())
                self.assertEqual(tried.predict_one({"a": 1.0}), plain.predict_one({"a": 1.0}))
            self.assertEqual(getattr(tried, "classes", None), getattr(plain, "classes", None))
            again = pickle.loads(pickle.dumps(tried))
            for model in (plain, again):
                model.learn_one(*good[0])
            self.assertEqual(again.mesh.state_hash(), plain.mesh.state_hash())
            self.assertEqual(again.predict_one({"b": 2}), plain.predict_one({"b": 2}))


if __name__ == "__main__":
    unittest.main()
