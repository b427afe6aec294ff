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

/** Options that are left over are none: a misspelt one is not ignored. */
function nothingElse(rest) {
  const [name] = Object.keys(rest);
  if (name !== undefined) throw new WeftError(6, 'unknown_name', `option '${name}': there is none of this name`);
}

/** Refuses what is not of its kind, before anything is done. */
function need(is, what, given, wanted) {
  if (!is) throw new WeftError(2, 'invalid_argument', `${what}: ${shown(given)}, where ${wanted} is wanted`);
}
const shown = (given) =>
  given === null || typeof given !== 'object' ? String(given) : given.constructor?.name ?? 'an object';
const isObject = (given) => given !== null && typeof given === 'object';

/** A module of a function that makes a vector of zeros: engines without vectors of 128 bits refuse it. */
const VECTORS = new Uint8Array([
  0, 97, 115, 109, 1, 0, 0, 0,               // "\0asm", version 1
  1, 5, 1, 0x60, 0, 1, 0x7b,                 // types: [] -> [v128]
  3, 2, 1, 0,                                // functions: one of type 0
  10, 8, 1, 6, 0, 0x41, 0, 0xfd, 15, 0x0b,   // code: i32.const 0, i8x16.splat
]);

/**
 * Loads the module. `simd`: whether the one with vectors of 128 bits; undefined: where the engine has them, to the same
 * bits. `wasmBinary`: a module's bytes, where it is not to be fetched from beside this file.
 */
export async function load(options = {}) {
  need(isObject(options), 'load', options, 'an object of options');
  const { wasmBinary, simd = WebAssembly.validate(VECTORS), ...rest } = options;
  nothingElse(rest);
  need(typeof simd === 'boolean', 'simd', simd, 'true or false');
  need(wasmBinary === undefined || wasmBinary instanceof ArrayBuffer || ArrayBuffer.isView(wasmBinary), 'wasmBinary',
    wasmBinary, 'an array of bytes');
  const place = new URL(simd ? 'weft_simd.wasm' : 'weft_scalar.wasm', import.meta.url);
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

/** Files of a folder and those below it, for `replay` and `Agent`; node alone. */
export async function readFolder(folder) {
  const { readdir, readFile } = await import('node:fs/promises');
  const files = new Map();
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    if (entry.isDirectory())
      for (const [name, bytes] of await readFolder(`${folder}/${entry.name}`)) files.set(`${entry.name}/${name}`, bytes);
    else if (entry.isFile() && entry.name !== 'lock') files.set(entry.name, new Uint8Array(await readFile(`${folder}/${entry.name}`)));
  }
  return files;
}

/** Imports of the module: a clock, memory, random bytes, a place for log lines. There are no files. */
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
  /** Memory for all arguments of a call; nothing of an earlier one is kept. */
  begin(bytes) {
    const wanted = bytes + 1024;
    if (this.#capacity < wanted) {
      this.#module._free(this.#begin);
      const capacity = Math.max(wanted, Math.min(2 * this.#capacity, 2 ** 30), 65536);
      this.#capacity = 0;
      this.#begin = capacity < 2 ** 31 ? this.#module._malloc(capacity) : 0;  // more, the module would take modulo 2^32
      if (this.#begin === 0) throw new WeftError(1003, 'no_memory', `no memory for ${wanted} bytes of arguments`);
      this.#capacity = capacity;
    }
    this.#used = 0;
    return this;
  }
  allocate(bytes) {
    const at = this.#begin + this.#used;
    this.#used += (bytes + 15) & ~15;
    if (this.#used > this.#capacity) throw new Error('arguments: too few bytes were begun');
    return at;
  }
  zeroed(bytes) {
    const at = this.allocate(bytes);
    this.#module.HEAPU8.fill(0, at, at + bytes);
    return at;
  }
  bytes(of) {
    const at = this.allocate(of.length);
    this.#module.HEAPU8.set(of, at);
    return at;
  }
  text(of) {
    const given = asText(of);
    if (given.includes('\0'))
      throw new WeftError(2, 'invalid_argument', `${JSON.stringify(given)}: a text with a NUL within; leave it out`);
    return this.bytes(encoder.encode(`${given}\0`));
  }
  words(of) {
    const at = this.allocate(4 * of.length);
    this.#module.HEAPU32.set(of, at >> 2);
    return at;
  }
  /** Subnormal ones become zeros, as which arithmetic takes them everywhere: docs/web.md, "One result". */
  floats(of) {
    const at = this.allocate(4 * of.length);
    this.#module.HEAPF32.set(of, at >> 2);
    this.#module._weft_web_flush(at, of.length);
    return at;
  }
}

const encoder = new TextEncoder();
const decoder = new TextDecoder();
/** Numbers too are names and notes; what else is no text is not made one. */
const asText = (given) => {
  need(['string', 'number', 'bigint', 'boolean'].includes(typeof given), 'text', given, 'a text');
  return String(given);
};
const bytesOf = (text) => 3 * asText(text).length + 32;
const asJson = (given, what) => {
  try {
    const json = JSON.stringify(given);
    if (json !== undefined) return json;
  } catch {
    // A circle, or a BigInt.
  }
  need(false, what, given, 'an object that JSON can hold');
};

/** Calls of one module: arguments laid out in its memory, results read from there, failures thrown. */
class Calls {
  constructor(module) {
    this.module = module;
    this.args = new Arguments(module);
    this.calls = this;  // for `const { calls, args, module } = this.calls`
  }

  view() {
    return new DataView(this.module.HEAPU8.buffer);
  }
  readText(at) {
    const heap = this.module.HEAPU8;
    return decoder.decode(heap.slice(at, heap.indexOf(0, at)));
  }
  check(status) {
    if (status === 0) return;
    const error = this.module._weft_last_error();
    const data = this.view();
    throw new WeftError(
      status, this.readText(data.getUint32(error + 8, true)), this.readText(data.getUint32(error + 12, true)));
  }
  words(at, values) {
    const data = this.view();
    values.forEach((value, i) => data.setUint32(at + 4 * i, value, true));
  }
  readU32(at) {
    return this.view().getUint32(at, true);
  }
  readU64(at) {
    return Number(this.view().getBigUint64(at, true));
  }
  floatsAt(at, count) {
    return this.module.HEAPF32.slice(at >> 2, (at >> 2) + count);
  }
  place(at) {
    need(isObject(at) && Symbol.iterator in at, 'place', at, '[z, y, x, layer]');
    const numbers = [...at];
    if (numbers.length < 1 || numbers.length > 4)
      throw new WeftError(
        2, 'invalid_argument', `place: ${numbers.length} numbers; one to four are wanted, [z, y, x, layer]`);
    numbers.forEach((number) => count32(number, 'place'));
    const full = numbers.length < 4 ? [...Array(3 - numbers.length).fill(0), ...numbers, 0] : numbers;
    const place = this.args.allocate(16);
    this.words(place, full);
    return place;
  }

  /** Files by names relative to a directory of the module: a Map, or an object. */
  putFiles(directory, files) {
    need(isObject(files), 'files', files, 'a Map or an object of names and bytes');
    const given = [...(files instanceof Map ? files : Object.entries(files))];
    const isRelative = (name) => typeof name === 'string' && !name.includes('\0') &&
      name.split('/').every((part) => part !== '' && part !== '.' && part !== '..');
    for (const [name, bytes] of given)
      if (!isRelative(name) || !(bytes instanceof Uint8Array))
        throw new WeftError(2, 'invalid_argument', `file '${shown(name)}': names are relative, and contents Uint8Arrays`);
    for (const [name, bytes] of given) {
      const path = `${directory}/${name}`;
      this.args.begin(bytes.length + bytesOf(path));
      this.check(this.module._weft_web_put(this.args.text(path), this.args.bytes(bytes), bytes.length));
    }
  }
  filesOf(directory) {
    const { args, module } = this;
    args.begin(bytesOf(directory));
    const paths = JSON.parse(this.readText(module._weft_web_list(args.text(directory))));
    return new Map(paths.filter((path) => !path.endsWith('/lock')).map((path) => [
      path.slice(directory.length + 1),
      this.readBytes(bytesOf(path), (buffer, capacity, out) =>
        module._weft_web_get(args.text(path), buffer, capacity, out)),
    ]));
  }
  forgetFiles(directory) {
    this.args.begin(bytesOf(directory));
    this.module._weft_web_forget(this.args.text(directory));
  }

  /** A call that ends with buffer, capacity and size, the buffer counted in `unit` bytes; `call` lays out the rest. */
  read(extra, unit, call) {
    this.args.begin(extra);
    let out = this.args.zeroed(8);
    this.check(call(0, 0, out));
    for (let needed = this.readU32(out); ; ) {
      this.args.begin(extra + needed * unit + 64);
      out = this.args.zeroed(8);
      const buffer = this.args.allocate(Math.max(1, needed * unit));
      const status = call(buffer, needed, out);
      const now = this.readU32(out);
      if (status === 1002 && now > needed) {
        needed = now;
        continue;
      }
      if (needed > 0) this.check(status);
      return { buffer, count: now };
    }
  }
  readString(extra, call) {
    const { buffer } = this.read(extra, 1, call);
    return this.readText(buffer);
  }
  readBytes(extra, call) {
    const { buffer, count } = this.read(extra, 1, call);
    return this.module.HEAPU8.slice(buffer, buffer + count);
  }
  readFloats(extra, call) {
    const { buffer, count } = this.read(extra, 4, call);
    return this.floatsAt(buffer, count);
  }
  /** The number that a call gives by its last argument: a handle, a count. */
  give(call, read = (at) => this.readU32(at)) {
    const out = this.args.begin(64).zeroed(8);
    this.check(call(out));
    return read(out);
  }

  /** An array of weft_input or weft_output, and where each one's values stand. */
  layRows(rows, isOutput) {
    const list = Object.entries(rows);
    const at = this.args.allocate(Math.max(12 * list.length, 1));
    const places = list.map(([name, values], i) => {
      const place = isOutput ? this.args.allocate(4 * values) : this.args.floats(values);
      this.words(at + 12 * i, [this.args.text(name), place, isOutput ? values : values.length]);
      return place;
    });
    return { at, count: list.length, places, names: list.map(([name]) => name) };
  }
  /** Rows go in by `inputs`, and come back by `call` in outputs of so many values each. */
  exchange(inputs, counts, call) {
    const given = rowsOf(inputs);
    this.args.begin(sizeOfRows(given) + sizeOfCounts(counts));
    const from = this.layRows(given, false);
    const to = this.layRows(counts, true);
    this.check(call(from, to));
    return Object.fromEntries(to.names.map((name, i) => [name, this.floatsAt(to.places[i], counts[name])]));
  }
  meshOptions(options) {
    const { sessions = 1, executor, executorSeed = 0, maxMemory = 0, keepsMasters = true, ...rest } = options;
    nothingElse(rest);
    const at = this.args.zeroed(48);
    this.words(at, [48, 1, count32(sessions, 'sessions'), executor ? this.args.text(executor) : 0]);
    this.view().setBigUint64(at + 16, seed64(executorSeed, 'executorSeed'), true);
    this.view().setBigUint64(at + 32, count64(maxMemory, 'maxMemory'), true);
    this.words(at + 44, [keepsMasters ? 0 : 1]);
    return at;
  }
}

const count64 = (value, what) => {
  if (!Number.isSafeInteger(value) || value < 0)
    throw new WeftError(2, 'invalid_argument', `${what}: ${shown(value)}; a whole number from 0 on is wanted`);
  return BigInt(value);
};
/** A number of 64 bits: a BigInt, or a whole number. */
const seed64 = (value, what) => {
  if (typeof value !== 'bigint') return count64(value, what);
  if (value < 0n || value >= 2n ** 64n)
    throw new WeftError(2, 'invalid_argument', `${what}: ${value}; a number from 0 to 2^64 - 1 is wanted`);
  return value;
};
const count32 = (value, what) => {
  if (!Number.isInteger(value) || value < 0 || value > 0xffffffff)
    throw new WeftError(2, 'invalid_argument',
      `${what}: ${shown(value)}; a whole number from 0 to 4294967295 is wanted`);
  return value;
};
const bytesGiven = (value, what) => {
  if (value instanceof Uint8Array) return value;
  throw new WeftError(2, 'invalid_argument', `${what}: a Uint8Array is wanted`);
};
const asFloats = (values) => {
  if (values instanceof Float32Array) return values;
  need(isObject(values) && (Symbol.iterator in values || 'length' in values), 'values', values, 'an array of numbers');
  try {
    return Float32Array.from(values);
  } catch {
    need(false, 'values', values, 'an array of numbers');  // a BigInt or a symbol among them
  }
};
const optionsGiven = (options, what) => {
  need(isObject(options), what, options, 'an object of options');
  return options;
};
const rowsOf = (given) => {
  need(isObject(given), 'values', given, 'an object of names and arrays');
  return Object.fromEntries(Object.entries(given).map(([name, v]) => [name, asFloats(v)]));
};
const sizeOfRows = (rows) =>
  Object.entries(rows).reduce((sum, [name, values]) => sum + bytesOf(name) + 4 * values.length + 64, 256);
const sizeOfCounts = (counts) =>
  Object.entries(counts).reduce((sum, [name, count]) => sum + bytesOf(name) + 4 * count + 64, 0);

const unowned = new FinalizationRegistry(({ destroy, handle }) => destroy(handle));
/** An object of the module's. Classes that users get derive from these, with the `calls` of their module. */
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
    this.calls.check(this._destroy(handle));
  }
}

class MeshOf extends Handle {
  /** A network: a network file's text, or the object that it holds. */
  constructor(network, options = {}) {
    const { calls } = new.target;
    super(MeshOf.#build(calls, network, options), calls.module._weft_mesh_destroy);
  }
  static #build(calls, network, options) {
    if (network === MeshOf.#made) return options;
    const { args, module } = calls;
    const json = encoder.encode(typeof network === 'string' ? network : asJson(network, 'network'));
    args.begin(json.length + bytesOf(optionsGiven(options, 'mesh').executor ?? '') + 512);
    const out = args.zeroed(8);
    calls.check(module._weft_network_read(args.bytes(json), json.length, 0, out));
    const description = calls.readU32(out);
    try {
      calls.check(module._weft_mesh_build(description, calls.meshOptions(options), out));
      return calls.readU32(out);
    } finally {
      module._weft_network_destroy(description);
    }
  }
  static #made = {};
  /** Of a handle that a call gave. */
  static _of(handle) {
    return new this(MeshOf.#made, handle);
  }

  /** From the bytes of a network file or an .entity file, such as `toBytes` gives. */
  static fromBytes(bytes, options = {}) {
    const { calls, args, module } = this.calls;
    args.begin(bytesGiven(bytes, 'bytes').length + bytesOf(optionsGiven(options, 'mesh').executor ?? '') + 512);
    const out = args.zeroed(8);
    calls.check(module._weft_mesh_load_bytes(args.bytes(bytes), bytes.length, calls.meshOptions(options), out));
    return this._of(calls.readU32(out));
  }
  /** An .entity file's bytes; live: with sessions, all that ticks change, and the learner that drives the mesh, if any:
   *  `Learner.fromBytes` goes on with both. */
  toBytes(live = true) {
    const { calls, module } = this.calls;
    return calls.readBytes(256, (buffer, capacity, out) =>
      module._weft_mesh_save_bytes(this._handle, live ? 1 : 0, buffer, capacity, out));
  }

  setInput(port, values, session = 0) {
    const { calls, args, module } = this.calls;
    const given = asFloats(values);
    args.begin(bytesOf(port) + 4 * given.length);
    calls.check(module._weft_mesh_set_input(
      this._handle, args.text(port), count32(session, 'session'), args.floats(given), given.length));
  }
  /** Values that an output committed last. */
  output(name, session = 0) {
    const { calls, args, module } = this.calls;
    return calls.readFloats(bytesOf(name), (buffer, capacity, out) =>
      module._weft_mesh_output(this._handle, args.text(name), count32(session, 'session'), buffer, capacity, out));
  }
  /** The same of any layer: [z, y, x, layer], or fewer numbers. */
  outputAt(place, session = 0) {
    const { calls, module } = this.calls;
    return calls.readFloats(64, (buffer, capacity, out) =>
      module._weft_mesh_output_at(this._handle, calls.place(place), count32(session, 'session'), buffer, capacity, out));
  }
  tick(ticks = 1) {
    const { calls, module } = this.calls;
    calls.check(module._weft_mesh_tick(this._handle, count64(ticks, 'ticks')));
  }
  /** Ticks until so many milliseconds have passed, at least one; returns how many. */
  tickFor(milliseconds) {
    const { calls, args, module } = this.calls;
    need(typeof milliseconds === 'number', 'milliseconds', milliseconds, 'a number');
    args.begin(64);
    const out = args.zeroed(8);
    calls.check(module._weft_mesh_tick_for(this._handle, count64(Math.round(milliseconds * 1e6), 'milliseconds'), out));
    return calls.readU64(out);
  }
  /** Inputs [ticks][sessions][width]; outputs likewise. */
  run(inputs, ticks, outputs) {
    const per = count64(ticks, 'ticks');
    return this.#rows(inputs, outputs, ticks * this.sessions, (from, to) =>
      this.calls.module._weft_mesh_run(this._handle, from.at, from.count, per, to.at, to.count));
  }
  /** One pass without ticks: inputs [rows][width]. Feedback reads zero. */
  forward(inputs, rows = 1, outputs) {
    count32(rows, 'rows');
    return this.#rows(inputs, outputs, rows, (from, to) =>
      this.calls.module._weft_mesh_forward(this._handle, from.at, from.count, rows, to.at, to.count));
  }
  /** Widths of all outputs, or of those that are named. */
  _counts(outputs, rows) {
    const widths = Object.fromEntries(this.description.outputs.map(({ name, width }) => [name, width]));
    need(outputs == null || Array.isArray(outputs), 'outputs', outputs, 'an array of names');
    outputs?.forEach(asText);
    return Object.fromEntries((outputs ?? Object.keys(widths)).map((name) => [name, (widths[name] ?? 0) * rows]));
  }
  #rows(inputs, outputs, rows, call) {
    return this.calls.exchange(inputs, this._counts(outputs, rows), call);
  }
  resume() {
    const { calls, module } = this.calls;
    calls.check(module._weft_mesh_resume(this._handle));
  }

  get ticks() {
    const { calls, module } = this.calls;
    return calls.give((out) => module._weft_mesh_ticks(this._handle, out), (at) => calls.readU64(at));
  }
  get sessions() {
    const { calls, module } = this.calls;
    return calls.give((out) => module._weft_mesh_sessions(this._handle, out));
  }
  /** 32 hex digits: equal states, equal text, in a browser and in a data centre. */
  stateHash(session = 0) {
    const { calls, module } = this.calls;
    return calls.readString(64, (buffer, capacity, out) =>
      module._weft_mesh_state_hash(this._handle, count32(session, 'session'), buffer, capacity, out));
  }
  get description() {
    const { calls, module } = this.calls;
    this._description ??= JSON.parse(
      calls.readString(64, (buffer, capacity, out) => module._weft_mesh_describe(this._handle, buffer, capacity, out)));
    return this._description;
  }
  statistics() {
    const { calls, module } = this.calls;
    return JSON.parse(
      calls.readString(64, (buffer, capacity, out) =>
        module._weft_mesh_statistics(this._handle, buffer, capacity, out)));
  }

  addSession() {
    const { calls, module } = this.calls;
    return calls.give((out) => module._weft_mesh_add_session(this._handle, out));
  }
  removeSession(session) {
    const { calls, module } = this.calls;
    calls.check(module._weft_mesh_remove_session(this._handle, count32(session, 'session')));
  }
  resetSession(session = 0) {
    const { calls, module } = this.calls;
    calls.check(module._weft_mesh_reset_session(this._handle, count32(session, 'session')));
  }
  /** One session as a file's bytes; the mesh keeps it. */
  detachSession(session = 0) {
    const { calls, module } = this.calls;
    return calls.readBytes(64, (buffer, capacity, out) =>
      module._weft_mesh_detach_session(this._handle, count32(session, 'session'), buffer, capacity, out));
  }
  /** Adds a session that goes on where the detached one stood; its number. `otherWeights`: also one of a mesh with other
   *  weights. */
  attachSession(bytes, options = {}) {
    const { otherWeights = false, ...rest } = optionsGiven(options, 'attachSession');
    nothingElse(rest);
    const { calls, args, module } = this.calls;
    args.begin(bytesGiven(bytes, 'bytes').length + 64);
    const out = args.zeroed(8);
    calls.check(module._weft_mesh_attach_session(
      this._handle, args.bytes(bytes), bytes.length, otherWeights ? 1 : 0, out));
    return calls.readU32(out);
  }

  /** A layer's parameter, row-major [out][in]. */
  weights(place, parameter = 0) {
    const { calls, module } = this.calls;
    return calls.readFloats(64, (buffer, capacity, out) =>
      module._weft_mesh_read_weights(
        this._handle, calls.place(place), count32(parameter, 'parameter'), buffer, capacity, out));
  }
  setWeights(place, values, parameter = 0) {
    const { calls, args, module } = this.calls;
    const given = asFloats(values);
    args.begin(4 * given.length + 64);
    calls.check(module._weft_mesh_write_weights(
      this._handle, calls.place(place), count32(parameter, 'parameter'), args.floats(given), given.length));
  }
  /** Stores a layer's matrices in another numeric type. */
  morph(place, dtype, granularity) {
    const { calls, args, module } = this.calls;
    args.begin(128 + bytesOf(dtype) + bytesOf(granularity ?? ''));
    calls.check(module._weft_mesh_morph(
      this._handle, calls.place(place), args.text(dtype), granularity === undefined ? 0 : args.text(granularity)));
    this._description = undefined;
  }
  /**
   * Sends a command to a cell, to be executed at its next tick, or at tick `notBefore`: one of COMMANDS. "set_period":
   * `number` ticks; "set_weights": `parameter`, `values`; "set_rate": `values` of one number, 0: the layer does not move;
   * "probe": the output of session `number`; "morph": `dtype`, `granularity`.
   */
  command(kind, place, options = {}) {
    need(isObject(options), 'command', options, 'an object of options');
    const { number = 0, parameter = 0, notBefore = 0, dtype, granularity, values = [], ...rest } = options;
    nothingElse(rest);
    const { calls, args, module } = this.calls;
    const at = COMMANDS.indexOf(kind);
    if (at < 0) throw new WeftError(2, 'invalid_argument', `command ${shown(kind)} is none of ${COMMANDS.join(', ')}`);
    const given = asFloats(values);
    args.begin(4 * given.length + bytesOf(dtype ?? '') + bytesOf(granularity ?? '') + 256);
    const out = args.zeroed(8);
    const command = args.zeroed(64);
    const cell = calls.place(place);
    calls.words(command, [64, at]);
    module.HEAPU8.copyWithin(command + 8, cell, cell + 16);
    calls.words(command + 24, [count32(parameter, 'parameter')]);
    calls.view().setBigUint64(command + 32, count64(number, 'number'), true);
    calls.view().setBigUint64(command + 40, count64(notBefore, 'notBefore'), true);
    calls.words(command + 48, [
      dtype === undefined ? 0 : args.text(dtype), granularity === undefined ? 0 : args.text(granularity),
      given.length ? args.floats(given) : 0, given.length,
    ]);
    calls.check(module._weft_mesh_command(this._handle, command, out));
    this._description = undefined;
    return calls.Answer._of(calls.readU32(out));
  }

  /** All that ticks change, in memory; `restore` goes on there, to the bit. */
  takeSnapshot(to = new this.calls.Snapshot()) {
    const { calls, module } = this.calls;
    need(to instanceof SnapshotOf, 'snapshot', to, 'a Snapshot');
    calls.check(module._weft_mesh_take_snapshot(this._handle, to._handle));
    return to;
  }
  restoreSnapshot(from) {
    const { calls, module } = this.calls;
    need(from instanceof SnapshotOf, 'snapshot', from, 'a Snapshot');
    calls.check(module._weft_mesh_restore_snapshot(this._handle, from._handle));
  }
}

/** Commands, in the order of weft.h. */
const COMMANDS = [
  'enable', 'disable', 'set_period', 'set_weights', 'reset', 'probe', 'snapshot', 'morph', 'set_rate',
];

/** The fate of a command. */
class AnswerOf extends Handle {
  static _of(handle) {
    return new this(handle, this.calls.module._weft_answer_destroy);
  }
  /** The tick before which it was executed; null: not yet. Throws what went wrong. */
  get doneAt() {
    const { calls, args, module } = this.calls;
    args.begin(64);
    const isDone = args.zeroed(8), tick = args.zeroed(8);
    calls.check(module._weft_answer_status(this._handle, isDone, tick));
    return calls.readU32(isDone) ? calls.readU64(tick) : null;
  }
  /** Of "probe" and "snapshot". "not_found": not yet. */
  get values() {
    const { calls, module } = this.calls;
    return calls.readFloats(64, (buffer, capacity, out) =>
      module._weft_answer_values(this._handle, buffer, capacity, out));
  }
}

class SnapshotOf extends Handle {
  constructor() {
    const { calls, module } = new.target.calls;
    super(calls.give((out) => module._weft_snapshot_create(out)), module._weft_snapshot_destroy);
  }
}

class LearnerOf extends Handle {
  /** `options`: those of a network file's section "learning"; none: the network's own. */
  constructor(mesh, options) {
    const { calls, args, module } = new.target.calls;
    if (options === LearnerOf.#made) {
      super(mesh.handle, module._weft_learner_destroy);
      this.mesh = mesh.mesh;
      return;
    }
    need(mesh instanceof Handle, 'mesh', mesh, 'a Mesh');
    const json = options == null ? '' : asJson(options, 'options');
    args.begin(bytesOf(json) + 64);
    const out = args.zeroed(8);
    calls.check(module._weft_learner_build(mesh._handle, json ? args.text(json) : 0, out));
    super(calls.readU32(out), module._weft_learner_destroy);
    this.mesh = mesh;
  }
  static #made = {};
  static _of(handle, mesh) {
    return new this({ handle, mesh }, LearnerOf.#made);
  }
  /** A learner and its mesh (`.mesh`) from the bytes of a file that was saved live while it learned: they go on to the bit.
   *  "not_found": there is no learner in it. */
  static fromBytes(bytes, options = {}) {
    const { calls, args, module } = this.calls;
    args.begin(bytesGiven(bytes, 'bytes').length + bytesOf(optionsGiven(options, 'mesh').executor ?? '') + 512);
    const mesh = args.zeroed(8), learner = args.zeroed(8);
    calls.check(module._weft_learner_load_bytes(
      args.bytes(bytes), bytes.length, calls.meshOptions(options), mesh, learner));
    const handle = calls.readU32(learner);
    return this._of(handle, calls.Mesh._of(calls.readU32(mesh)));
  }
  /** The file's bytes of the mesh with this learner. */
  toBytes() {
    return this.mesh.toBytes();
  }
  #targets(targets, gradients = {}, weights = undefined) {
    const { calls, args } = this.calls;
    const names = [...new Set([...Object.keys(targets), ...Object.keys(gradients)])];
    const at = args.zeroed(Math.max(40 * names.length, 1));
    names.forEach((name, i) => {
      const given = [0, 0, 0, 0, 0, 0, 0, 0];  // labels, values, gradient, weights, each with its length
      const put = (field, values) => {
        if (values === undefined) return;
        given[2 * field] = values instanceof Uint32Array ? args.words(values) : args.floats(values);
        given[2 * field + 1] = values.length;
      };
      put(targets[name] instanceof Uint32Array ? 0 : 1, targets[name]);
      put(2, gradients[name]);
      put(3, weights);
      calls.words(at + 40 * i, [40, args.text(name), ...given]);
    });
    return { at, count: names.length };
  }
  static #given(targets) {
    need(isObject(targets), 'targets', targets, 'an object of names and labels or values');
    const asTarget = (values) =>
      values instanceof Uint32Array || values instanceof Float32Array ? values
      : Array.isArray(values) && values.every((v) => Number.isInteger(v) && v >= 0)
        ? Uint32Array.from(values, (label) => count32(label, 'label'))
      : asFloats(values);
    return Object.fromEntries(Object.entries(targets).map(([name, values]) => [name, asTarget(values)]));
  }
  /** Runs samples and learns. Targets: labels (Uint32Array, or an array of whole numbers) or values (Float32Array). */
  learn(inputs, targets, samples = 1) {
    const { calls, args, module } = this.calls;
    const given = rowsOf(inputs);
    const wanted = LearnerOf.#given(targets);
    args.begin(sizeOfRows(given) + sizeOfRows(wanted) + 40 * Object.keys(wanted).length);
    const from = calls.layRows(given, false);
    const to = this.#targets(wanted);
    calls.check(module._weft_learner_learn(
      this._handle, from.at, from.count, to.at, to.count, count64(samples, 'samples')));
  }
  /** A sample of each session enters, of which the target comes later, or never: its ticket. */
  observe(inputs) {
    const { calls, args, module } = this.calls;
    const given = rowsOf(inputs);
    args.begin(sizeOfRows(given) + 64);
    const out = args.zeroed(8);
    const from = calls.layRows(given, false);
    calls.check(module._weft_learner_observe(this._handle, from.at, from.count, out));
    return calls.readU64(out);
  }
  /** The answer to it: [sessions][width]. */
  answer(ticket, output) {
    const { calls, args, module } = this.calls;
    const number = count64(ticket, 'ticket');
    return calls.readFloats(bytesOf(output), (buffer, capacity, out) =>
      module._weft_learner_answer(this._handle, number, args.text(output), buffer, capacity, out));
  }
  /** Its target, at last. `gradients`: instead, dLoss/d output; `weights`: factors of the gradients. */
  teach(ticket, targets, options = {}) {
    const { gradients = {}, weights, ...rest } = optionsGiven(options, 'teach');
    nothingElse(rest);
    const { calls, args, module } = this.calls;
    const number = count64(ticket, 'ticket');
    const wanted = LearnerOf.#given(targets);
    const slopes = rowsOf(gradients);
    const factors = weights === undefined ? undefined : asFloats(weights);
    const count = Object.keys(wanted).length + Object.keys(slopes).length;
    args.begin(sizeOfRows(wanted) + sizeOfRows(slopes) + count * (104 + 4 * (factors?.length ?? 0)));
    const to = this.#targets(wanted, slopes, factors);
    calls.check(module._weft_learner_teach(this._handle, number, to.at, to.count));
  }
  /** No target will come. */
  forgo(ticket) {
    const { calls, module } = this.calls;
    calls.check(module._weft_learner_forgo(this._handle, count64(ticket, 'ticket')));
  }
  /** Tickets that expired since scores were last cleared. */
  expired() {
    const { calls, module } = this.calls;
    const { buffer, count } = calls.read(64, 8, (to, capacity, out) =>
      module._weft_learner_expired(this._handle, to, capacity, out));
    return Array.from({ length: count }, (_, i) => calls.readU64(buffer + 8 * i));
  }
  drain() {
    const { calls, module } = this.calls;
    calls.check(module._weft_learner_drain(this._handle));
  }
  /** Answers to rows of inputs: nothing is learned, nothing changes. `session`: as it stands; undefined: at zero. */
  predict(inputs, rows = 1, session) {
    const { calls, module } = this.calls;
    count32(rows, 'rows');
    return calls.exchange(inputs, this.mesh._counts(undefined, rows), (from, to) =>
      module._weft_learner_predict(
        this._handle, from.at, from.count, rows, to.at, to.count,
        session === undefined ? NO_SESSION : count32(session, 'session')));
  }
  /** For networks of one input, one output and one session. */
  predictOne(x) {
    const { calls, args, module } = this.calls;
    const given = asFloats(x);
    const { width } = this.mesh.description.outputs[0];
    args.begin(4 * (given.length + width) + 64);
    const from = args.floats(given);
    const to = args.allocate(4 * width);
    calls.check(module._weft_learner_predict_one(this._handle, from, given.length, to, width));
    return calls.floatsAt(to, width);
  }
  learnOne(x, label) {
    const { _weft_learner_learn_one, _weft_learner_learn_one_values } = this.calls.module;
    this.#one(x, label, _weft_learner_learn_one, _weft_learner_learn_one_values);
  }
  /** Anomaly score (option `anomaly`) of a sample as `learnOne` would take it; nothing is learned. */
  scoreOne(x, label) {
    const { calls, args, module } = this.calls;
    let out;
    const place = () => (out = args.zeroed(4));
    const { _weft_learner_score_one, _weft_learner_score_one_values } = module;
    this.#one(x, label, _weft_learner_score_one, _weft_learner_score_one_values, place);
    return calls.view().getFloat32(out, true);
  }
  #one(x, label, byLabel, byValues, place) {
    const { calls, args } = this.calls;
    const given = asFloats(x);
    const isLabel = typeof label === 'number';
    if (isLabel) count32(label, 'label');
    const values = isLabel ? [] : asFloats(label ?? []);
    args.begin(4 * (given.length + values.length) + 80);
    const from = args.floats(given);
    const rest = place ? [place()] : [];
    calls.check(isLabel
      ? byLabel(this._handle, from, given.length, label, ...rest)
      : byValues(this._handle, from, given.length, args.floats(values), values.length, ...rest));
  }
  counts() {
    const { calls, args, module } = this.calls;
    const at = args.begin(256).zeroed(80);
    calls.words(at, [80]);
    calls.check(module._weft_learner_count(this._handle, at));
    const names = [
      'samples', 'scored', 'observed', 'taught', 'forgone', 'expired', 'hold', 'latency', 'ticksPerSample',
    ];
    return Object.fromEntries(names.map((name, i) => [name, calls.readU64(at + 8 + 8 * i)]));
  }
  /** Predictions before they were learned from, since they were last cleared. */
  scores() {
    const { calls, module } = this.calls;
    const { buffer, count } = calls.read(64, 32, (to, capacity, out) =>
      module._weft_learner_scores(this._handle, to, capacity, out));
    const data = calls.view();
    return Array.from({ length: count }, (_, i) => {
      const at = buffer + 32 * i;
      return {
        sample: calls.readU64(at), session: data.getUint32(at + 8, true), prediction: data.getUint32(at + 12, true),
        label: data.getUint32(at + 16, true), loss: data.getFloat32(at + 20, true), token: data.getUint32(at + 24, true),
        anomaly: data.getFloat32(at + 28, true),
      };
    });
  }
  clearScores() {
    const { calls, module } = this.calls;
    calls.check(module._weft_learner_clear_scores(this._handle));
  }
  /** Layers are measured as they learn, from now on, or no more: it takes time and a copy of all weights. */
  measure(isOn = true) {
    const { calls, module } = this.calls;
    calls.check(module._weft_learner_measure(this._handle, isOn ? 1 : 0));
  }
  /** Of each layer that an error has reached since. */
  diagnostics() {
    const { calls, args, module } = this.calls;
    const bytes = 56;
    const out = args.begin(64).zeroed(8);
    calls.check(module._weft_learner_diagnostics(this._handle, 0, 0, out));
    const count = calls.readU32(out);
    if (!count) return [];
    const needed = args.begin(bytes * count + 64).zeroed(8), layers = args.zeroed(bytes * count);
    calls.words(layers, [bytes]);
    calls.check(module._weft_learner_diagnostics(this._handle, layers, count, needed));
    const data = calls.view();
    return Array.from({ length: count }, (_, i) => {
      const at = layers + bytes * i;
      const [z, y, x, layer] = [4, 8, 12, 16].map((offset) => data.getUint32(at + offset, true));
      const [error, budget, update, relativeUpdate, weight] =
        [20, 24, 28, 32, 36].map((offset) => data.getFloat32(at + offset, true));
      return {
        at: { z, y, x, layer }, error, budget: budget < 0 ? null : budget, update, relativeUpdate, weight,
        errorAge: calls.readU64(at + 48),
      };
    });
  }
}

/** A world to act in, to the bits of every machine: episodes are functions of seed and number. */
class EnvironmentOf extends Handle {
  #seed = 0;
  #episode = -1;

  /** `length`: steps between bit and question of memory_chain (0: 16), of a turn of turns and chase (0: 20000). */
  constructor(name, options = {}) {
    const { length = 0, ...rest } = optionsGiven(options, 'environment');
    nothingElse(rest);
    const { calls, args, module } = new.target.calls;
    args.begin(bytesOf(name) + 128);
    const out = args.zeroed(8);
    const own = args.zeroed(12);
    calls.words(own, [12, count32(length, 'length')]);
    calls.check(module._weft_environment_create(args.text(name), own, out));
    super(calls.readU32(out), module._weft_environment_destroy);
    this.name = name;
    const shape = args.begin(128).zeroed(24);
    calls.words(shape, [24]);
    calls.check(module._weft_environment_describe(this._handle, shape));
    /** Numbers of an observation; of an action that is one of several; of one that is values; steps at most, 0: any. */
    [this.observations, this.choices, this.values] = [4, 8, 12].map((at) => calls.readU32(shape + at));
    this.limit = calls.readU64(shape + 16);
  }

  /** Begins an episode: its observation. With a seed the first one of that seed, or number `episode`; without, the next. */
  reset(options = {}) {
    const { seed, episode, ...rest } = optionsGiven(options, 'reset');
    nothingElse(rest);
    const { calls, module } = this.calls;
    const from = seed === undefined ? this.#seed : seed;
    const number = episode ?? (seed === undefined ? this.#episode + 1 : 0);
    calls.check(module._weft_environment_reset(this._handle, seed64(from, 'seed'), count64(number, 'episode')));
    this.#seed = from;
    this.#episode = number;
    return this.observation();
  }
  /** Acts: by a number, or, where `choices` is 0, by values. */
  step(action) {
    const { calls, args, module } = this.calls;
    const choice = this.choices > 0 ? count32(action, 'action') : 0;
    const values = this.choices > 0 ? new Float32Array(0) : asFloats(typeof action === 'number' ? [action] : action);
    args.begin(4 * values.length + 128);
    const result = args.zeroed(32);
    calls.words(result, [32]);
    const given = values.length ? args.floats(values) : 0;
    calls.check(module._weft_environment_step(this._handle, choice, given, values.length, result));
    const data = calls.view();
    const [reward, terminated, truncated] = [
      data.getFloat64(result + 8, true), data.getInt32(result + 16, true) !== 0, data.getInt32(result + 20, true) !== 0,
    ];
    return { observation: this.observation(), reward, terminated, truncated };
  }
  observation() {
    const { calls, module } = this.calls;
    return calls.readFloats(64, (buffer, capacity, out) =>
      module._weft_environment_observation(this._handle, buffer, capacity, out));
  }
  /** The numbers that the world consists of, for a picture of it. */
  state() {
    const { calls, module } = this.calls;
    const { buffer, count } = calls.read(64, 8, (to, capacity, out) =>
      module._weft_environment_state(this._handle, to, capacity, out));
    const data = calls.view();
    return Float64Array.from({ length: count }, (_, i) => data.getFloat64(buffer + 8 * i, true));
  }
  /** 32 hex digits: equal worlds, equal text. */
  stateHash() {
    const { calls, module } = this.calls;
    return calls.readString(64, (buffer, capacity, out) =>
      module._weft_environment_hash(this._handle, buffer, capacity, out));
  }
  /** The world as bytes; `restore` goes on with it. */
  toBytes() {
    const { calls, module } = this.calls;
    return calls.readBytes(64, (buffer, capacity, out) =>
      module._weft_environment_save(this._handle, buffer, capacity, out));
  }
  restore(bytes) {
    const { calls, args, module } = this.calls;
    args.begin(bytesGiven(bytes, 'bytes').length + 64);
    calls.check(module._weft_environment_restore(this._handle, args.bytes(bytes), bytes.length));
  }
}

/** Agents of a module, each in a directory of its own among the module's files. */
let directories = 0;

class AgentOf extends Handle {
  /**
   * A mesh and its learner with a journal, to the bit where it stood: `files` is a data directory as `files()` gives it, by
   * names relative to the directory; empty: a new agent of `network`.
   */
  constructor(files, network, options = {}) {
    const { calls } = new.target;
    const directory = `agent-${++directories}`;
    try {
      calls.putFiles(directory, files);
      super(AgentOf.#open(calls, directory, network, options), calls.module._weft_agent_close);
    } catch (error) {
      calls.forgetFiles(directory);
      throw error;
    }
    this.directory = directory;
    const { module } = calls;
    const mesh = calls.give((out) => module._weft_agent_mesh(this._handle, out));
    /** As a mesh of one's own, but for `run`, `setWeights`, `morph`, `toBytes` and snapshots; calls go into the journal. */
    this.mesh = calls.Mesh._of(mesh);
    this.learner = null;
    try {
      this.learner = calls.Learner._of(calls.give((out) => module._weft_agent_learner(this._handle, out)), this.mesh);
    } catch (error) {
      if (error.kind !== 'not_found') throw error;  // it does not learn
    }
  }
  static #open(calls, directory, network, options) {
    const {
      keep = 0, checkpointEvery = 0, checkpointBytes = 0, identity, learns = true, salvage = false, mesh = {}, ...rest
    } = optionsGiven(options, 'agent');
    nothingElse(rest);
    optionsGiven(mesh, 'mesh');
    const { args, module } = calls;
    let description = 0;
    if (network !== undefined) {
      const json = encoder.encode(typeof network === 'string' ? network : asJson(network, 'network'));
      args.begin(json.length + 64);
      const out = args.zeroed(8);
      calls.check(module._weft_network_read(args.bytes(json), json.length, 0, out));
      description = calls.readU32(out);
    }
    try {
      args.begin(bytesOf(identity ?? '') + bytesOf(mesh.executor ?? '') + 512);
      const out = args.zeroed(8);
      const at = args.zeroed(48);
      calls.words(at, [
        48, calls.meshOptions(mesh), args.text('tick'), identity === undefined ? 0 : args.text(identity),
        count32(keep, 'keep'),
      ]);
      calls.view().setBigUint64(at + 24, count64(checkpointEvery, 'checkpointEvery'), true);
      calls.view().setBigUint64(at + 32, count64(checkpointBytes, 'checkpointBytes'), true);
      calls.words(at + 40, [learns ? 0 : 1, salvage ? 1 : 0]);
      calls.check(module._weft_agent_open(args.text(directory), description, at, out));
      return calls.readU32(out);
    } finally {
      if (description) module._weft_network_destroy(description);
    }
  }

  /** All that it wrote, for a database or a folder: names and bytes. Opened with these it goes on from here. */
  files() {
    const { calls, module } = this.calls;
    calls.check(module._weft_agent_acknowledge(this._handle));
    return calls.filesOf(this.directory);
  }
  /** Takes a checkpoint: journals before the oldest one kept end. */
  checkpoint() {
    this.calls.check(this.calls.module._weft_agent_checkpoint(this._handle));
  }
  /** Acts so many times in the environment of the network's section "reinforcement", and learns from it. */
  act(steps = 1) {
    this.calls.check(this.calls.module._weft_agent_act(this._handle, count64(steps, 'steps')));
  }
  /** An annotation of yours; a replay passes it. */
  note(topic, text) {
    const { calls, args, module } = this.calls;
    args.begin(bytesOf(topic) + bytesOf(text) + 64);
    calls.check(module._weft_agent_note(this._handle, args.text(topic), args.text(text)));
  }
  /** Tick and state hash, which replays compare. */
  mark() {
    this.calls.check(this.calls.module._weft_agent_mark(this._handle));
  }
  statistics() {
    const { calls, module } = this.calls;
    return JSON.parse(calls.readString(64, (buffer, capacity, out) =>
      module._weft_agent_statistics(this._handle, buffer, capacity, out)));
  }
  /** Ends it, with its mesh and learner; its files are gone. */
  destroy() {
    if (this._handle === 0) return;
    this.learner?.destroy();
    this.mesh.destroy();
    super.destroy();
    this.calls.forgetFiles(this.directory);
  }
}

/** Replays an agent's data directory, which the native program may have written, from a checkpoint to its end. */
function replayFiles(calls, files, options = {}) {
  const { verify = false, from, until, ...rest } = optionsGiven(options, 'replay');
  nothingElse(rest);
  const { args, module } = calls;
  const directory = `replay-${++directories}`;
  const none = 2n ** 64n - 1n;
  const ticks = [from, until].map((tick, i) => (tick === undefined ? none : count64(tick, i ? 'until' : 'from')));
  try {
    calls.putFiles(directory, files);
    args.begin(256);
    const out = args.zeroed(8);
    calls.check(module._weft_web_replay(args.text(directory), verify ? 1 : 0, ...ticks, out));
    return JSON.parse(calls.readText(calls.readU32(out)));
  } finally {
    calls.forgetFiles(directory);
  }
}

/** The classes over one module, each with its calls. */
function bind(module) {
  const calls = new Calls(module);
  const owned = (type) => {
    type.calls = calls;
    type.prototype.calls = calls;
    return type;
  };
  calls.Snapshot = owned(class Snapshot extends SnapshotOf {});
  calls.Answer = owned(class Answer extends AnswerOf {});
  const Mesh = (calls.Mesh = owned(class Mesh extends MeshOf {}));
  const Learner = (calls.Learner = owned(class Learner extends LearnerOf {}));
  const Agent = owned(class Agent extends AgentOf {});
  const Environment = owned(class Environment extends EnvironmentOf {});
  const replay = (files, options) => replayFiles(calls, files, options);
  const environments = () =>
    JSON.parse(calls.readString(64, (buffer, capacity, out) => module._weft_environments(buffer, capacity, out)));
  const takeFlushedResults = () => calls.give((out) => module._weft_take_flushed_results(out)) !== 0;
  const version = calls.readText(module._weft_version());
  return {
    Mesh, Learner, Agent, Environment, Snapshot: calls.Snapshot, Answer: calls.Answer, WeftError, COMMANDS, NO_LABEL,
    environments, replay, takeFlushedResults, version, module,
  };
}
