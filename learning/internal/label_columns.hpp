// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "learning/dataset.hpp"
#include "learning/table.hpp"

#include "core/result.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace weft::learning {

/// Different labels of a table at most.
inline constexpr std::size_t kMaxLabels = 65536;

/// Names of classes for an error: the first twelve.
std::string listed_labels(const std::vector<std::string>& names);

/// Distinct labels of one or several columns in the order in which they come, and then what each of them is as a class.
class LabelNumbers {
 public:
  LabelNumbers(const std::vector<std::string>& classes, std::uint32_t width, bool may_number);

  /// Label `i` of the row that `reader` stands at.
  Result<std::uint32_t> take(const SampleReader& reader, std::size_t i);
  /// Makes classes of what `take` gave out: label number `first` and each `stride`th after it.
  Result<ClassSet> finish(std::vector<std::uint32_t>& labels, std::size_t first, std::size_t stride,
                          const std::string& source_name) const;

 private:
  Status refuse_values(const std::string& source_name) const;

  std::vector<std::string> classes_;
  std::uint32_t width_;
  bool may_number_;
  std::unordered_map<std::string, std::uint32_t> seen_;
  std::vector<LabelText> distinct_;
  std::vector<std::size_t> lines_;  // of the first row with each
};

/// The labels of all columns of a table.
class LabelColumns {
 public:
  LabelColumns(const TableOptions& options, const LabelBounds& bounds);
  /// Those of the row that `reader` stands at, behind the data's.
  Status take(const SampleReader& reader, Dataset& data);
  /// After the last row.
  Status finish(Dataset& data, const std::string& source_name) const;

 private:
  std::vector<LabelNumbers> sets_;
  bool has_heads_ = false;
};

}  // namespace weft::learning
