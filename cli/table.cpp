// SPDX-License-Identifier: Apache-2.0

#include "cli/table.hpp"

#include "cli/terminal.hpp"

#include "core/printable.hpp"

#include <algorithm>
#include <utility>

namespace weft::cli {

Table::Table(std::vector<Column> columns) : columns_(std::move(columns)) {
  for (Column& column : columns_) column.heading = escaped(column.heading);
}

void Table::add(std::vector<std::string> cells) {
  for (std::string& cell : cells) cell = escaped(cell);
  rows_.push_back(std::move(cells));
}

std::string Table::text(std::size_t columns) const {
  std::vector<std::size_t> widths;
  std::size_t total = 0, heading = 0;
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    std::size_t width = display_width(columns_[c].heading);
    heading = std::max(heading, width);
    for (const auto& row : rows_) width = std::max(width, display_width(row[c]));
    widths.push_back(width);
    total += width + 2;
  }
  std::string out;
  if (columns != 0 && total > columns) {
    for (const auto& row : rows_) {
      for (std::size_t c = 0; c < columns_.size(); ++c)
        out += columns_[c].heading + std::string(heading - display_width(columns_[c].heading) + 2, ' ') + row[c] + "\n";
      out += "\n";
    }
    return out;
  }
  const auto line = [&](auto&& cell) {
    std::string text;
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      const std::string& value = cell(c);
      const std::string space(widths[c] - display_width(value), ' ');
      text += columns_[c].align == Align::right ? space + value : value + space;
      text += "  ";
    }
    text.erase(text.find_last_not_of(' ') + 1);
    out += text + "\n";
  };
  line([&](std::size_t c) -> const std::string& { return columns_[c].heading; });
  for (const auto& row : rows_) line([&](std::size_t c) -> const std::string& { return row[c]; });
  return out;
}

}  // namespace weft::cli
