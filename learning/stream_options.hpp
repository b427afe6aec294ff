// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "learning/table.hpp"
#include "learning/tasks/task_options.hpp"

#include "core/option_row.hpp"
#include "core/result.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weft::learning {

/// Changes of the task in the middle of a stream: labels are renamed by a permutation, or inputs are.
enum class Drift : int { none, labels, pixels };
std::string_view name(Drift drift) noexcept;

/// The section "stream" of a network file.
struct StreamOptions {
  std::string csv{};  // relative to the network file
  TableOptions table{};
  std::string validation{}, test{};           // files of samples that are measured with and never learned from
  double held_out = 0.2;                      // share of the samples kept for measuring
  bool stratified = false;                    // of each class that share
  std::optional<std::uint64_t> split_seed{};  // of the hold-out; none: `seed`
  std::uint64_t epochs = 1;
  std::uint64_t max_samples = 0;   // 0: no bound but the epochs
  std::uint64_t seed = 0;          // split, order and drift
  std::uint32_t window = 200;      // samples of the sliding accuracy
  std::uint64_t change_every = 0;  // samples after which the task of the data themselves changes; 0: nobody knows
  Drift drift = Drift::none;
  double drift_at = 0.5;     // share of the stream after which the task changes
  double drift_share = 1.0;  // share of the labels (pixels) that change, at least two of them
  TaskOptions tasks{};
  std::string input{}, output{};       // empty: the network's only one
  std::vector<std::string> outputs{};  // several that the columns of targets belong to, in turn, instead of `output`
};

/// Options of the section "stream"; each is declared in stream_options.cpp.
const std::vector<OptionRow>& stream_rows();

/// Keys of those that say which samples come, and how many: a run may go on with other ones.
const std::vector<std::string_view>& sample_keys();

/// Without `names_file` the key `csv` may be missing: the data are named elsewhere.
/// @error names the path ("stream.drift.kind")
Result<StreamOptions> read_stream(std::string_view json, bool names_file = true);
/// The section as JSON; reads back equal. Keys that came after the first release stand there only where they say more
/// than their defaults, so that older files and agents are still equal to their networks.
std::string write_stream(const StreamOptions& options);

}  // namespace weft::learning
