// SPDX-License-Identifier: Apache-2.0

#include "learning/drift/stream_event.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace weft::learning {
namespace {

template <class T>
void push_latest(std::vector<T>& kept, const T& value) {
  if (kept.size() == StreamEventLog::kMost) kept.erase(kept.begin());
  kept.push_back(value);
}

}  // namespace

void StreamEventLog::add(const StreamEvent& event) {
  push_latest(samples_[static_cast<std::size_t>(event.kind)], event.sample);
  push_latest(untold_, event);
}

std::vector<StreamEvent> StreamEventLog::take() { return std::exchange(untold_, {}); }

bool StreamEventLog::is_empty() const noexcept {
  return std::all_of(samples_.begin(), samples_.end(), [](const auto& each) { return each.empty(); });
}

Json StreamEventLog::save() const {
  Json all = Json::object();
  for (std::size_t kind = 0; kind < samples_.size(); ++kind)
    if (!samples_[kind].empty()) all[std::string(kStreamEventNames[kind])] = samples_[kind];
  return all;
}

Status StreamEventLog::load(const JsonValue& value) {
  WEFT_TRY(JsonReader reader, value.object());
  StreamEventLog loaded;
  for (std::size_t kind = 0; kind < samples_.size(); ++kind) {
    const auto found = reader.find(kStreamEventNames[kind]);
    if (!found) continue;
    WEFT_TRY(const auto list, found->array(0, kMost));
    for (const JsonValue& each : list) {
      WEFT_TRY(loaded.samples_[kind].emplace_back(), each.u64());
    }
  }
  WEFT_CHECK(reader.finish());
  *this = std::move(loaded);
  return {};
}

}  // namespace weft::learning
