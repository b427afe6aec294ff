// SPDX-License-Identifier: Apache-2.0

#include "cli/feed_place.hpp"

#include <charconv>
#include <utility>
#include <variant>

namespace weft::cli {

void FeedPlace::begin_file(std::string name) {
  file_ = std::move(name);
  rows_ = 0;
  is_file_done_ = false;
}

void FeedPlace::begin_anew() {
  rows_ = skipped_ = 0;
  file_.clear();
  is_file_done_ = false;
}

void FeedPlace::remember(std::string id, learning::Ticket ticket) {
  if (order_.size() == remembered_) {
    tickets_.erase(order_.front());
    order_.pop_front();
  }
  if (tickets_.insert_or_assign(id, ticket).second) order_.push_back(std::move(id));
}

void FeedPlace::remember_expected(learning::Ticket ticket) {
  if (!next_id_.empty()) remember(std::exchange(next_id_, {}), ticket);
}

std::optional<learning::Ticket> FeedPlace::find(const std::string& id) const {
  const auto found = tickets_.find(id);
  return found == tickets_.end() ? std::nullopt : std::optional(found->second);
}

void FeedPlace::replayed(const agent::Record& record, const learning::Learner& learner) {
  if (const auto* const learned = std::get_if<agent::LearnRecord>(&record); learned && !learned->halted)
    this->learned(learned->samples * std::max<std::size_t>(learner.options().learners, 1));
  if (const auto* const observed = std::get_if<agent::ObserveRecord>(&record); observed && !observed->halted) {
    used(1);
    remember_expected(learner.next_ticket() - 1);
  }
  if (const auto* const taught = std::get_if<agent::TeachRecord>(&record); taught && !taught->halted) used(1);
  if (std::holds_alternative<agent::ForgoRecord>(record)) used(1);
  const auto* const note = std::get_if<agent::AnnotationRecord>(&record);
  if (!note) return;
  if (note->topic == kId) next_id_ = note->text;
  if (note->topic == kFile) begin_file(note->text);
  if (note->topic == kFileEnd) end_file();
  if (note->topic != kSkipped && note->topic != kSkippedAmong) return;
  std::uint64_t count = 0;
  if (std::from_chars(note->text.data(), note->text.data() + note->text.size(), count).ec != std::errc()) return;
  note->topic == kSkipped ? skip(count) : skip_among_next(count);
}

Json FeedPlace::save() const {
  Json ids = Json::array();
  for (const std::string& id : order_) ids.push_back(Json::array({id, tickets_.at(id)}));
  return Json{{"rows", rows_},       {"skipped", skipped_},  {"file", file_}, {"file_done", is_file_done_},
              {"next_id", next_id_}, {"ids", std::move(ids)}};
}

Status FeedPlace::load(const JsonValue& value) {
  WEFT_TRY(JsonReader reader, value.object());
  WEFT_TRY(rows_, reader.u64("rows"));
  WEFT_TRY(skipped_, reader.u64("skipped"));
  WEFT_TRY(file_, reader.string("file"));
  WEFT_TRY(is_file_done_, reader.boolean("file_done"));
  WEFT_TRY(next_id_, reader.string("next_id"));
  WEFT_TRY(const auto ids, reader.array("ids", 0, std::size_t{1} << 22));
  tickets_.clear();
  order_.clear();
  for (const JsonValue& each : ids) {
    WEFT_TRY(const auto pair, each.array(2, 2));
    WEFT_TRY(std::string id, pair[0].string());
    WEFT_TRY(const std::uint64_t ticket, pair[1].u64());
    remember(std::move(id), ticket);
  }
  return reader.finish();
}

}  // namespace weft::cli
