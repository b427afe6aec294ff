// SPDX-License-Identifier: Apache-2.0
// Weft for C#: P/Invoke over libweft's C ABI (capi/weft.h), one file, C# 7, .NET Framework 4.6 and later, Mono, Unity.
// Failures are WeftException. Objects are disposed, or finalized by the runtime; arrays are pinned for a call, not
// copied.

using System;
using System.Collections.Generic;
using System.Runtime.InteropServices;
using System.Text;

namespace Weft
{
    /// <summary>A call that failed: its number as in weft.h, its name ("shape_mismatch") and its text.</summary>
    public sealed class WeftException : Exception
    {
        public int Code { get; }
        public string Name { get; }
        public string Text { get; }

        internal WeftException(int code, string name, string text) : base(name + ": " + text)
        {
            Code = code;
            Name = name;
            Text = text;
        }
    }

    [StructLayout(LayoutKind.Sequential)]
    public struct Place
    {
        public uint Z, Y, X, Layer;
        public Place(uint z, uint y, uint x, uint layer = 0) { Z = z; Y = y; X = x; Layer = layer; }
    }

    public static class Library
    {
        /// <summary>"0.1.0"</summary>
        public static string Version => Native.Text(Native.weft_version());
        /// <summary>JSON of every device, the CPU first.</summary>
        public static string Devices =>
            Native.ReadText((buffer, capacity, needed) => Native.weft_devices(buffer, capacity, needed));
    }

    internal sealed class MeshHandle : SafeHandle
    {
        public MeshHandle() : base(IntPtr.Zero, true) { }
        public override bool IsInvalid => handle == IntPtr.Zero;
        protected override bool ReleaseHandle() => Native.weft_mesh_destroy(handle) == 0;
    }

    internal sealed class LearnerHandle : SafeHandle
    {
        public LearnerHandle() : base(IntPtr.Zero, true) { }
        public override bool IsInvalid => handle == IntPtr.Zero;
        protected override bool ReleaseHandle() => Native.weft_learner_destroy(handle) == 0;
    }

    internal sealed class SnapshotHandle : SafeHandle
    {
        public SnapshotHandle() : base(IntPtr.Zero, true) { }
        public override bool IsInvalid => handle == IntPtr.Zero;
        protected override bool ReleaseHandle() => Native.weft_snapshot_destroy(handle) == 0;
    }

    internal sealed class AgentHandle : SafeHandle
    {
        public AgentHandle() : base(IntPtr.Zero, true) { }
        public override bool IsInvalid => handle == IntPtr.Zero;
        protected override bool ReleaseHandle() => Native.weft_agent_close(handle) == 0;
    }

    /// <summary>A network that runs. One thread at a time; another one gets "busy".</summary>
    public sealed class Mesh : IDisposable
    {
        internal readonly MeshHandle Handle;

        /// <param name="network">a network file's text (docs/formats/network.md)</param>
        /// <param name="threads">0: all cores; 1: the caller's alone</param>
        public Mesh(string network, int threads = 0, int sessions = 1)
        {
            var json = Encoding.UTF8.GetBytes(network);
            IntPtr description;
            Native.Check(Native.weft_network_read(json, (UIntPtr)json.Length, null, out description));
            try
            {
                var options = Native.Options(threads, sessions);
                Native.Check(Native.weft_mesh_build(description, ref options, out Handle));
            }
            finally
            {
                Native.weft_network_destroy(description);
            }
        }

        internal Mesh(MeshHandle handle) { Handle = handle; }

        /// <summary>From a network file or an .entity file.</summary>
        public static Mesh Load(string path, int threads = 0)
        {
            var options = Native.Options(threads, 1);
            MeshHandle handle;
            Native.Check(Native.weft_mesh_load(Native.Utf8(path), ref options, out handle));
            return new Mesh(handle);
        }

        /// <summary>The same of a file's bytes.</summary>
        public static Mesh FromBytes(byte[] bytes, int threads = 0)
        {
            var options = Native.Options(threads, 1);
            MeshHandle handle;
            Native.Check(Native.weft_mesh_load_bytes(bytes, (UIntPtr)bytes.Length, ref options, out handle));
            return new Mesh(handle);
        }

        public void Dispose() => Handle.Dispose();

        /// <summary>Puts values [width] into a port; they stay until replaced.</summary>
        public void SetInput(string port, float[] values, int session = 0) =>
            Native.Check(Native.weft_mesh_set_input(Handle, Native.Utf8(port), Native.Size(session), values,
                (UIntPtr)values.Length));

        /// <summary>Values that an output committed last: [width].</summary>
        public float[] Output(string name, int session = 0)
        {
            var text = Native.Utf8(name);
            UIntPtr needed;
            Native.Check(Native.weft_mesh_output(Handle, text, Native.Size(session), null, UIntPtr.Zero, out needed));
            var values = new float[(int)needed];
            Output(text, values, session);
            return values;
        }

        /// <summary>The same into an array of the caller's, which is not allocated anew: for each frame.</summary>
        public void Output(string name, float[] values, int session = 0) => Output(Native.Utf8(name), values, session);

        private void Output(byte[] name, float[] values, int session)
        {
            UIntPtr needed;
            Native.Check(Native.weft_mesh_output(Handle, name, Native.Size(session), values, (UIntPtr)values.Length,
                out needed));
        }

        public void Tick(ulong ticks = 1) => Native.Check(Native.weft_mesh_tick(Handle, ticks));

        /// <summary>Ticks until the time is up, at least one; returns how many.</summary>
        public ulong TickFor(TimeSpan time)
        {
            ulong ticks;
            Native.Check(Native.weft_mesh_tick_for(Handle, (ulong)Math.Max(0, time.Ticks) * 100, out ticks));
            return ticks;
        }

        /// <summary>Inputs [ticks][sessions][width] by port; outputs likewise, into arrays of the caller's.</summary>
        public void Run(IDictionary<string, float[]> inputs, ulong ticks, IDictionary<string, float[]> outputs)
        {
            using (var from = new Rows(inputs))
            using (var to = new Rows(outputs))
                Native.Check(Native.weft_mesh_run(Handle, from.Entries, (UIntPtr)from.Entries.Length, ticks, to.Entries,
                    (UIntPtr)to.Entries.Length));
        }

        /// <summary>One pass without ticks: inputs [rows][width]. Feedback reads zero.</summary>
        public void Forward(IDictionary<string, float[]> inputs, int rows, IDictionary<string, float[]> outputs)
        {
            using (var from = new Rows(inputs))
            using (var to = new Rows(outputs))
                Native.Check(Native.weft_mesh_forward(Handle, from.Entries, (UIntPtr)from.Entries.Length,
                    Native.Size(rows), to.Entries, (UIntPtr)to.Entries.Length));
        }

        public void Resume() => Native.Check(Native.weft_mesh_resume(Handle));

        public ulong Ticks
        {
            get
            {
                ulong ticks;
                Native.Check(Native.weft_mesh_ticks(Handle, out ticks));
                return ticks;
            }
        }

        /// <summary>32 hex digits: equal states, equal text, on every machine.</summary>
        public string StateHash(int session = 0) =>
            Native.ReadText((buffer, capacity, needed) => Native.weft_mesh_state_hash(Handle, Native.Size(session),
                buffer, capacity, needed));

        /// <summary>JSON of the network as it was built.</summary>
        public string Description =>
            Native.ReadText((buffer, capacity, needed) => Native.weft_mesh_describe(Handle, buffer, capacity, needed));
        /// <summary>JSON of ticks, cells, faults, memory.</summary>
        public string Statistics => Native.ReadText((buffer, capacity, needed) => Native.weft_mesh_statistics(Handle,
            buffer, capacity, needed));

        /// <summary>An .entity file; live: with sessions and all that ticks change.</summary>
        public void Save(string path, bool live = true) =>
            Native.Check(Native.weft_mesh_save(Handle, Native.Utf8(path), live ? 1 : 0));
        public byte[] ToBytes(bool live = true) =>
            Native.ReadBytes((buffer, capacity, needed) => Native.weft_mesh_save_bytes(Handle, live ? 1 : 0, buffer,
                capacity, needed));

        /// <summary>A new session at zero state; its number.</summary>
        public int AddSession()
        {
            UIntPtr session;
            Native.Check(Native.weft_mesh_add_session(Handle, out session));
            return (int)session;
        }
        public void RemoveSession(int session) =>
            Native.Check(Native.weft_mesh_remove_session(Handle, Native.Size(session)));
        public void ResetSession(int session = 0) =>
            Native.Check(Native.weft_mesh_reset_session(Handle, Native.Size(session)));

        /// <summary>A layer's parameter, row-major [out][in].</summary>
        public float[] Weights(Place at, int parameter = 0)
        {
            UIntPtr needed;
            Native.Check(Native.weft_mesh_read_weights(Handle, at, Native.Size(parameter), null, UIntPtr.Zero,
                out needed));
            var values = new float[(int)needed];
            Native.Check(Native.weft_mesh_read_weights(Handle, at, Native.Size(parameter), values, needed, out needed));
            return values;
        }
        public void SetWeights(Place at, float[] values, int parameter = 0) =>
            Native.Check(Native.weft_mesh_write_weights(Handle, at, Native.Size(parameter), values,
                (UIntPtr)values.Length));

        /// <summary>Takes all that ticks change into a snapshot, whose memory is used again.</summary>
        public void Take(Snapshot to) => Native.Check(Native.weft_mesh_take_snapshot(Handle, to.Handle));
        /// <summary>Ticks after it are those after it was taken, to the bit: rollback.</summary>
        public void Restore(Snapshot from) => Native.Check(Native.weft_mesh_restore_snapshot(Handle, from.Handle));
    }

    /// <summary>Room for a mesh's state in memory.</summary>
    public sealed class Snapshot : IDisposable
    {
        internal readonly SnapshotHandle Handle;
        public Snapshot() { Native.Check(Native.weft_snapshot_create(out Handle)); }
        public void Dispose() => Handle.Dispose();
    }

    /// <summary>Learning in a mesh's ticks; it drives the mesh until it is disposed.</summary>
    public sealed class Learner : IDisposable
    {
        internal readonly LearnerHandle Handle;

        /// <param name="options">JSON of a network file's section "learning"; null: the network's own</param>
        public Learner(Mesh mesh, string options = null)
        {
            Native.Check(Native.weft_learner_build(mesh.Handle, options == null ? null : Native.Utf8(options),
                out Handle));
        }
        internal Learner(LearnerHandle handle) { Handle = handle; }
        public void Dispose() => Handle.Dispose();

        /// <summary>Runs samples and learns: inputs [samples][sessions][width], labels [samples][sessions].</summary>
        public void Learn(IDictionary<string, float[]> inputs, IDictionary<string, uint[]> labels, ulong samples)
        {
            using (var from = new Rows(inputs))
            using (var to = new Targets(labels))
                Native.Check(Native.weft_learner_learn(Handle, from.Entries, (UIntPtr)from.Entries.Length, to.Entries,
                    (UIntPtr)to.Entries.Length, samples));
        }
        /// <summary>Runs on until every sample is learned from (schedule pipelined).</summary>
        public void Drain() => Native.Check(Native.weft_learner_drain(Handle));

        /// <summary>For networks of one input, one output and one session.</summary>
        public void PredictOne(float[] x, float[] y) =>
            Native.Check(Native.weft_learner_predict_one(Handle, x, (UIntPtr)x.Length, y, (UIntPtr)y.Length));
        public void LearnOne(float[] x, uint label) =>
            Native.Check(Native.weft_learner_learn_one(Handle, x, (UIntPtr)x.Length, label));
        public void LearnOne(float[] x, float[] values) =>
            Native.Check(Native.weft_learner_learn_one_values(Handle, x, (UIntPtr)x.Length, values,
                (UIntPtr)values.Length));
        public void ClearScores() => Native.Check(Native.weft_learner_clear_scores(Handle));

        /// <summary>Samples given by Learn and LearnOne.</summary>
        public ulong Samples
        {
            get
            {
                var counts = new Native.Counts { size = (UIntPtr)Marshal.SizeOf(typeof(Native.Counts)) };
                Native.Check(Native.weft_learner_count(Handle, ref counts));
                return counts.samples;
            }
        }
    }

    /// <summary>A mesh and its learner kept in a directory: opened again it is where it was, crash or not.</summary>
    public sealed class Agent : IDisposable
    {
        private readonly AgentHandle handle;
        public Mesh Mesh { get; }
        /// <summary>Null where it does not learn.</summary>
        public Learner Learner { get; }

        /// <param name="network">a network file's text; null: the one that the directory has</param>
        public Agent(string directory, string network = null)
        {
            var description = IntPtr.Zero;
            if (network != null)
            {
                var json = Encoding.UTF8.GetBytes(network);
                Native.Check(Native.weft_network_read(json, (UIntPtr)json.Length, null, out description));
            }
            try
            {
                Native.Check(Native.weft_agent_open(Native.Utf8(directory), description, IntPtr.Zero, out handle));
            }
            finally
            {
                if (description != IntPtr.Zero) Native.weft_network_destroy(description);
            }
            MeshHandle mesh;
            Native.Check(Native.weft_agent_mesh(handle, out mesh));
            Mesh = new Mesh(mesh);
            LearnerHandle learner;
            var status = Native.weft_agent_learner(handle, out learner);
            if (status == 0) Learner = new Learner(learner);
            else if (status != Native.NotFound) Native.Check(status);
        }

        /// <summary>Waits until everything so far survives a power cut.</summary>
        public void Acknowledge() => Native.Check(Native.weft_agent_acknowledge(handle));
        public void Checkpoint() => Native.Check(Native.weft_agent_checkpoint(handle));
        public void Note(string topic, string text) =>
            Native.Check(Native.weft_agent_note(handle, Native.Utf8(topic), Native.Utf8(text)));

        public void Dispose()
        {
            Learner?.Dispose();
            Mesh.Dispose();
            handle.Dispose();
        }
    }

    /// <summary>weft_input or weft_output: names and pinned arrays, for a call.</summary>
    internal sealed class Rows : IDisposable
    {
        internal readonly Native.Values[] Entries;
        private readonly GCHandle[] pinned;

        internal Rows(IDictionary<string, float[]> arrays)
        {
            Entries = new Native.Values[arrays.Count];
            pinned = new GCHandle[2 * arrays.Count];
            var i = 0;
            foreach (var row in arrays)
            {
                pinned[2 * i] = GCHandle.Alloc(Native.Utf8(row.Key), GCHandleType.Pinned);
                pinned[2 * i + 1] = GCHandle.Alloc(row.Value, GCHandleType.Pinned);
                Entries[i].name = pinned[2 * i].AddrOfPinnedObject();
                Entries[i].values = pinned[2 * i + 1].AddrOfPinnedObject();
                Entries[i].count = (UIntPtr)row.Value.Length;
                ++i;
            }
        }
        public void Dispose()
        {
            foreach (var each in pinned) if (each.IsAllocated) each.Free();
        }
    }

    internal sealed class Targets : IDisposable
    {
        internal readonly Native.Target[] Entries;
        private readonly GCHandle[] pinned;

        internal Targets(IDictionary<string, uint[]> labels)
        {
            Entries = new Native.Target[labels.Count];
            pinned = new GCHandle[2 * labels.Count];
            var i = 0;
            foreach (var row in labels)
            {
                pinned[2 * i] = GCHandle.Alloc(Native.Utf8(row.Key), GCHandleType.Pinned);
                pinned[2 * i + 1] = GCHandle.Alloc(row.Value, GCHandleType.Pinned);
                Entries[i].size = (UIntPtr)Marshal.SizeOf(typeof(Native.Target));
                Entries[i].output = pinned[2 * i].AddrOfPinnedObject();
                Entries[i].labels = pinned[2 * i + 1].AddrOfPinnedObject();
                Entries[i].label_count = (UIntPtr)row.Value.Length;
                ++i;
            }
        }
        public void Dispose()
        {
            foreach (var each in pinned) if (each.IsAllocated) each.Free();
        }
    }

    internal static class Native
    {
        private const string Name = "weft";  // libweft.so, weft.dll
        internal const int NotFound = 11, TooSmall = 1002;

        [StructLayout(LayoutKind.Sequential)]
        internal struct Values { public IntPtr name, values; public UIntPtr count; }
        [StructLayout(LayoutKind.Sequential)]
        internal struct MeshOptions
        {
            public UIntPtr size, threads, sessions;
            public IntPtr executor;
            public ulong executor_seed;
            public IntPtr device;
            public ulong max_memory;
            public int no_pinning, no_masters;
        }
        [StructLayout(LayoutKind.Sequential)]
        internal struct Target
        {
            public UIntPtr size;
            public IntPtr output, labels;
            public UIntPtr label_count;
            public IntPtr values;
            public UIntPtr value_count;
            public IntPtr gradient;
            public UIntPtr gradient_count;
            public IntPtr weights;
            public UIntPtr weight_count;
        }
        [StructLayout(LayoutKind.Sequential)]
        internal struct Counts
        {
            public UIntPtr size;
            public ulong samples, scored, observed, taught, forgone, expired, hold, latency, ticks_per_sample;
        }
        [StructLayout(LayoutKind.Sequential)]
        private struct Error { public UIntPtr size; public int code; public IntPtr name, message; }

        internal static MeshOptions Options(int threads, int sessions) => new MeshOptions
        {
            size = (UIntPtr)Marshal.SizeOf(typeof(MeshOptions)), threads = Size(threads), sessions = Size(sessions)
        };
        internal static UIntPtr Size(int value)
        {
            if (value < 0) throw new ArgumentOutOfRangeException("value", value, "a size or number is not negative");
            return (UIntPtr)(uint)value;
        }
        internal static byte[] Utf8(string text) => Encoding.UTF8.GetBytes(text + "\0");
        internal static string Text(IntPtr at)
        {
            var size = 0;
            while (Marshal.ReadByte(at, size) != 0) ++size;
            var bytes = new byte[size];
            Marshal.Copy(at, bytes, 0, size);
            return Encoding.UTF8.GetString(bytes);
        }
        internal static void Check(int status)
        {
            if (status == 0) return;
            var error = (Error)Marshal.PtrToStructure(weft_last_error(), typeof(Error));
            throw new WeftException(status, Text(error.name), Text(error.message));
        }

        /// <summary>A call that ends with buffer, capacity and size.</summary>
        internal delegate int Ask(byte[] buffer, UIntPtr capacity, UIntPtr[] needed);
        internal static byte[] ReadBytes(Ask ask)
        {
            var needed = new UIntPtr[1];
            Check(ask(null, UIntPtr.Zero, needed));
            while (true)
            {
                var buffer = new byte[(int)needed[0]];
                var status = ask(buffer, needed[0], needed);
                if (status == TooSmall) continue;  // it has grown
                Check(status);
                if (buffer.Length != (int)needed[0]) Array.Resize(ref buffer, (int)needed[0]);
                return buffer;
            }
        }
        internal static string ReadText(Ask ask)
        {
            var bytes = ReadBytes(ask);
            return Encoding.UTF8.GetString(bytes, 0, bytes.Length - 1);
        }

        [DllImport(Name)] internal static extern IntPtr weft_last_error();
        [DllImport(Name)] internal static extern IntPtr weft_version();
        [DllImport(Name)]
        internal static extern int weft_devices(byte[] buffer, UIntPtr capacity, [Out] UIntPtr[] needed);
        [DllImport(Name)]
        internal static extern int weft_network_read(byte[] json, UIntPtr bytes, byte[] source, out IntPtr network);
        [DllImport(Name)] internal static extern int weft_network_destroy(IntPtr network);
        [DllImport(Name)]
        internal static extern int weft_mesh_build(IntPtr network, ref MeshOptions options, out MeshHandle mesh);
        [DllImport(Name)]
        internal static extern int weft_mesh_load(byte[] path, ref MeshOptions options, out MeshHandle mesh);
        [DllImport(Name)]
        internal static extern int weft_mesh_load_bytes(byte[] bytes, UIntPtr count, ref MeshOptions options,
            out MeshHandle mesh);
        [DllImport(Name)] internal static extern int weft_mesh_save(MeshHandle mesh, byte[] path, int live);
        [DllImport(Name)]
        internal static extern int weft_mesh_save_bytes(MeshHandle mesh, int live, [Out] byte[] buffer,
            UIntPtr capacity, [Out] UIntPtr[] needed);
        [DllImport(Name)] internal static extern int weft_mesh_destroy(IntPtr mesh);
        [DllImport(Name)]
        internal static extern int weft_mesh_set_input(MeshHandle mesh, byte[] port, UIntPtr session, float[] values,
            UIntPtr count);
        [DllImport(Name)]
        internal static extern int weft_mesh_output(MeshHandle mesh, byte[] name, UIntPtr session, [Out] float[] values,
            UIntPtr capacity, out UIntPtr needed);
        [DllImport(Name)] internal static extern int weft_mesh_tick(MeshHandle mesh, ulong ticks);
        [DllImport(Name)]
        internal static extern int weft_mesh_tick_for(MeshHandle mesh, ulong nanoseconds, out ulong ticks);
        [DllImport(Name)]
        internal static extern int weft_mesh_run(MeshHandle mesh, Values[] inputs, UIntPtr inputCount, ulong ticks,
            Values[] outputs, UIntPtr outputCount);
        [DllImport(Name)]
        internal static extern int weft_mesh_forward(MeshHandle mesh, Values[] inputs, UIntPtr inputCount, UIntPtr rows,
            Values[] outputs, UIntPtr outputCount);
        [DllImport(Name)] internal static extern int weft_mesh_resume(MeshHandle mesh);
        [DllImport(Name)] internal static extern int weft_mesh_ticks(MeshHandle mesh, out ulong ticks);
        [DllImport(Name)]
        internal static extern int weft_mesh_state_hash(MeshHandle mesh, UIntPtr session, [Out] byte[] buffer,
            UIntPtr capacity, [Out] UIntPtr[] needed);
        [DllImport(Name)]
        internal static extern int weft_mesh_describe(MeshHandle mesh, [Out] byte[] buffer, UIntPtr capacity,
            [Out] UIntPtr[] needed);
        [DllImport(Name)]
        internal static extern int weft_mesh_statistics(MeshHandle mesh, [Out] byte[] buffer, UIntPtr capacity,
            [Out] UIntPtr[] needed);
        [DllImport(Name)] internal static extern int weft_mesh_add_session(MeshHandle mesh, out UIntPtr session);
        [DllImport(Name)] internal static extern int weft_mesh_remove_session(MeshHandle mesh, UIntPtr session);
        [DllImport(Name)] internal static extern int weft_mesh_reset_session(MeshHandle mesh, UIntPtr session);
        [DllImport(Name)]
        internal static extern int weft_mesh_read_weights(MeshHandle mesh, Place at, UIntPtr parameter,
            [Out] float[] values, UIntPtr capacity, out UIntPtr needed);
        [DllImport(Name)]
        internal static extern int weft_mesh_write_weights(MeshHandle mesh, Place at, UIntPtr parameter, float[] values,
            UIntPtr count);
        [DllImport(Name)] internal static extern int weft_snapshot_create(out SnapshotHandle snapshot);
        [DllImport(Name)] internal static extern int weft_snapshot_destroy(IntPtr snapshot);
        [DllImport(Name)] internal static extern int weft_mesh_take_snapshot(MeshHandle mesh, SnapshotHandle to);
        [DllImport(Name)] internal static extern int weft_mesh_restore_snapshot(MeshHandle mesh, SnapshotHandle from);
        [DllImport(Name)]
        internal static extern int weft_learner_build(MeshHandle mesh, byte[] json, out LearnerHandle learner);
        [DllImport(Name)] internal static extern int weft_learner_destroy(IntPtr learner);
        [DllImport(Name)]
        internal static extern int weft_learner_learn(LearnerHandle learner, Values[] inputs, UIntPtr inputCount,
            Target[] targets, UIntPtr targetCount, ulong samples);
        [DllImport(Name)] internal static extern int weft_learner_drain(LearnerHandle learner);
        [DllImport(Name)]
        internal static extern int weft_learner_predict_one(LearnerHandle learner, float[] x, UIntPtr xCount,
            [Out] float[] y, UIntPtr yCount);
        [DllImport(Name)]
        internal static extern int weft_learner_learn_one(LearnerHandle learner, float[] x, UIntPtr xCount, uint label);
        [DllImport(Name)]
        internal static extern int weft_learner_learn_one_values(LearnerHandle learner, float[] x, UIntPtr xCount,
            float[] values, UIntPtr valueCount);
        [DllImport(Name)] internal static extern int weft_learner_clear_scores(LearnerHandle learner);
        [DllImport(Name)] internal static extern int weft_learner_count(LearnerHandle learner, ref Counts counts);
        [DllImport(Name)]
        internal static extern int weft_agent_open(byte[] directory, IntPtr network, IntPtr options,
            out AgentHandle agent);
        [DllImport(Name)] internal static extern int weft_agent_mesh(AgentHandle agent, out MeshHandle mesh);
        [DllImport(Name)] internal static extern int weft_agent_learner(AgentHandle agent, out LearnerHandle learner);
        [DllImport(Name)] internal static extern int weft_agent_acknowledge(AgentHandle agent);
        [DllImport(Name)] internal static extern int weft_agent_checkpoint(AgentHandle agent);
        [DllImport(Name)] internal static extern int weft_agent_note(AgentHandle agent, byte[] topic, byte[] text);
        [DllImport(Name)] internal static extern int weft_agent_close(IntPtr agent);
    }
}
