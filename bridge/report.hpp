// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "bridge/bedrock.hpp"
#include "bridge/stream.hpp"

#include "core/json.hpp"
#include "core/result.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weft::bridge {

/// Rows that one step of a pipeline gave for the samples of a fixture: the framework itself (stage `native`), the same
/// from an exported file (`export`), or this host (`loom`).
struct Report {
  Bedrock bedrock = Bedrock::dense;
  std::string planet, engine, stage = "native", format = "native", model_id, framework_version, fixture_version;
  std::size_t input_dim = 0, output_dim = 0, sample_count = 0;
  std::vector<std::vector<double>> outputs;
  std::vector<std::string> artifact_paths;
  bool train_skipped = false;
  std::string received_at;  ///< RFC 3339, UTC

  /// `<planet>__<model>__<stage>__<format>.json`.
  std::string file_name() const;
};

inline constexpr std::size_t kMostReportBytes = std::size_t{32} << 20;

/// Reads what a client posts, or a stored file. Planet and engine stand for each other; bedrock is dense by default.
/// @error parse_failed: no JSON, a field of another kind; invalid_argument: no model_id, no planet, a name that cannot
///        be part of a path
Result<Report> read_report(std::string_view text, std::string_view source_name);
Json json_of(const Report& report);
/// A report of this host's own answer.
Report report_of(const StreamRequest& request, const StreamAnswer& answer);

/// Distance between two reports' outputs; nothing: their shapes differ.
std::optional<Difference> difference_of(const Report& a, const Report& b);

/// "2026-11-24T00:30:00Z" of now.
std::string now_in_utc();

}  // namespace weft::bridge
