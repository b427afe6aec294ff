// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "formats/csv/csv.hpp"

#include "core/result.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weft::learning {

/// Answers to a missing value: the row refuses the table, is left out, or is completed by the mean of the column's
/// training part or by zero.
enum class Missing : int { refuse, drop, mean, zero };
std::string_view name(Missing missing) noexcept;
std::optional<Missing> parse_missing(std::string_view text) noexcept;

/// ',', ';', '|', "tab", and 0 for "auto"; and back.
std::optional<char> parse_separator(std::string_view text) noexcept;
std::string separator_name(char separator);

/// Samples as a table's rows: keys of a network file's section "stream".
struct TableOptions {
  std::string label = "last";          // column of the class: a name, a number from 1, first or last
  std::vector<std::string> labels{};   // several columns of classes instead
  std::vector<std::string> targets{};  // columns of values to learn instead of classes
  /// Of each target. The network learns (value - mean) / deviation, and its answers are put back. Empty: values as
  /// they are.
  std::vector<float> target_mean{}, target_deviation{};
  std::vector<std::string> skip{};  // columns left out: names, numbers from 1, first or last
  char separator = 0;               // 0: found
  formats::CsvHeader header = formats::CsvHeader::detect;
  Missing missing = Missing::refuse;
  std::vector<float> fill{};           // instead of missing values, one a feature, after `scale`; empty: not yet known
  std::vector<std::string> classes{};  // names, in the order of the output's values; empty: labels are their numbers
  std::vector<std::vector<std::string>> head_classes{};  // the same for each of `labels` that has classes of its own
  float scale = 1.0f;
};

/// A label with one spelling: a whole number in its shortest form, any other text as it is.
struct LabelText {
  std::string text;
  std::optional<std::int64_t> whole;
};
LabelText canonical_label(std::string_view text);

/// Columns that `options` names as those of classes, or of values.
std::vector<std::string> target_columns(const TableOptions& options);

/// Reads samples row by row: columns chosen, values scaled, missing ones answered.
/// @error  unknown_name: no such column; parse_failed, out_of_range: a field, with line and column
/// @thread one at a time
class SampleReader {
 public:
  /// Columns of labels or targets.
  enum class Label {
    required,
    optional,  ///< there when the table has more columns than the network's input has values
  };
  /// `features`: of the network's input; 0: as many as there are.
  static Result<SampleReader> open(formats::CsvReader table, const TableOptions& options, Label label,
                                   std::size_t features = 0);

  /// Moves to the next sample that is not left out. False: there is none.
  Result<bool> next();
  /// Not a number where a value is missing and `fill` is not yet known.
  std::span<const float> values() const noexcept { return values_; }
  /// Columns of labels or targets that the table has.
  std::size_t target_count() const noexcept { return targets_.size(); }
  /// Empty without labels, and where it is missing and need not be there.
  std::string_view label(std::size_t i = 0) const noexcept {
    return i < label_texts_.size() ? std::string_view(label_texts_[i]) : std::string_view();
  }
  /// Values to learn, in the table's units; where they are required.
  std::span<const float> target_values() const noexcept { return target_values_; }

  std::size_t features() const noexcept { return columns_.size(); }
  /// Of the features; empty without a header.
  std::vector<std::string> feature_names() const;
  /// Of the columns of labels or targets; empty without a header.
  std::vector<std::string> target_names() const;
  std::size_t dropped() const noexcept { return dropped_; }
  std::size_t missing() const noexcept { return missing_; }
  const formats::CsvReader& table() const noexcept { return table_; }

 private:
  SampleReader(formats::CsvReader table, const TableOptions& options) : table_(std::move(table)), options_(options) {}
  Status choose_columns(Label label, std::size_t features);
  Status choose_targets(const std::vector<bool>& skipped);
  Result<std::size_t> find_column(std::string_view text, std::string_view key, const std::vector<bool>& skipped) const;
  bool has_values() const noexcept { return !options_.targets.empty(); }
  Result<bool> take_row();
  Result<bool> take_targets();
  Failure refuse_target(std::size_t column, formats::CsvNumber::Kind kind) const;
  Failure refuse_value(std::size_t column, formats::CsvNumber::Kind kind) const;

  formats::CsvReader table_;
  TableOptions options_;
  std::vector<std::size_t> columns_;  // of the features
  std::vector<std::size_t> targets_;  // of labels or targets
  bool needs_label_ = false;
  std::vector<float> values_, target_values_;
  std::vector<std::string> label_texts_;
  std::size_t dropped_ = 0, missing_ = 0;
};

}  // namespace weft::learning
