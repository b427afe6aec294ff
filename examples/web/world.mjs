// SPDX-License-Identifier: Apache-2.0
// The game's world: two players, berries, and creatures that learn where players will be. A step is made of whole numbers
// and of the mesh's bits alone, so that two machines that were given the same inputs have the same world.

export const WIDTH = 640, HEIGHT = 400, CREATURES = 6, BERRIES = 6, AHEAD = 15;
const UNIT = 256;  // of a pixel
const SENSES = 8;
const PLAYER = 6, CREATURE = 4;  // whole numbers of each: x, y, vx, vy; players: berries eaten, times caught
const PLAYERS_AT = 2, CREATURES_AT = PLAYERS_AT + 2 * PLAYER, BERRIES_AT = CREATURES_AT + CREATURES * CREATURE;
const NUMBERS = BERRIES_AT + 2 * BERRIES;
const PATH = AHEAD + 1;  // frames remembered

/** A creature's eight senses to the way that its player goes in the next quarter of a second. */
export const NETWORK = {
  weft: 2, name: 'creatures', seed: 11, inputs: { senses: [SENSES] },
  chain: [{ type: 'dense', out: 24, activation: 'tanh' }, { type: 'dense', out: 2 }],
  learning: { rule: 'backprop', schedule: 'settle', loss: 'mse', optimizer: { type: 'sgd', lr: 0.02 } },
};

/** Input of one player and frame: bits left, right, up, down. */
export const axes = (input) => [(input >> 1 & 1) - (input & 1), (input >> 3 & 1) - (input >> 2 & 1)];

export class World {
  constructor({ Mesh, Learner }) {
    this.mesh = new Mesh(NETWORK, { sessions: CREATURES });
    this.learner = new Learner(this.mesh, { ...NETWORK.learning, learners: CREATURES });
    this.numbers = new Int32Array(NUMBERS);
    this.senses = new Float32Array(PATH * CREATURES * SENSES);  // by frame modulo PATH
    this.chased = new Int32Array(PATH * CREATURES * 3);         // which player, and where it stood
    this.aims = new Int32Array(2 * CREATURES);
    this.errors = new Float64Array(2);  // of the forecast: the latest frames' mean, and that of standing still, pixels
    this.numbers[1] = 12345;
    for (let p = 0; p < 2; p++) this.#put(this.#player(p), (p ? 3 : 1) * WIDTH / 4, HEIGHT / 2);
    for (let c = 0; c < CREATURES; c++) this.#put(this.#creature(c), WIDTH * (c + 1) / (CREATURES + 1), c % 2 ? 20 : HEIGHT - 20);
    for (let b = 0; b < BERRIES; b++) this.#grow(b);
  }

  get frame() {
    return this.numbers[0];
  }
  player(p) {
    const [x, y, vx, vy, eaten, caught] = this.numbers.subarray(this.#player(p));
    return { x: x / UNIT, y: y / UNIT, vx, vy, eaten, caught };
  }
  creature(c) {
    const [x, y] = this.numbers.subarray(this.#creature(c));
    return { x: x / UNIT, y: y / UNIT, aimX: this.aims[2 * c] / UNIT, aimY: this.aims[2 * c + 1] / UNIT };
  }
  berry(b) {
    return { x: this.numbers[BERRIES_AT + 2 * b] / UNIT, y: this.numbers[BERRIES_AT + 2 * b + 1] / UNIT };
  }

  /** One frame: creatures learn from what the players did, forecast, and move. */
  step(inputs) {
    this.#movePlayers(inputs);
    this.#learn();
    this.#sense(inputs);
    this.#chase();
    this.numbers[0] += 1;
  }

  /** Everything that a step changes; into `to`, which a snapshot before it may be. */
  save(to = {}) {
    to.mesh = this.mesh.takeSnapshot(to.mesh);
    for (const name of World.#fields) to[name] = this[name].slice();
    return to;
  }
  restore(from) {
    this.mesh.restoreSnapshot(from.mesh);
    for (const name of World.#fields) this[name].set(from[name]);
  }
  /** Text that is equal where two worlds are. */
  hash() {
    let sum = 0x811c9dc5;
    for (const name of World.#fields)
      for (const byte of new Uint8Array(this[name].buffer)) sum = Math.imul(sum ^ byte, 0x01000193);
    return `${this.mesh.stateHash()}-${(sum >>> 0).toString(16).padStart(8, '0')}`;
  }

  static #fields = ['numbers', 'senses', 'chased', 'aims', 'errors'];
  #player(p) {
    return PLAYERS_AT + PLAYER * p;
  }
  #creature(c) {
    return CREATURES_AT + CREATURE * c;
  }
  #put(at, x, y) {
    this.numbers[at] = Math.round(x * UNIT);
    this.numbers[at + 1] = Math.round(y * UNIT);
  }
  /** Whole numbers below `end`, of a generator in the state (xorshift, Marsaglia 2003). */
  #random(end) {
    let x = this.numbers[1];
    x ^= x << 13;
    x ^= x >>> 17;
    x ^= x << 5;
    this.numbers[1] = x;
    return (x >>> 0) % end;
  }
  #grow(b) {
    this.#put(BERRIES_AT + 2 * b, 20 + this.#random(WIDTH - 40), 20 + this.#random(HEIGHT - 40));
  }
  #go(at) {
    const ends = [WIDTH * UNIT, HEIGHT * UNIT];
    for (let i = 0; i < 2; i++)
      this.numbers[at + i] = Math.max(0, Math.min(ends[i], this.numbers[at + i] + this.numbers[at + 2 + i]));
  }
  #near(a, b, pixels) {
    return Math.max(Math.abs(this.numbers[a] - this.numbers[b]), Math.abs(this.numbers[a + 1] - this.numbers[b + 1])) <
      pixels * UNIT;
  }

  #movePlayers(inputs) {
    for (let p = 0; p < 2; p++) {
      const at = this.#player(p);
      axes(inputs[p]).forEach((axis, i) => {
        this.numbers[at + 2 + i] = Math.trunc((this.numbers[at + 2 + i] * 7 + axis * 3 * UNIT) / 8);
      });
      this.#go(at);
      for (let b = 0; b < BERRIES; b++)
        if (this.#near(at, BERRIES_AT + 2 * b, 14)) {
          this.numbers[at + 4] += 1;
          this.#grow(b);
        }
    }
  }
  /** Learns: what players did since a quarter of a second ago is the target of what was sensed then. */
  #learn() {
    if (this.frame < AHEAD) return;
    const then = (this.frame - AHEAD) % PATH;
    const targets = new Float32Array(2 * CREATURES);
    let error = 0, still = 0;
    const senses = this.senses.subarray(then * CREATURES * SENSES, (then + 1) * CREATURES * SENSES);
    const { y } = this.learner.predict({ senses }, CREATURES);
    for (let c = 0; c < CREATURES; c++) {
      const [player, x0, y0] = this.chased.subarray(3 * (then * CREATURES + c));
      const at = this.#player(player);
      targets[2 * c] = (this.numbers[at] - x0) / (64 * UNIT);
      targets[2 * c + 1] = (this.numbers[at + 1] - y0) / (64 * UNIT);
      const away = (a, b) => {
        const dx = targets[2 * c] - a, dy = targets[2 * c + 1] - b;
        return 64 * Math.sqrt(dx * dx + dy * dy);
      };
      error += away(y[2 * c], y[2 * c + 1]);
      still += away(0, 0);
    }
    this.errors[0] += (error / CREATURES - this.errors[0]) / 128;
    this.errors[1] += (still / CREATURES - this.errors[1]) / 128;
    this.learner.learn({ senses }, { y: targets }, 1);
    this.learner.clearScores();
  }
  #sense(inputs) {
    const now = this.frame % PATH;
    for (let c = 0; c < CREATURES; c++) {
      const at = this.#creature(c);
      const player = c % 2;
      const of = this.#player(player);
      const [dx, dy] = axes(inputs[player]);
      const [x, y, vx, vy] = this.numbers.subarray(of);
      this.senses.set([vx / 1024, vy / 1024, dx, dy, (x - this.numbers[at]) / (256 * UNIT), (y - this.numbers[at + 1]) / (256 * UNIT),
                       x / (512 * UNIT) - 0.625, y / (512 * UNIT) - 0.390625], SENSES * (now * CREATURES + c));
      this.chased.set([player, x, y], 3 * (now * CREATURES + c));
    }
  }
  /** Each goes to where it expects its player to be. */
  #chase() {
    const now = this.frame % PATH;
    const senses = this.senses.subarray(now * CREATURES * SENSES, (now + 1) * CREATURES * SENSES);
    const { y } = this.learner.predict({ senses }, CREATURES);
    for (let c = 0; c < CREATURES; c++) {
      const at = this.#creature(c);
      const [player, x, y0] = this.chased.subarray(3 * (now * CREATURES + c));
      this.aims[2 * c] = x + Math.round(y[2 * c] * 64 * UNIT);
      this.aims[2 * c + 1] = y0 + Math.round(y[2 * c + 1] * 64 * UNIT);
      const dx = this.aims[2 * c] - this.numbers[at], dy = this.aims[2 * c + 1] - this.numbers[at + 1];
      const far = Math.max(Math.abs(dx), Math.abs(dy), 1);
      const speed = (1.5 + 0.2 * (c >> 1)) * UNIT;
      this.numbers[at + 2] = Math.trunc(dx * speed / far);
      this.numbers[at + 3] = Math.trunc(dy * speed / far);
      this.#go(at);
      if (this.#near(at, this.#player(player), 12)) {
        this.numbers[this.#player(player) + 5] += 1;
        this.#put(at, this.#random(WIDTH), this.#random(2) * HEIGHT);
      }
    }
  }
}
