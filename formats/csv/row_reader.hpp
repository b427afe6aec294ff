// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/result.hpp"

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weft::formats {

/// One field, without its quotes and without the blanks around it. Valid until the reader moves on.
struct CsvField {
  std::string_view text;
  bool is_quoted = false;
};

/// Bytes to go on with, at most as many as fit; 0: the end.
using CsvSource = std::function<Result<std::size_t>(std::span<char> buffer)>;

/// Kinds of rows. Rows of a table are samples; of JSON lines some bring the target of an earlier sample, or say that
/// none will come.
enum class RowKind : int { sample, target, forgo };

/// Rows of samples, one after the other, whatever the format of the file.
/// Error texts begin with "source:line: "; line is where the row begins.
/// @thread one at a time
class RowReader {
 public:
  virtual ~RowReader() = default;

  /// Of the columns; empty without a header.
  const std::vector<std::string>& names() const noexcept { return names_; }
  /// 0: an empty table, or one whose first sample has not come yet.
  std::size_t columns() const noexcept { return columns_; }
  const std::string& source_name() const noexcept { return source_name_; }

  /// Moves to the next row. False: there is none. After a row that is refused, the next call goes on behind it.
  virtual Result<bool> next() = 0;
  /// True when the next row has come already, as far as a line break tells, or nothing more will.
  virtual bool is_ready() const noexcept = 0;
  /// Of a sample as many as there are columns; of a target one for each column of targets.
  std::span<const CsvField> fields() const noexcept { return fields_; }
  /// First line of the row, from 1.
  std::size_t line() const noexcept { return line_; }
  RowKind kind() const noexcept { return kind_; }
  /// True where targets may have rows of their own.
  bool may_bring_targets() const noexcept { return may_bring_targets_; }
  /// Of the sample, as JSON; empty: it has none.
  const std::string& id() const noexcept { return id_; }
  /// True where a sample's values are one list, and its weight stands beside it rather than in a column.
  bool has_lists() const noexcept { return is_list_; }
  /// Factor of a sample's gradients, where a row of a list, or of the target of an earlier sample, says one.
  std::optional<float> weight() const noexcept { return weight_; }
  /// In the place of its target: the slope of the caller's own loss by the outputs; empty: none.
  std::span<const float> gradient() const noexcept { return gradient_; }
  /// True when the source ended inside the row's last line, so that more may have been meant to follow.
  bool is_cut() const noexcept { return is_cut_; }

  /// A failure at the row.
  Failure refuse(Errc code, std::string_view reason) const;
  /// "column 3 'colour'", or "column 3" without a header.
  std::string column_name(std::size_t column) const;

 protected:
  explicit RowReader(std::string source_name) : source_name_(std::move(source_name)) {}
  RowReader(RowReader&&) = default;
  RowReader& operator=(RowReader&&) = default;

  std::string source_name_, id_;
  std::optional<float> weight_;
  std::vector<float> gradient_;
  std::vector<CsvField> fields_;
  std::vector<std::string> names_;
  std::size_t columns_ = 0, line_ = 0;
  RowKind kind_ = RowKind::sample;
  bool is_cut_ = false, may_bring_targets_ = false, is_list_ = false;
};

}  // namespace weft::formats
