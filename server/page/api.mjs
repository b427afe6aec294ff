// SPDX-License-Identifier: Apache-2.0
// Requests with the key, their text for curl, and server-sent events.

const kKey = 'weft-key';
let asking = null;

export const key = {
  get: () => sessionStorage.getItem(kKey) ?? '',
  set: value => (value ? sessionStorage.setItem(kKey, value) : sessionStorage.removeItem(kKey)),
};

/** Answer of the server that is no 2xx. */
export class Refusal extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** Shows the dialog for a key once, however many requests need one; true where one was given. */
export function askForKey(note) {
  asking ??= new Promise(resolve => {
    const dialog = document.getElementById('ask-key'),
      input = document.getElementById('key-value');
    document.getElementById('key-note').textContent = note ?? '';
    input.value = '';
    dialog.returnValue = '';
    dialog.addEventListener(
      'close',
      () => {
        asking = null;
        const given = dialog.returnValue === 'ok';
        if (given) key.set(input.value.trim());
        resolve(given);
      },
      {once: true},
    );
    dialog.showModal();
  });
  return asking;
}

function headersOf(options) {
  const headers = {...options.headers};
  if (key.get()) headers.Authorization = `Bearer ${key.get()}`;
  if (options.body !== undefined && !headers['Content-Type']) headers['Content-Type'] = 'application/json';
  return headers;
}

/** fetch with the key; asks for one where it is missing. Throws Refusal, TypeError where there is no server. */
export async function request(method, path, options = {}) {
  for (;;) {
    const used = key.get();
    const raw = options.body instanceof Blob || options.body === undefined;
    const answer = await fetch(path, {
      method,
      signal: options.signal,
      headers: headersOf(options),
      body: raw ? options.body : JSON.stringify(options.body),
    });
    if (answer.ok || answer.status === 304) return answer;
    const text = await answer.text();
    let message = `${answer.status} ${answer.statusText}`;
    try {
      message = JSON.parse(text).error.message;
    } catch {
      /* no JSON: the status says it */
    }
    if (answer.status !== 401) throw new Refusal(answer.status, message);
    if (used === key.get() && !(await askForKey(message))) throw new Refusal(401, message);
  }
}

export const json = async (method, path, body, options = {}) =>
  (await request(method, path, {...options, body})).json();

const quoted = text => `'${text.replaceAll("'", "'\\''")}'`;

/** The request as a command line. The key is not in it: it is read from the variable WEFT_KEY. */
export function curlOf(method, path, body, origin = location.origin) {
  const words = ['curl', ...(method === 'GET' ? [] : ['-X', method]), quoted(origin + path)];
  if (key.get()) words.push('-H', '"Authorization: Bearer $WEFT_KEY"');
  if (body instanceof Blob)
    words.push('-H', quoted('Content-Type: application/octet-stream'), '--data-binary', `@${body.name ?? 'FILE'}`);
  else if (body !== undefined)
    words.push('-H', quoted('Content-Type: application/json'), '-d', quoted(JSON.stringify(body)));
  return words.join(' ');
}

/** Reads server-sent events from text that comes in any parts. */
export class EventParser {
  #text = '';
  #event = {name: 'message', id: '', data: ''};

  /** The events that are complete with this part. */
  feed(part) {
    const events = [];
    this.#text += part;
    for (let end; (end = this.#text.indexOf('\n')) >= 0;) {
      const line = this.#text.slice(0, end).replace(/\r$/, '');
      this.#text = this.#text.slice(end + 1);
      if (line) this.#take(line);
      else {
        if (this.#event.data) events.push({...this.#event, data: this.#event.data.slice(0, -1)});
        this.#event = {name: 'message', id: this.#event.id, data: ''};
      }
    }
    return events;
  }

  #take(line) {
    const colon = line.indexOf(':');
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '');
    if (field === 'event') this.#event.name = value;
    if (field === 'id') this.#event.id = value;
    if (field === 'data') this.#event.data += `${value}\n`;
  }
}

/** Calls `on` with each event of an answer, until it ends. */
export async function readEvents(answer, on) {
  const parser = new EventParser(),
    reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const {value, done} = await reader.read();
    if (done) return;
    for (const event of parser.feed(value)) on(event);
  }
}

/** A stream of events that is opened again when it breaks, with jitter, from where it was. */
export class EventStream {
  #stop = null;
  #last = '';

  constructor(path, on, tell) {
    this.path = path;
    this.on = on;
    this.tell = tell;
  }

  open() {
    if (this.#stop) return;
    this.#stop = new AbortController();
    this.#run(this.#stop.signal);
  }

  close() {
    this.#stop?.abort();
    this.#stop = null;
  }

  async #run(signal) {
    for (let wait = 1; !signal.aborted; wait = Math.min(wait * 2, 30)) {
      try {
        const headers = this.#last ? {'Last-Event-ID': this.#last} : {};
        const answer = await request('GET', this.path, {headers, signal});
        this.tell('live');
        wait = 0.5;
        await readEvents(answer, event => {
          if (event.id) this.#last = event.id;
          this.on(event.name, JSON.parse(event.data));
        });
      } catch (error) {
        if (signal.aborted) return;
        if (error instanceof Refusal && error.status < 500 && error.status !== 429)
          return this.tell('refused', error.message);
      }
      if (signal.aborted) return;
      const seconds = wait * (0.7 + 0.6 * Math.random());
      this.tell('broken', seconds);
      await new Promise(resolve => setTimeout(resolve, seconds * 1000));
    }
  }
}
