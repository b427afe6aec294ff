// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "formats/csv/row_reader.hpp"
#include "formats/idx/idx.hpp"

#include "core/bytes.hpp"
#include "core/result.hpp"

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace weft::formats {

/// An IDX file with the file of its labels, or without one.
struct IdxFiles {
  std::string samples, labels;  ///< bytes; labels empty: none
  std::string sample_path, label_path{};
};

/// Places of `named` columns among the `width` values that a file of labels has for a sample: numbers from 1, `first`
/// or `last`. Whatever the only one is called, it is the only value. @error unknown_name: `path` has no such column
Result<std::vector<std::size_t>> idx_columns(const std::vector<std::string>& named, std::size_t width,
                                             const std::string& path);

/// The samples of an IDX file as rows: a column a value, and those of labels or targets behind them, where there are
/// some.
/// @thread one at a time
class IdxRows final : public RowReader {
 public:
  /// `targets`: columns of the labels. @error as IdxArray::open and idx_columns; shape_mismatch: not a label a sample
  static Result<std::unique_ptr<IdxRows>> open(IdxFiles files, const std::vector<std::string>& targets);

  Result<bool> next() override;
  bool is_ready() const noexcept override { return true; }

 private:
  explicit IdxRows(IdxFiles files) : RowReader(files.sample_path), files_(std::move(files)) {}

  IdxFiles files_;  // which the arrays point into
  std::optional<IdxArray> samples_, labels_;
  std::vector<std::size_t> columns_of_labels_;
  std::size_t next_ = 0;
  std::string texts_;
};

}  // namespace weft::formats
