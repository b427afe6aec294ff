// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "bridge/report.hpp"

#include "core/result.hpp"

#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace weft::bridge {

/// Reports in `<root>/python/<bedrock>/reports`, a file each; a later report replaces the one of the same planet,
/// model, stage and format.
/// @thread any
class ReportStore {
 public:
  explicit ReportStore(std::string root) : root_(std::move(root)) {}

  /// "<root>/python/<bedrock>".
  std::string directory_of(Bedrock bedrock) const;
  /// Stores a report, with the time of now, and tells its path. @error storage
  Result<std::string> store(Report report);
  /// Reports of a bedrock by model, planet, stage and format. Files that are no reports are left out, with a line in
  /// the log. @error storage
  Result<std::vector<Report>> list(Bedrock bedrock) const;
  /// The report of the framework's own numbers for a model, where it was stored.
  std::optional<Report> native_of(Bedrock bedrock, const std::string& planet, const std::string& model) const;

 private:
  const std::string root_;
  mutable std::mutex mutex_;  // one change or listing of the directories at a time
};

}  // namespace weft::bridge
