// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "formats/csv/csv.hpp"

#include "core/result.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
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
  std::string weight{};             // column of each sample's weight: a name or a number from 1; empty: all are 1
  std::vector<std::string> skip{};  // columns left out: names, numbers from 1, first or last
  char separator = 0;               // 0: found
  formats::CsvHeader header = formats::CsvHeader::detect;
  Missing missing = Missing::refuse;
  std::vector<float> fill{};           // instead of missing values, one a feature, after `scale`; empty: not yet known
  std::vector<std::string> classes{};  // names, in the order of the output's values; empty: labels are their numbers
  std::vector<std::vector<std::string>> head_classes{};  // the same for each of `labels` that has classes of its own
  float scale = 1.0f;
};

/// Formats of rows that come one by one; `detect`: what begins with an object is JSON lines.
enum class RowFormat : int { detect, csv, jsonl };
std::optional<RowFormat> parse_row_format(std::string_view text) noexcept;

/// Whoever reads rows: what is known of them before they come.
struct RowsExpected {
  RowFormat format = RowFormat::detect;
  std::size_t features = 0;     // values of a sample; 0: not known
  bool arrives = false;         // blank lines do not count, and no row's refusal ends the reading
  std::size_t longest_row = 0;  // bytes; 0: the format's own bound
};
/// Rows of a source, as CSV or as JSON lines. @error as CsvReader and JsonRows
Result<std::unique_ptr<formats::RowReader>> open_rows(formats::CsvSource source, const std::string& source_name,
                                                      const TableOptions& options, const RowsExpected& expected = {});

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
    late,      ///< as required, but a sample may have none yet: rows of targets may follow
  };
  /// `features`: of the network's input; 0: as many as there are.
  static Result<SampleReader> open(std::unique_ptr<formats::RowReader> table, const TableOptions& options, Label label,
                                   std::size_t features = 0);
  static Result<SampleReader> open(formats::CsvReader table, const TableOptions& options, Label label,
                                   std::size_t features = 0);

  /// Moves to the next row that is not left out: a sample, or with Label::late what a row says of an earlier one
  /// (`table().kind()`). False: there is none.
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
  /// Factor of the sample's gradients; 1 where the table has no column of weights.
  float weight() const noexcept { return weight_; }
  bool has_weights() const noexcept { return !options_.weight.empty(); }
  /// False with Label::late where the row has no target.
  bool has_target() const noexcept { return has_target_; }

  std::size_t features() const noexcept { return columns_.size(); }
  /// Of the features; empty without a header.
  std::vector<std::string> feature_names() const;
  /// Of the columns of labels or targets; empty without a header.
  std::vector<std::string> target_names() const;
  std::size_t dropped() const noexcept { return dropped_; }
  std::size_t missing() const noexcept { return missing_; }
  const formats::RowReader& table() const noexcept { return *table_; }

 private:
  SampleReader(std::unique_ptr<formats::RowReader> table, const TableOptions& options)
      : table_(std::move(table)), options_(options) {}
  Status begin();
  Status choose_columns();
  Status choose_weight(std::vector<bool>& skipped);
  Status choose_targets(const std::vector<bool>& skipped);
  Result<std::size_t> find_column(std::string_view text, std::string_view key, const std::vector<bool>& skipped) const;
  bool has_values() const noexcept { return !options_.targets.empty(); }
  Result<bool> take_row();
  const formats::CsvField& target_field(std::size_t i) const;
  std::string target_name(std::size_t i) const;
  bool lacks_targets() const;
  Status take_weight();
  Result<bool> take_targets();
  Failure refuse_target(std::size_t i, formats::CsvNumber::Kind kind) const;
  Failure refuse_value(std::size_t column, formats::CsvNumber::Kind kind) const;

  std::unique_ptr<formats::RowReader> table_;
  TableOptions options_;
  Label use_ = Label::required;
  std::size_t wanted_ = 0;            // features; 0: as many as there are
  std::vector<std::size_t> columns_;  // of the features
  std::vector<std::size_t> targets_;  // of labels or targets
  std::optional<std::size_t> weight_column_;
  float weight_ = 1.0f;
  bool needs_label_ = false, has_target_ = false;
  std::vector<float> values_, target_values_;
  std::vector<std::string> label_texts_;
  std::size_t dropped_ = 0, missing_ = 0;
};

}  // namespace weft::learning
