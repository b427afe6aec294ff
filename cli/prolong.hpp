// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "learning/stream_options.hpp"

#include "core/result.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace weft::cli {

/// The first difference between the network that a run was saved with and one that is to go on with it; nothing where
/// it may go on. Keys of the stream that say which samples come, and how many, may differ, unless a drift is counted
/// from their number.
Result<std::optional<std::string>> run_difference(std::string_view stored, std::string_view given);

/// Digest of what decides the order of the samples of one table: hold-out, seeds, columns.
std::string order_digest(const learning::StreamOptions& options);

/// The stream that the run in `directory` began with; nothing where there is none yet.
Result<std::optional<learning::StreamOptions>> first_stream(const std::string& directory);

/// Takes over what a run made of its first table and the network does not say: names of classes, and what stands for
/// missing values.
void inherit_table(const learning::StreamOptions& first, learning::TableOptions& table);

/// A stream that a run was learning from: its samples so far, and all.
struct StreamPlace {
  std::string data, order;  // digests
  std::uint64_t next = 0, total = 0;
  bool is_finished = false;
};

/// Topic and text of the journal's note with which a run begins a stream; and back.
inline constexpr std::string_view kStreamTopic = "stream";
std::string stream_note(const StreamPlace& place);
std::optional<StreamPlace> read_stream_note(std::string_view text);

}  // namespace weft::cli
