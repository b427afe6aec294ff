// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/json.hpp"
#include "core/json_reader.hpp"
#include "core/result.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace weft::learning {

/// change: the task changed, as the stream knows. warning, alarm: a detector of drift raised them; a change to smaller
/// numbers is an alarm too.
enum class StreamEventKind : int { change, warning, alarm };
constexpr std::array<std::string_view, 3> kStreamEventNames{"change", "warning", "alarm"};

/// Event beside which a curve of accuracies is to be read.
struct StreamEvent {
  StreamEventKind kind = StreamEventKind::change;
  std::uint64_t sample = 0;  ///< number in the stream, from 0: of the first of the changed task, or of the alarm's
  double accuracy = 0;       ///< of the window just before a change; with a warning's or alarm's sample in it
};

/// Events of a stream: what is saved of them, and those that nobody was told of yet.
/// @thread one at a time
class StreamEventLog {
 public:
  void add(const StreamEvent& event);
  /// Numbers of the samples, in the order of the events; at most kMost, the latest.
  std::span<const std::uint64_t> samples(StreamEventKind kind) const noexcept {
    return samples_[static_cast<std::size_t>(kind)];
  }
  /// Since this was last called; at most kMost, the latest.
  std::vector<StreamEvent> take();
  bool is_empty() const noexcept;

  /// A list of samples for each kind that has some. Which were told of is not saved.
  Json save() const;
  /// @error parse_failed, out_of_range
  Status load(const JsonValue& value);

  static constexpr std::size_t kMost = 4096;

 private:
  std::array<std::vector<std::uint64_t>, kStreamEventNames.size()> samples_;
  std::vector<StreamEvent> untold_;
};

}  // namespace weft::learning
