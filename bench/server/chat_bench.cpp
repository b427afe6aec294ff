// SPDX-License-Identifier: Apache-2.0
// Chats of 16 clients at once over HTTP, streamed, beside the same texts by the engine in this process; and the time
// from the end of a client to its free slot. The model is the file or folder that WEFT_BENCH_MODEL names, such as
//   tools/make_synthetic_model.py /tmp/m && weft import /tmp/m -o /tmp/m.entity --dtype int8
// else the small one of ../shared/data.

#include "models/language_model.hpp"
#include "models/text_engine.hpp"
#include "server/service.hpp"

#include "storage/file_system.hpp"
#include "text/chat_template.hpp"

#include "core/assert.hpp"
#include "core/json.hpp"

#include <benchmark/benchmark.h>

#include "bench/server/load.hpp"
#include "tests/support/shared_data.hpp"
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace {

using namespace weft;
using bench::post;
using bench::Wire;
using Clock = bench::LoadClock;

constexpr std::size_t kClients = 16, kTokens = 48;
const char* const kTemplate = "{% for message in messages %}{{ message.content }}{% endfor %}";

std::string model_path() {
  const char* const given = std::getenv("WEFT_BENCH_MODEL");
  return given ? given : shared_data("stories260K/derived");
}

models::TextEngine::Options engine_options(std::size_t slots) {
  return {.slots = slots, .context = 256, .max_memory = 0};
}

std::string content(std::size_t client) {
  return "Once upon a time there were " + std::to_string(10 + client) + " cats.";
}

/// Tokens a second that the engine writes with 16 slots, prompts read before.
void in_process(benchmark::State& state) {
  if (model_path().empty()) return state.SkipWithError("no ../shared/data");
  const auto model = models::load_language_model(storage::real_file_system(), model_path());
  WEFT_ASSERT(model.has_value(), "no model");
  auto engine = models::TextEngine::make(*model, engine_options(kClients)).value();
  std::int64_t written = 0;
  for (auto _ : state) {
    for (std::size_t i = 0; i < kClients; ++i) {
      models::TextRequest request;
      request.prompt = model->tokenizer->encode(content(i), {.add_special = false}).value();
      request.sampler.temperature = 0;
      request.most_tokens = kTokens;
      request.ignores_ends = true;
      request.reuses = false;
      WEFT_ASSERT(engine.begin(std::move(request)).has_value(), "not begun");
    }
    while (engine.step(
        [&](std::size_t, const models::TextChunk& part) { written += static_cast<std::int64_t>(part.ids.size()); })) {
    }
  }
  state.SetItemsProcessed(written);
}

struct ServedModelFixture {
  explicit ServedModelFixture(std::size_t slots) {
    server::Service::Options options;
    options.models.serving.engine = engine_options(slots);
    options.models.threads = 0;  // as in this process
    options.models.chat_template = text::ChatTemplate::parse(kTemplate).value();
    service = server::Service::make(std::move(options)).value();
    WEFT_ASSERT(service->listen({.listen = {"127.0.0.1:0"}}).has_value(), "no port");
    WEFT_ASSERT(service->models().load(storage::real_file_system(), "m", model_path()).has_value(), "no model");
    service->ready();
  }
  std::unique_ptr<server::Service> service;
};

std::string chat(std::size_t client, std::size_t tokens) {
  const Json body{
      {"model", "m"},       {"messages", Json::array({Json{{"role", "user"}, {"content", content(client)}}})},
      {"temperature", 0},   {"max_tokens", tokens},
      {"ignore_eos", true}, {"cache_prompt", false},
      {"stream", true}};
  return post("/v1/chat/completions", body.dump());
}

/// The same texts by 16 clients that stream them.
void over_http(benchmark::State& state) {
  if (model_path().empty()) return state.SkipWithError("no ../shared/data");
  const ServedModelFixture served(kClients);
  const std::string address = served.service->addresses().front();
  for (auto _ : state) {
    std::vector<std::thread> clients;
    for (std::size_t i = 0; i < kClients; ++i)
      clients.emplace_back([&, i] {
        const Wire wire(address);
        wire.send_text(chat(i, kTokens));
        std::string last;
        while (last.find("[DONE]") == last.npos) {
          const std::string part = wire.receive();
          WEFT_ASSERT(!part.empty(), "a stream ended early");
          last = last.substr(last.size() - std::min<std::size_t>(last.size(), 16)) + part;
        }
      });
    for (std::thread& each : clients) each.join();
  }
  state.SetItemsProcessed(
      static_cast<std::int64_t>(served.service->models().find("m")->counters().generated_tokens.load()));
}

/// A client that goes in the middle of its text: until the slot is free, as it is published.
void cancelled(benchmark::State& state) {
  if (model_path().empty()) return state.SkipWithError("no ../shared/data");
  const ServedModelFixture served(1);
  const std::string address = served.service->addresses().front();
  const auto model = served.service->models().find("m");
  std::vector<double> took;
  for (auto _ : state) {
    std::optional<Wire> wire(address);
    wire->send_text(chat(took.size(), 200));
    for (int i = 0; i < 4; ++i) WEFT_ASSERT(!wire->receive().empty(), "a stream ended early");
    WEFT_ASSERT(model->statistics()->busy == 1, "the text is written");
    const auto begun = Clock::now();
    wire.reset();
    while (model->statistics()->busy != 0) std::this_thread::sleep_for(std::chrono::microseconds(100));
    took.push_back(std::chrono::duration<double, std::milli>(Clock::now() - begun).count());
  }
  std::sort(took.begin(), took.end());
  state.counters["p50_ms"] = bench::quantile(took, 0.5);
  state.counters["most_ms"] = took.back();
}

BENCHMARK(in_process)->MinTime(2)->UseRealTime();
BENCHMARK(over_http)->MinTime(2)->UseRealTime();
BENCHMARK(cancelled)->Iterations(50)->UseRealTime();

}  // namespace
