// SPDX-License-Identifier: Apache-2.0
// Acceptance by the unmodified npm package openai: node openai_client.mjs PACKAGE ADDRESS PID
import assert from "node:assert/strict";
import { pathToFileURL } from "node:url";

const [folder, address, pid, only = ""] = process.argv.slice(2);
const { default: OpenAI } = await import(pathToFileURL(`${folder}/index.mjs`).href);
const base = `http://${address}`;
const client = new OpenAI({ apiKey: "secret", baseURL: `${base}/v1`, maxRetries: 0 });
const patient = new OpenAI({ apiKey: "secret", baseURL: `${base}/v1`, maxRetries: 20 });
const get = async (path) => {
  const answer = await fetch(base + path, { headers: { authorization: "Bearer secret" } });
  return answer.json();
};
const pause = (ms) => new Promise((done) => setTimeout(done, ms));
const rejects = async (call) => {
  try {
    await call();
  } catch (error) {
    return error;
  }
  assert.fail("it was not refused");
};
const messages = [
  { role: "system", content: "You tell stories." },
  { role: "user", content: [{ type: "text", text: "Tell me of a cat." }] },
];
const long = { model: "stories", prompt: "Once", max_tokens: 450, n: 16, stream: true, ignore_eos: true };

const tests = {
  async "models are listed and found"() {
    const names = [];
    for await (const each of client.models.list()) names.push(each.id);
    assert.deepEqual(names.sort(), ["net", "other", "stories"]);
    assert.equal((await client.models.retrieve("stories")).object, "model");
  },

  async "chat, plain"() {
    const answer = await client.chat.completions.create({ model: "stories", messages, temperature: 0, max_tokens: 20 });
    assert.equal(answer.object, "chat.completion");
    assert.equal(answer.choices[0].message.role, "assistant");
    assert.equal(answer.choices[0].message.refusal, null);
    assert.equal(typeof answer.choices[0].message.content, "string");
    assert.ok(["stop", "length"].includes(answer.choices[0].finish_reason));
    assert.equal(answer.usage.total_tokens, answer.usage.prompt_tokens + answer.usage.completion_tokens);
    assert.match(answer._request_id, /^[\w-]+$/);
  },

  async "chat, as a stream with usage"() {
    const request = { model: "stories", messages, temperature: 0, max_completion_tokens: 20 };
    const whole = await client.chat.completions.create(request);
    for (const include_usage of [false, true]) {
      const stream = await client.chat.completions.create({
        ...request, stream: true, ...(include_usage ? { stream_options: { include_usage } } : {}),
      });
      let text = "", usage, reason;
      for await (const chunk of stream) {
        assert.equal(chunk.object, "chat.completion.chunk");
        if (chunk.usage) usage = chunk.usage;
        if (!include_usage) assert.equal(chunk.choices.length, 1);
        text += chunk.choices[0]?.delta.content ?? "";
        reason = chunk.choices[0]?.finish_reason ?? reason;
      }
      assert.equal(text, whole.choices[0].message.content);
      assert.equal(reason, whole.choices[0].finish_reason);
      if (include_usage) assert.deepEqual(usage, whole.usage);
      else assert.equal(usage, undefined);
    }
    const runner = client.chat.completions.stream(request);
    const final = await runner.finalChatCompletion();
    assert.equal(final.choices[0].message.content, whole.choices[0].message.content);
  },

  async "chat: n, stop, logprobs, seed"() {
    const request = { model: "stories", messages, seed: 7, max_tokens: 24, n: 2, logprobs: true, top_logprobs: 3 };
    const [one, two] = [await client.chat.completions.create(request), await client.chat.completions.create(request)];
    assert.deepEqual(one.choices, two.choices);
    assert.equal(one.choices.length, 2);
    assert.notEqual(one.choices[0].message.content, one.choices[1].message.content);
    for (const each of one.choices[0].logprobs.content) {
      assert.equal(each.top_logprobs.length, 3);
      assert.ok(each.logprob <= 0 && Array.isArray(each.bytes));
    }
    const text = one.choices[0].message.content;
    const stop = text.slice(4, 7);
    const stopped = await client.chat.completions.create({ ...request, n: 1, stop: [stop] });
    assert.equal(stopped.choices[0].message.content, text.slice(0, text.indexOf(stop)));
    assert.equal(stopped.choices[0].finish_reason, "stop");
  },

  async "chat: JSON by response_format"() {
    const schema = {
      type: "object", additionalProperties: false, required: ["name", "kind", "age"],
      properties: { name: { type: "string", maxLength: 8 }, kind: { enum: ["cat", "dog"] }, age: { type: "integer" } },
    };
    const request = {
      model: "stories", messages, seed: 3, max_tokens: 200,
      response_format: { type: "json_schema", json_schema: { name: "animal", strict: true, schema } },
    };
    const whole = await client.chat.completions.create(request);
    const animal = JSON.parse(whole.choices[0].message.content);
    assert.deepEqual(Object.keys(animal), ["name", "kind", "age"]);
    assert.ok(animal.name.length <= 8 && ["cat", "dog"].includes(animal.kind) && Number.isInteger(animal.age));
    assert.equal(whole.choices[0].finish_reason, "stop");
    const parsed = await client.chat.completions.parse(request);
    assert.equal(parsed.choices[0].message.content, whole.choices[0].message.content);
    let text = "";
    for await (const chunk of await client.chat.completions.create({ ...request, stream: true }))
      text += chunk.choices[0].delta.content ?? "";
    assert.equal(text, whole.choices[0].message.content);
    const free = await client.chat.completions.create({ ...request, response_format: { type: "json_object" } });
    assert.ok(free.choices[0].message.content.startsWith("{"));
    if (free.choices[0].finish_reason === "stop") assert.equal(typeof JSON.parse(free.choices[0].message.content), "object");
    const pattern = { type: "string", pattern: "a+" };
    const refused = await rejects(() => client.chat.completions.create({
      ...request, response_format: { type: "json_schema", json_schema: { name: "p", schema: pattern } },
    }));
    assert.ok(refused instanceof OpenAI.BadRequestError);
    assert.equal(refused.param, "response_format");
  },

  async "chat: a tool that must be called"() {
    const parameters = { type: "object", properties: { city: { enum: ["Oslo", "Rome"] } }, required: ["city"] };
    const tools = ["weather", "time"].map((name) => ({ type: "function", function: { name, parameters } }));
    const request = { model: "stories", messages, tools, temperature: 0, max_tokens: 100 };
    const { choices } = await client.chat.completions.create({ ...request, tool_choice: "required" });
    assert.equal(choices[0].finish_reason, "tool_calls");
    assert.equal(choices[0].message.content, null);
    const [call] = choices[0].message.tool_calls;
    assert.ok(["weather", "time"].includes(call.function.name));
    assert.ok(["Oslo", "Rome"].includes(JSON.parse(call.function.arguments).city));
    const tool_choice = { type: "function", function: { name: "time" } };
    const runner = client.chat.completions.stream({ ...request, tool_choice });
    const final = await runner.finalChatCompletion();
    assert.equal(final.choices[0].message.tool_calls[0].function.name, "time");
    const history = [...messages, choices[0].message, { role: "tool", tool_call_id: call.id, content: "rain" }];
    const next = await client.chat.completions.create({ ...request, messages: history, tool_choice: "none" });
    assert.equal(typeof next.choices[0].message.content, "string");
    const unknown = { type: "function", function: { name: "none_such" } };
    const error = await rejects(() => client.chat.completions.create({ ...request, tool_choice: unknown }));
    assert.equal(error.status, 400);
    assert.equal(error.param, "tool_choice");
  },

  async "completions of tokens"() {
    const { tokens } = await (await fetch(`${base}/tokenize`, {
      method: "POST",
      headers: { authorization: "Bearer secret", "content-type": "application/json" },
      body: JSON.stringify({ model: "stories", content: "The cat", add_special: true }),
    })).json();
    const create = async (prompt) => (await client.completions.create({ model: "stories", prompt, temperature: 0 }));
    const [by_tokens, by_text] = [await create(tokens), await create("The cat")];
    assert.equal(by_tokens.choices[0].text, by_text.choices[0].text);
    assert.equal(by_tokens.usage.completion_tokens, 16);
  },

  async "embeddings: base64, as the package wants them, is float to the bit"() {
    const input = ["The cat", "Once upon a time"];
    const usual = await client.embeddings.create({ model: "stories", input });
    const float = await client.embeddings.create({ model: "stories", input, encoding_format: "float" });
    for (let i = 0; i < 2; ++i) {
      assert.equal(usual.data[i].index, i);
      assert.deepEqual(new Float32Array(usual.data[i].embedding), new Float32Array(float.data[i].embedding));
      const length = float.data[i].embedding.reduce((sum, each) => sum + each * each, 0);
      assert.ok(Math.abs(length - 1) < 1e-5);
    }
    assert.notDeepEqual(usual.data[0].embedding, usual.data[1].embedding);
    assert.ok(usual.usage.prompt_tokens > 2);
  },

  async "abort frees the slots"() {
    const stream = await client.completions.create(long);
    for await (const _ of stream) break;  // leaving the loop aborts the request
    const begun = performance.now();
    while ((await get("/slots?model=stories")).some((slot) => slot.is_processing)) {
      assert.ok(performance.now() - begun < 20000, "slots stay busy");
      await pause(1);
    }
    console.log(`  slots were seen free after ${(performance.now() - begun).toFixed(1)} ms`);
    const metrics = await (await fetch(`${base}/metrics`, { headers: { authorization: "Bearer secret" } })).text();
    assert.match(metrics, /weft_requests_cancelled_total\{mesh="stories",stage="decode"\} [1-9]/);
  },

  async "20 at once, a queue of 4: 429, and all succeed by trying again"() {
    const request = { model: "stories", prompt: "Once", max_tokens: 300, seed: 1, ignore_eos: true };
    const refused = (await Promise.allSettled(Array.from({ length: 20 }, () => client.completions.create(request))))
      .filter((each) => each.status === "rejected");
    for (const each of refused) assert.ok(each.reason instanceof OpenAI.RateLimitError);
    const all = await Promise.all(Array.from({ length: 20 }, () => patient.completions.create(request)));
    assert.equal(new Set(all.map((each) => each.choices[0].text)).size, 1);
    console.log(`  ${refused.length} of 20 were refused where nobody tried again`);
  },

  async "errors have the package's classes"() {
    const wrong = new OpenAI({ apiKey: "guess", baseURL: `${base}/v1`, maxRetries: 0 });
    assert.ok((await rejects(() => wrong.models.list())) instanceof OpenAI.AuthenticationError);
    const unknown = await rejects(() => client.completions.create({ model: "gpt-4", prompt: "a" }));
    assert.ok(unknown instanceof OpenAI.NotFoundError);
    assert.equal(unknown.code, "model_not_found");
    assert.match(unknown.requestID, /^[\w-]+$/);
    const far = await rejects(() => client.completions.create({ model: "stories", prompt: "cat ".repeat(2000) }));
    assert.ok(far instanceof OpenAI.BadRequestError);
    assert.equal(far.code, "context_length_exceeded");
    const field = await rejects(() => client.completions.create({ model: "stories", prompt: "a", temperature: 9 }));
    assert.ok(field instanceof OpenAI.BadRequestError);
    assert.equal(field.param, "temperature");
    const tools = [{ type: "function", function: { name: "f", parameters: {} } }];
    const tool = await rejects(() => client.chat.completions.create({ model: "stories", messages, tools }));
    assert.equal(tool.status, 501);
  },

  async "a server that is killed is an error, not an end"() {
    const stream = await client.completions.create(long);
    const error = await rejects(async () => {
      for await (const _ of stream) process.kill(Number(pid), "SIGKILL");
    });
    console.log(`  ${error.constructor.name}: ${error.message}`);
    assert.ok((await rejects(() => client.models.list())) instanceof OpenAI.APIConnectionError);
  },
};

for (const [name, test] of Object.entries(tests).filter(([name]) => new RegExp(only).test(name))) {
  await test();
  console.log(`ok  ${name}`);
}
