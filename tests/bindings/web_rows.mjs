// SPDX-License-Identifier: Apache-2.0
// Rows of tests/bindings/web_test.py in a module of the package, in node or a browser: hashes as the native ones.

const floats = (rows) => Object.fromEntries(Object.entries(rows).map(([name, values]) => [name, Float32Array.from(values)]));
const labels = (rows) => Object.fromEntries(Object.entries(rows).map(([name, values]) => [name, Uint32Array.from(values)]));

/** Steps of an agent with late targets: [what, ...arguments], and the ticket's number where there is one. */
function late(learner, steps) {
  const tickets = [];
  for (const [what, ...rest] of steps) {
    if (what === 'observe') tickets.push(learner.observe(floats(rest[0])));
    else if (what === 'teach') learner.teach(tickets[rest[0]], labels(rest[1]), rest[2] ? { weights: rest[2] } : {});
    else if (what === 'gradient') learner.teach(tickets[rest[0]], {}, { gradients: floats(rest[1]) });
    else if (what === 'values') learner.teach(tickets[rest[0]], floats(rest[1]));
    else if (what === 'forgo') learner.forgo(tickets[rest[0]]);
    else learner.drain();
  }
  return learner.answer(tickets[tickets.length - 1], 'y');
}

/** Names of rows whose hash is another one, and how many there were. */
export function compare({ Mesh, Learner, Agent, WeftError, replay }, expected) {
  const wrong = [];
  let count = 0;
  const check = (row, got) => {
    count += 1;
    if (got !== row.hash) wrong.push(`${row.name}: ${got}, natively ${row.hash}`);
  };
  const attempt = (row, make) => {
    try {
      check(row, make());
    } catch (error) {
      count += 1;
      wrong.push(`${row.name}: ${error.message}`);
    }
  };
  for (const row of expected.learned)
    attempt(row, () => {
      const mesh = new Mesh(row.network);
      const learner = new Learner(mesh, row.options ?? undefined);
      learner.learn(floats(row.inputs), row.labels ? labels(row.labels) : floats(row.values), row.samples);
      learner.drain();
      const hash = mesh.stateHash();
      learner.destroy();
      mesh.destroy();
      return hash;
    });
  for (const row of expected.ticked)
    attempt(row, () => {
      const mesh = new Mesh(row.network);
      for (const [port, values] of Object.entries(row.inputs)) mesh.setInput(port, values);
      mesh.tick(row.ticks);
      const hash = mesh.stateHash();
      mesh.destroy();
      return hash;
    });
  for (const row of expected.late)
    attempt(row, () => {
      const mesh = new Mesh(row.network);
      const learner = new Learner(mesh, row.options);
      const answer = [...late(learner, row.steps)];
      const { observed, taught, forgone, expired } = learner.counts();
      const got = JSON.stringify([answer, { observed, taught, forgone, expired }]);
      if (got !== JSON.stringify([row.answer, row.counts])) throw new WeftError(0, 'test', `${got}, natively ${JSON.stringify([row.answer, row.counts])}`);
      learner.drain();
      const hash = mesh.stateHash();
      learner.destroy();
      mesh.destroy();
      return hash;
    });
  for (const row of expected.acted)
    attempt(row, () => {
      const agent = new Agent({}, row.network);
      agent.act(row.steps);
      const hash = agent.mesh.stateHash();
      agent.destroy();
      return hash;
    });
  for (const row of expected.directories)
    attempt(row, () => {
      const files = Object.fromEntries(Object.entries(row.files).map(([name, text]) =>
        [name, Uint8Array.from(atob(text), (c) => c.charCodeAt(0))]));
      const { stateHash, tick, compared, damages, tornBytes } = replay(files, { verify: true });
      if (tick !== row.tick || compared < 1 || damages.length || tornBytes)
        throw new WeftError(0, 'test', JSON.stringify({ tick, compared, damages, tornBytes }));
      return stateHash;
    });
  return { wrong, count };
}
