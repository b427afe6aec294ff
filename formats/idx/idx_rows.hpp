// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "formats/csv/row_reader.hpp"
#include "formats/idx/idx.hpp"

#include "core/bytes.hpp"
#include "core/result.hpp"

#include <memory>
#include <optional>
#include <string>

namespace weft::formats {

/// An IDX file with the file of its labels, or without one.
struct IdxFiles {
  std::string samples, labels;  ///< bytes; labels empty: none
  std::string sample_path, label_path{};
};

/// The samples of an IDX file as rows: a column a value, and the label's behind them, where there is one.
/// @thread one at a time
class IdxRows final : public RowReader {
 public:
  /// `target`: name of the column of labels. @error as IdxArray::open; shape_mismatch: not a label a sample
  static Result<std::unique_ptr<IdxRows>> open(IdxFiles files, const std::string& target);

  Result<bool> next() override;
  bool is_ready() const noexcept override { return true; }

 private:
  explicit IdxRows(IdxFiles files) : RowReader(files.sample_path), files_(std::move(files)) {}

  IdxFiles files_;  // which the arrays point into
  std::optional<IdxArray> samples_, labels_;
  std::size_t next_ = 0;
  std::string texts_;
};

}  // namespace weft::formats
