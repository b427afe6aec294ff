// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "learning/internal/learning_plan.hpp"
#include "learning/internal/sample_clock.hpp"
#include "learning/internal/sample_rings.hpp"
#include "learning/learner.hpp"

#include "mesh/mesh.hpp"

#include "core/result.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace weft::learning {

/// A sample that was observed: what is kept of it until its target comes.
struct LateSample {
  enum class Fate : std::uint32_t { none, learned, open, taught, forgone, expired };

  Ticket ticket = 0;
  std::uint64_t position = 0;  // among all samples that were shown
  std::uint64_t end_tick = 0;  // at which its answer leaves the outputs
  Fate fate = Fate::none;
  bool has_answer = false, has_target = false;
  std::vector<float> x;           // Late::again: of every port, [sessions][width]
  std::vector<float> y;           // of every output, [sessions][width]
  std::vector<TargetRow> target;  // by output
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
  };

  LateSamples() = default;
  LateSamples(const mesh::Graph& graph, const LearningPlan& plan, const LearningOptions& options);

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
  /// Samples enter that are learned at once; takes the last `count` back.
  void enter_learned(std::uint64_t position, std::uint64_t count);
  void take_back(std::uint64_t count);
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

  /// @error unsupported: `late` is none
  Status check_on() const;
  /// An open sample; `or_taught`: also one whose target came before its answer.
  /// @error unsupported; out_of_range: no such sample; timed_out: expired; invalid_argument: closed
  Result<const LateSample*> find(Ticket ticket, bool or_taught = false) const;
  LateSample& at(Ticket ticket) noexcept { return samples_[ticket & mask_]; }
  void close(LateSample& sample, LateSample::Fate fate);
  /// Samples that have waited longer than `patience`.
  void expire(std::uint64_t tick);
  /// True while the answer of an observed sample is still on its way.
  bool awaits_answers() const noexcept;
  /// The sample whose answer is there at this tick; null: none.
  LateSample* answered_at(std::uint64_t tick) noexcept;

  Entry& entry(std::uint64_t step) noexcept { return entries_.ring[step & ring_mask_]; }
  const Entry& entry(std::uint64_t step) const noexcept { return entries_.ring[step & ring_mask_]; }
  /// So many steps follow, whose entries are put next.
  void plan(std::uint64_t steps) noexcept { entries_.planned = steps; }
  /// The late error that enters with the next step.
  std::optional<Entry>& next_entry() noexcept { return entries_.next; }
  /// The first position that has not entered before the pipeline was drained.
  std::uint64_t first_position() const noexcept { return entries_.first_position; }
  void begin_at(std::uint64_t position) noexcept { entries_.first_position = position; }

  /// As words; `whole`: all that the future depends on, else what a state's hash takes. `clock`: of now.
  std::vector<std::uint32_t> encode(bool whole, const SampleClock& clock) const;
  /// False: not what `encode` wrote.
  bool decode(std::span<const std::uint32_t> words, const SampleClock& clock);
  /// True when the targets of open samples, which were decoded, are such as these outputs take.
  bool fits(std::span<const OutputRing> outputs) const;

 private:
  static constexpr std::uint64_t kObserved = UINT64_MAX, kShownAgain = UINT64_MAX - 1;

  LateSample& slot(Ticket ticket, std::uint64_t position, LateSample::Fate fate);
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
    std::optional<Entry> next;
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
