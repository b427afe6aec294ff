// SPDX-License-Identifier: Apache-2.0
// Rollback between two sides (Cannon 2012, "GGPO"): each has the whole world, and only inputs travel. A side goes on with
// the other's last input; where the truth, which comes late, differs, it goes back to that frame and plays it again.

export const DEEPEST = 30;  // frames that a side may be ahead of the other's last known input
const HASH_EVERY = 30;

export class Match {
  /** `send`: gives a message to the other side, whenever it arrives. */
  constructor(world, side, send) {
    this.world = world;
    this.side = side;
    this.send = send;
    this.inputs = [[], []];  // by frame; of the other side, where it is known
    this.used = [];          // what was taken for the other's
    this.ring = Array.from({ length: DEEPEST + 2 }, () => ({}));
    this.known = 0;          // frames of the other side that have come
    this.hashes = new Map();
    this.theirs = new Map();
    this.told = 0;
    this.counts = { rollbacks: 0, deepest: 0, playedAgain: 0, compared: 0, stalls: 0 };
    this.parted = null;      // the first frame whose hashes differ
    this.wrongFrom = null;
  }

  get frame() {
    return this.world.frame;
  }
  /** One frame with this side's input. False: it waits for the other side. */
  advance(input) {
    this.#correct();
    if (this.frame - this.known >= DEEPEST) {
      this.counts.stalls += 1;
      return false;
    }
    this.inputs[this.side][this.frame] = input;
    this.send({ kind: 'input', frame: this.frame, input });
    this.#simulate();
    this.#tell();
    return true;
  }
  /** A message of the other side's; inputs come in the order in which they were sent. */
  receive(message) {
    if (message.kind === 'input') {
      const { frame, input } = message;
      if (frame !== this.known) return;
      this.inputs[1 - this.side][frame] = input;
      this.known += 1;
      if (frame < this.frame && this.used[frame] !== input && this.wrongFrom === null) this.wrongFrom = frame;
    } else if (message.kind === 'hash') {
      this.theirs.set(message.frame, message.hash);
    }
    this.#correct();
    this.#tell();
  }

  #simulate() {
    const now = this.frame;
    const other = this.inputs[1 - this.side];
    this.used[now] = now < this.known ? other[now] : other[this.known - 1] ?? 0;
    this.world.save(this.ring[now % this.ring.length]);
    const inputs = [];
    inputs[this.side] = this.inputs[this.side][now];
    inputs[1 - this.side] = this.used[now];
    this.world.step(inputs);
    if (this.frame % HASH_EVERY === 0) this.hashes.set(this.frame, this.world.hash());
  }
  #correct() {
    if (this.wrongFrom === null) return;
    const end = this.frame;
    const depth = end - this.wrongFrom;
    this.world.restore(this.ring[this.wrongFrom % this.ring.length]);
    this.wrongFrom = null;
    while (this.frame < end) this.#simulate();
    this.counts.rollbacks += 1;
    this.counts.deepest = Math.max(this.counts.deepest, depth);
    this.counts.playedAgain += depth;
  }
  /** Hashes of frames whose inputs are all known. */
  #tell() {
    for (let frame = this.told + HASH_EVERY; frame <= Math.min(this.known, this.frame); frame += HASH_EVERY) {
      this.send({ kind: 'hash', frame, hash: this.hashes.get(frame) });
      this.told = frame;
    }
    for (const [frame, hash] of this.theirs) {
      if (frame > this.told) continue;
      if (hash === this.hashes.get(frame)) this.counts.compared += 1;
      else this.parted ??= frame;
      this.theirs.delete(frame);
      this.hashes.delete(frame);
    }
  }
}
