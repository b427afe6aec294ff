// SPDX-License-Identifier: Apache-2.0

#include "formats/csv/row_reader.hpp"

#include "core/printable.hpp"

namespace weft::formats {

Failure RowReader::refuse(Errc code, std::string_view reason) const {
  return fail(code, source_name_ + ":" + std::to_string(line_) + ": " + std::string(reason));
}

std::string RowReader::column_name(std::size_t column) const {
  std::string text = "column " + std::to_string(column + 1);
  if (column < names_.size()) text.append(" '").append(printable(names_[column])).append("'");
  return text;
}

}  // namespace weft::formats
