// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "cli/feed_options.hpp"
#include "cli/feed_place.hpp"
#include "cli/feed_source.hpp"
#include "cli/known_labels.hpp"

#include "agent/agent.hpp"
#include "learning/evaluation.hpp"
#include "learning/learner.hpp"
#include "learning/sample_stream.hpp"
#include "learning/table.hpp"

#include "core/result.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weft::cli {

/// The rows that arrive, given to the learner as they come: samples with their targets are learned, in one call where
/// several have come; those without are observed, taught and forgone by their ids. Memory is bounded whatever comes.
/// @thread one at a time
class Feed {
 public:
  /// `agent`: journals the calls; null: none. All must outlive the feed.
  Feed(const FeedOptions& options, learning::SampleStream& stream, learning::Learner& learner, agent::Agent* agent,
       FeedPlace& place);

  /// Called while nothing comes, ten times a second. @error ends the waiting, as `interrupted` does
  void while_idle(std::function<Status()> idle) { idle_ = std::move(idle); }
  /// Takes rows that have come, at least one, at most `most`. At the end of the source the stream has ended.
  /// @error interrupted; a row that is refused, with its line: nothing of it is learned
  Status take(std::uint64_t most);
  /// True while no row has come, good or bad: the end of such a pipe is no end of the feed.
  bool is_empty() const noexcept { return !has_rows_; }
  /// True for an error that speaks of one row, and of nothing that is broken.
  static bool is_of_a_row(Errc code) noexcept;

  /// Rows that neither a crash nor a power cut can lose, given how far the journal is acknowledged.
  std::uint64_t acknowledged(const agent::LogPosition& at);

 private:
  Result<bool> take_row();
  Status take_sample();
  Status take_target();
  Status take_gradient(learning::Ticket ticket);
  Status teach(learning::Ticket ticket, std::span<const learning::Target> targets);
  Status forgo();
  Status observe();
  Status learn_unlabelled();
  Status add_to_batch();
  /// Learns what fills updates of a sample for each learner.
  Status flush();
  /// Passes over the rows that fill no update: no more will come after them.
  Status leave_rest();
  /// Of samples that come and go one by one. @error unsupported: several learners
  Status check_single() const;
  Status pass_over(const Error& why);
  Status skip(std::uint64_t rows);
  Status account_dropped();
  Status answer();
  Status note(std::string_view topic, std::string_view text);
  Result<bool> open_next();
  Result<learning::Ticket> ticket_of_row() const;
  Error of_row(Error error) const;
  Status refused_by_id(Status status) const;
  Status check_values();
  std::vector<float> inputs_of_row() const;
  Status learn(std::span<const mesh::RunInput> inputs, std::span<const learning::Target> targets,
               std::uint64_t samples);
  template <class Call>
  Status counted(std::uint64_t rows, std::uint64_t samples, Call&& call);
  void note_acknowledgement();

  const FeedOptions options_;
  learning::SampleStream& stream_;
  learning::Learner& learner_;
  agent::Agent* agent_;
  FeedPlace& place_;
  std::function<Status()> idle_;
  std::unique_ptr<FeedSource> source_;
  std::optional<learning::SampleReader> reader_;
  bool has_rows_ = false;
  bool may_be_cut_ = false;  // a source whose last line needs its end
  std::uint64_t dropped_ = 0, told_ = 0;
  KnownLabels labels_;
  std::vector<std::vector<std::string>> names_;  // of the classes of each label
  /// Samples of a batch, and what goes to the learner of it.
  struct Batch {
    std::uint64_t rows = 0;     // those of whole updates, and the beginning of one more
    std::uint64_t skipped = 0;  // rows that are passed over among the latter
    std::vector<float> inputs, values, weights;
    std::vector<std::uint32_t> labels;
  } batch_;
  std::vector<float> output_, target_;
  /// Rows that were used up with a record of the journal.
  std::deque<std::pair<std::uint64_t, std::uint64_t>> waiting_;
  std::uint64_t acknowledged_ = 0;
};

}  // namespace weft::cli
