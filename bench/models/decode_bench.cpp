// SPDX-License-Identifier: Apache-2.0
// A language model's speed by itself: tokens a second of one text (decode), of 16 that go on together, of a prompt of
// 512 tokens (prefill), and the time to load the model and to its first token. Beside decode stands its floor: as many
// threads read as many bytes as the weights take, after every few tokens, and `of_reading` is the floor's time over
// the token's, medians; `of_bytes` counts the keys and values of earlier tokens too, which a token reads as well. As at
// the peer, what choosing a token takes is not counted, and texts begin anew at kLast. The model is the file or folder
// that WEFT_BENCH_MODEL names (see server/chat_bench.cpp), WEFT_BENCH_THREADS the threads (2).
// bench/peers/llama_texts.py is the peer, tools/measure_decoding.py runs both.

#include "models/decoding_batch.hpp"
#include "models/language_model.hpp"

#include "mesh/mesh_access.hpp"
#include "mesh/weights/weight_store.hpp"

#include "storage/file_system.hpp"

#include "core/assert.hpp"

#include <benchmark/benchmark.h>

#include "bench/peers/measure.hpp"
#include "bench/peers/threads.hpp"
#include "tests/support/shared_data.hpp"
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

namespace weft::models {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t kPrompt = 512, kBefore = 32, kLast = 250, kTexts = 16, kContext = 1024;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

std::string model_path() {
  const char* const given = std::getenv("WEFT_BENCH_MODEL");
  return given ? given : shared_data("stories260K/derived");
}

mesh::MeshOptions mesh_options() {
  const char* const given = std::getenv("WEFT_BENCH_THREADS");
  mesh::MeshOptions options;
  options.threads = given ? static_cast<std::size_t>(std::atoi(given)) : 2;
  options.keeps_masters = false;
  return options;
}

LanguageModel load() {
  auto model = load_language_model(storage::real_file_system(), model_path(), "", mesh_options());
  WEFT_ASSERT(model.has_value(), model.error().text());
  return *std::move(model);
}

std::vector<text::TokenId> prompt(std::size_t tokens, std::size_t of, std::size_t vocabulary) {
  std::vector<text::TokenId> ids;
  for (std::size_t i = 0; i < tokens; ++i)
    ids.push_back(static_cast<text::TokenId>((17 + 31 * (i + of)) % (vocabulary < 4000 ? vocabulary : 4000)));
  return ids;
}

text::TokenId likeliest(std::span<const float> logits) {
  return static_cast<text::TokenId>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

/// One model for all rows: programs alternate, rows do not.
struct Loaded {
  LanguageModel model = load();
  DecodingBatch one = DecodingBatch::begin(*model.mesh, 1, context(model), 0).value();
  static std::size_t context(const LanguageModel& of) {
    return of.context != 0 && of.context < kContext ? of.context : kContext;
  }
  std::size_t last() const { return std::min(kLast, one.context()); }
  std::size_t prompt_tokens() const { return std::min(kPrompt, one.context() - 1); }
};
Loaded& loaded() {
  static Loaded all;
  return all;
}

void decode(benchmark::State& state) {
  if (model_path().empty()) return state.SkipWithError("no ../shared/data");
  Loaded& of = loaded();
  const std::uint64_t bytes = mesh::MeshAccess::weights(*of.model.mesh).bytes();
  const std::size_t threads = mesh_options().threads;
  bench::HugeArray memory(bytes / sizeof(float));
  std::vector<double> token, floor, positions;
  const auto restart = [&] {
    of.one.restart(0);
    return likeliest(of.one.accept(0, prompt(kBefore, 0, of.one.vocabulary())).value());
  };
  text::TokenId last = restart();
  float sink = 0;
  // With threads of its own, that are gone before the next token: they spin, and would take the model's cores.
  const auto read_weights = [&] {
    bench::SpinningThreads spin(threads);
    std::vector<float> sums(threads * 16);
    const auto part = [&](std::size_t task) {
      const std::size_t floats = memory.size() / threads;
      sums[task * 16] = bench::read_all(memory.data() + task * floats, floats);
    };
    for (int i = 0; i < 4; ++i) {
      const auto begin = Clock::now();
      spin(
          threads, [](void* body, std::size_t task) { (*static_cast<const decltype(part)*>(body))(task); },
          const_cast<void*>(static_cast<const void*>(&part)));
      floor.push_back(seconds_since(begin));
    }
    for (const float sum : sums) sink += sum;
  };
  for (auto _ : state) {
    if (of.one.position(0) >= of.last()) last = restart();
    positions.push_back(static_cast<double>(of.one.position(0)));
    const auto begin = Clock::now();
    const auto logits = of.one.accept(0, {&last, 1});
    token.push_back(seconds_since(begin));
    state.SetIterationTime(token.back());
    last = likeliest(logits.value());
    if (token.size() % 16 == 0) read_weights();
  }
  if (floor.empty()) read_weights();
  benchmark::DoNotOptimize(sink);
  const double token_s = bench::median(token), floor_s = bench::median(floor);
  state.counters["tokens_s"] = 1 / token_s;
  state.counters["of_reading"] = floor_s / token_s;
  const double kept =
      static_cast<double>(of.one.part_size(16)) / 16 * sizeof(float) * bench::median(positions);  // keys and values
  state.counters["of_bytes"] = floor_s / token_s * (1 + kept / static_cast<double>(bytes));
  state.counters["weights_MB"] = static_cast<double>(bytes) * 1e-6;
  state.counters["memory_GB_s"] = static_cast<double>(bytes) * 1e-9 / floor_s;
}

void together(benchmark::State& state) {
  if (model_path().empty()) return state.SkipWithError("no ../shared/data");
  Loaded& of = loaded();
  DecodingBatch batch = DecodingBatch::begin(*of.model.mesh, kTexts, 256, 0).value();
  std::vector<DecodingBatch::Step> steps(kTexts);
  const auto restart = [&] {
    for (std::size_t i = 0; i < kTexts; ++i) {
      batch.restart(i);
      steps[i].sequence = i;
      steps[i].id = likeliest(batch.accept(i, prompt(kBefore, i, batch.vocabulary())).value());
    }
  };
  restart();
  std::vector<double> took;
  for (auto _ : state) {
    if (batch.position(0) >= std::min(kLast, batch.context())) restart();
    const auto begin = Clock::now();
    WEFT_ASSERT(batch.step(steps), "a step failed");
    took.push_back(seconds_since(begin));
    for (auto& each : steps) each.id = likeliest(each.logits);
    state.SetIterationTime(took.back());
  }
  state.counters["tokens_s"] = kTexts / bench::median(took);
}

void prefill(benchmark::State& state) {
  if (model_path().empty()) return state.SkipWithError("no ../shared/data");
  Loaded& of = loaded();
  const auto ids = prompt(of.prompt_tokens(), 3, of.one.vocabulary());
  std::vector<double> took;
  for (auto _ : state) {
    of.one.restart(0);
    const auto begin = Clock::now();
    benchmark::DoNotOptimize(of.one.accept(0, ids).value().data());
    took.push_back(seconds_since(begin));
    state.SetIterationTime(took.back());
  }
  state.counters["tokens_s"] = static_cast<double>(ids.size()) / bench::median(took);
}

/// The model's file read anew, a first token of a prompt of `kBefore` tokens, and how long that prompt takes again.
void load_and_begin(benchmark::State& state) {
  if (model_path().empty()) return state.SkipWithError("no ../shared/data");
  std::vector<double> loading, beginning, again;
  for (auto _ : state) {
    auto begin = Clock::now();
    const LanguageModel model = load();
    loading.push_back(seconds_since(begin));
    state.SetIterationTime(loading.back());
    begin = Clock::now();
    auto batch = DecodingBatch::begin(*model.mesh, 1, 256, 0).value();
    benchmark::DoNotOptimize(batch.accept(0, prompt(kBefore, 0, batch.vocabulary())).value().data());
    beginning.push_back(seconds_since(begin));
    batch.restart(0);
    begin = Clock::now();
    benchmark::DoNotOptimize(batch.accept(0, prompt(kBefore, 1, batch.vocabulary())).value().data());
    again.push_back(seconds_since(begin));
  }
  state.counters["load_s"] = bench::median(loading);
  state.counters["first_token_s"] = bench::median(beginning);
  state.counters["prompt_s"] = bench::median(again);
}

BENCHMARK(decode)->UseManualTime()->MinTime(1.5)->Unit(benchmark::kMillisecond);
BENCHMARK(together)->UseManualTime()->MinTime(1.5)->Unit(benchmark::kMillisecond);
BENCHMARK(prefill)->UseManualTime()->MinTime(2)->Unit(benchmark::kMillisecond);
BENCHMARK(load_and_begin)->UseManualTime()->Iterations(3)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace weft::models
