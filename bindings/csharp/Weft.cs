// SPDX-License-Identifier: Apache-2.0
// Weft for C#: P/Invoke over libweft's C ABI (capi/weft.h), one file, so that it is copied into a project as it is: C# 7,
// .NET Standard 2.0, .NET Framework 4.6 and later, Mono, Unity. Failures are WeftException. Objects are disposed, or
// finalized by the runtime; arrays are pinned for a call, not copied. Nothing makes code at run time, and what native
// code calls is static and marked, as IL2CPP needs it.

using System;
using System.Collections.Generic;
using System.Runtime.ExceptionServices;
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

        /// <summary>True where results since the last call of this may differ from x86-64's: never there, on ARM where some
        /// were flushed to zero (docs/numerics.md).</summary>
        public static bool TakeFlushedResults()
        {
            int flushed;
            Native.Check(Native.weft_take_flushed_results(out flushed));
            return flushed != 0;
        }

        private static readonly Native.LogFunction toLog = LogLine;  // kept from the collector
        private static volatile Action<int, string> log;
        [MonoPInvokeCallback(typeof(Native.LogFunction))]
        private static void LogLine(IntPtr user, int level, IntPtr text)
        {
            try
            {
                log?.Invoke(level, Native.Text(text));
            }
            catch (Exception)
            {
                // It must not cross the library, and a line that cannot be told stops nothing.
            }
        }
        /// <summary>Log lines of `level` (0 trace to 4 error, 5 none) and above go to the function, from any thread;
        /// null: to stderr.</summary>
        public static void SetLog(Action<int, string> function, int level = 3)
        {
            if (level < 0 || level > 5) throw new ArgumentOutOfRangeException(nameof(level), level, "it is from 0 to 5");
            if (function != null) log = function;
            Native.Check(Native.weft_set_log(function == null ? null : toLog, IntPtr.Zero, level));
            log = function;
        }
    }

    /// <summary>Tells IL2CPP, which knows it by its name, that native code calls a function.</summary>
    [AttributeUsage(AttributeTargets.Method)]
    internal sealed class MonoPInvokeCallbackAttribute : Attribute
    {
        public MonoPInvokeCallbackAttribute(Type type) { Type = type; }
        public Type Type { get; }
    }

    internal sealed class AnswerHandle : SafeHandle
    {
        public AnswerHandle() : base(IntPtr.Zero, true) { }
        public override bool IsInvalid => handle == IntPtr.Zero;
        protected override bool ReleaseHandle() => Native.weft_answer_destroy(handle) == 0;
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

    internal sealed class NetworkHandle : SafeHandle
    {
        public NetworkHandle() : base(IntPtr.Zero, true) { }
        public override bool IsInvalid => handle == IntPtr.Zero;
        protected override bool ReleaseHandle() => Native.weft_network_destroy(handle) == 0;
    }

    internal sealed class EnvironmentHandle : SafeHandle
    {
        public EnvironmentHandle() : base(IntPtr.Zero, true) { }
        public override bool IsInvalid => handle == IntPtr.Zero;
        protected override bool ReleaseHandle() => Native.weft_environment_destroy(handle) == 0;
    }

    internal sealed class ModelHandle : SafeHandle
    {
        public ModelHandle() : base(IntPtr.Zero, true) { }
        public override bool IsInvalid => handle == IntPtr.Zero;
        protected override bool ReleaseHandle() => Native.weft_model_destroy(handle) == 0;
    }

    /// <summary>A description, built layer by layer in a grid of z * y * x cells with `layers` levels, or read from a file;
    /// meshes are built of it, and `Text` is its network file. Calls that fail change nothing.</summary>
    public sealed class Network : IDisposable
    {
        internal readonly NetworkHandle Handle;

        public Network(string name, uint z = 1, uint y = 1, uint x = 1, uint layers = 1)
        {
            Native.Check(Native.weft_network_create(Native.Utf8(name, nameof(name)), z, y, x, layers, out Handle));
        }
        private Network(NetworkHandle handle, Type _) { Handle = handle; }  // not chosen for a null
        public void Dispose() => Handle.Dispose();

        /// <summary>From a network file's text.</summary>
        public static Network Read(string json)
        {
            var text = Native.Json(json, nameof(json));
            NetworkHandle handle;
            Native.Check(Native.weft_network_read(text, (UIntPtr)text.Length, null, out handle));
            return new Network(handle, null);
        }
        /// <summary>From a network file, or that of an .entity file.</summary>
        public static Network Load(string path)
        {
            NetworkHandle handle;
            Native.Check(Native.weft_network_load(Native.Utf8(path, nameof(path)), out handle));
            return new Network(handle, null);
        }

        /// <summary>An input port of a shape, outermost axis first.</summary>
        public Network Input(string name, params int[] shape)
        {
            var sizes = new UIntPtr[Native.Given(shape, nameof(shape)).Length];
            for (var i = 0; i < sizes.Length; ++i) sizes[i] = Native.Size(shape[i], nameof(shape));
            Native.Check(Native.weft_network_add_input(Handle, Native.Utf8(name, nameof(name)), sizes,
                (UIntPtr)sizes.Length));
            return this;
        }
        /// <summary>A layer, as an object of a network file's "layers": {"type": "dense", "at": [0,0,0,0], "out": 16,
        /// "from": ["bits"]}. Places and links are checked when a mesh is built.</summary>
        public Network Layer(string json)
        {
            Native.Check(Native.weft_network_add_layer(Handle, Native.Utf8(json, nameof(json))));
            return this;
        }
        public Network Output(string name, Place at)
        {
            Native.Check(Native.weft_network_add_output(Handle, Native.Utf8(name, nameof(name)), at));
            return this;
        }
        /// <summary>Another key of a network file (seed, device, supervision, learning, stream, reinforcement), and its
        /// value as JSON.</summary>
        public Network Set(string key, string json)
        {
            Native.Check(Native.weft_network_set(Handle, Native.Utf8(key, nameof(key)), Native.Utf8(json, nameof(json))));
            return this;
        }
        /// <summary>Its network file, for `Agent` too.</summary>
        public string Text =>
            Native.ReadText((buffer, capacity, needed) => Native.weft_network_text(Handle, buffer, capacity, needed));

        public Mesh Build(MeshOptions options = null)
        {
            MeshHandle mesh;
            using (var given = new Options(options))
                Native.Check(Native.weft_mesh_build(Handle, ref given.Fields, out mesh));
            return Mesh.Of(mesh);
        }
    }

    /// <summary>A network that runs. One thread at a time; another one gets "busy".</summary>
    public sealed class Mesh : IDisposable
    {
        internal readonly MeshHandle Handle;

        /// <param name="network">a network file's text (docs/formats/network.md)</param>
        /// <param name="threads">0: all cores; 1: the caller's alone</param>
        public Mesh(string network, int threads = 0, int sessions = 1)
            : this(network, new MeshOptions { Threads = threads, Sessions = sessions }) { }

        public Mesh(string network, MeshOptions options)
        {
            using (var description = Network.Read(Native.Given(network, nameof(network))))
            using (var given = new Options(options))
                Native.Check(Native.weft_mesh_build(description.Handle, ref given.Fields, out Handle));
        }

        private Mesh(MeshHandle handle, Type _) { Handle = handle; }  // not chosen for a null
        internal static Mesh Of(MeshHandle handle) => new Mesh(handle, null);

        /// <summary>From a network file or an .entity file.</summary>
        public static Mesh Load(string path, int threads = 0) => Load(path, new MeshOptions { Threads = threads });
        public static Mesh Load(string path, MeshOptions options)
        {
            var place = Native.Utf8(path, nameof(path));
            MeshHandle handle;
            using (var given = new Options(options))
                Native.Check(Native.weft_mesh_load(place, ref given.Fields, out handle));
            return Mesh.Of(handle);
        }

        /// <summary>The same of a file's bytes.</summary>
        public static Mesh FromBytes(byte[] bytes, int threads = 0)
        {
            Native.Given(bytes, nameof(bytes));
            MeshHandle handle;
            using (var given = new Options(new MeshOptions { Threads = threads }))
                Native.Check(Native.weft_mesh_load_bytes(bytes, (UIntPtr)bytes.Length, ref given.Fields, out handle));
            return Mesh.Of(handle);
        }

        public void Dispose() => Handle.Dispose();

        /// <summary>Puts values [width] into a port; they stay until replaced.</summary>
        public void SetInput(string port, float[] values, int session = 0) =>
            Native.Check(Native.weft_mesh_set_input(Handle, Native.Utf8(port, nameof(port)),
                Native.Size(session, nameof(session)), Native.Given(values, nameof(values)), (UIntPtr)values.Length));

        /// <summary>Values that an output committed last: [width].</summary>
        public float[] Output(string name, int session = 0)
        {
            var text = Native.Utf8(name, nameof(name));
            UIntPtr needed;
            Native.Check(Native.weft_mesh_output(Handle, text, Native.Size(session, nameof(session)), null, UIntPtr.Zero, out needed));
            var values = new float[(int)needed];
            Output(text, values, session);
            return values;
        }

        /// <summary>The same into an array of the caller's, which is not allocated anew: for each frame.</summary>
        public void Output(string name, float[] values, int session = 0) => Output(Native.Utf8(name, nameof(name)), values, session);

        private void Output(byte[] name, float[] values, int session)
        {
            UIntPtr needed;
            Native.Check(Native.weft_mesh_output(Handle, name, Native.Size(session, nameof(session)),
                Native.Given(values, nameof(values)), (UIntPtr)values.Length, out needed));
        }

        /// <summary>The same of the layer at a place.</summary>
        public float[] OutputAt(Place at, int session = 0)
        {
            UIntPtr needed;
            var of = Native.Size(session, nameof(session));
            Native.Check(Native.weft_mesh_output_at(Handle, at, of, null, UIntPtr.Zero, out needed));
            var values = new float[(int)needed];
            Native.Check(Native.weft_mesh_output_at(Handle, at, of, values, needed, out needed));
            return values;
        }

        public void Tick(ulong ticks = 1) => Native.Check(Native.weft_mesh_tick(Handle, ticks));

        /// <summary>Ticks until the time is up, at least one; returns how many.</summary>
        public ulong TickFor(TimeSpan time)
        {
            ulong ticks;
            if (time.Ticks < 0) throw new ArgumentOutOfRangeException(nameof(time), time, "it is not negative");
            Native.Check(Native.weft_mesh_tick_for(Handle, (ulong)time.Ticks * 100, out ticks));
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
                    Native.Size(rows, nameof(rows)), to.Entries, (UIntPtr)to.Entries.Length));
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
            Native.ReadText((buffer, capacity, needed) => Native.weft_mesh_state_hash(Handle, Native.Size(session, nameof(session)),
                buffer, capacity, needed));

        /// <summary>JSON of the network as it was built.</summary>
        public string Description =>
            Native.ReadText((buffer, capacity, needed) => Native.weft_mesh_describe(Handle, buffer, capacity, needed));
        /// <summary>JSON of ticks, cells, faults, memory.</summary>
        public string Statistics => Native.ReadText((buffer, capacity, needed) => Native.weft_mesh_statistics(Handle,
            buffer, capacity, needed));

        /// <summary>An .entity file; live: with sessions and all that ticks change.</summary>
        public void Save(string path, bool live = true) =>
            Native.Check(Native.weft_mesh_save(Handle, Native.Utf8(path, nameof(path)), live ? 1 : 0));
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
            Native.Check(Native.weft_mesh_remove_session(Handle, Native.Size(session, nameof(session))));
        public void ResetSession(int session = 0) =>
            Native.Check(Native.weft_mesh_reset_session(Handle, Native.Size(session, nameof(session))));

        /// <summary>A layer's parameter, row-major [out][in].</summary>
        public float[] Weights(Place at, int parameter = 0)
        {
            UIntPtr needed;
            Native.Check(Native.weft_mesh_read_weights(Handle, at, Native.Size(parameter, nameof(parameter)), null, UIntPtr.Zero,
                out needed));
            var values = new float[(int)needed];
            Native.Check(Native.weft_mesh_read_weights(Handle, at, Native.Size(parameter, nameof(parameter)), values, needed, out needed));
            return values;
        }
        public void SetWeights(Place at, float[] values, int parameter = 0) =>
            Native.Check(Native.weft_mesh_write_weights(Handle, at, Native.Size(parameter, nameof(parameter)),
                Native.Given(values, nameof(values)), (UIntPtr)values.Length));
        /// <summary>Stores a layer's matrices in another numeric type.</summary>
        public void Morph(Place at, string dtype, string granularity = null) =>
            Native.Check(Native.weft_mesh_morph(Handle, at, Native.Utf8(dtype, nameof(dtype)),
                granularity == null ? null : Native.Utf8(granularity, nameof(granularity))));

        /// <summary>Sends a command to a cell, to be executed at its next tick, or at `notBefore`.</summary>
        public Answer Send(Command kind, Place at, ulong number = 0, int parameter = 0, ulong notBefore = 0,
            string dtype = null, string granularity = null, float[] values = null)
        {
            var pinned = new GCHandle[3];
            try
            {
                var made = new Native.CommandFields
                {
                    size = (UIntPtr)Marshal.SizeOf(typeof(Native.CommandFields)), kind = (int)kind, at = at,
                    parameter = Native.Size(parameter, nameof(parameter)), number = number, not_before = notBefore,
                    dtype = Native.Pin(ref pinned[0], dtype, nameof(dtype)),
                    granularity = Native.Pin(ref pinned[1], granularity, nameof(granularity))
                };
                if (values != null)
                {
                    pinned[2] = GCHandle.Alloc(values, GCHandleType.Pinned);
                    made.values = pinned[2].AddrOfPinnedObject();
                    made.count = (UIntPtr)values.Length;
                }
                AnswerHandle answer;
                Native.Check(Native.weft_mesh_command(Handle, ref made, out answer));
                return new Answer(answer);
            }
            finally
            {
                foreach (var each in pinned) if (each.IsAllocated) each.Free();
            }
        }

        /// <summary>One session as a file's bytes; the mesh keeps it.</summary>
        public byte[] DetachSession(int session = 0)
        {
            var of = Native.Size(session, nameof(session));
            return Native.ReadBytes((buffer, capacity, needed) => Native.weft_mesh_detach_session(Handle, of, buffer,
                capacity, needed));
        }
        /// <summary>Adds a session that goes on where the detached one stood; its number.</summary>
        public int AttachSession(byte[] file, bool otherWeights = false)
        {
            UIntPtr session;
            Native.Check(Native.weft_mesh_attach_session(Handle, Native.Given(file, nameof(file)),
                (UIntPtr)file.Length, otherWeights ? 1 : 0, out session));
            return (int)session;
        }

        /// <summary>Takes all that ticks change into a snapshot, whose memory is used again.</summary>
        public void Take(Snapshot to) => Native.Check(Native.weft_mesh_take_snapshot(Handle, Native.Given(to, nameof(to)).Handle));
        /// <summary>Ticks after it are those after it was taken, to the bit: rollback.</summary>
        public void Restore(Snapshot from) => Native.Check(Native.weft_mesh_restore_snapshot(Handle, Native.Given(from, nameof(from)).Handle));
    }

    public enum Command { Enable, Disable, SetPeriod, SetWeights, Reset, Probe, Snapshot, Morph, SetRate }

    /// <summary>The fate of a command.</summary>
    public sealed class Answer : IDisposable
    {
        private readonly AnswerHandle handle;
        internal Answer(AnswerHandle handle) { this.handle = handle; }
        public void Dispose() => handle.Dispose();

        /// <summary>The tick before which it was executed; null: not yet. Throws what went wrong.</summary>
        public ulong? DoneAt
        {
            get
            {
                int isDone;
                ulong tick;
                Native.Check(Native.weft_answer_status(handle, out isDone, out tick));
                return isDone != 0 ? tick : (ulong?)null;
            }
        }
        /// <summary>Of Probe and Snapshot.</summary>
        public float[] Values
        {
            get
            {
                UIntPtr needed;
                Native.Check(Native.weft_answer_values(handle, null, UIntPtr.Zero, out needed));
                var values = new float[(int)needed];
                Native.Check(Native.weft_answer_values(handle, values, needed, out needed));
                return values;
            }
        }
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
            Native.Check(Native.weft_learner_build(Native.Given(mesh, nameof(mesh)).Handle, options == null ? null : Native.Utf8(options, nameof(options)),
                out Handle));
        }
        private Learner(LearnerHandle handle, Type _) { Handle = handle; }
        internal static Learner Of(LearnerHandle handle) => new Learner(handle, null);
        public void Dispose() => Handle.Dispose();

        /// <summary>A learner and its mesh from a file that was saved live while it learned: they go on to the bit.
        /// </summary>
        public static Learner Load(string path, out Mesh mesh, MeshOptions options = null)
        {
            var place = Native.Utf8(path, nameof(path));
            MeshHandle meshHandle;
            LearnerHandle learner;
            using (var given = new Options(options))
                Native.Check(Native.weft_learner_load(place, ref given.Fields, out meshHandle, out learner));
            mesh = Mesh.Of(meshHandle);
            return Learner.Of(learner);
        }
        /// <summary>The same of a file's bytes.</summary>
        public static Learner FromBytes(byte[] bytes, out Mesh mesh, MeshOptions options = null)
        {
            Native.Given(bytes, nameof(bytes));
            MeshHandle meshHandle;
            LearnerHandle learner;
            using (var given = new Options(options))
                Native.Check(Native.weft_learner_load_bytes(bytes, (UIntPtr)bytes.Length, ref given.Fields,
                    out meshHandle, out learner));
            mesh = Mesh.Of(meshHandle);
            return Learner.Of(learner);
        }

        /// <summary>Runs samples and learns: inputs [samples][sessions][width], labels [samples][sessions].</summary>
        public void Learn(IDictionary<string, float[]> inputs, IDictionary<string, uint[]> labels, ulong samples)
        {
            using (var from = new Rows(inputs))
            using (var to = new Targets(labels, null, null, null))
                Native.Check(Native.weft_learner_learn(Handle, from.Entries, (UIntPtr)from.Entries.Length, to.Entries,
                    (UIntPtr)to.Entries.Length, samples));
        }
        /// <summary>The same by values [samples][sessions][width].</summary>
        public void Learn(IDictionary<string, float[]> inputs, IDictionary<string, float[]> values, ulong samples)
        {
            using (var from = new Rows(inputs))
            using (var to = new Targets(null, values, null, null))
                Native.Check(Native.weft_learner_learn(Handle, from.Entries, (UIntPtr)from.Entries.Length, to.Entries,
                    (UIntPtr)to.Entries.Length, samples));
        }

        /// <summary>One sample of which the target comes later, or never: its ticket ("late" of the options).</summary>
        public ulong Observe(IDictionary<string, float[]> inputs)
        {
            ulong ticket;
            using (var from = new Rows(inputs))
                Native.Check(Native.weft_learner_observe(Handle, from.Entries, (UIntPtr)from.Entries.Length,
                    out ticket));
            return ticket;
        }
        /// <summary>The answer to it: [sessions][width].</summary>
        public float[] Answer(ulong ticket, string output)
        {
            var name = Native.Utf8(output, nameof(output));
            UIntPtr needed;
            Native.Check(Native.weft_learner_answer(Handle, ticket, name, null, UIntPtr.Zero, out needed));
            var values = new float[(int)needed];
            Native.Check(Native.weft_learner_answer(Handle, ticket, name, values, needed, out needed));
            return values;
        }
        /// <summary>Its target, at last. `weights`: factors of the gradients, one a session that learns; null: 1.</summary>
        public void Teach(ulong ticket, IDictionary<string, uint[]> labels, float[] weights = null)
        {
            using (var to = new Targets(labels, null, null, weights))
                Native.Check(Native.weft_learner_teach(Handle, ticket, to.Entries, (UIntPtr)to.Entries.Length));
        }
        public void Teach(ulong ticket, IDictionary<string, float[]> values, float[] weights = null)
        {
            using (var to = new Targets(null, values, null, weights))
                Native.Check(Native.weft_learner_teach(Handle, ticket, to.Entries, (UIntPtr)to.Entries.Length));
        }
        /// <summary>In place of a target dLoss/d output, of a loss of your own.</summary>
        public void TeachGradients(ulong ticket, IDictionary<string, float[]> gradients, float[] weights = null)
        {
            using (var to = new Targets(null, null, gradients, weights))
                Native.Check(Native.weft_learner_teach(Handle, ticket, to.Entries, (UIntPtr)to.Entries.Length));
        }
        /// <summary>None will come.</summary>
        public void Forgo(ulong ticket) => Native.Check(Native.weft_learner_forgo(Handle, ticket));
        /// <summary>Tickets that expired since scores were last cleared.</summary>
        public ulong[] Expired
        {
            get
            {
                UIntPtr needed;
                Native.Check(Native.weft_learner_expired(Handle, null, UIntPtr.Zero, out needed));
                var tickets = new ulong[(int)needed];
                Native.Check(Native.weft_learner_expired(Handle, tickets, needed, out needed));
                return tickets;
            }
        }
        /// <summary>Predictions before they were learned from, since they were last cleared.</summary>
        public Score[] Scores
        {
            get
            {
                UIntPtr needed;
                Native.Check(Native.weft_learner_scores(Handle, null, UIntPtr.Zero, out needed));
                var scores = new Score[(int)needed];
                Native.Check(Native.weft_learner_scores(Handle, scores, needed, out needed));
                return scores;
            }
        }
        /// <summary>Runs on until every sample is learned from (schedule pipelined).</summary>
        public void Drain() => Native.Check(Native.weft_learner_drain(Handle));

        /// <summary>Answers to rows of inputs [rows][width]: nothing is learned, nothing changes. Copies begin as `session`
        /// stands; -1: at zero.</summary>
        public void Predict(IDictionary<string, float[]> inputs, int rows, IDictionary<string, float[]> outputs,
            int session = -1)
        {
            var of = session == -1 ? Native.NoSession : Native.Size(session, nameof(session));
            using (var from = new Rows(inputs))
            using (var to = new Rows(outputs))
                Native.Check(Native.weft_learner_predict(Handle, from.Entries, (UIntPtr)from.Entries.Length,
                    Native.Size(rows, nameof(rows)), to.Entries, (UIntPtr)to.Entries.Length, of));
        }
        /// <summary>For networks of one input, one output and one session.</summary>
        public void PredictOne(float[] x, float[] y) =>
            Native.Check(Native.weft_learner_predict_one(Handle, Native.Given(x, nameof(x)), (UIntPtr)x.Length,
                Native.Given(y, nameof(y)), (UIntPtr)y.Length));
        public void LearnOne(float[] x, uint label) =>
            Native.Check(Native.weft_learner_learn_one(Handle, Native.Given(x, nameof(x)), (UIntPtr)x.Length, label));
        public void LearnOne(float[] x, float[] values) =>
            Native.Check(Native.weft_learner_learn_one_values(Handle, Native.Given(x, nameof(x)), (UIntPtr)x.Length,
                Native.Given(values, nameof(values)), (UIntPtr)values.Length));
        /// <summary>Anomaly score (option "anomaly") of a sample as LearnOne would take it; nothing is learned.</summary>
        public float ScoreOne(float[] x, uint label)
        {
            float score;
            Native.Check(Native.weft_learner_score_one(Handle, Native.Given(x, nameof(x)), (UIntPtr)x.Length, label,
                out score));
            return score;
        }
        public float ScoreOne(float[] x, float[] values)
        {
            float score;
            Native.Check(Native.weft_learner_score_one_values(Handle, Native.Given(x, nameof(x)), (UIntPtr)x.Length,
                Native.Given(values, nameof(values)), (UIntPtr)values.Length, out score));
            return score;
        }
        public void ClearScores() => Native.Check(Native.weft_learner_clear_scores(Handle));

        /// <summary>Layers are measured as they learn, from now on, or no more: it takes time and a copy of all
        /// weights.</summary>
        public void Measure(bool isOn = true) => Native.Check(Native.weft_learner_measure(Handle, isOn ? 1 : 0));
        /// <summary>Of each layer that an error has reached since.</summary>
        public LayerDiagnostics[] Diagnostics
        {
            get
            {
                UIntPtr needed;
                Native.Check(Native.weft_learner_diagnostics(Handle, null, UIntPtr.Zero, out needed));
                var layers = new Native.LayerDiagnostics[(int)needed];
                for (var i = 0; i < layers.Length; ++i)
                    layers[i].size = (UIntPtr)Marshal.SizeOf(typeof(Native.LayerDiagnostics));
                Native.Check(Native.weft_learner_diagnostics(Handle, layers, needed, out needed));
                return Array.ConvertAll(layers, layer => layer.layer);
            }
        }

        /// <summary>Samples given by Learn and LearnOne.</summary>
        public ulong Samples => Counts.Samples;
        public Counts Counts
        {
            get
            {
                var counts = new Native.Counts { size = (UIntPtr)Marshal.SizeOf(typeof(Native.Counts)) };
                Native.Check(Native.weft_learner_count(Handle, ref counts));
                return counts.counts;
            }
        }
    }

    /// <summary>Numbers of what a learner has done.</summary>
    [StructLayout(LayoutKind.Sequential)]
    public struct Counts
    {
        /// <summary>Given by Learn, and finished.</summary>
        public ulong Samples, Scored;
        /// <summary>Of Observe; the others are open.</summary>
        public ulong Observed, Taught, Forgone, Expired;
        /// <summary>Ticks.</summary>
        public ulong Hold, Latency, TicksPerSample;
    }

    /// <summary>Measurements of a layer's last update.</summary>
    [StructLayout(LayoutKind.Sequential)]
    public struct LayerDiagnostics
    {
        public Place At;
        /// <summary>Root mean square of what reached it.</summary>
        public float Error;
        /// <summary>Link budget, 0 to 1; -1: the rule has no targets.</summary>
        public float Budget;
        /// <summary>Root mean square of the change of its weights, that over the weights', and of the weights.</summary>
        public float Update, RelativeUpdate, Weight;
        private float reserved;
        /// <summary>Ticks since the layer published what the error speaks of.</summary>
        public ulong ErrorAge;
    }

    /// <summary>A prediction before it was learned from.</summary>
    [StructLayout(LayoutKind.Sequential)]
    public struct Score
    {
        public ulong Sample;
        public uint Session, Prediction, Label;
        public float Loss;
        /// <summary>Or head.</summary>
        public uint Token;
        /// <summary>Of the option "anomaly"; 0 where that is off.</summary>
        public float Anomaly;
    }

    /// <summary>Of an agent; what is not set takes its default.</summary>
    public sealed class AgentOptions
    {
        public MeshOptions Mesh { get; set; }
        /// <summary>tick, interval, interval=2s, checkpoint; null: interval</summary>
        public string Durability { get; set; }
        /// <summary>Must be the same whenever the directory is opened.</summary>
        public string Identity { get; set; }
        /// <summary>Checkpoints; 0: 3.</summary>
        public int Keep { get; set; }
        public ulong CheckpointEvery { get; set; }
        public ulong CheckpointBytes { get; set; }
        public bool Learns { get; set; } = true;
        /// <summary>Goes on where a damaged journal ends.</summary>
        public bool Salvage { get; set; }
    }

    /// <summary>A mesh and its learner kept in a directory: opened again it is where it was, crash or not.</summary>
    public sealed class Agent : IDisposable
    {
        private readonly AgentHandle handle;
        public Mesh Mesh { get; }
        /// <summary>Null where it does not learn.</summary>
        public Learner Learner { get; }

        /// <param name="network">a network file's text; null: the one that the directory has</param>
        public Agent(string directory, string network = null, AgentOptions options = null)
        {
            var place = Native.Utf8(directory, nameof(directory));
            options = options ?? new AgentOptions();
            var description = network == null ? null : Network.Read(network);
            try
            {
                var pinned = new GCHandle[3];
                using (var mesh_ = new Options(options.Mesh))
                    try
                    {
                        pinned[2] = GCHandle.Alloc(mesh_.Fields, GCHandleType.Pinned);
                        var fields = new Native.AgentFields
                        {
                            size = (UIntPtr)Marshal.SizeOf(typeof(Native.AgentFields)),
                            mesh = pinned[2].AddrOfPinnedObject(),
                            durability = Native.Pin(ref pinned[0], options.Durability, nameof(options.Durability)),
                            identity = Native.Pin(ref pinned[1], options.Identity, nameof(options.Identity)),
                            keep = Native.Size(options.Keep, nameof(options.Keep)),
                            checkpoint_every = options.CheckpointEvery, checkpoint_bytes = options.CheckpointBytes,
                            no_learning = options.Learns ? 0 : 1, salvage = options.Salvage ? 1 : 0
                        };
                        Native.Check(description == null
                            ? Native.weft_agent_open(place, IntPtr.Zero, ref fields, out handle)
                            : Native.weft_agent_open(place, description.Handle, ref fields, out handle));
                    }
                    finally
                    {
                        foreach (var each in pinned) if (each.IsAllocated) each.Free();
                    }
            }
            finally
            {
                description?.Dispose();
            }
            MeshHandle mesh;
            Native.Check(Native.weft_agent_mesh(handle, out mesh));
            Mesh = Weft.Mesh.Of(mesh);
            LearnerHandle learner;
            var status = Native.weft_agent_learner(handle, out learner);
            if (status == 0) Learner = Weft.Learner.Of(learner);
            else if (status != Native.NotFound) Native.Check(status);
        }

        /// <summary>Waits until everything so far survives a power cut.</summary>
        public void Acknowledge() => Native.Check(Native.weft_agent_acknowledge(handle));
        public void Checkpoint() => Native.Check(Native.weft_agent_checkpoint(handle));
        /// <summary>Appends tick and state hash, for `weft replay --verify`.</summary>
        public void Mark() => Native.Check(Native.weft_agent_mark(handle));
        /// <summary>Acts in the environment of the section "reinforcement", and learns from it.</summary>
        public void Act(ulong steps) => Native.Check(Native.weft_agent_act(handle, steps));
        /// <summary>JSON of positions, bytes of the journal, failures.</summary>
        public string Statistics =>
            Native.ReadText((buffer, capacity, needed) => Native.weft_agent_statistics(handle, buffer, capacity, needed));
        public void Note(string topic, string text) =>
            Native.Check(Native.weft_agent_note(handle, Native.Utf8(topic, nameof(topic)), Native.Utf8(text, nameof(text))));

        public void Dispose()
        {
            Learner?.Dispose();
            Mesh.Dispose();
            handle.Dispose();
        }
    }

    /// <summary>A world to act in: an environment of weft.h; System has an Environment of its own. Episodes are functions
    /// of seed and number, the same bits on every machine.</summary>
    public sealed class LearningEnvironment : IDisposable
    {
        private readonly EnvironmentHandle handle;
        /// <summary>Numbers of an observation.</summary>
        public int Observations { get; }
        /// <summary>Of an action that is one of several; 0: it is values.</summary>
        public int Choices { get; }
        /// <summary>Of such an action.</summary>
        public int Values { get; }
        /// <summary>Steps after which an episode is truncated; 0: none.</summary>
        public ulong Limit { get; }

        /// <summary>JSON of the worlds that there are, with their shapes.</summary>
        public static string All =>
            Native.ReadText((buffer, capacity, needed) => Native.weft_environments(buffer, capacity, needed));

        /// <param name="length">steps between bit and question of memory_chain (0: 16), of a turn of turns and
        /// chase (0: 20000)</param>
        public LearningEnvironment(string name, uint length = 0)
        {
            var options = new Native.EnvironmentFields
            {
                size = (UIntPtr)Marshal.SizeOf(typeof(Native.EnvironmentFields)), length = length
            };
            Native.Check(Native.weft_environment_create(Native.Utf8(name, nameof(name)), ref options, out handle));
            var shape = new Native.EnvironmentShape { size = (UIntPtr)Marshal.SizeOf(typeof(Native.EnvironmentShape)) };
            Native.Check(Native.weft_environment_describe(handle, ref shape));
            Observations = (int)shape.observations;
            Choices = (int)shape.choices;
            Values = (int)shape.values;
            Limit = shape.limit;
        }
        public void Dispose() => handle.Dispose();

        /// <summary>Begins an episode; `Observation` is its first one.</summary>
        public void Reset(ulong seed, ulong episode = 0) =>
            Native.Check(Native.weft_environment_reset(handle, seed, episode));
        /// <summary>Acts by a choice.</summary>
        public Outcome Step(uint choice) => Step(choice, new float[0]);
        /// <summary>Acts by values, where Choices is 0.</summary>
        public Outcome Step(float[] values) => Step(0, Native.Given(values, nameof(values)));
        private Outcome Step(uint choice, float[] values)
        {
            var result = new Native.EnvironmentResult { size = (UIntPtr)Marshal.SizeOf(typeof(Native.EnvironmentResult)) };
            Native.Check(Native.weft_environment_step(handle, choice, values, (UIntPtr)values.Length, ref result));
            return new Outcome(result.reward, result.terminated != 0, result.truncated != 0, result.steps);
        }
        public float[] Observation
        {
            get
            {
                var values = new float[Observations];
                UIntPtr needed;
                Native.Check(Native.weft_environment_observation(handle, values, (UIntPtr)values.Length, out needed));
                return values;
            }
        }
        /// <summary>The numbers that the world consists of, for a picture of it.</summary>
        public double[] State
        {
            get
            {
                UIntPtr needed;
                Native.Check(Native.weft_environment_state(handle, null, UIntPtr.Zero, out needed));
                var values = new double[(int)needed];
                Native.Check(Native.weft_environment_state(handle, values, needed, out needed));
                return values;
            }
        }
        /// <summary>32 hex digits: equal worlds, equal text.</summary>
        public string StateHash =>
            Native.ReadText((buffer, capacity, needed) => Native.weft_environment_hash(handle, buffer, capacity, needed));
        /// <summary>The world as bytes; `Restore` goes on with it.</summary>
        public byte[] ToBytes() =>
            Native.ReadBytes((buffer, capacity, needed) => Native.weft_environment_save(handle, buffer, capacity, needed));
        public void Restore(byte[] bytes) => Native.Check(Native.weft_environment_restore(handle,
            Native.Given(bytes, nameof(bytes)), (UIntPtr)bytes.Length));
    }

    /// <summary>Reward and end of an action.</summary>
    public struct Outcome
    {
        public double Reward { get; }
        /// <summary>The episode has come to its end, nothing follows.</summary>
        public bool Terminated { get; }
        /// <summary>It is left at its limit.</summary>
        public bool Truncated { get; }
        /// <summary>Of this episode.</summary>
        public ulong Steps { get; }
        internal Outcome(double reward, bool terminated, bool truncated, ulong steps)
        {
            Reward = reward;
            Terminated = terminated;
            Truncated = truncated;
            Steps = steps;
        }
    }

    /// <summary>Ways of a model to write; null is the default of `weft generate` (docs/cli.md).</summary>
    public sealed class GenerateOptions
    {
        /// <summary>To write, at most.</summary>
        public ulong? Tokens { get; set; }
        /// <summary>0: always the likeliest token.</summary>
        public double? Temperature { get; set; }
        /// <summary>0: all.</summary>
        public ulong? TopK { get; set; }
        /// <summary>0: the likeliest alone.</summary>
        public double? TopP { get; set; }
        /// <summary>0: all.</summary>
        public double? MinP { get; set; }
        public ulong Seed { get; set; }
        /// <summary>Tokens that are remembered; 0: as many as are wanted.</summary>
        public ulong Context { get; set; }
        public string[] Stops { get; set; }
        /// <summary>Goes on after a token that ends a text.</summary>
        public bool IgnoresEnds { get; set; }
        public long MaxMemory { get; set; }
        public double TypicalP { get; set; }
        public double RepetitionPenalty { get; set; }
        public double PresencePenalty { get; set; }
        public double FrequencyPenalty { get; set; }
        /// <summary>0: all.</summary>
        public ulong? PenaltyWindow { get; set; }
        public ulong NoRepeatNgram { get; set; }
        /// <summary>Added to tokens' logits; negative infinity: never.</summary>
        public IDictionary<uint, float> LogitBias { get; set; }
        /// <summary>GBNF that the text follows.</summary>
        public string Grammar { get; set; }
        public string JsonSchema { get; set; }
        /// <summary>"llama.cpp", or "hf": what is not given is as generation_config.json and transformers have it.</summary>
        public string Preset { get; set; }
        /// <summary>The steps in their order, as "top_k;temperature".</summary>
        public string Samplers { get; set; }
        public double? DynatempRange { get; set; }
        public double? DynatempExponent { get; set; }
        public double? TopNSigma { get; set; }
        public double? XtcProbability { get; set; }
        public double? XtcThreshold { get; set; }
        public uint? Mirostat { get; set; }
        public double? MirostatTau { get; set; }
        public double? MirostatEta { get; set; }
        public double? DryMultiplier { get; set; }
        public double? DryBase { get; set; }
        public uint? DryAllowedLength { get; set; }
        /// <summary>-1: all, 0: none.</summary>
        public int? DryPenaltyLastN { get; set; }
        public string[] DrySequenceBreakers { get; set; }
    }

    /// <summary>A language model with its tokenizer: what `weft import` made, or a Hugging Face folder or GGUF file that it
    /// takes.</summary>
    public sealed class LanguageModel : IDisposable
    {
        private readonly ModelHandle handle;

        /// <param name="tokenizer">a file or folder that has it; null: the model's own</param>
        public LanguageModel(string path, string tokenizer = null, MeshOptions mesh = null)
        {
            var place = Native.Utf8(path, nameof(path));
            handle = Load((ref Native.ModelFields options, out ModelHandle made) =>
                Native.weft_model_load(place, ref options, out made), tokenizer, mesh);
        }
        /// <summary>Of files in memory (Linux): one, or those of a folder by their names, as "config.json".</summary>
        public static LanguageModel FromBytes(IDictionary<string, byte[]> files, string tokenizer = null,
            MeshOptions mesh = null)
        {
            Native.Given(files, nameof(files));
            var pinned = new List<GCHandle>();
            Func<byte[], IntPtr> pin = bytes =>
            {
                if (bytes.Length == 0) return IntPtr.Zero;
                pinned.Add(GCHandle.Alloc(bytes, GCHandleType.Pinned));
                return pinned[pinned.Count - 1].AddrOfPinnedObject();
            };
            try
            {
                var fields = new List<Native.FileFields>();
                foreach (var each in files)
                    fields.Add(new Native.FileFields
                    {
                        name = pin(Native.Utf8(each.Key, nameof(files))), bytes = pin(Native.Given(each.Value, nameof(files))),
                        count = (UIntPtr)each.Value.Length
                    });
                return new LanguageModel(Load((ref Native.ModelFields options, out ModelHandle made) =>
                    Native.weft_model_load_bytes(fields.ToArray(), (UIntPtr)fields.Count, ref options, out made),
                    tokenizer, mesh));
            }
            finally
            {
                foreach (var each in pinned) each.Free();
            }
        }
        private LanguageModel(ModelHandle made) { handle = made; }
        private delegate int Loading(ref Native.ModelFields options, out ModelHandle made);
        private static ModelHandle Load(Loading load, string tokenizer, MeshOptions mesh)
        {
            var pinned = new GCHandle[2];
            using (var given = new Options(mesh))
                try
                {
                    pinned[0] = GCHandle.Alloc(given.Fields, GCHandleType.Pinned);
                    var options = new Native.ModelFields
                    {
                        size = (UIntPtr)Marshal.SizeOf(typeof(Native.ModelFields)), mesh = pinned[0].AddrOfPinnedObject(),
                        tokenizer = Native.Pin(ref pinned[1], tokenizer, nameof(tokenizer))
                    };
                    Native.Check(load(ref options, out var made));
                    return made;
                }
                finally
                {
                    foreach (var each in pinned) if (each.IsAllocated) each.Free();
                }
        }
        public void Dispose() => handle.Dispose();

        /// <summary>Ids of a text's tokens, with those that the model expects around it.</summary>
        public uint[] Tokenize(string text)
        {
            var bytes = Native.Utf8(text, nameof(text));
            UIntPtr needed;
            Native.Check(Native.weft_model_tokenize(handle, bytes, null, UIntPtr.Zero, out needed));
            var ids = new uint[(int)needed];
            Native.Check(Native.weft_model_tokenize(handle, bytes, ids, needed, out needed));
            return ids;
        }
        /// <summary>The text of tokens; ids that stand for nothing are passed over.</summary>
        public string Detokenize(uint[] ids)
        {
            Native.Given(ids, nameof(ids));
            return Native.ReadText((buffer, capacity, needed) => Native.weft_model_detokenize(handle, ids,
                (UIntPtr)ids.Length, buffer, capacity, needed));
        }

        /// <summary>Writes on from a prompt: the same text wherever it runs. `onText` gets text as it becomes certain;
        /// false, or what it throws, stops ("interrupted", or that exception).</summary>
        public string Generate(string prompt, GenerateOptions options = null, Func<string, bool> onText = null)
        {
            var text = Native.Utf8(prompt, nameof(prompt));
            var writing = new Writing { OnText = onText };
            var own = GCHandle.Alloc(writing);
            try
            {
                using (var given = new Generating(options ?? new GenerateOptions()))
                {
                    var status = Native.weft_model_generate(handle, text, ref given.Fields, give, GCHandle.ToIntPtr(own));
                    if (status != 0) writing.Raised?.Throw();
                    Native.Check(status);
                }
            }
            finally
            {
                own.Free();
            }
            return writing.Text.ToString();
        }
        /// <summary>JSON of the last text that was written to its end: text, ids, prompt_ids, end, seconds.</summary>
        public string Result =>
            Native.ReadText((buffer, capacity, needed) => Native.weft_model_result(handle, buffer, capacity, needed));

        private sealed class Writing
        {
            internal readonly StringBuilder Text = new StringBuilder();
            internal Func<string, bool> OnText;
            internal ExceptionDispatchInfo Raised;
        }
        private static readonly Native.TextFunction give = Give;  // kept from the collector
        [MonoPInvokeCallback(typeof(Native.TextFunction))]
        private static int Give(IntPtr user, IntPtr text)
        {
            var to = (Writing)GCHandle.FromIntPtr(user).Target;
            try
            {
                var given = Native.Text(text);
                if (given.Length == 0) return 0;  // asked before each token
                to.Text.Append(given);
                return to.OnText == null || to.OnText(given) ? 0 : 1;
            }
            catch (Exception error)  // it must not cross the library
            {
                to.Raised = ExceptionDispatchInfo.Capture(error);
                return 1;
            }
        }
    }

    /// <summary>weft_generate_options, with its texts pinned.</summary>
    internal sealed class Generating : IDisposable
    {
        internal Native.GenerateFields Fields;
        private readonly List<GCHandle> pinned = new List<GCHandle>();

        internal Generating(GenerateOptions given)
        {
            try
            {
                Fields.size = (UIntPtr)Marshal.SizeOf(typeof(Native.GenerateFields));
                Fields.tokens = given.Tokens ?? 0;
                Fields.temperature = given.Temperature ?? 0;
                Fields.is_greedy = given.Temperature == 0 ? 1 : 0;
                Fields.top_k = Zero(given.TopK, ulong.MaxValue);
                Fields.top_p = given.TopP == 0 ? 2.2250738585072014e-308 : given.TopP ?? 0;
                Fields.min_p = given.MinP == 0 ? -1 : given.MinP ?? 0;
                Fields.seed = given.Seed;
                Fields.context = given.Context;
                Fields.ignores_ends = given.IgnoresEnds ? 1 : 0;
                Fields.max_memory = Native.Bytes(given.MaxMemory, nameof(given.MaxMemory));
                Fields.typical_p = given.TypicalP;
                Fields.repetition_penalty = given.RepetitionPenalty;
                Fields.presence_penalty = given.PresencePenalty;
                Fields.frequency_penalty = given.FrequencyPenalty;
                Fields.penalty_window = Zero(given.PenaltyWindow, ulong.MaxValue);
                Fields.no_repeat_ngram = given.NoRepeatNgram;
                var stops = new IntPtr[given.Stops?.Length ?? 0];
                for (var i = 0; i < stops.Length; ++i) stops[i] = Keep(Native.Utf8(given.Stops[i], nameof(given.Stops)));
                Fields.stops = Keep(stops);
                Fields.stop_count = (UIntPtr)stops.Length;
                var ids = new uint[given.LogitBias?.Count ?? 0];
                var biases = new float[ids.Length];
                given.LogitBias?.Keys.CopyTo(ids, 0);
                given.LogitBias?.Values.CopyTo(biases, 0);
                Fields.bias_ids = Keep(ids);
                Fields.biases = Keep(biases);
                Fields.bias_count = (UIntPtr)ids.Length;
                if (given.Grammar != null) Fields.grammar = Keep(Native.Utf8(given.Grammar, nameof(given.Grammar)));
                if (given.JsonSchema != null)
                    Fields.json_schema = Keep(Native.Utf8(given.JsonSchema, nameof(given.JsonSchema)));
                if (given.Preset != null) Fields.preset = Keep(Native.Utf8(given.Preset, nameof(given.Preset)));
                if (given.Samplers != null) Fields.samplers = Keep(Native.Utf8(given.Samplers, nameof(given.Samplers)));
                Fields.dynatemp_range = Number(given.DynatempRange, nameof(given.DynatempRange));
                Fields.dynatemp_exponent = Number(given.DynatempExponent, nameof(given.DynatempExponent));
                Fields.top_n_sigma = given.TopNSigma == 0 ? -1 : given.TopNSigma ?? 0;
                Fields.xtc_probability = Number(given.XtcProbability, nameof(given.XtcProbability));
                Fields.xtc_threshold = Number(given.XtcThreshold, nameof(given.XtcThreshold));
                Fields.mirostat_tau = Number(given.MirostatTau, nameof(given.MirostatTau));
                Fields.mirostat_eta = Number(given.MirostatEta, nameof(given.MirostatEta));
                Fields.dry_multiplier = Number(given.DryMultiplier, nameof(given.DryMultiplier));
                Fields.dry_base = Number(given.DryBase, nameof(given.DryBase));
                Fields.mirostat = Whole(given.Mirostat, -1);
                Fields.dry_allowed_length = Whole(given.DryAllowedLength, -1);
                Fields.dry_penalty_last_n = Whole(given.DryPenaltyLastN, -2);
                var breakers = new IntPtr[given.DrySequenceBreakers?.Length ?? 0];
                for (var i = 0; i < breakers.Length; ++i)
                    breakers[i] = Keep(Native.Utf8(given.DrySequenceBreakers[i], nameof(given.DrySequenceBreakers)));
                Fields.dry_sequence_breakers =
                    given.DrySequenceBreakers == null ? IntPtr.Zero : Keep(breakers.Length == 0 ? new IntPtr[1] : breakers);
                Fields.dry_sequence_breaker_count = (UIntPtr)breakers.Length;
            }
            catch
            {
                Dispose();
                throw;
            }
        }
        /// <summary>For the C ABI, where 0 is the default; `zero` says 0 there.</summary>
        private static ulong Zero(ulong? value, ulong zero) => value == 0 ? zero : value ?? 0;
        private static long Whole(long? value, long zero) => value == 0 ? zero : value ?? 0;
        private static double Number(double? value, string what)
        {
            if (value < 0) throw new ArgumentOutOfRangeException(what, value, "it is not negative");
            return value == 0 ? -1 : value ?? 0;
        }
        private IntPtr Keep(Array values)
        {
            if (values.Length == 0) return IntPtr.Zero;
            pinned.Add(GCHandle.Alloc(values, GCHandleType.Pinned));
            return pinned[pinned.Count - 1].AddrOfPinnedObject();
        }
        public void Dispose()
        {
            foreach (var each in pinned) each.Free();
            pinned.Clear();
        }
    }

    /// <summary>Of a mesh; what is not set takes its default.</summary>
    public sealed class MeshOptions
    {
        /// <summary>0: all cores; 1: the caller's alone.</summary>
        public int Threads { get; set; }
        public int Sessions { get; set; } = 1;
        /// <summary>auto, resident, graph, deterministic</summary>
        public string Executor { get; set; }
        public ulong ExecutorSeed { get; set; }
        /// <summary>cpu, vulkan, vulkan:N; null: the network's</summary>
        public string Device { get; set; }
        /// <summary>Bytes that it may take by estimate; 0: what the system has.</summary>
        public long MaxMemory { get; set; }
        public bool Pin { get; set; } = true;
        public bool KeepsMasters { get; set; } = true;
    }

    /// <summary>weft_mesh_options, with its texts pinned.</summary>
    internal sealed class Options : IDisposable
    {
        internal Native.MeshFields Fields;
        private readonly GCHandle[] pinned = new GCHandle[2];
        internal Options(MeshOptions given)
        {
            given = given ?? new MeshOptions();
            Fields.size = (UIntPtr)Marshal.SizeOf(typeof(Native.MeshFields));
            Fields.threads = Native.Size(given.Threads, nameof(given.Threads));
            Fields.sessions = Native.Size(given.Sessions, nameof(given.Sessions));
            Fields.max_memory = Native.Bytes(given.MaxMemory, nameof(given.MaxMemory));
            Fields.executor_seed = given.ExecutorSeed;
            Fields.no_pinning = given.Pin ? 0 : 1;
            Fields.no_masters = given.KeepsMasters ? 0 : 1;
            try
            {
                Fields.executor = Native.Pin(ref pinned[0], given.Executor, nameof(given.Executor));
                Fields.device = Native.Pin(ref pinned[1], given.Device, nameof(given.Device));
            }
            catch
            {
                Dispose();
                throw;
            }
        }
        public void Dispose()
        {
            foreach (var each in pinned) if (each.IsAllocated) each.Free();
        }
    }

    /// <summary>weft_input or weft_output: names and pinned arrays, for a call.</summary>
    internal sealed class Rows : IDisposable
    {
        internal readonly Native.Values[] Entries;
        private readonly GCHandle[] pinned;

        internal Rows(IDictionary<string, float[]> arrays)
        {
            Native.Given(arrays, nameof(arrays));
            foreach (var row in arrays) Native.Given(row.Value, row.Key);
            Entries = new Native.Values[arrays.Count];
            pinned = new GCHandle[2 * arrays.Count];
            var i = 0;
            try
            {
                foreach (var row in arrays)
                {
                    Entries[i].name = Native.Pin(ref pinned[2 * i], row.Key, "name");
                    pinned[2 * i + 1] = GCHandle.Alloc(row.Value, GCHandleType.Pinned);
                    Entries[i].values = pinned[2 * i + 1].AddrOfPinnedObject();
                    Entries[i].count = (UIntPtr)row.Value.Length;
                    ++i;
                }
            }
            catch
            {
                Dispose();
                throw;
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

        /// <summary>One of labels, values and gradients; the others are null. `weights` of each, or null.</summary>
        internal Targets(IDictionary<string, uint[]> labels, IDictionary<string, float[]> values,
            IDictionary<string, float[]> gradients, float[] weights)
        {
            if (labels == null && values == null && gradients == null) throw new ArgumentNullException("targets");
            var count = labels?.Count ?? values?.Count ?? gradients.Count;
            Entries = new Native.Target[count];
            pinned = new GCHandle[2 * count + 1];
            var i = 0;
            try
            {
                if (labels != null)
                    foreach (var row in labels)
                    {
                        Entries[i].labels = Begin(i, row.Key, row.Value);
                        Entries[i++].label_count = (UIntPtr)row.Value.Length;
                    }
                else if (values != null)
                    foreach (var row in values)
                    {
                        Entries[i].values = Begin(i, row.Key, row.Value);
                        Entries[i++].value_count = (UIntPtr)row.Value.Length;
                    }
                else
                    foreach (var row in gradients)
                    {
                        Entries[i].gradient = Begin(i, row.Key, row.Value);
                        Entries[i++].gradient_count = (UIntPtr)row.Value.Length;
                    }
                if (weights == null) return;
                pinned[2 * count] = GCHandle.Alloc(weights, GCHandleType.Pinned);
                for (i = 0; i < count; ++i)
                {
                    Entries[i].weights = pinned[2 * count].AddrOfPinnedObject();
                    Entries[i].weight_count = (UIntPtr)weights.Length;
                }
            }
            catch
            {
                Dispose();
                throw;
            }
        }
        private IntPtr Begin(int i, string output, object array)
        {
            Native.Given(array, output);
            Entries[i].size = (UIntPtr)Marshal.SizeOf(typeof(Native.Target));
            Entries[i].output = Native.Pin(ref pinned[2 * i], output, "output");
            pinned[2 * i + 1] = GCHandle.Alloc(array, GCHandleType.Pinned);
            return pinned[2 * i + 1].AddrOfPinnedObject();
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
        internal static UIntPtr NoSession => UIntPtr.Size == 8 ? (UIntPtr)ulong.MaxValue : (UIntPtr)uint.MaxValue;

        [StructLayout(LayoutKind.Sequential)]
        internal struct Values { public IntPtr name, values; public UIntPtr count; }
        [StructLayout(LayoutKind.Sequential)]
        internal struct MeshFields
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
        internal struct CommandFields
        {
            public UIntPtr size;
            public int kind;
            public Place at;
            public UIntPtr parameter;
            public ulong number, not_before;
            public IntPtr dtype, granularity, values;
            public UIntPtr count;
        }
        [StructLayout(LayoutKind.Sequential)]
        internal struct AgentFields
        {
            public UIntPtr size;
            public IntPtr mesh, durability, identity;
            public UIntPtr keep;
            public ulong checkpoint_every, checkpoint_bytes;
            public int no_learning, salvage;
        }
        [StructLayout(LayoutKind.Sequential)]
        internal struct Counts
        {
            public UIntPtr size;
            public Weft.Counts counts;
        }
        [StructLayout(LayoutKind.Sequential)]
        internal struct LayerDiagnostics
        {
            public UIntPtr size;
            public Weft.LayerDiagnostics layer;
        }
        [StructLayout(LayoutKind.Sequential)]
        internal struct EnvironmentFields { public UIntPtr size; public uint length, reserved; }
        [StructLayout(LayoutKind.Sequential)]
        internal struct EnvironmentShape { public UIntPtr size, observations, choices, values; public ulong limit; }
        [StructLayout(LayoutKind.Sequential)]
        internal struct EnvironmentResult
        {
            public UIntPtr size;
            public double reward;
            public int terminated, truncated;
            public ulong steps;
        }
        [StructLayout(LayoutKind.Sequential)]
        internal struct FileFields
        {
            public IntPtr name, bytes;
            public UIntPtr count;
        }
        [StructLayout(LayoutKind.Sequential)]
        internal struct ModelFields { public UIntPtr size; public IntPtr mesh, tokenizer; }
        [StructLayout(LayoutKind.Sequential)]
        internal struct GenerateFields
        {
            public UIntPtr size;
            public ulong tokens;
            public double temperature;
            public ulong top_k;
            public double top_p, min_p;
            public ulong seed, context;
            public IntPtr stops;
            public UIntPtr stop_count;
            public int is_greedy, ignores_ends;
            public ulong max_memory;
            public double typical_p, repetition_penalty, presence_penalty, frequency_penalty;
            public ulong penalty_window, no_repeat_ngram;
            public IntPtr bias_ids, biases;
            public UIntPtr bias_count;
            public IntPtr grammar, json_schema, preset, samplers;
            public double dynatemp_range, dynatemp_exponent, top_n_sigma, xtc_probability, xtc_threshold, mirostat_tau,
                mirostat_eta, dry_multiplier, dry_base;
            public long mirostat, dry_allowed_length, dry_penalty_last_n;
            public IntPtr dry_sequence_breakers;
            public UIntPtr dry_sequence_breaker_count;
        }
        [StructLayout(LayoutKind.Sequential)]
        private struct Error { public UIntPtr size; public int code; public IntPtr name, message; }

        internal static UIntPtr Size(int value, string what)
        {
            if (value < 0) throw new ArgumentOutOfRangeException(what, value, "it is not negative");
            return (UIntPtr)(uint)value;
        }
        internal static ulong Bytes(long value, string what)
        {
            if (value < 0) throw new ArgumentOutOfRangeException(what, value, "it is not negative");
            return (ulong)value;
        }
        /// <summary>A text as the C ABI takes it, which would end at a NUL.</summary>
        internal static byte[] Utf8(string text, string what)
        {
            if (text == null) throw new ArgumentNullException(what);
            if (text.IndexOf('\0') >= 0) throw new ArgumentException("a text with a NUL in it", what);
            return Encoding.UTF8.GetBytes(text + "\0");
        }
        internal static byte[] Json(string text, string what)
        {
            if (text == null) throw new ArgumentNullException(what);
            return Encoding.UTF8.GetBytes(text);
        }
        internal static T Given<T>(T value, string what) where T : class
        {
            if (value == null) throw new ArgumentNullException(what);
            return value;
        }
        /// <summary>The address of a text, pinned; null: no text.</summary>
        internal static IntPtr Pin(ref GCHandle pinned, string text, string what)
        {
            if (text == null) return IntPtr.Zero;
            pinned = GCHandle.Alloc(Utf8(text, what), GCHandleType.Pinned);
            return pinned.AddrOfPinnedObject();
        }
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
        internal static extern int weft_network_read(byte[] json, UIntPtr bytes, byte[] source,
            out NetworkHandle network);
        [DllImport(Name)] internal static extern int weft_network_load(byte[] path, out NetworkHandle network);
        [DllImport(Name)]
        internal static extern int weft_network_create(byte[] name, uint z, uint y, uint x, uint layers,
            out NetworkHandle network);
        [DllImport(Name)]
        internal static extern int weft_network_add_input(NetworkHandle network, byte[] name, UIntPtr[] shape,
            UIntPtr axes);
        [DllImport(Name)] internal static extern int weft_network_add_layer(NetworkHandle network, byte[] json);
        [DllImport(Name)]
        internal static extern int weft_network_add_output(NetworkHandle network, byte[] name, Place at);
        [DllImport(Name)] internal static extern int weft_network_set(NetworkHandle network, byte[] key, byte[] json);
        [DllImport(Name)]
        internal static extern int weft_network_text(NetworkHandle network, [Out] byte[] buffer, UIntPtr capacity,
            [Out] UIntPtr[] needed);
        [DllImport(Name)] internal static extern int weft_network_destroy(IntPtr network);
        [DllImport(Name)] internal static extern int weft_take_flushed_results(out int flushed);
        [DllImport(Name)]
        internal static extern int weft_environments([Out] byte[] buffer, UIntPtr capacity, [Out] UIntPtr[] needed);
        [DllImport(Name)]
        internal static extern int weft_environment_create(byte[] name, ref EnvironmentFields options,
            out EnvironmentHandle environment);
        [DllImport(Name)] internal static extern int weft_environment_destroy(IntPtr environment);
        [DllImport(Name)]
        internal static extern int weft_environment_describe(EnvironmentHandle environment, ref EnvironmentShape shape);
        [DllImport(Name)]
        internal static extern int weft_environment_reset(EnvironmentHandle environment, ulong seed, ulong episode);
        [DllImport(Name)]
        internal static extern int weft_environment_step(EnvironmentHandle environment, uint choice, float[] values,
            UIntPtr valueCount, ref EnvironmentResult result);
        [DllImport(Name)]
        internal static extern int weft_environment_observation(EnvironmentHandle environment, [Out] float[] values,
            UIntPtr capacity, out UIntPtr needed);
        [DllImport(Name)]
        internal static extern int weft_environment_state(EnvironmentHandle environment, [Out] double[] values,
            UIntPtr capacity, out UIntPtr needed);
        [DllImport(Name)]
        internal static extern int weft_environment_save(EnvironmentHandle environment, [Out] byte[] buffer,
            UIntPtr capacity, [Out] UIntPtr[] needed);
        [DllImport(Name)]
        internal static extern int weft_environment_restore(EnvironmentHandle environment, byte[] bytes, UIntPtr count);
        [DllImport(Name)]
        internal static extern int weft_environment_hash(EnvironmentHandle environment, [Out] byte[] buffer,
            UIntPtr capacity, [Out] UIntPtr[] needed);
        [DllImport(Name)]
        internal static extern int weft_model_load(byte[] path, ref ModelFields options, out ModelHandle model);
        [DllImport(Name)]
        internal static extern int weft_model_load_bytes(FileFields[] files, UIntPtr count, ref ModelFields options,
            out ModelHandle model);
        [DllImport(Name)] internal static extern int weft_model_destroy(IntPtr model);
        [DllImport(Name)]
        internal static extern int weft_model_tokenize(ModelHandle model, byte[] text, [Out] uint[] ids,
            UIntPtr capacity, out UIntPtr needed);
        [DllImport(Name)]
        internal static extern int weft_model_detokenize(ModelHandle model, uint[] ids, UIntPtr count,
            [Out] byte[] buffer, UIntPtr capacity, [Out] UIntPtr[] needed);
        [UnmanagedFunctionPointer(CallingConvention.Cdecl)]
        internal delegate int TextFunction(IntPtr user, IntPtr text);
        [DllImport(Name)]
        internal static extern int weft_model_generate(ModelHandle model, byte[] prompt, ref GenerateFields options,
            TextFunction function, IntPtr user);
        [DllImport(Name)]
        internal static extern int weft_model_result(ModelHandle model, [Out] byte[] buffer, UIntPtr capacity,
            [Out] UIntPtr[] needed);
        [DllImport(Name)]
        internal static extern int weft_learner_predict(LearnerHandle learner, Values[] inputs, UIntPtr inputCount,
            UIntPtr rows, Values[] outputs, UIntPtr outputCount, UIntPtr session);
        [DllImport(Name)]
        internal static extern int weft_mesh_build(NetworkHandle network, ref MeshFields options, out MeshHandle mesh);
        [DllImport(Name)]
        internal static extern int weft_mesh_load(byte[] path, ref MeshFields options, out MeshHandle mesh);
        [DllImport(Name)]
        internal static extern int weft_mesh_load_bytes(byte[] bytes, UIntPtr count, ref MeshFields options,
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
        [DllImport(Name)]
        internal static extern int weft_learner_score_one(LearnerHandle learner, float[] x, UIntPtr xCount, uint label,
            out float score);
        [DllImport(Name)]
        internal static extern int weft_learner_score_one_values(LearnerHandle learner, float[] x, UIntPtr xCount,
            float[] values, UIntPtr valueCount, out float score);
        [DllImport(Name)] internal static extern int weft_learner_clear_scores(LearnerHandle learner);
        [DllImport(Name)] internal static extern int weft_learner_measure(LearnerHandle learner, int is_on);
        [DllImport(Name)]
        internal static extern int weft_learner_diagnostics(LearnerHandle learner, [In, Out] LayerDiagnostics[] layers,
            UIntPtr capacity, out UIntPtr needed);
        [DllImport(Name)] internal static extern int weft_learner_count(LearnerHandle learner, ref Counts counts);
        [DllImport(Name)]
        internal static extern int weft_agent_open(byte[] directory, IntPtr network, ref AgentFields options,
            out AgentHandle agent);
        [DllImport(Name)]
        internal static extern int weft_agent_open(byte[] directory, NetworkHandle network, ref AgentFields options,
            out AgentHandle agent);
        [DllImport(Name)] internal static extern int weft_agent_mark(AgentHandle agent);
        [DllImport(Name)] internal static extern int weft_agent_act(AgentHandle agent, ulong steps);
        [DllImport(Name)]
        internal static extern int weft_agent_statistics(AgentHandle agent, [Out] byte[] buffer, UIntPtr capacity,
            [Out] UIntPtr[] needed);
        [DllImport(Name)]
        internal static extern int weft_mesh_output_at(MeshHandle mesh, Place at, UIntPtr session,
            [Out] float[] values, UIntPtr capacity, out UIntPtr needed);
        [DllImport(Name)]
        internal static extern int weft_mesh_morph(MeshHandle mesh, Place at, byte[] dtype, byte[] granularity);
        [DllImport(Name)]
        internal static extern int weft_mesh_command(MeshHandle mesh, ref CommandFields command,
            out AnswerHandle answer);
        [DllImport(Name)]
        internal static extern int weft_answer_status(AnswerHandle answer, out int isDone, out ulong tick);
        [DllImport(Name)]
        internal static extern int weft_answer_values(AnswerHandle answer, [Out] float[] values, UIntPtr capacity,
            out UIntPtr needed);
        [DllImport(Name)] internal static extern int weft_answer_destroy(IntPtr answer);
        [DllImport(Name)]
        internal static extern int weft_mesh_detach_session(MeshHandle mesh, UIntPtr session, [Out] byte[] buffer,
            UIntPtr capacity, [Out] UIntPtr[] needed);
        [DllImport(Name)]
        internal static extern int weft_mesh_attach_session(MeshHandle mesh, byte[] bytes, UIntPtr count,
            int otherWeights, out UIntPtr session);
        [DllImport(Name)]
        internal static extern int weft_learner_load(byte[] path, ref MeshFields options, out MeshHandle mesh,
            out LearnerHandle learner);
        [DllImport(Name)]
        internal static extern int weft_learner_load_bytes(byte[] bytes, UIntPtr count, ref MeshFields options,
            out MeshHandle mesh, out LearnerHandle learner);
        [DllImport(Name)]
        internal static extern int weft_learner_observe(LearnerHandle learner, Values[] inputs, UIntPtr inputCount,
            out ulong ticket);
        [DllImport(Name)]
        internal static extern int weft_learner_answer(LearnerHandle learner, ulong ticket, byte[] output,
            [Out] float[] values, UIntPtr capacity, out UIntPtr needed);
        [DllImport(Name)]
        internal static extern int weft_learner_teach(LearnerHandle learner, ulong ticket, Target[] targets,
            UIntPtr targetCount);
        [DllImport(Name)] internal static extern int weft_learner_forgo(LearnerHandle learner, ulong ticket);
        [DllImport(Name)]
        internal static extern int weft_learner_expired(LearnerHandle learner, [Out] ulong[] tickets,
            UIntPtr capacity, out UIntPtr needed);
        [DllImport(Name)]
        internal static extern int weft_learner_scores(LearnerHandle learner, [Out] Score[] scores, UIntPtr capacity,
            out UIntPtr needed);
        [DllImport(Name)]
        internal static extern int weft_set_log(LogFunction function, IntPtr user, int level);
        [UnmanagedFunctionPointer(CallingConvention.Cdecl)]
        internal delegate void LogFunction(IntPtr user, int level, IntPtr text);
        [DllImport(Name)] internal static extern int weft_agent_mesh(AgentHandle agent, out MeshHandle mesh);
        [DllImport(Name)] internal static extern int weft_agent_learner(AgentHandle agent, out LearnerHandle learner);
        [DllImport(Name)] internal static extern int weft_agent_acknowledge(AgentHandle agent);
        [DllImport(Name)] internal static extern int weft_agent_checkpoint(AgentHandle agent);
        [DllImport(Name)] internal static extern int weft_agent_note(AgentHandle agent, byte[] topic, byte[] text);
        [DllImport(Name)] internal static extern int weft_agent_close(IntPtr agent);
    }
}
