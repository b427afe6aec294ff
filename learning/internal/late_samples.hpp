// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "learning/internal/learning_plan.hpp"
#include "learning/internal/sample_clock.hpp"
#include "learning/internal/sample_rings.hpp"
#include "learning/learner.hpp"

#include "mesh/mesh.hpp"

#include "core/archive.hpp"
#include "core/result.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

namespace weft::learning {

/// Scopes of late samples: all that is saved, and what a state's hash takes, which is the open samples.
inline constexpr Scopes kSavedLate{Scope::messages, Scope::control}, kHashedLate{Scope::control, Scope::results};

/// A sample that was observed: what is kept of it until its target comes.
struct LateSample {
  enum class Fate : std::uint32_t { none, learned, open, taught, forgone, expired };
  static constexpr std::uint32_t kFates = 6;

  Ticket ticket = 0;
  std::uint64_t position = 0;  // among all samples that were shown
  std::uint64_t end_tick = 0;  // at which its answer leaves the outputs
  Fate fate = Fate::none;
  bool has_answer = false, has_target = false;
  std::vector<float> x;           // Late::again: of every port, [sessions][width]
  std::vector<float> y;           // of every output, [sessions][width]; empty without an answer
  std::vector<TargetRow> target;  // by output

  /// Fields of an open sample. `learners(values, is_input)`: the learners' rows of x or y. A state's hash takes those:
  /// it does not know how many sessions there are.
  template <class Self, class Archive, class Learners>
  static void visit(Self& self, Archive& archive, std::size_t outputs, const Learners& learners) {
    archive.word(Field{"position", Scope::control}, self.position);
    archive.word(Field{"end_tick", Scope::control}, self.end_tick);
    archive.word(Field{"has_answer", Scope::control}, self.has_answer, 0, 1);
    archive.word(Field{"has_target", Scope::control}, self.has_target, 0, 1);
    for (const bool is_input : {true, false}) {
      auto& values = is_input ? self.x : self.y;
      archive.list(Field{is_input ? "x" : "y", Scope::messages}, values);
      if constexpr (std::is_const_v<Self>)
        if (archive.takes(Field{"rows", Scope::results}))
          archive.list(Field{"rows", Scope::results}, learners(values, is_input));
    }
    if (!self.has_target) return;
    if constexpr (!std::is_const_v<Self>) self.target.resize(outputs);
    for (std::size_t o = 0; o < outputs; ++o) TargetRow::visit(self.target[o], archive);
  }
};

/// Samples whose targets may come late, their fates, and the steps in which late errors enter a pipelined mesh.
/// Tickets number the samples that enter, observed or learned; positions count all that are shown, those shown anew
/// too.
class LateSamples {
 public:
  /// An error that enters at the outputs in a step (pipelined, Late::meet).
  struct Entry {
    std::uint64_t position = 0, end_tick = 0;
    bool is_one = false;

    template <class Self, class Archive>
    static void visit(Self& self, Archive& archive) {
      archive.word(Field{"has_entry", Scope::messages}, self.is_one, 0, 1);
      archive.word(Field{"entry_position", Scope::messages}, self.position);
      archive.word(Field{"entry_tick", Scope::messages}, self.end_tick);
    }
  };

  LateSamples() = default;
  LateSamples(const mesh::Graph& graph, const LearningPlan& plan, const LearningOptions& options);
  /// Bytes of all samples that may be open, with their answers and targets, and of the errors that may enter.
  static std::uint64_t bytes_for(const mesh::Graph& graph, const LearningOptions& options, std::size_t sessions,
                                 std::uint32_t latency, std::uint64_t ring);

  bool is_on() const noexcept { return options_.late != Late::none; }
  /// True where errors enter by `entry`, not by the order of the samples.
  bool has_entries() const noexcept { return options_.late == Late::meet && options_.schedule == Schedule::pipelined; }
  const LateCounts& counts() const noexcept { return counts_; }
  /// Samples that have entered: the next one's ticket.
  Ticket entered() const noexcept { return entered_; }
  std::span<const Ticket> expired() const noexcept { return expired_; }
  void clear_expired() noexcept { expired_.clear(); }

  /// Expires everything open when sessions came or went, with which the past was lost.
  void follow(const mesh::Mesh& mesh);
  /// The same for a call that may be refused, and then changes nothing. @error timed_out
  Status check_sessions(const mesh::Mesh& mesh) const;
  /// Samples enter that are learned at once; at most `free_slots()` of them, so that none takes the place of an open
  /// one.
  void enter_learned(std::uint64_t position, std::uint64_t count);
  std::uint64_t free_slots() const noexcept;
  /// The end of a run: the last `missing` samples, which a halt kept from entering, are taken back; then those expire
  /// that have waited longer than `patience`.
  void end_run(std::uint64_t tick, std::uint64_t missing);
  /// A sample is observed. Of `again` its input is kept: that of all ports.
  LateSample& enter(std::uint64_t position, std::uint64_t end_tick);
  /// A sample is shown anew, which has no ticket.
  void show_again(std::uint64_t position) noexcept { kinds_[position & ring_mask_] = kShownAgain; }
  /// Ticket of the sample at a position; none: it is scored elsewhere.
  std::optional<Ticket> ticket_of(std::uint64_t position) const noexcept;
  /// True for a position at which an observed sample is: it fires as in use.
  bool is_observed(std::uint64_t position) const noexcept {
    return is_on() && kinds_[position & ring_mask_] == kObserved;
  }

  /// True for a position at which a sample is shown anew.
  bool is_shown_again(std::uint64_t position) const noexcept {
    return options_.late == Late::again && kinds_[position & ring_mask_] == kShownAgain;
  }

  /// @error unsupported: `late` is none
  Status check_on() const;
  /// An open sample; `or_taught`: also one whose target came before its answer.
  /// @error unsupported; out_of_range: no such sample; timed_out: expired; invalid_argument: closed
  Result<const LateSample*> find(Ticket ticket, bool or_taught = false) const;
  LateSample& at(Ticket ticket) noexcept { return samples_[ticket & mask_]; }
  void close(LateSample& sample, LateSample::Fate fate);
  bool has_open() const noexcept { return !open_.empty(); }
  /// True while the answer of an observed sample is still on its way.
  bool awaits_answers() const noexcept;
  /// The sample whose answer is there at this tick; null: none.
  LateSample* answered_at(std::uint64_t tick) noexcept;

  Entry& entry(std::uint64_t step) noexcept { return entries_.ring[step & ring_mask_]; }
  const Entry& entry(std::uint64_t step) const noexcept { return entries_.ring[step & ring_mask_]; }
  /// So many steps follow, whose entries are put next.
  void plan(std::uint64_t steps) noexcept { entries_.planned = steps; }
  /// The late error that enters with the next step.
  Entry& next_entry() noexcept { return entries_.next; }
  /// The first position that has not entered before the pipeline was drained.
  std::uint64_t first_position() const noexcept { return entries_.first_position; }
  /// Errors that were to enter, and those that the pipeline looks back at.
  void forget_errors() noexcept;
  void begin_at(std::uint64_t position) noexcept { entries_.first_position = position; }

  /// Every field, named once. `clock`: of now. An archive that puts fields back may leave what does not go together:
  /// see `fits`.
  template <class Self, class Archive>
  static void visit(Self& self, Archive& archive, const SampleClock& clock) {
    archive.word(Field{"sessions", Scope::messages}, self.sessions_.now);
    archive.word(Field{"sessions_created", Scope::messages}, self.sessions_.created);
    archive.word(Field{"entered", Scope::messages}, self.entered_);
    archive.word(Field{"observed", Scope::messages}, self.counts_.observed);
    archive.word(Field{"taught", Scope::messages}, self.counts_.taught);
    archive.word(Field{"forgone", Scope::messages}, self.counts_.forgone);
    archive.word(Field{"expired", Scope::messages}, self.counts_.expired);
    archive.word(Field{"first_position", Scope::messages}, self.entries_.first_position);
    archive.word(Field{"planned", Scope::messages}, self.entries_.planned, 0, self.entries_.ring.size());
    for (auto& sample : self.samples_) {
      archive.word(Field{"ticket", Scope::messages}, sample.ticket);
      archive.word(Field{"fate", Scope::messages}, sample.fate, 0, std::uint64_t{LateSample::kFates} - 1);
    }
    for (std::uint64_t i = 0; i < self.under_way(clock); ++i)
      archive.word(Field{"kind", Scope::messages}, self.kinds_[(clock.now.scored + i) & self.ring_mask_]);
    Entry::visit(self.entries_.next, archive);
    for (std::uint64_t i = 0; i < self.deepest_ + self.entries_.planned && self.has_entries(); ++i)
      Entry::visit(self.entries_.ring[(clock.now.steps - self.deepest_ + i) & self.ring_mask_], archive);
    archive.count(Field{"open", Scope::control}, self.open_);
    for (auto& ticket : self.open_) {
      archive.word(Field{"open_ticket", Scope::control}, ticket);
      const auto learners = [&](const std::vector<float>& all, bool is_input) {
        return is_input ? self.learner_rows(all, self.widths_.ports)
                        : self.learner_rows(all, self.widths_.values, self.options_.learners);
      };
      LateSample::visit(self.samples_[ticket & self.mask_], archive, self.widths_.labels.size(), learners);
    }
  }
  /// True when fields that were put back go together, and are such as these outputs take.
  bool fits(std::span<const OutputRing> outputs, const SampleClock& clock) const;
  /// Tickets that expired, as snapshots keep them.
  std::vector<Ticket>& all_expired() noexcept { return expired_; }
  const std::vector<Ticket>& all_expired() const noexcept { return expired_; }

 private:
  friend void number_from(LateSamples& late, Ticket next) noexcept { late.entered_ = next; }
  static constexpr std::uint64_t kObserved = UINT64_MAX, kShownAgain = UINT64_MAX - 1;

  LateSample& slot(Ticket ticket, std::uint64_t position, LateSample::Fate fate);
  void take_back(std::uint64_t count);
  void expire(std::uint64_t tick);
  bool fits_open(const LateSample& sample, std::span<const OutputRing> outputs, const SampleClock& clock) const;
  bool fits_target(const TargetRow& row, const OutputRing& output, std::size_t labels, std::size_t values) const;
  /// Positions that are not scored yet.
  std::uint64_t under_way(const SampleClock& clock) const noexcept {
    return std::min<std::uint64_t>(clock.now.samples - clock.now.scored, kinds_.size());
  }
  std::uint64_t patience() const noexcept;
  std::vector<float> learner_rows(const std::vector<float>& all, const std::vector<std::size_t>& widths,
                                  std::size_t each = 1) const;

  /// Widths of what is kept.
  struct Widths {
    std::size_t inputs = 0, outputs = 0;      // floats of a session
    std::vector<std::size_t> labels, values;  // of a target, by output
    std::vector<std::size_t> ports;           // floats of a session, by port
  };
  /// Sessions that were there, and how many were ever made.
  struct Sessions {
    std::uint64_t now = 0, created = 0;
    bool operator==(const Sessions&) const = default;
  };
  /// Errors that enter a pipelined mesh, by step.
  struct Entries {
    std::vector<Entry> ring;
    Entry next;
    std::uint64_t first_position = 0, planned = 0;
  };

  LearningOptions options_;
  std::uint32_t latency_ = 0, deepest_ = 0;
  std::uint64_t ticks_per_sample_ = 1;
  Widths widths_;
  std::uint64_t mask_ = 0, ring_mask_ = 0;
  std::uint64_t entered_ = 0;
  Sessions sessions_;
  std::vector<LateSample> samples_;
  std::vector<Ticket> open_;          // ascending
  std::vector<std::uint64_t> kinds_;  // by position: a ticket, kObserved or kShownAgain
  Entries entries_;
  LateCounts counts_;
  std::vector<Ticket> expired_;
};

}  // namespace weft::learning
