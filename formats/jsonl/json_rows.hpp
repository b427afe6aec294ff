// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "formats/csv/row_reader.hpp"

#include "core/json.hpp"
#include "core/result.hpp"

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weft::formats {

struct JsonRowsOptions {
  /// Columns of labels or targets, as the table's options name them. Lines {"x": [...], "y": ...} do not name theirs.
  std::vector<std::string> targets{"y"};
  std::vector<std::string> skip{};  ///< columns that are left out by whoever reads the rows
  std::string weight{};             ///< column of a sample's weight; of rows of lists it is `weight`. Empty: none
  std::size_t features = 0;         ///< values of a sample; 0: not known
  bool defers_refusal = false;      ///< of the first row: `next` tells of it, not `open`
  std::size_t max_columns = 65536;
  std::size_t max_line = std::size_t{16} << 20;  ///< bytes
};

/// Reads JSON lines, an object a line, as rows (docs/formats/jsonl.md): {"column": value, ...}, or {"x": [values], "y":
/// target}. The first sample's form and keys are those of all. Keys `id` and `forgo` are no columns: {"id": ..., "y":
/// target} is the target of an earlier sample, {"id": ..., "forgo": true} says that none will come. `weight` may stand
/// beside x and y, and beside a target.
/// @error  parse_failed: no such line; too_large: a limit passed, after which the reader is of no use any more
/// @thread one at a time
class JsonRows final : public RowReader {
 public:
  static Result<std::unique_ptr<JsonRows>> open(CsvSource source, std::string source_name, JsonRowsOptions options);

  Result<bool> next() override;
  bool is_ready() const noexcept override {
    return holds_first_ || first_refusal_ || at_end_ || end_of_line() != buffer_.npos;
  }

 private:
  JsonRows(CsvSource source, std::string source_name, JsonRowsOptions options);
  std::size_t end_of_line() const noexcept { return buffer_.find('\n', begin_); }
  Result<std::optional<std::string_view>> take_line();
  Status take(const Json& document);
  Status take_id(const Json& document);
  Status take_sample(const Json& document);
  Status take_target(const Json& document);
  Status take_weight(const Json& document);
  Status take_gradient(const Json& document);
  Status name_columns(const Json& document);
  bool brings_target(const Json& document) const;
  bool is_target(std::string_view key) const;
  bool is_column(std::string_view key) const;
  Status add(const Json* value, std::string_view key);
  Status add_targets(const Json& document);
  void finish_fields();

  CsvSource source_;
  JsonRowsOptions options_;
  std::string buffer_;
  std::size_t begin_ = 0, next_line_ = 1;
  bool at_end_ = false, holds_first_ = false;
  std::optional<Error> first_refusal_;
  /// Texts of the fields of a row, one behind the other, and where each ends.
  struct Texts {
    std::string all;
    std::vector<std::size_t> ends;
    std::vector<bool> is_quoted;
  } texts_;
};

/// True for what begins as JSON lines do: with an object.
bool is_json_lines(std::string_view text) noexcept;

}  // namespace weft::formats
