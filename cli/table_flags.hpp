// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "learning/table.hpp"

#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace weft::cli {

/// `--label`, `--target`, `--weight`, `--skip`, `--separator`, `--header`, `--missing`: samples as a table's rows;
/// empty: as the network says.
struct TableFlags {
  std::optional<std::string> weight, separator, header, missing;
  std::vector<std::string> labels, targets, skip;
};
/// `--format`: of rows that come one by one; else it is seen from how they begin.
void add_row_format(CLI::App& verb, std::optional<std::string>& format);
void add_table_flags(CLI::App& verb, TableFlags& flags);
void apply(const TableFlags& flags, learning::TableOptions& options);

}  // namespace weft::cli
