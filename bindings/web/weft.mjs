// SPDX-License-Identifier: Apache-2.0
// Weft in browsers and node: meshes that tick and learn, to the bits of the native library. weft.d.ts has the types.

const NO_LABEL = 0xffffffff;
const NO_SESSION = 0xffffffff;

/** A call that failed: `code` as in weft.h, `kind` ("shape_mismatch"), and the text. */
export class WeftError extends Error {
  constructor(code, kind, text) {
    super(`${kind}: ${text}`);
    this.name = 'WeftError';
    this.code = code;
    this.kind = kind;
    this.text = text;
  }
}

/** Loads the module. `wasmBinary`: its bytes, where it is not to be fetched from beside this file. */
export async function load({ wasmBinary } = {}) {
  const place = new URL('weft_module.wasm', import.meta.url);
  const system = new System();
  const imports = { env: system.imports(), wasi_snapshot_preview1: system.imports() };
  let loaded;
  if (wasmBinary) loaded = await WebAssembly.instantiate(wasmBinary, imports);
  else if (place.protocol === 'file:') {
    const { readFile } = await import('node:fs/promises');
    loaded = await WebAssembly.instantiate(await readFile(place), imports);
  } else loaded = await WebAssembly.instantiateStreaming(fetch(place), imports);
  system.begin(loaded.instance.exports);
  return bind(system);
}

/** What the module asks of a system: a clock, memory, random bytes, a place for log lines. There are no files. */
class System {
  #line = '';

  /** Functions by name; those that are not here answer "not supported". */
  imports() {
    const own = {
      fd_write: (file, vectors, count, written) => this.#write(vectors, count, written),
      clock_gettime: (_, time) => this.#time(time),
      clock_time_get: (_, precision, time) => {
        this.#view().setBigUint64(time, BigInt(Math.round((performance.timeOrigin + performance.now()) * 1e6)), true);
        return 0;
      },
      emscripten_get_now: () => performance.now(),
      emscripten_get_heap_max: () => 2 ** 32 - 65536,
      emscripten_resize_heap: (bytes) => this.#grow(bytes >>> 0),
      emscripten_notify_memory_growth: () => this.#take(),
      emscripten_memcpy_big: (to, from, bytes) => {
        this.HEAPU8.copyWithin(to >>> 0, from >>> 0, (from >>> 0) + (bytes >>> 0));
        return 0;  // not the array, of which the engine would make a number, by way of a text of all its elements
      },
      environ_sizes_get: (count, bytes) => {
        this.#view().setUint32(count, 0, true);
        this.#view().setUint32(bytes, 0, true);
        return 0;
      },
      environ_get: () => 0,
      getentropy: (to, bytes) => this.#random(to, bytes),
      random_get: (to, bytes) => this.#random(to, bytes),
      abort: () => {
        throw new Error('weft: the module stopped; it cannot be used any more');
      },
      proc_exit: (code) => {
        throw new Error(`weft: the module ended with ${code}`);
      },
    };
    return new Proxy(own, { get: (known, name) => known[name] ?? (() => (name.startsWith('__syscall') ? -52 : 52)) });
  }

  begin(exports) {
    for (const [name, value] of Object.entries(exports)) if (typeof value === 'function') this[`_${name}`] = value;
    this.memory = exports.memory;
    this.#take();
    (exports._initialize ?? exports.__wasm_call_ctors)();
  }

  /** Views, which are lost whenever memory grows. */
  #take() {
    const { buffer } = this.memory;
    this.HEAPU8 = new Uint8Array(buffer);
    this.HEAPU32 = new Uint32Array(buffer);
    this.HEAPF32 = new Float32Array(buffer);
  }
  #view() {
    return new DataView(this.memory.buffer);
  }
  #grow(bytes) {
    const before = this.memory.buffer.byteLength;
    const wanted = Math.max(bytes, Math.min(before * 1.2, before + 2 ** 26));
    try {
      this.memory.grow(Math.ceil((wanted - before) / 65536));
    } catch {
      return 0;
    }
    this.#take();
    return 1;
  }
  #time(to) {
    const now = performance.timeOrigin + performance.now();
    this.#view().setInt32(to, Math.floor(now / 1000), true);
    this.#view().setInt32(to + 4, Math.floor((now % 1000) * 1e6), true);
    return 0;
  }
  #random(to, bytes) {
    const values = crypto.getRandomValues(new Uint8Array(bytes));
    this.HEAPU8.set(values, to);
    return 0;
  }
  #write(vectors, count, written) {
    const view = this.#view();
    let bytes = 0;
    for (let i = 0; i < count; i++) {
      const at = view.getUint32(vectors + 8 * i, true);
      const size = view.getUint32(vectors + 8 * i + 4, true);
      this.#line += decoder.decode(this.HEAPU8.slice(at, at + size));
      bytes += size;
    }
    for (let end = this.#line.indexOf('\n'); end >= 0; end = this.#line.indexOf('\n')) {
      console.warn(this.#line.slice(0, end));
      this.#line = this.#line.slice(end + 1);
    }
    view.setUint32(written, bytes, true);
    return 0;
  }
}

/** Arguments of one call in the module's memory: laid out one behind the other, given back together. */
class Arguments {
  #module;
  #begin = 0;
  #capacity = 0;
  #used = 0;

  constructor(module) {
    this.#module = module;
  }
  /** Room for all arguments of a call; nothing of an earlier one is kept. */
  begin(bytes) {
    const wanted = bytes + 1024;
    if (this.#capacity < wanted) {
      this.#module._free(this.#begin);
      this.#capacity = Math.max(wanted, 2 * this.#capacity, 65536);
      this.#begin = this.#module._malloc(this.#capacity);
      if (this.#begin === 0) {
        this.#capacity = 0;
        throw new WeftError(1003, 'no_memory', `no memory for ${wanted} bytes of arguments`);
      }
    }
    this.#used = 0;
    return this;
  }
  room(bytes) {
    const at = this.#begin + this.#used;
    this.#used += (bytes + 15) & ~15;
    if (this.#used > this.#capacity) throw new Error('arguments: too little room was begun');
    return at;
  }
  zeros(bytes) {
    const at = this.room(bytes);
    this.#module.HEAPU8.fill(0, at, at + bytes);
    return at;
  }
  bytes(of) {
    const at = this.room(of.length);
    this.#module.HEAPU8.set(of, at);
    return at;
  }
  text(of) {
    const encoded = encoder.encode(`${of}\0`);
    return this.bytes(encoded);
  }
  floats(of) {
    const at = this.room(4 * of.length);
    this.#module.HEAPF32.set(of, at >> 2);
    return at;
  }
}

const encoder = new TextEncoder();
const decoder = new TextDecoder();
const bytesOf = (text) => 3 * String(text).length + 32;

function bind(module) {
  const args = new Arguments(module);
  const view = () => new DataView(module.HEAPU8.buffer);
  const readText = (at) => {
    const heap = module.HEAPU8;
    return decoder.decode(heap.slice(at, heap.indexOf(0, at)));
  };
  const check = (status) => {
    if (status === 0) return;
    const error = module._weft_last_error();
    const data = view();
    throw new WeftError(status, readText(data.getUint32(error + 8, true)), readText(data.getUint32(error + 12, true)));
  };
  const words = (at, values) => {
    const data = view();
    values.forEach((value, i) => data.setUint32(at + 4 * i, value, true));
  };
  const readU32 = (at) => view().getUint32(at, true);
  const readU64 = (at) => Number(view().getBigUint64(at, true));
  /** The handle that a call gives by its last argument. */
  const handleOf = (out) => readU32(out);
  const floatsAt = (at, count) => module.HEAPF32.slice(at >> 2, (at >> 2) + count);
  const count64 = (value, what) => {
    if (!Number.isSafeInteger(value) || value < 0) throw new RangeError(`${what}: ${value}`);
    return BigInt(value);
  };
  const asFloats = (values) => (values instanceof Float32Array ? values : Float32Array.from(values));
  const placeOf = (at) => {
    const numbers = [...at];
    const full = numbers.length < 4 ? [...Array(3 - numbers.length).fill(0), ...numbers, 0] : numbers;
    const place = args.room(16);
    words(place, full);
    return place;
  };

  /** A call that ends with buffer, capacity and size, the buffer counted in `unit` bytes; `call` lays out the rest. */
  const read = (extra, unit, call) => {
    args.begin(extra);
    let out = args.zeros(8);
    check(call(0, 0, out));
    for (let needed = readU32(out); ; ) {
      args.begin(extra + needed * unit + 64);
      out = args.zeros(8);
      const buffer = args.room(Math.max(1, needed * unit));
      const status = call(buffer, needed, out);
      const now = readU32(out);
      if (status === 1002 && now > needed) {
        needed = now;
        continue;
      }
      if (needed > 0) check(status);
      return { buffer, count: now };
    }
  };
  const readString = (extra, call) => {
    const { buffer } = read(extra, 1, call);
    return readText(buffer);
  };
  const readBytes = (extra, call) => {
    const { buffer, count } = read(extra, 1, call);
    return module.HEAPU8.slice(buffer, buffer + count);
  };
  const readFloats = (extra, call) => {
    const { buffer, count } = read(extra, 4, call);
    return floatsAt(buffer, count);
  };

  const sizeOfRows = (rows) =>
    Object.entries(rows).reduce((sum, [name, values]) => sum + bytesOf(name) + 4 * values.length + 64, 256);
  /** An array of weft_input or weft_output, and where each one's values stand. */
  const layRows = (rows, isOutput) => {
    const list = Object.entries(rows);
    const at = args.room(Math.max(12 * list.length, 1));
    const places = list.map(([name, values], i) => {
      const place = isOutput ? args.room(4 * values) : args.floats(values);
      words(at + 12 * i, [args.text(name), place, isOutput ? values : values.length]);
      return place;
    });
    return { at, count: list.length, places, names: list.map(([name]) => name) };
  };
  const rowsOf = (given) => Object.fromEntries(Object.entries(given).map(([name, v]) => [name, asFloats(v)]));

  const meshOptions = (options) => {
    const at = args.zeros(48);
    const { sessions = 1, executor, maxMemory = 0 } = options;
    words(at, [48, 1, sessions, executor ? args.text(executor) : 0]);
    view().setBigUint64(at + 32, count64(maxMemory, 'maxMemory'), true);
    return at;
  };

  const unowned = new FinalizationRegistry(({ destroy, handle }) => destroy(handle));
  class Handle {
    constructor(handle, destroy) {
      this._handle = handle;
      this._destroy = destroy;
      unowned.register(this, { destroy, handle }, this);
    }
    /** Gives it back; twice is once. */
    destroy() {
      if (this._handle === 0) return;
      unowned.unregister(this);
      const handle = this._handle;
      this._handle = 0;
      check(this._destroy(handle));
    }
  }

  class Mesh extends Handle {
    /** A network: a network file's text, or the object that it holds. */
    constructor(network, options = {}) {
      super(Mesh.#build(network, options), module._weft_mesh_destroy);
    }
    static #build(network, options) {
      if (network === Mesh.#made) return options;
      const json = encoder.encode(typeof network === 'string' ? network : JSON.stringify(network));
      args.begin(json.length + 512);
      const out = args.zeros(8);
      check(module._weft_network_read(args.bytes(json), json.length, 0, out));
      const description = handleOf(out);
      try {
        check(module._weft_mesh_build(description, meshOptions(options), out));
        return handleOf(out);
      } finally {
        module._weft_network_destroy(description);
      }
    }
    static #made = {};

    /** From the bytes of a network file or an .entity file, such as `toBytes` gives. */
    static fromBytes(bytes, options = {}) {
      args.begin(bytes.length + 512);
      const out = args.zeros(8);
      check(module._weft_mesh_load_bytes(args.bytes(bytes), bytes.length, meshOptions(options), out));
      return new Mesh(Mesh.#made, handleOf(out));
    }
    /** An .entity file's bytes; live: with sessions and all that ticks change. */
    toBytes(live = true) {
      return readBytes(256, (buffer, capacity, out) =>
        module._weft_mesh_save_bytes(this._handle, live ? 1 : 0, buffer, capacity, out));
    }

    setInput(port, values, session = 0) {
      const given = asFloats(values);
      args.begin(bytesOf(port) + 4 * given.length);
      check(module._weft_mesh_set_input(this._handle, args.text(port), session, args.floats(given), given.length));
    }
    /** Values that an output committed last. */
    output(name, session = 0) {
      return readFloats(bytesOf(name), (buffer, capacity, out) =>
        module._weft_mesh_output(this._handle, args.text(name), session, buffer, capacity, out));
    }
    /** The same of any layer: [z, y, x, layer], or fewer numbers. */
    outputAt(place, session = 0) {
      return readFloats(64, (buffer, capacity, out) =>
        module._weft_mesh_output_at(this._handle, placeOf(place), session, buffer, capacity, out));
    }
    tick(ticks = 1) {
      check(module._weft_mesh_tick(this._handle, count64(ticks, 'ticks')));
    }
    /** Ticks until so many milliseconds have passed, at least one; returns how many. */
    tickFor(milliseconds) {
      args.begin(64);
      const out = args.zeros(8);
      check(module._weft_mesh_tick_for(this._handle, count64(Math.round(milliseconds * 1e6), 'milliseconds'), out));
      return readU64(out);
    }
    /** Inputs [ticks][sessions][width]; outputs likewise. */
    run(inputs, ticks, outputs) {
      const per = BigInt(ticks);
      return this.#rows(inputs, outputs, ticks * this.sessions, (from, to) =>
        module._weft_mesh_run(this._handle, from.at, from.count, per, to.at, to.count));
    }
    /** One pass without ticks: inputs [rows][width]. Feedback reads zero. */
    forward(inputs, rows = 1, outputs) {
      return this.#rows(inputs, outputs, rows, (from, to) =>
        module._weft_mesh_forward(this._handle, from.at, from.count, rows, to.at, to.count));
    }
    /** Widths of all outputs, or of those that are named. */
    _room(outputs, rows) {
      const widths = Object.fromEntries(this.description.outputs.map(({ name, width }) => [name, width]));
      return Object.fromEntries((outputs ?? Object.keys(widths)).map((name) => [name, (widths[name] ?? 0) * rows]));
    }
    #rows(inputs, outputs, rows, call) {
      const given = rowsOf(inputs);
      const room = this._room(outputs, rows);
      const bytes = Object.entries(room).reduce((sum, [name, count]) => sum + bytesOf(name) + 4 * count + 64, 0);
      args.begin(sizeOfRows(given) + bytes);
      const from = layRows(given, false);
      const to = layRows(room, true);
      check(call(from, to));
      return Object.fromEntries(to.names.map((name, i) => [name, floatsAt(to.places[i], room[name])]));
    }
    resume() {
      check(module._weft_mesh_resume(this._handle));
    }

    get ticks() {
      const out = args.begin(64).zeros(8);
      check(module._weft_mesh_ticks(this._handle, out));
      return readU64(out);
    }
    get sessions() {
      const out = args.begin(64).zeros(8);
      check(module._weft_mesh_sessions(this._handle, out));
      return readU32(out);
    }
    /** 32 hex digits: equal states, equal text, in a browser and in a data centre. */
    stateHash(session = 0) {
      return readString(64, (buffer, capacity, out) =>
        module._weft_mesh_state_hash(this._handle, session, buffer, capacity, out));
    }
    get description() {
      this._description ??= JSON.parse(
        readString(64, (buffer, capacity, out) => module._weft_mesh_describe(this._handle, buffer, capacity, out)));
      return this._description;
    }
    statistics() {
      return JSON.parse(
        readString(64, (buffer, capacity, out) => module._weft_mesh_statistics(this._handle, buffer, capacity, out)));
    }

    addSession() {
      const out = args.begin(64).zeros(8);
      check(module._weft_mesh_add_session(this._handle, out));
      return readU32(out);
    }
    removeSession(session) {
      check(module._weft_mesh_remove_session(this._handle, session));
    }
    resetSession(session = 0) {
      check(module._weft_mesh_reset_session(this._handle, session));
    }

    /** A layer's parameter, row-major [out][in]. */
    weights(place, parameter = 0) {
      return readFloats(64, (buffer, capacity, out) =>
        module._weft_mesh_read_weights(this._handle, placeOf(place), parameter, buffer, capacity, out));
    }
    setWeights(place, values, parameter = 0) {
      const given = asFloats(values);
      args.begin(4 * given.length + 64);
      check(module._weft_mesh_write_weights(
        this._handle, placeOf(place), parameter, args.floats(given), given.length));
    }
    /** Stores a layer's matrices in another numeric type. */
    morph(place, dtype) {
      args.begin(128);
      check(module._weft_mesh_morph(this._handle, placeOf(place), args.text(dtype), 0));
      this._description = undefined;
    }

    /** All that ticks change, in memory; `restore` goes on there, to the bit. */
    takeSnapshot(to = new Snapshot()) {
      check(module._weft_mesh_take_snapshot(this._handle, to._handle));
      return to;
    }
    restoreSnapshot(from) {
      check(module._weft_mesh_restore_snapshot(this._handle, from._handle));
    }
  }

  class Snapshot extends Handle {
    constructor() {
      const out = args.begin(64).zeros(8);
      check(module._weft_snapshot_create(out));
      super(handleOf(out), module._weft_snapshot_destroy);
    }
  }

  class Learner extends Handle {
    /** `options`: those of a network file's section "learning"; none: the network's own. */
    constructor(mesh, options) {
      const json = options == null ? '' : JSON.stringify(options);
      args.begin(bytesOf(json) + 64);
      const out = args.zeros(8);
      check(module._weft_learner_build(mesh._handle, json ? args.text(json) : 0, out));
      super(handleOf(out), module._weft_learner_destroy);
      this.mesh = mesh;
    }
    #targets(targets) {
      const list = Object.entries(targets);
      const at = args.zeros(Math.max(40 * list.length, 1));
      list.forEach(([name, values], i) => {
        const isLabels = values instanceof Uint32Array;
        const place = args.room(4 * values.length);
        (isLabels ? module.HEAPU32 : module.HEAPF32).set(values, place >> 2);
        words(at + 40 * i, [40, args.text(name), ...(isLabels ? [place, values.length, 0, 0] : [0, 0, place, values.length])]);
      });
      return { at, count: list.length };
    }
    static #given(targets) {
      const asTarget = (values) =>
        values instanceof Uint32Array || values instanceof Float32Array ? values
        : Array.isArray(values) && values.every((v) => Number.isInteger(v) && v >= 0) ? Uint32Array.from(values)
        : Float32Array.from(values);
      return Object.fromEntries(Object.entries(targets).map(([name, values]) => [name, asTarget(values)]));
    }
    /** Runs samples and learns. Targets: labels (Uint32Array, or an array of whole numbers) or values (Float32Array). */
    learn(inputs, targets, samples = 1) {
      const given = rowsOf(inputs);
      const wanted = Learner.#given(targets);
      args.begin(sizeOfRows(given) + sizeOfRows(wanted) + 40 * Object.keys(wanted).length);
      const from = layRows(given, false);
      const to = this.#targets(wanted);
      check(module._weft_learner_learn(this._handle, from.at, from.count, to.at, to.count, count64(samples, 'samples')));
    }
    drain() {
      check(module._weft_learner_drain(this._handle));
    }
    /** Answers to rows of inputs: nothing is learned, nothing changes. `session`: as it stands; undefined: at zero. */
    predict(inputs, rows = 1, session) {
      const given = rowsOf(inputs);
      const room = this.mesh._room(undefined, rows);
      const bytes = Object.entries(room).reduce((sum, [name, count]) => sum + bytesOf(name) + 4 * count + 64, 0);
      args.begin(sizeOfRows(given) + bytes);
      const from = layRows(given, false);
      const to = layRows(room, true);
      check(module._weft_learner_predict(
        this._handle, from.at, from.count, rows, to.at, to.count, session ?? NO_SESSION));
      return Object.fromEntries(to.names.map((name, i) => [name, floatsAt(to.places[i], room[name])]));
    }
    /** For networks of one input, one output and one session. */
    predictOne(x) {
      const given = asFloats(x);
      const { width } = this.mesh.description.outputs[0];
      args.begin(4 * (given.length + width) + 64);
      const from = args.floats(given);
      const to = args.room(4 * width);
      check(module._weft_learner_predict_one(this._handle, from, given.length, to, width));
      return floatsAt(to, width);
    }
    learnOne(x, label) {
      const given = asFloats(x);
      const isLabel = typeof label === 'number';
      const values = isLabel ? [] : asFloats(label);
      args.begin(4 * (given.length + values.length) + 64);
      const from = args.floats(given);
      check(isLabel
        ? module._weft_learner_learn_one(this._handle, from, given.length, label)
        : module._weft_learner_learn_one_values(
          this._handle, from, given.length, args.floats(values), values.length));
    }
    counts() {
      const at = args.begin(256).zeros(80);
      words(at, [80]);
      check(module._weft_learner_count(this._handle, at));
      const names = ['samples', 'scored', 'observed', 'taught', 'forgone', 'expired', 'hold', 'latency', 'ticksPerSample'];
      return Object.fromEntries(names.map((name, i) => [name, readU64(at + 8 + 8 * i)]));
    }
    clearScores() {
      check(module._weft_learner_clear_scores(this._handle));
    }
  }

  return { Mesh, Learner, Snapshot, WeftError, NO_LABEL, version: readText(module._weft_version()), module };
}
