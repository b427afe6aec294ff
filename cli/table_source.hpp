// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "learning/table.hpp"

#include "formats/csv/csv.hpp"

#include <memory>
#include <string>

namespace weft::cli {

/// A table that is read as it comes: a file, a pipe, or standard input as "-". Files that begin as gzip does are
/// unpacked first.
class TableSource {
 public:
  /// @error not_found, storage, too_large, corrupt; what CsvReader refuses
  static Result<TableSource> open(const std::string& path, const learning::TableOptions& options);
  formats::CsvReader reader;

 private:
  TableSource(formats::CsvReader table, std::shared_ptr<std::string> text)
      : reader(std::move(table)), text_(std::move(text)) {}
  std::shared_ptr<std::string> text_;  // of an unpacked file
};

}  // namespace weft::cli
