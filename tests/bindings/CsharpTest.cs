// SPDX-License-Identifier: Apache-2.0
// The C# binding: a golden hash, errors, snapshots, files, agents. CsharpTest.exe NETWORK.json SAMPLES.txt HASH FOLDER

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
                values.Learn(One<float>("x", 0, 1), One<float>("y", 0.5f, -0.5f), 1);
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
        Library.SetLog((level, text) => { }, 2);
        Library.SetLog(null);
    }

    private static int Main(string[] words)
    {
        Digits(words[0], words[1], words[2]);
        Calls(words[3]);
        Nonsense();
        Later();
        Console.WriteLine("Weft " + Library.Version + " from C#: the program's hash, " + words[2]);
        return 0;
    }
}
