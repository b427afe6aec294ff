// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "learning/table.hpp"

#include <functional>
#include <memory>
#include <string>

namespace weft::cli {

/// Expectations of a table that is read as it comes.
struct TableExpected {
  learning::RowsExpected rows{};
  bool needs_labels = false;  // without which IDX files are refused
  /// Called before each read of a descriptor, to wait until there is something. @error what ends the reading
  std::function<Status(int descriptor)> wait{};
};

/// The rows of a table that is read as it comes: a file, a pipe, or standard input as "-". Tables, JSON lines, and IDX
/// files with their labels beside them; files that begin as gzip does are unpacked first.
/// @error not_found, storage, too_large, corrupt; what the formats' readers refuse
Result<std::unique_ptr<formats::RowReader>> open_table(const std::string& path, const learning::TableOptions& options,
                                                       const TableExpected& expected = {});

}  // namespace weft::cli
