// SPDX-License-Identifier: Apache-2.0

#include "models/text_replay.hpp"

#include <algorithm>
#include <utility>

namespace weft::models {
namespace {

/// Tokens that a record's text may have: of a context that is full the last one is written, and not taken.
std::uint64_t most_of(const TextRecord& of) {
  const std::uint64_t prompt = of.request.prompt.size();
  const std::uint64_t room = of.context > prompt ? of.context - prompt + 1 : 1;
  return std::min<std::uint64_t>(of.request.most_tokens, room);
}

const char* name_of(TextChunk::End end) {
  return end == TextChunk::End::end ? "end" : end == TextChunk::End::stop ? "stop" : "length";
}

std::optional<std::string> difference(const TextRecord& was, const TextRecord& is) {
  const auto [old, now] = std::mismatch(was.ids.begin(), was.ids.end(), is.ids.begin(), is.ids.end());
  const std::string token = "token " + std::to_string(old - was.ids.begin());
  if (old != was.ids.end() && now != is.ids.end())
    return token + " is " + std::to_string(*now) + ", was " + std::to_string(*old);
  if (old != was.ids.end() || now != is.ids.end())
    return "it has " + std::to_string(is.ids.size()) + " tokens, had " + std::to_string(was.ids.size());
  if (was.end != is.end) return std::string("it ends by ") + name_of(is.end) + ", ended by " + name_of(was.end);
  if (was.state && is.state && *was.state != *is.state)
    return "its state hash is " + to_string(*is.state) + ", was " + to_string(*was.state);
  return std::nullopt;
}

}  // namespace

Result<TextReplay> replay_texts(const LanguageModel& model, std::span<const TextRecord> records,
                                const TextReplayOptions& options) {
  TextReplay out;
  if (records.empty()) return out;
  TextEngine::Options with;
  with.slots = std::min(options.slots, records.size());
  with.max_memory = options.max_memory;
  for (const TextRecord& each : records)
    with.context = std::max<std::size_t>(with.context, each.request.prompt.size() + most_of(each));
  if (model.context) with.context = std::min(with.context, model.context);
  WEFT_TRY(TextEngine engine, TextEngine::make(model, with));
  std::vector<TextRecord> written(with.slots);
  std::vector<std::size_t> number(with.slots);
  std::vector<std::optional<std::string>> found(records.size());
  Status failed;
  std::size_t next = 0;
  const auto give = [&](std::size_t slot, TextChunk part) {
    TextRecord& text = written[slot];
    text.ids.insert(text.ids.end(), part.ids.begin(), part.ids.end());
    if (part.end == TextChunk::End::none) return;
    if (part.end == TextChunk::End::failed && failed)
      failed = fail(Error(part.outcome.error()).within("record " + std::to_string(number[slot] + 1)));
    text.end = part.end;
    text.state = part.state;
    out.tokens += text.ids.size();
    found[number[slot]] = difference(records[number[slot]], text);
    ++out.texts;
    if (options.watch) options.watch(out.texts);
  };
  while (failed && out.texts < records.size()) {
    for (; next < records.size() && engine.free_slots() > 0; ++next) {
      TextRequest request = records[next].request;
      request.most_tokens = most_of(records[next]);
      request.wants_state = records[next].state.has_value();
      auto slot = engine.begin(std::move(request));
      if (!slot) return fail(std::move(slot).error().within("record " + std::to_string(next + 1)));
      written[*slot] = {};
      number[*slot] = next;
    }
    engine.step(give);
  }
  WEFT_CHECK(failed);
  for (std::size_t i = 0; i < found.size(); ++i)
    if (found[i]) out.differences.push_back({i, *std::move(found[i])});
  return out;
}

}  // namespace weft::models
