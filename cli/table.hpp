// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace weft::cli {

/// Rows under headings, in aligned columns; on a terminal too narrow for them, each row as a list of its own.
class Table {
 public:
  enum class Align { left, right };
  struct Column {
    std::string heading;
    Align align = Align::left;
  };

  /// Headings and cells may be names from files: they are escaped (core/printable.hpp).
  explicit Table(std::vector<Column> columns);
  /// As many cells as columns.
  void add(std::vector<std::string> cells);
  /// `columns`: of the terminal; 0: no bound.
  std::string text(std::size_t columns) const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace weft::cli
