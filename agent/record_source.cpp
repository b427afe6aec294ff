// SPDX-License-Identifier: Apache-2.0

#include "agent/record_source.hpp"

#include <utility>

namespace weft::agent {
namespace {
constexpr std::size_t kAtOnce = std::size_t{8} << 20;
}

Result<const RecordSource::Item*> RecordSource::next() {
  if (items_.empty() && !ended_) WEFT_CHECK(fill());
  if (items_.empty() || items_.front().number > last_) return static_cast<const Item*>(nullptr);
  now_ = std::move(items_.front());
  items_.pop_front();
  return static_cast<const Item*>(&now_);
}

Status RecordSource::end_here() {
  if (ended_) return {};
  const auto pass = [](const storage::JournalRecord&) { return Status(); };
  WEFT_TRY(findings_, storage::read_journal(*files_, directory_, place_, pass));
  last_ = findings_.end.number;
  return {};
}

Status RecordSource::fill() {
  std::size_t bytes = 0;
  bool is_full = false;
  const auto take = [&](const storage::JournalRecord& record) -> Status {
    // An error is how a visitor ends the reading; this one never leaves here.
    if (bytes >= kAtOnce) {
      is_full = true;
      return fail(Errc::full, "enough");
    }
    bytes += record.payload.size() + sizeof(Item);
    items_.push_back({record.number, record.kind, {record.payload.begin(), record.payload.end()}});
    place_ = storage::after(place_, record.kind, record.payload);
    return {};
  };
  auto read = storage::read_journal(*files_, directory_, place_, take);
  if (is_full) return {};
  if (!read) return fail(std::move(read).error());
  ended_ = true;
  if (last_ == UINT64_MAX || place_.number < last_) findings_ = *std::move(read);  // else `end_here` knows
  return {};
}

}  // namespace weft::agent
