// SPDX-License-Identifier: Apache-2.0

#include "cli/table_flags.hpp"

#include "cli/verb.hpp"

namespace weft::cli {

void add_table_flags(CLI::App& verb, TableFlags& flags) {
  add_option(verb, "label", flags.label, "Column of the class: its name, its number from 1, first or last")
      .type_name("COLUMN");
  add_option(verb, "skip", flags.skip, "Columns left out, by name or number; several with commas")
      .type_name("COLUMN")
      .between_commas();
  one_of(add_option(verb, "separator", flags.separator, "Between fields; auto: found in the first line"),
         {"auto", ",", ";", "tab", "|"});
  one_of(add_option(verb, "header", flags.header, "The first line names the columns, or is data"),
         {"detect", "absent", "present"});
  one_of(add_option(verb, "missing", flags.missing, "Rows with empty fields, NA, NaN or ?"),
         {"refuse", "drop", "mean", "zero"});
}

void apply(const TableFlags& flags, learning::TableOptions& o) {
  if (flags.label) o.label = *flags.label;
  if (!flags.skip.empty()) o.skip = flags.skip;
  if (flags.separator) o.separator = *learning::parse_separator(*flags.separator);
  if (flags.header) o.header = *formats::parse_csv_header(*flags.header);
  if (!flags.missing) return;
  o.missing = *learning::parse_missing(*flags.missing);
  if (o.missing != learning::Missing::mean) o.fill.clear();
}

}  // namespace weft::cli
