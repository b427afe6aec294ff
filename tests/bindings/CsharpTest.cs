// SPDX-License-Identifier: Apache-2.0
// The C# binding: a golden hash, errors, snapshots, files, agents, networks built layer by layer, environments, models.
//   CsharpTest.exe NETWORK.json SAMPLES.txt HASH FOLDER WORLDS.txt LATE_HASH [MODEL PROMPT_IDS IDS]

using System;
using System.Collections.Generic;
using System.Globalization;
using System.IO;
using System.Linq;
using Weft;

internal static class CsharpTest
{
    private const string Xor = "{\"weft\": 2, \"inputs\": {\"x\": [2]}, \"chain\": [{\"type\": \"dense\", \"out\": 16," +
        " \"activation\": \"tanh\"}, {\"type\": \"dense\", \"out\": 2}], \"learning\": {\"rule\": \"fw_dtp\"}}";

    private static void Expect(bool condition, string what)
    {
        if (!condition) throw new Exception("not so: " + what);
    }
    private static void Fails(Action call, string name, string words)
    {
        try
        {
            call();
        }
        catch (WeftException error)
        {
            Expect(error.Name == name && error.Text.Contains(words), name + ", " + words + " against " + error.Message);
            return;
        }
        throw new Exception("no failure: " + name);
    }

    private static void Throws<T>(Action call, string words) where T : Exception
    {
        try
        {
            call();
        }
        catch (T error)
        {
            Expect(error.GetType() == typeof(T) && error.Message.Contains(words), words + " against " + error.Message);
            return;
        }
        throw new Exception("no failure: " + words);
    }

    private static void Digits(string network, string samples, string hash)
    {
        var x = new List<float>();
        var y = new List<uint>();
        foreach (var line in File.ReadLines(samples))
        {
            var fields = line.Split(' ');
            y.Add(uint.Parse(fields[0], CultureInfo.InvariantCulture));
            x.AddRange(fields.Skip(1).Select(field => float.Parse(field, CultureInfo.InvariantCulture)));
        }
        using (var mesh = new Mesh(File.ReadAllText(network), 1))
        {
            using (var learner = new Learner(mesh))
            {
                learner.Learn(new Dictionary<string, float[]> { { "pixels", x.ToArray() } },
                              new Dictionary<string, uint[]> { { "digit", y.ToArray() } }, (ulong)y.Count);
                learner.Drain();
                Expect(mesh.StateHash() == hash, mesh.StateHash() + " is the program's " + hash);
            }
        }
    }

    /// <summary>Anomaly scores, to the bits of C++: tests/learning/anomaly_test.cpp.</summary>
    private static void Scores(float[][] x, uint[] y)
    {
        const string network = "{\"weft\": 2, \"seed\": 5, \"inputs\": {\"x\": [2]}, \"chain\": [{\"type\": \"dense\", " +
            "\"out\": 8, \"activation\": \"tanh\"}, {\"type\": \"dense\", \"out\": 2}]}";
        Func<float, string> bits = value => BitConverter.ToUInt32(BitConverter.GetBytes(value), 0).ToString("x8");
        using (var mesh = new Mesh(network, 1))
        using (var learner = new Learner(mesh, "{\"optimizer\": {\"type\": \"sgd\", \"lr\": 0.1}, " +
            "\"anomaly\": {\"score\": \"deviation\"}}"))
        {
            var said = new float[20];
            for (var i = 0; i < 20; ++i)
            {
                said[i] = learner.ScoreOne(x[i % 4], y[i % 4]);
                learner.LearnOne(x[i % 4], y[i % 4]);
            }
            for (var i = 0; i < 20; ++i) Expect(learner.Scores[i].Anomaly.Equals(said[i]), "score " + i);
            Expect(bits(learner.ScoreOne(x[3], 1)) == "3c6c39d4", "the anomaly score of C++");
            Fails(() => learner.ScoreOne(x[3], 2), "shape_mismatch", "below 2");
        }
        using (var mesh = new Mesh(network, 1))
        using (var learner = new Learner(mesh, "{\"loss\": \"mse\", \"anomaly\": {\"score\": \"loss\"}}"))
        {
            Expect(bits(learner.ScoreOne(x[3], new[] { 0.25f, -1.5f })) == "3fdfecb8", "the loss of C++");
            Fails(() => learner.ScoreOne(x[3], new[] { 0f, float.NaN }), "not_finite", "value 1");
        }
        using (var mesh = new Mesh(network, 1))
        using (var learner = new Learner(mesh))
            Fails(() => learner.ScoreOne(x[3], 1), "invalid_argument", "anomaly");
    }

    private static void Calls(string folder)
    {
        float[][] x = { new float[] { 0, 0 }, new float[] { 0, 1 }, new float[] { 1, 0 }, new float[] { 1, 1 } };
        uint[] y = { 0, 1, 1, 0 };
        using (var mesh = new Mesh(Xor, 1))
        {
            using (var learner = new Learner(mesh))
            {
                for (var i = 0; i < 2000; ++i) learner.LearnOne(x[i % 4], y[i % 4]);
                var answer = new float[2];
                for (var i = 0; i < 4; ++i)
                {
                    learner.PredictOne(x[i], answer);
                    Expect((answer[1] > answer[0] ? 1u : 0u) == y[i], "xor " + i);
                }
                Expect(learner.Samples == 2000, "2000 samples");
                Fails(() => mesh.Tick(), "invalid_argument", "rule");
                Fails(() => learner.LearnOne(new float[3], 0), "shape_mismatch", "3");
            }
            Scores(x, y);
            Fails(() => new Mesh("{"), "parse_failed", "");
            Fails(() => Mesh.Load("/no/where.entity"), "not_found", "/no/where.entity");
            Fails(() => mesh.SetInput("z", x[0]), "unknown_name", "'z'");
            Fails(() => Mesh.FromBytes(new byte[] { 1, 2, 3 }), "parse_failed", "");
            mesh.SetInput("x", x[1]);
            mesh.Tick(5);
            var there = mesh.StateHash();
            using (var snapshot = new Snapshot())
            {
                mesh.Take(snapshot);
                mesh.Tick(2);
                Expect(mesh.StateHash() != there, "ticks change the state");
                mesh.Restore(snapshot);
            }
            Expect(mesh.StateHash() == there, "rollback");
            using (var copy = Mesh.FromBytes(mesh.ToBytes(), 1)) Expect(copy.StateHash() == there, "a file's bytes");
            mesh.Save(Path.Combine(folder, "a.entity"));
            using (var copy = Mesh.Load(Path.Combine(folder, "a.entity"), 1)) Expect(copy.StateHash() == there, "a file");
            var outputs = new Dictionary<string, float[]> { { "y", new float[4] } };
            mesh.Run(new Dictionary<string, float[]> { { "x", new float[] { 1, 0, 0, 1 } } }, 2, outputs);
            Expect(outputs["y"][3] == mesh.Output("y")[1], "a run's last output");
            var weights = mesh.Weights(new Place(0, 0, 0));
            Expect(weights.Length == 32, "32 weights");
            mesh.SetWeights(new Place(0, 0, 0), weights);
            Expect(mesh.AddSession() == 1 && mesh.Statistics.Contains("\"sessions\":2"), "two sessions");
        }
        var hashes = new List<string>();
        for (var times = 1; times <= 2; ++times)
            using (var agent = new Agent(Path.Combine(folder, "agent"), times == 1 ? Xor : null))
            {
                if (times == 2) Expect(agent.Mesh.StateHash() == hashes[0], "an agent goes on where it was");
                agent.Learner.LearnOne(x[1], 1);
                agent.Mark();
                Expect(agent.Statistics.Contains("journal_bytes"), "an agent's statistics");
                agent.Acknowledge();
                Expect(agent.Learner.Samples == (ulong)times, "samples of an agent");
                hashes.Add(agent.Mesh.StateHash());
            }
        // Finalized, not disposed: order is the runtime's.
        for (var i = 0; i < 100; ++i) new Learner(new Mesh(Xor, 1));
        GC.Collect();
        GC.WaitForPendingFinalizers();
    }

    private static Dictionary<string, T[]> One<T>(string name, params T[] values) =>
        new Dictionary<string, T[]> { { name, values } };

    private static void Nonsense()
    {
        Throws<ArgumentNullException>(() => new Mesh(null), "network");
        Throws<ArgumentNullException>(() => new Learner(null), "mesh");
        Throws<ArgumentNullException>(() => Mesh.Load(null), "path");
        Throws<ArgumentNullException>(() => Mesh.FromBytes(null), "bytes");
        Throws<ArgumentException>(() => Mesh.Load("a\0b"), "NUL");
        Throws<ArgumentOutOfRangeException>(() => new Mesh(Xor, -1), "negative");
        Throws<ArgumentOutOfRangeException>(() => new Mesh(Xor, new MeshOptions { MaxMemory = -1 }), "negative");
        Throws<ArgumentException>(() => new Mesh(Xor, new MeshOptions { Device = "cpu\0" }), "NUL");
        Throws<ArgumentOutOfRangeException>(() => Library.SetLog(null, 9), "0 to 5");
        Throws<ArgumentNullException>(() => new Agent(null), "directory");
        Fails(() => new Mesh(Xor, new MeshOptions { Executor = "fast" }), "unknown_name", "fast");
        try
        {
            new Mesh("{\"weft\": 2, \"inputs\": {\"x\": [1000]}, \"chain\": [{\"type\": \"dense\", \"out\": 1000}]}",
                new MeshOptions { Threads = 1, MaxMemory = 1000 });
            throw new Exception("no bound of memory");
        }
        catch (WeftException error)
        {
            Expect(error.Name == "too_large" && error.Text.Split(' ').Count(word => word.Length > 0 && char.IsDigit(word[0])) >= 2,
                error.Message);
        }
        using (var mesh = new Mesh(Xor, 1))
        using (var other = new Mesh(Xor, 1))
        using (var learner = new Learner(other))
        {
            var before = mesh.StateHash();
            Throws<ArgumentNullException>(() => mesh.SetInput(null, new float[2]), "port");
            Throws<ArgumentNullException>(() => mesh.SetInput("x", null), "values");
            Throws<ArgumentException>(() => mesh.SetInput("x\0y", new float[2]), "NUL");
            Throws<ArgumentOutOfRangeException>(() => mesh.SetInput("x", new float[2], -1), "negative");
            Throws<ArgumentOutOfRangeException>(() => mesh.StateHash(-1), "negative");
            Throws<ArgumentOutOfRangeException>(() => mesh.TickFor(TimeSpan.FromSeconds(-1)), "negative");
            Throws<ArgumentNullException>(() => mesh.Run(null, 1, One<float>("y")), "arrays");
            Throws<ArgumentNullException>(() => mesh.Run(new Dictionary<string, float[]> { { "x", null } }, 1, One<float>("y")),
                "x");
            Throws<ArgumentException>(() => mesh.Forward(One<float>("x\0", 0, 0), 1, One<float>("y", 0, 0)), "NUL");
            Throws<ArgumentNullException>(() => mesh.Take(null), "to");
            Throws<ArgumentNullException>(() => mesh.Restore(null), "from");
            Throws<ArgumentNullException>(() => mesh.Morph(new Place(0, 0, 0), null), "dtype");
            Throws<ArgumentNullException>(() => mesh.AttachSession(null), "file");
            Throws<ArgumentException>(() => mesh.Save("a\0"), "NUL");
            Throws<ArgumentNullException>(() => learner.LearnOne(null, 1), "x");
            Throws<ArgumentNullException>(() => learner.LearnOne(new float[2], null), "values");
            Throws<ArgumentNullException>(() => learner.PredictOne(new float[2], null), "y");
            Throws<ArgumentNullException>(() => learner.Learn(One<float>("x", 0, 0), (Dictionary<string, uint[]>)null, 1),
                "targets");
            Expect(mesh.StateHash() == before, "nonsense changes nothing");
        }
    }

    private static void Later()
    {
        var place = new Place(0, 0, 0);
        using (var mesh = new Mesh(Xor, 1))
        {
            using (var learner = new Learner(mesh, "{\"rule\": \"backprop\", \"late\": \"meet\", \"patience\": 2}"))
            {
                var tickets = Enumerable.Range(0, 5).Select(i => learner.Observe(One<float>("x", i & 1, 1))).ToArray();
                Expect(learner.Answer(tickets[4], "y").Length == 2, "an answer");
                learner.Teach(tickets[4], One<uint>("y", 1));
                learner.Forgo(tickets[3]);
                Expect(learner.Expired.SequenceEqual(tickets.Take(2)), "two have expired");
                Fails(() => learner.Teach(tickets[0], One<uint>("y", 1)), "timed_out", "");
                Expect(learner.Scores.Length == 1 && learner.Scores[0].Label == 1, "one score");
                Expect(learner.Diagnostics.Length == 0, "nobody measures yet");
                learner.ClearScores();
                Mesh other;
                using (var loaded = Learner.FromBytes(mesh.ToBytes(), out other))
                using (other)
                {
                    foreach (var each in new[] { learner, loaded })
                        each.Teach(each.Observe(One<float>("x", 1, 0)), One<uint>("y", 0));
                    Expect(other.StateHash() == mesh.StateHash(), "a learner goes on");
                }
            }
            using (var values = new Learner(mesh, "{\"loss\": \"mse\"}"))
            {
                values.Measure();
                values.Learn(One<float>("x", 0, 1), One<float>("y", 0.5f, -0.5f), 1);
                var layers = values.Diagnostics;
                Expect(layers.Length == 2 && layers.All(layer => layer.Error > 0 && layer.Budget == -1 && layer.Update > 0
                    && layer.Weight > layer.Update && layer.ErrorAge < 9), "measured layers");
                Expect(layers[1].At.X != layers[0].At.X, "two places");
            }
            Expect(mesh.OutputAt(place).Length == 16, "16 outputs");
            using (var answer = mesh.Send(Command.Probe, new Place(0, 0, 1)))
            {
                Expect(answer.DoneAt == null, "not yet");
                mesh.Tick();
                Expect(answer.DoneAt != null && answer.Values.Length == 2, "a probe");
            }
            mesh.Morph(place, "int8");
            Expect(mesh.Description.Contains("int8"), "morphed");
            Expect(mesh.AttachSession(mesh.DetachSession()) == 1, "a session");
        }
        Library.SetLog((level, text) => { throw new FormatException("it must not cross the library"); }, 0);
        using (var mesh = new Mesh(Xor, 2)) mesh.Tick();
        Library.SetLog(null);
    }

    private static void Builder(string folder)
    {
        const string layers = "{\"type\": \"dense\", \"at\": [0,0,0,0], \"out\": 16, \"activation\": \"tanh\"," +
            " \"from\": [\"bits\", [0,0,2,0]]}";
        var learning = "{\"optimizer\": {\"type\": \"sgd\", \"lr\": 0.1}}";
        using (var read = Network.Read("{\"weft\": 2, \"name\": \"xor\", \"seed\": 3, \"grid\": {\"x\": 3}, \"inputs\": " +
            "{\"bits\": [2]}, \"layers\": [" + layers + ", {\"type\": \"dense\", \"at\": [0,0,1,0], \"out\": 2}, {\"type\": " +
            "\"dense\", \"at\": [0,0,2,0], \"out\": 8, \"activation\": \"tanh\", \"from\": [[0,0,0,0]]}], \"outputs\": " +
            "{\"answer\": [0,0,1,0]}, \"learning\": " + learning + "}"))
        using (var built = new Network("xor", x: 3))
        {
            built.Input("bits", 2).Layer(layers).Layer("{\"type\": \"dense\", \"at\": [0,0,1,0], \"out\": 2}")
                .Layer("{\"type\": \"dense\", \"at\": [0,0,2,0], \"out\": 8, \"activation\": \"tanh\", \"from\": [[0,0,0,0]]}")
                .Output("answer", new Place(0, 0, 1)).Set("seed", "3").Set("learning", learning);
            Expect(built.Text == read.Text, built.Text + " against " + read.Text);
            Fails(() => built.Layer("{"), "parse_failed", "layer:1");
            Fails(() => built.Layer("{\"type\": \"dense\", \"at\": [0,0,0,0], \"out\": 0}"), "out_of_range", "out");
            Fails(() => built.Set("sed", "3"), "unknown_name", "'sed'");
            Fails(() => built.Input("z", 0), "out_of_range", "extent of 0");
            Throws<ArgumentOutOfRangeException>(() => built.Input("z", -1), "negative");
            Throws<ArgumentNullException>(() => built.Input("z", null), "shape");
            Throws<ArgumentNullException>(() => built.Layer(null), "json");
            Throws<ArgumentException>(() => built.Output("y\0", new Place()), "NUL");
            Throws<ArgumentNullException>(() => new Network(null), "name");
            Throws<ArgumentNullException>(() => Network.Read(null), "json");
            Expect(built.Text == read.Text, "what failed changed nothing");
            using (var a = built.Build(new MeshOptions { Threads = 1 }))
            using (var b = new Mesh(read.Text, 1))
            using (var learner = new Learner(a))
            using (var same = new Learner(b))
            {
                foreach (var each in new[] { learner, same })
                    each.Learn(One<float>("bits", 0, 1, 1, 0), One<uint>("answer", 1, 0), 2);
                Expect(a.StateHash() == b.StateHash() && learner.Counts.Scored == 2, "one network");
                var said = One<float>("answer", new float[4]);
                var session = One<float>("answer", new float[4]);
                var x = One<float>("bits", 0, 1, 1, 0);
                learner.Predict(x, 2, said);
                learner.Predict(x, 2, session, 0);
                Expect(!said["answer"].SequenceEqual(session["answer"]), "a copy begins as its session stands");
                Fails(() => learner.Predict(x, 2, said, 1), "out_of_range", "session 1");
                Throws<ArgumentOutOfRangeException>(() => learner.Predict(x, 2, said, -2), "negative");
            }
            using (var agent = new Agent(Path.Combine(folder, "built"), built.Text)) Expect(agent.Learner != null, "it learns");
        }
        Fails(() => Network.Load("/no/where.json"), "not_found", "/no/where.json");
        using (var empty = new Network("empty")) Fails(() => empty.Build(), "parse_failed", "at least one layer");
        Expect(!Library.TakeFlushedResults() || IntPtr.Size == 4, "no result differs from x86-64's");
    }

    /// <summary>The calls of csharp_test.py, to the hash that they have there.</summary>
    private static void Gradients(string hash)
    {
        using (var mesh = new Mesh(Xor, 1))
        using (var learner = new Learner(mesh, "{\"rule\": \"backprop\", \"late\": \"meet\", \"patience\": 2}"))
        {
            for (var i = 0; i < 12; ++i)
            {
                var ticket = learner.Observe(One<float>("x", i & 1, 1));
                if (i % 4 == 0) learner.TeachGradients(ticket, One<float>("y", 0.25f, -0.25f), new[] { 0.5f });
                else if (i % 4 == 1) learner.Teach(ticket, One<uint>("y", 1), new[] { 0.5f });
                else if (i % 4 == 2) learner.TeachGradients(ticket, One<float>("y", -1, 2));
                else learner.Teach(ticket, One<uint>("y", 0));
            }
            Expect(mesh.StateHash() == hash, mesh.StateHash() + " is Python's " + hash);
            var last = learner.Observe(One<float>("x", 1, 1));
            Fails(() => learner.TeachGradients(last, One<float>("y", float.NaN, 1)), "not_finite", "");
            Fails(() => learner.TeachGradients(last, One<float>("y", 1)), "shape_mismatch", "1");
            Fails(() => learner.Teach(last, One<uint>("y", 1), new[] { float.NaN }), "not_finite", "");
            Fails(() => learner.Teach(last, One<uint>("y", 1), new float[2]), "shape_mismatch", "2");
            Throws<ArgumentNullException>(() => learner.TeachGradients(last, null), "targets");
            Throws<ArgumentNullException>(() => learner.TeachGradients(last, One<float>("y", (float[])null)), "y");
        }
    }

    /// <summary>Trajectories of C++, a line a step: world, length, seed, observation and reward as bits, how it ended.
    /// </summary>
    private static void Worlds(string file)
    {
        LearningEnvironment world = null;
        var name = "";
        int step = 0, steps = 0;
        ulong episode = 0;
        foreach (var line in File.ReadLines(file))
        {
            var words = line.Split(' ');
            if (words[0] != name)
            {
                world?.Dispose();
                name = words[0];
                world = new LearningEnvironment(name, uint.Parse(words[1]));
                world.Reset(ulong.Parse(words[2]));
                step = 0;
                episode = 0;
                Expect(LearningEnvironment.All.Contains("\"" + name + "\""), name);
            }
            var bits = world.Observation.Select(value => BitConverter.ToUInt32(BitConverter.GetBytes(value), 0));
            Expect(string.Join(",", bits) == words[3], line);
            var saved = world.ToBytes();
            var hash = world.StateHash;
            var choice = world.Choices > 0 ? (uint)(step * 7 / 3 % world.Choices) : 0;
            var values = new[] { step % 9 / 2f - 2 };
            var first = world.Choices > 0 ? world.Step(choice) : world.Step(values);
            world.Restore(saved);
            Expect(world.StateHash == hash, "a world goes back");
            var outcome = world.Choices > 0 ? world.Step(choice) : world.Step(values);
            Expect(outcome.Equals(first), "to the bit");
            Expect(BitConverter.DoubleToInt64Bits(outcome.Reward) == (long)ulong.Parse(words[4]) &&
                outcome.Terminated == (words[5] == "1") && outcome.Truncated == (words[6] == "1"), line);
            if (outcome.Terminated || outcome.Truncated)
            {
                Fails(() => world.Step(choice), "invalid_argument", "ended");
                world.Reset(ulong.Parse(words[2]), ++episode);
            }
            ++step;
            ++steps;
        }
        Expect(steps == 720, steps + " steps");
        world.Dispose();
        using (var cartpole = new LearningEnvironment("cartpole"))
        {
            Fails(() => cartpole.Step(0), "invalid_argument", "no episode");
            cartpole.Reset(ulong.MaxValue);
            Expect(cartpole.State.Length == 4 && cartpole.Limit == 500, "cartpole");
            Fails(() => cartpole.Step(2), "out_of_range", "2");
            Fails(() => cartpole.Step(new float[1]), "shape_mismatch", "1");
            Throws<ArgumentNullException>(() => cartpole.Step(null), "values");
            Throws<ArgumentNullException>(() => cartpole.Restore(null), "bytes");
            Fails(() => cartpole.Restore(new byte[9]), "corrupt", "9 bytes");
        }
        Fails(() => new LearningEnvironment("chess"), "unknown_name", "chess");
        Throws<ArgumentNullException>(() => new LearningEnvironment(null), "name");
    }

    private static void Writes(string path, string promptIds, string ids)
    {
        Fails(() => new LanguageModel("/no/where"), "not_found", "/no/where");
        Throws<ArgumentNullException>(() => new LanguageModel(null), "path");
        if (path == null) return;
        using (var model = new LanguageModel(path, null, new MeshOptions { Threads = 1 }))
        {
            var greedy = new GenerateOptions { Tokens = 30, Temperature = 0, IgnoresEnds = true };
            var heard = new List<string>();
            var given = promptIds.Split(',').Select(id => uint.Parse(id, CultureInfo.InvariantCulture)).ToArray();
            var prompt = model.Detokenize(given.Skip(1).ToArray());  // the first one begins a text
            Expect(model.Tokenize(prompt).SequenceEqual(given), "the prompt's ids: " + prompt);
            var text = model.Generate(prompt, greedy, part => { heard.Add(part); return true; });
            Expect(string.Concat(heard) == text && heard.Count > 5, text);
            var result = model.Result;
            Expect(result.Contains("\"ids\":[" + ids + "]"), "ids of the reference, " + ids + " against " + result);
            var tokens = model.Tokenize("Once upon a time");
            Expect(model.Detokenize(tokens).Contains("Once upon a time"), "there and back");
            Fails(() => model.Generate("Once", greedy, part => false), "interrupted", "stopped");
            Throws<FormatException>(() => model.Generate("Once", greedy, part => { throw new FormatException("mine"); }), "mine");
            Expect(model.Result == result, "as it was");
            var seeded = new GenerateOptions { Tokens = 20, Seed = 3 };
            var drawn = model.Generate("Once", seeded);
            Expect(drawn == model.Generate("Once", seeded), "a function of its seed");
            var usual = model.Generate("Once", new GenerateOptions { Tokens = 40 });
            var likeliest = model.Generate("Once", new GenerateOptions { Tokens = 40, Temperature = 0 });
            Expect(usual != likeliest, "a draw");
            foreach (var same in new[] { new GenerateOptions { Preset = "hf" }, new GenerateOptions { TopNSigma = 1e-4 },
                                         new GenerateOptions { Mirostat = 2, MirostatTau = 0 } })
            {
                same.Tokens = 40;
                Expect(model.Generate("Once", same) == likeliest, "the likeliest tokens");
            }
            Expect(usual == model.Generate("Once", new GenerateOptions
            {
                Tokens = 40, Preset = "llama.cpp", Samplers = "penalties;top_k;typ_p;top_p;min_p;temperature", DryMultiplier = 1,
                DryPenaltyLastN = 0, DrySequenceBreakers = new[] { "a", "b" }
            }), "llama.cpp's draw");
            var files = new Dictionary<string, byte[]>();
            foreach (var name in new[] { "config.json", "model.safetensors", "tokenizer.json" })
                files[name] = File.ReadAllBytes(Path.Combine(path, name));
            using (var own = LanguageModel.FromBytes(files, null, new MeshOptions { Threads = 1 }))
                Expect(own.Generate("Once", new GenerateOptions { Tokens = 40 }) == usual, "a model from memory");
            files.Remove("tokenizer.json");
            Fails(() => LanguageModel.FromBytes(files), "not_found", "holds no tokenizer");
            Fails(() => LanguageModel.FromBytes(new Dictionary<string, byte[]>()), "invalid_argument", "0 are given");
            Fails(() => model.Generate("Once", new GenerateOptions { Mirostat = 3 }), "out_of_range", "mirostat 3");
            Fails(() => model.Generate("Once", new GenerateOptions { Preset = "vllm" }), "unknown_name", "vllm");
            Expect(drawn == model.Generate("Once", new GenerateOptions
            {
                Tokens = 20, Seed = 3, Temperature = 0.8, TopK = 40, TopP = 0.95, MinP = 0.05
            }), "defaults are those of weft generate");
            greedy.Tokens = 20;
            Expect(model.Generate("Once", new GenerateOptions { Tokens = 20, TopP = 0 }) ==
                model.Generate("Once", new GenerateOptions { Tokens = 20, Temperature = 0 }), "top_p 0");
            Expect(model.Generate("Once", new GenerateOptions { Grammar = "root ::= \" hi\"" }) == " hi", "a grammar");
            model.Generate("Once", new GenerateOptions
            {
                Tokens = 3, Temperature = 0, LogitBias = new Dictionary<uint, float> { { 77, 1e6f }, { 78, float.NegativeInfinity } }
            });
            Expect(model.Result.Contains("\"ids\":[77,77,77]"), "a bias");
            var stopped = model.Generate("Once", new GenerateOptions { Tokens = 60, Temperature = 0, Stops = new[] { "was" } });
            Expect(!stopped.Contains("was") && model.Result.Contains("\"end\":\"stop\""), stopped);
            Fails(() => model.Generate("", new GenerateOptions { TopP = 1.5 }), "out_of_range", "top_p");
            Throws<ArgumentNullException>(() => model.Generate(null), "prompt");
            Throws<ArgumentNullException>(() => model.Generate("", new GenerateOptions { Stops = new string[1] }), "Stops");
            Throws<ArgumentException>(() => model.Generate("", new GenerateOptions { Grammar = "a\0" }), "NUL");
            Throws<ArgumentNullException>(() => model.Tokenize(null), "text");
            Throws<ArgumentNullException>(() => model.Detokenize(null), "ids");
        }
    }

    private static int Main(string[] words)
    {
        Digits(words[0], words[1], words[2]);
        Calls(words[3]);
        Nonsense();
        Later();
        Builder(words[3]);
        Worlds(words[4]);
        Gradients(words[5]);
        if (words.Length > 6) Writes(words[6], words[7], words[8]);
        else Writes(null, null, null);
        Console.WriteLine("Weft " + Library.Version + " from C#: the program's hash, " + words[2] +
            (words.Length > 6 ? "" : "; no model: no ../shared/data"));
        return 0;
    }
}
