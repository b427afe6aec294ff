// SPDX-License-Identifier: Apache-2.0

#include "learning/options.hpp"

#include "cli/json_line.hpp"
#include "cli/table.hpp"
#include "cli/terminal.hpp"
#include "cli/verb.hpp"

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
constexpr std::array kSections{Section{"learning", learning::learning_rows}, Section{"stream", learning::stream_rows}};

std::string default_text(const OptionRow& row) {
  if (row.is_needed) return "required";
  return row.fallback.empty() ? std::string(row.fallback_words) : row.fallback;
}

void add_rows(Table& table, const std::string& path, const std::vector<OptionRow>& rows) {
  for (const OptionRow& row : rows) {
    const std::string key = path + std::string(row.key);
    if (row.options.empty())
      table.add({key, default_text(row), limits_text(row), std::string(row.meaning)});
    else
      add_rows(table, key + ".", row.options);
  }
}

Status print_options(const std::string& wanted, bool json) {
  for (const Section& section : kSections) {
    if (!wanted.empty() && wanted != section.name) continue;
    if (json) {
      print_json({{"section", section.name}, {"options", to_json(section.rows())}});
      continue;
    }
    Table table({{"option"}, {"default"}, {"may be"}, {"meaning"}});
    add_rows(table, std::string(section.name) + ".", section.rows());
    std::fputs(table.text(Terminal::of(STDOUT_FILENO).columns()).c_str(), stdout);
  }
  return {};
}

}  // namespace

Verb add_options(CLI::App& program) {
  CLI::App* app = add_verb(program, "options", "List the options of a network file's learning and stream");
  struct Request {
    std::string section;
    bool json = false;
  };
  auto request = std::make_shared<Request>();
  add_argument(*app, "SECTION", request->section, "One of them: learning or stream").member_of({"learning", "stream"});
  add_flag(*app, "json", request->json, "One JSON object a section on stdout");
  return {app, [request] { return print_options(request->section, request->json); }};
}

}  // namespace weft::cli
