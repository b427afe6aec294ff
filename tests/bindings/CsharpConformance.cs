// SPDX-License-Identifier: Apache-2.0
// Rows of tests/bindings/conformance_test.py, six lines each: name, network, learning or nothing, x as bits, labels, hash.

using System;
using System.Collections.Generic;
using System.Globalization;
using System.IO;
using System.Linq;
using Weft;

internal static class CsharpConformance
{
    private static string Replay(string network, string learning, float[] x, uint[] labels)
    {
        var inputs = new Dictionary<string, float[]> { { "x", x } };
        using (var mesh = new Mesh(network, 1))
        {
            if (learning.Length == 0)
            {
                mesh.Run(inputs, 8, new Dictionary<string, float[]>());
                return mesh.StateHash();
            }
            using (var learner = new Learner(mesh, learning))
            {
                learner.Learn(inputs, new Dictionary<string, uint[]> { { "y", labels } }, (ulong)labels.Length);
                learner.Drain();
                return mesh.StateHash();
            }
        }
    }

    private static int Main(string[] words)
    {
        var lines = File.ReadAllLines(words[0]);
        int rows = 0, mismatches = 0;
        for (; 6 * rows < lines.Length; ++rows)
        {
            var at = 6 * rows;
            var bits = lines[at + 3].Split(' ').Select(word => uint.Parse(word, CultureInfo.InvariantCulture));
            var x = bits.Select(word => BitConverter.ToSingle(BitConverter.GetBytes(word), 0)).ToArray();
            var labels = lines[at + 4].Split(new[] { ' ' }, StringSplitOptions.RemoveEmptyEntries)
                .Select(word => uint.Parse(word, CultureInfo.InvariantCulture)).ToArray();
            var hash = Replay(lines[at + 1], lines[at + 2], x, labels);
            if (hash == lines[at + 5]) continue;
            ++mismatches;
            Console.Error.WriteLine(lines[at] + ": " + hash + ", native " + lines[at + 5]);
        }
        Console.WriteLine(rows + " rows, " + mismatches + " mismatches");
        return mismatches == 0 ? 0 : 1;
    }
}
