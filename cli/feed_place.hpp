// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "agent/journal_record.hpp"
#include "learning/learner.hpp"

#include "core/json.hpp"
#include "core/json_reader.hpp"
#include "core/result.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace weft::cli {

/// The place of a run in samples that arrive: rows used up, and the ids of samples whose targets may come later. Saved
/// with each checkpoint and followed through the journal, so that it is always that of the mesh's state.
class FeedPlace {
 public:
  /// Topics of the journal's notes: the id of the sample that is observed next, as JSON; a number of rows that are
  /// passed over; the same of rows among those that are learned next; the name of the file that is read next; its end.
  static constexpr std::string_view kId = "sample_id", kSkipped = "skipped_rows", kSkippedAmong = "skipped_among",
                                    kFile = "file", kFileEnd = "file_end";

  /// Ids that are remembered: of open samples, and of as many closed ones.
  explicit FeedPlace(std::size_t remembered = 1024) : remembered_(remembered) {}

  /// Rows used up, learned from or passed over; of a directory, those of its present file.
  std::uint64_t rows() const noexcept { return rows_; }
  std::uint64_t skipped() const noexcept { return skipped_; }
  /// The last file that was begun; empty: none.
  const std::string& file() const noexcept { return file_; }
  bool is_file_done() const noexcept { return is_file_done_; }

  void used(std::uint64_t rows) noexcept { rows_ += rows; }
  void skip(std::uint64_t rows) noexcept { rows_ += rows, skipped_ += rows; }
  /// Rows to pass over among those of the next `learned`: both are used up by one record of the journal, or neither.
  void skip_among_next(std::uint64_t rows) noexcept { skipped_among_ = rows; }
  void learned(std::uint64_t rows) noexcept {
    used(rows);
    skip(std::exchange(skipped_among_, 0));
  }
  /// Undoes `used` for a call that was refused.
  void take_back(std::uint64_t rows) noexcept { rows_ -= rows; }
  void begin_file(std::string name);
  void end_file() noexcept { is_file_done_ = true; }
  /// Another feed follows; samples that are open stay so.
  void begin_anew();
  /// The id of the sample that is observed next; and then, its ticket.
  void expect(const std::string& id) { next_id_ = id; }
  void remember_expected(learning::Ticket ticket);
  std::optional<learning::Ticket> find(const std::string& id) const;

  /// Follows a record that `learner` has replayed.
  void replayed(const agent::Record& record, const learning::Learner& learner);

  Json save() const;
  Status load(const JsonValue& value);

 private:
  void remember(std::string id, learning::Ticket ticket);

  std::size_t remembered_;
  std::uint64_t rows_ = 0, skipped_ = 0;
  std::uint64_t skipped_among_ = 0;  // of the next record of samples that are learned
  std::string file_;
  bool is_file_done_ = false;
  std::string next_id_;  // of the next record `observe`
  std::unordered_map<std::string, learning::Ticket> tickets_;
  std::deque<std::string> order_;  // oldest first
};

}  // namespace weft::cli
