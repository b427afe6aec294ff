// SPDX-License-Identifier: Apache-2.0

#include "learning/options.hpp"

#include "cli/json_line.hpp"
#include "cli/run_statistics.hpp"
#include "cli/table.hpp"
#include "cli/terminal.hpp"
#include "cli/text_format.hpp"
#include "cli/verb.hpp"

#include "agent/reinforcement_options.hpp"
#include "learning/stream_options.hpp"

#include "core/json.hpp"
#include "core/option_row.hpp"

#include <unistd.h>

#include <array>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>

namespace weft::cli {
namespace {

struct Section {
  const char* name;
  const std::vector<OptionRow>& (*rows)();
};
constexpr std::array kSections{Section{"learning", learning::learning_rows}, Section{"stream", learning::stream_rows},
                               Section{"reinforcement", agent::reinforcement_rows},
                               Section{"statistics", statistics_rows}};

void add_rows(Table& table, const std::string& path, const std::vector<OptionRow>& rows) {
  for (const OptionRow& row : rows) {
    const std::string key = path + std::string(row.key);
    if (row.options.empty())
      table.add({key, default_text(row), limits_text(row), std::string(row.meaning)});
    else
      add_rows(table, key + ".", row.options);
  }
}

void print_table(const Section& section) {
  const bool is_given = section.rows != statistics_rows;  // else told by a run
  Table table(is_given ? std::vector<Table::Column>{{"option"}, {"default"}, {"may be"}, {"meaning"}}
                       : std::vector<Table::Column>{{"statistic"}, {"unit"}, {"meaning"}});
  if (is_given) add_rows(table, std::string(section.name) + ".", section.rows());
  for (const OptionRow& row : section.rows())
    if (!is_given) table.add({std::string(row.key), std::string(row.unit), std::string(row.meaning)});
  std::fputs(table.text(Terminal::of(STDOUT_FILENO).columns()).c_str(), stdout);
}

Status print_options(const std::string& wanted, bool json) {
  for (const Section& section : kSections) {
    if (!wanted.empty() && wanted != section.name) continue;
    if (json)
      print_json({{"section", section.name}, {"options", to_json(section.rows())}});
    else
      print_table(section);
  }
  return {};
}

}  // namespace

Verb add_options(CLI::App& program) {
  CLI::App* app = add_verb(program, "options",
                           "List the options of learning, stream and reinforcement, and the statistics of a run");
  struct Request {
    std::string section;
    bool json = false;
  };
  auto request = std::make_shared<Request>();
  add_argument(*app, "SECTION", request->section, "One of them: learning, stream, reinforcement or statistics")
      .member_of({"learning", "stream", "reinforcement", "statistics"});
  add_flag(*app, "json", request->json, "One JSON object a section on stdout");
  return {app, [request] { return print_options(request->section, request->json); }};
}

}  // namespace weft::cli
