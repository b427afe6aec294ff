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
                agent.Acknowledge();
                Expect(agent.Learner.Samples == (ulong)times, "samples of an agent");
                hashes.Add(agent.Mesh.StateHash());
            }
        // Finalized, not disposed: order is the runtime's.
        for (var i = 0; i < 100; ++i) new Learner(new Mesh(Xor, 1));
        GC.Collect();
        GC.WaitForPendingFinalizers();
    }

    private static int Main(string[] words)
    {
        Digits(words[0], words[1], words[2]);
        Calls(words[3]);
        Console.WriteLine("Weft " + Library.Version + " from C#: the program's hash, " + words[2]);
        return 0;
    }
}
