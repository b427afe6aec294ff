// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "learning/table.hpp"

#include "core/result.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace weft::cli {

/// Labels as numbers of the classes that a model knows.
class KnownLabels {
 public:
  KnownLabels() = default;
  /// Names of the classes of each label of a sample; labels of one set of classes each have the same.
  explicit KnownLabels(const std::vector<std::vector<std::string>>& names);
  /// Of the row that `samples` stands at, at the end of `to`; kNoLabel where a sequence has none.
  /// @error out_of_range: none of the classes
  Status take(const learning::SampleReader& samples, std::vector<std::uint32_t>& to) const;

 private:
  std::vector<std::unordered_map<std::string, std::uint32_t>> numbers_;  // of each label
};

}  // namespace weft::cli
