// SPDX-License-Identifier: Apache-2.0

#include "cli/table_flags.hpp"

#include "cli/verb.hpp"

#include "learning/stream_options.hpp"

namespace weft::cli {

void add_table_flags(CLI::App& verb, TableFlags& flags) {
  const auto& rows = learning::stream_rows();
  add_option(verb, "label", flags.labels,
             "Column of the class: its name, its number from 1, first or last; several with commas")
      .type_name("COLUMN")
      .between_commas();
  add_option(verb, "target", flags.targets, "Columns of values to learn instead of a class; several with commas")
      .type_name("COLUMN")
      .between_commas();
  add_option(verb, "weight", flags.weight, "Column of each sample's weight, a factor of its gradients")
      .type_name("COLUMN");
  add_option(verb, "skip", flags.skip, "Columns left out, by name or number; several with commas")
      .type_name("COLUMN")
      .between_commas();
  add_option(verb, "separator", flags.separator, option_row(rows, "separator"));
  add_option(verb, "header", flags.header, option_row(rows, "header"));
  add_option(verb, "missing", flags.missing, option_row(rows, "missing"));
}

void add_row_format(CLI::App& verb, std::optional<std::string>& format) {
  one_of(add_option(verb, "format", format, "Format of the rows; else it is seen from how they begin"),
         {"csv", "jsonl"});
}

void apply(const TableFlags& flags, learning::TableOptions& o) {
  if (flags.labels.size() == 1) o.label = flags.labels[0];
  if (!flags.labels.empty()) {
    o.labels = flags.labels.size() > 1 ? flags.labels : std::vector<std::string>();
    o.targets.clear();
  }
  if (!flags.targets.empty()) o.targets = flags.targets;
  if (flags.weight) o.weight = *flags.weight;
  if (!flags.skip.empty()) o.skip = flags.skip;
  if (flags.separator) o.separator = *learning::parse_separator(*flags.separator);
  if (flags.header) o.header = *formats::parse_csv_header(*flags.header);
  if (!flags.missing) return;
  o.missing = *learning::parse_missing(*flags.missing);
  if (o.missing != learning::Missing::mean) o.fill.clear();
}

}  // namespace weft::cli
