// SPDX-License-Identifier: Apache-2.0

#include "cli/json_line.hpp"
#include "cli/table.hpp"
#include "cli/terminal.hpp"
#include "cli/text_format.hpp"
#include "cli/verb.hpp"

#include "mesh/network/layer.hpp"
#include "mesh/network/layer_listing.hpp"

#include "core/json.hpp"
#include "core/near_word.hpp"
#include "core/option_row.hpp"

#include <unistd.h>

#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace weft::cli {
namespace {

void print_table(const Table& table) { std::fputs(table.text(Terminal::of(STDOUT_FILENO).columns()).c_str(), stdout); }

void print_types() {
  Table table({{"layer"}, {"what it computes"}});
  for (const std::string& type : mesh::layer_types())
    table.add({type, std::string(mesh::layer_declaration(type)->formula)});
  print_table(table);
}

void print_type(const std::string& type, const mesh::LayerDeclaration& declared) {
  std::printf("%s: %s\ntakes [%s], gives [%s]\n\n", type.c_str(), std::string(declared.formula).c_str(),
              std::string(declared.takes).c_str(), std::string(declared.gives).c_str());
  Table table({{"option"}, {"default"}, {"unit"}, {"may be"}, {"meaning"}});
  for (const OptionRow& row : declared.options) {
    std::string meaning(row.meaning);
    if (!row.only_with.empty()) meaning += " (only with " + std::string(row.only_with) + ")";
    table.add({std::string(row.key), default_text(row), std::string(row.unit), limits_text(row), meaning});
  }
  print_table(table);
}

Status print_layers(const std::string& wanted, bool json) {
  const std::vector<std::string> types = mesh::layer_types();
  const mesh::LayerDeclaration* const declared = mesh::layer_declaration(wanted);
  if (!wanted.empty() && !declared)
    return fail(Errc::unknown_name,
                "no layer type '" + wanted + "'" +
                    did_you_mean(wanted, std::vector<std::string_view>(types.begin(), types.end())) +
                    "; weft layers lists them");
  if (json) {
    for (const Json& layer : mesh::layer_listing())
      if (wanted.empty() || layer["type"].text() == wanted) print_json(layer);
  } else if (declared) {
    print_type(wanted, *declared);
  } else {
    print_types();
  }
  return {};
}

}  // namespace

Verb add_layers(CLI::App& program) {
  CLI::App* app = add_verb(program, "layers", "List the layer types, or the options of one");
  struct Request {
    std::string type;
    bool json = false;
  };
  auto request = std::make_shared<Request>();
  add_argument(*app, "TYPE", request->type, "One of them, such as dense");
  add_flag(*app, "json", request->json, "One JSON object a layer type on stdout");
  return {app, [request] { return print_layers(request->type, request->json); }};
}

}  // namespace weft::cli
