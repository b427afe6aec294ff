// SPDX-License-Identifier: Apache-2.0

/** Values by the names of ports or outputs, row-major. */
export type Rows = Record<string, ArrayLike<number>>;
/** Labels (Uint32Array, or whole numbers) or values, by the names of outputs. */
export type Targets = Record<string, Uint32Array | Float32Array | number[]>;
/** [z, y, x, layer], or the last ones of z, y, x. */
export type Place = readonly number[];

export declare class WeftError extends Error {
  /** As in weft.h. */
  readonly code: number;
  /** "shape_mismatch" */
  readonly kind: string;
  readonly text: string;
}

export interface MeshOptions {
  /** Independent states over one set of weights; 1. */
  sessions?: number;
  executor?: 'auto' | 'resident' | 'deterministic';
  /** Of the executor "deterministic". */
  executorSeed?: number | bigint;
  /** Bytes that it may take, by estimate; 0: no bound. "too_large": the text has both numbers. */
  maxMemory?: number;
  /** false: quantized weights take their true size, and cannot learn. */
  keepsMasters?: boolean;
}

/** Commands to cells. */
export type Command =
  'enable' | 'disable' | 'set_period' | 'set_weights' | 'reset' | 'probe' | 'snapshot' | 'morph' | 'set_rate';

export interface CommandOptions {
  /** Of "set_period": ticks; of "probe": the session. */
  number?: number;
  /** Of "set_weights": which of the layer's. */
  parameter?: number;
  /** Tick at which it is executed, at the earliest. */
  notBefore?: number;
  dtype?: string;
  granularity?: string;
  /** Of "set_weights"; of "set_rate" one number, a factor of the learning rate: at 0 the layer does not move. */
  values?: ArrayLike<number>;
}

/** The fate of a command. */
export declare class Answer {
  /** The tick before which it was executed; null: not yet. Throws what went wrong. */
  readonly doneAt: number | null;
  /** Of "probe" and "snapshot". "not_found": not yet. */
  readonly values: Float32Array;
  destroy(): void;
}

export interface Description {
  name: string;
  inputs: { name: string; shape: number[]; width: number }[];
  layers: { at: number[]; type: string; in: number; shape: number[]; width: number; dtype: string;
            parameters: { name: string; shape: number[] }[] }[];
  outputs: { name: string; at: number[]; shape: number[]; width: number; latency: Record<string, number> }[];
  [key: string]: unknown;
}

export declare class Snapshot {
  constructor();
  destroy(): void;
}

export declare class Mesh {
  /** A network file's text, or the object that it holds. */
  constructor(network: string | object, options?: MeshOptions);
  static fromBytes(bytes: Uint8Array, options?: MeshOptions): Mesh;
  /** An .entity file's bytes. live (true): with sessions, and the learner that drives it, if any. */
  toBytes(live?: boolean): Uint8Array;
  setInput(port: string, values: ArrayLike<number>, session?: number): void;
  output(name: string, session?: number): Float32Array;
  outputAt(place: Place, session?: number): Float32Array;
  tick(ticks?: number): void;
  tickFor(milliseconds: number): number;
  run(inputs: Rows, ticks: number, outputs?: string[]): Record<string, Float32Array>;
  forward(inputs: Rows, rows?: number, outputs?: string[]): Record<string, Float32Array>;
  resume(): void;
  readonly ticks: number;
  readonly sessions: number;
  stateHash(session?: number): string;
  readonly description: Description;
  statistics(): Record<string, unknown>;
  addSession(): number;
  removeSession(session: number): void;
  resetSession(session?: number): void;
  /** One session as a file's bytes; the mesh keeps it. */
  detachSession(session?: number): Uint8Array;
  /** Adds a session that goes on where the detached one stood; its number. */
  attachSession(bytes: Uint8Array, options?: { otherWeights?: boolean }): number;
  weights(place: Place, parameter?: number): Float32Array;
  setWeights(place: Place, values: ArrayLike<number>, parameter?: number): void;
  morph(place: Place, dtype: string, granularity?: string): void;
  /** Sends a command to a cell, to be executed at its next tick. An agent's goes into its journal. */
  command(kind: Command, place: Place, options?: CommandOptions): Answer;
  takeSnapshot(to?: Snapshot): Snapshot;
  restoreSnapshot(from: Snapshot): void;
  destroy(): void;
}

export interface Counts {
  samples: number; scored: number; observed: number; taught: number; forgone: number; expired: number;
  hold: number; latency: number; ticksPerSample: number;
}

/** A prediction before it was learned from. */
export interface Score {
  sample: number; session: number; prediction: number; label: number; loss: number;
  /** Or head. */
  token: number;
  /** Of the option `anomaly`; 0 where that is off. */
  anomaly: number;
}

/** Measurements of a layer's last update. */
export interface LayerDiagnostics {
  at: { z: number; y: number; x: number; layer: number };
  /** Root mean square of what reached it: target - output, or of backprop the loss's gradient. */
  error: number;
  /** Link budget, 0 to 1; null: the rule has no targets. */
  budget: number | null;
  /** Root mean square of the change of its weights, that over the weights', and of the weights. */
  update: number; relativeUpdate: number; weight: number;
  /** Ticks since the layer published what the error speaks of. */
  errorAge: number;
}

export declare class Learner {
  constructor(mesh: Mesh, options?: object);
  /** A learner and its mesh (`mesh`) from the bytes of a file that was saved live while it learned: they go on to the bit.
      "not_found": there is no learner in it. */
  static fromBytes(bytes: Uint8Array, options?: MeshOptions): Learner;
  /** The file's bytes of the mesh with this learner. */
  toBytes(): Uint8Array;
  readonly mesh: Mesh;
  learn(inputs: Rows, targets: Targets, samples?: number): void;
  /** A sample of each session enters, of which the target comes later, or never ("late" of the options): its ticket. */
  observe(inputs: Rows): number;
  /** The answer to it: [sessions][width]. "not_found": not there yet (schedule pipelined), or no such ticket. */
  answer(ticket: number, output: string): Float32Array;
  /** Its target, at last. `gradients`: instead, dLoss/d output; `weights`: factors of the gradients. "timed_out": it has
      expired. */
  teach(ticket: number, targets: Targets, options?: { gradients?: Rows; weights?: ArrayLike<number> }): void;
  /** No target will come. */
  forgo(ticket: number): void;
  /** Tickets that expired since scores were last cleared. */
  expired(): number[];
  drain(): void;
  predict(inputs: Rows, rows?: number, session?: number): Record<string, Float32Array>;
  predictOne(x: ArrayLike<number>): Float32Array;
  learnOne(x: ArrayLike<number>, label: number | ArrayLike<number>): void;
  /** Anomaly score (option `anomaly`) of a sample as `learnOne` would take it; nothing is learned. */
  scoreOne(x: ArrayLike<number>, label: number | ArrayLike<number>): number;
  counts(): Counts;
  /** Of samples since they were last cleared. */
  scores(): Score[];
  clearScores(): void;
  /** Layers are measured as they learn, from now on, or no more: it takes time and a copy of all weights. */
  measure(isOn?: boolean): void;
  /** Of each layer that an error has reached since. */
  diagnostics(): LayerDiagnostics[];
  destroy(): void;
}

/** Form of an environment, as `environments()` lists it. */
export interface EnvironmentShape {
  name: string;
  /** Numbers of an observation. */
  observations: number;
  /** Of an action that is one of several; 0: it is values. */
  choices: number;
  /** Of such an action. */
  values: number;
  /** Steps after which an episode is truncated; 0: none. */
  limit: number;
}

/** A world to act in, to the bits of every machine. */
export declare class Environment implements EnvironmentShape {
  /** `length`: steps between bit and question of memory_chain (0: 16), of a turn of turns and chase (0: 20000). */
  constructor(name: string, options?: { length?: number });
  readonly name: string;
  readonly observations: number;
  readonly choices: number;
  readonly values: number;
  readonly limit: number;
  /** Begins an episode, a function of seed and number: its observation. With a seed the first one of it; without, the next. */
  reset(options?: { seed?: number | bigint; episode?: number }): Float32Array;
  /** Acts: by a number, or, where `choices` is 0, by values. */
  step(action: number | ArrayLike<number>): {
    observation: Float32Array; reward: number; terminated: boolean; truncated: boolean };
  observation(): Float32Array;
  /** The numbers that the world consists of, for a picture of it. */
  state(): Float64Array;
  stateHash(): string;
  /** The world as bytes; `restore` goes on with it. */
  toBytes(): Uint8Array;
  restore(bytes: Uint8Array): void;
  destroy(): void;
}

/** A data directory: names relative to it ("journal/journal-1") and contents. */
export type Files = Map<string, Uint8Array> | Record<string, Uint8Array>;

export interface AgentOptions {
  /** Checkpoints; 3. */
  keep?: number;
  /** Ticks; 0: by bytes of the journal. */
  checkpointEvery?: number;
  /** Bytes of the journal; 0: 256 MiB. */
  checkpointBytes?: number;
  /** Must be the same whenever the directory is opened. */
  identity?: string;
  /** false: although the network has a section "learning". */
  learns?: boolean;
  mesh?: MeshOptions;
  /** Goes on where a damaged journal ends. */
  salvage?: boolean;
}

/** A mesh and its learner with a journal of all that comes from outside: closed at any moment, it goes on to the bit. */
export declare class Agent {
  /** `files`: what `files()` gave; empty: a new agent of `network`. */
  constructor(files: Files, network?: string | object, options?: AgentOptions);
  /** As a mesh of one's own, but for `run`, `setWeights`, `morph`, `toBytes` and snapshots. */
  readonly mesh: Mesh;
  /** null: its network has no section "learning". */
  readonly learner: Learner | null;
  /** All that it wrote, for a database or a folder. */
  files(): Map<string, Uint8Array>;
  checkpoint(): void;
  /** Acts so many times (1) in the environment of the network's section "reinforcement", and learns from it. */
  act(steps?: number): void;
  note(topic: string, text: string): void;
  /** Tick and state hash into the journal, for replays to compare. */
  mark(): void;
  statistics(): Record<string, unknown>;
  destroy(): void;
}

export interface Replayed {
  fromTick: number; tick: number; records: number; compared: number; stateHash: string; tornBytes: number;
  damages: string[];
}

export interface Weft {
  Agent: typeof Agent;
  /** Replays a data directory that an agent wrote, here or natively, from the newest checkpoint at or before `from`, or the
      oldest. `verify`: compares the state hash with every marker and checkpoint. */
  replay(files: Files, options?: { verify?: boolean; from?: number; until?: number }): Replayed;
  Mesh: typeof Mesh;
  Learner: typeof Learner;
  Snapshot: typeof Snapshot;
  Answer: typeof Answer;
  Environment: typeof Environment;
  /** Worlds that there are. */
  environments(): EnvironmentShape[];
  /** True where results may differ from x86-64's (docs/numerics.md): always true here, since nothing tells of subnormal
      numbers. */
  takeFlushedResults(): boolean;
  WeftError: typeof WeftError;
  readonly COMMANDS: readonly Command[];
  readonly NO_LABEL: number;
  readonly version: string;
}

export interface LoadOptions {
  /** The module with vectors of 128 bits, or the one without; undefined: what the engine has. The bits are the same. */
  simd?: boolean;
  /** A module's bytes, where it is not to be fetched from beside weft.mjs. */
  wasmBinary?: ArrayBuffer | Uint8Array;
}

/** Loads the module; rejected where it cannot be. */
export declare function load(options?: LoadOptions): Promise<Weft>;
/** Files of a folder and those below it; node alone. */
export declare function readFolder(folder: string): Promise<Map<string, Uint8Array>>;
