// SPDX-License-Identifier: Apache-2.0

#include "cli/inspect_text.hpp"

#include "cli/table.hpp"
#include "cli/terminal.hpp"
#include "cli/text_format.hpp"

#include "core/coord.hpp"
#include "core/json.hpp"
#include "core/shape.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>

namespace weft::cli {
namespace {

/// The first few names and the count of the others: a line is for reading.
std::string joined(const Json& names, std::size_t most) {
  std::string out;
  for (std::size_t i = 0; i < std::min(names.size(), most); ++i)
    out += (out.empty() ? "" : " ") + names[i].get<std::string>();
  return names.size() > most ? out + " and " + grouped(names.size() - most) + " more" : out;
}

std::string decimal(const Json& number, const char* format) {
  char text[32];
  std::snprintf(text, sizeof text, format, number.get<double>());
  return text;
}

/// "[0,0,1,0]", or "[0,0,1,0] to [0,0,9,0], 9 alike".
std::string place_text(const Json& layer) {
  const auto text = [](const Json& at) { return to_string(Coord{at[0], at[1], at[2], at[3]}); };
  if (!layer.contains("last")) return text(layer["at"]);
  return text(layer["at"]) + " to " + text(layer["last"]) + ", " + grouped(layer["alike"]) + " alike";
}

std::string type_text(const Json& layer) {
  std::string text = layer["dtype"];
  if (!layer["granularity"].is_null()) text += "/" + layer["granularity"].get<std::string>();
  return text;
}

/// Nothing for a network in float32.
void print_stored(const Json& d, std::size_t columns) {
  using Align = Table::Align;
  Table table({{"place"},
               {"matrix"},
               {"stored as"},
               {"scales", Align::right},
               {"rmse", Align::right},
               {"max error", Align::right},
               {"cosine", Align::right}});
  bool is_empty = true;
  for (const auto& layer : d["layers"])
    for (const auto& matrix : layer["matrices"]) {
      is_empty = false;
      const auto& at = layer["at"];
      const bool has_master = matrix.contains("rmse");
      const auto encoding = matrix["encoding"].get<std::string>();
      const auto value = [&](const char* key, const char* format) {
        return has_master ? decimal(matrix[key], format) : std::string("no master");
      };
      table.add({to_string(Coord{at[0], at[1], at[2], at[3]}), matrix["name"], encoding,
                 encoding.find('/') == encoding.npos
                     ? "-"
                     : decimal(matrix["scale_min"], "%.3g") + " to " + decimal(matrix["scale_max"], "%.3g"),
                 value("rmse", "%.3g"), value("max_error", "%.3g"), value("cosine", "%.6f")});
    }
  if (!is_empty) std::printf("%s\n", table.text(columns).c_str());
}

void print_layers(const Json& d, std::size_t columns) {
  constexpr std::size_t kSources = 16;
  using Align = Table::Align;
  Table table({{"place"},
               {"type"},
               {"in", Align::right},
               {"out", Align::right},
               {"activation"},
               {"dtype"},
               {"bits", Align::right},
               {"weights", Align::right},
               {"bytes", Align::right},
               {"from"}});
  for (const auto& layer : d["layers"]) {
    table.add({place_text(layer), layer["type"], std::to_string(layer["in"].get<std::size_t>()),
               std::to_string(layer["out"].get<std::size_t>()), layer["activation"], type_text(layer),
               layer["bits_per_weight"].is_null() ? "-" : decimal(layer["bits_per_weight"], "%.2f"),
               grouped(layer["parameters"]), byte_size(layer["bytes"]), joined(layer["from"], kSources)});
  }
  std::printf("%s\n", table.text(columns).c_str());
}

/// A line for each layer inside a container that has a policy of its own.
void print_policies(const Json& d) {
  for (const auto& layer : d["layers"])
    for (const auto& own : layer["policies"])
      std::printf("policy      %s %s: %s\n", place_text(layer).c_str(), own["layer"].get<std::string>().c_str(),
                  own["policy"].get<std::string>().c_str());
}

/// Costs of a tick, all sessions together.
void print_costs(const Json& d, std::size_t columns) {
  using Align = Table::Align;
  Table table(
      {{"place"}, {"type"}, {"takes"}, {"gives"}, {"multiply-adds", Align::right}, {"bytes touched", Align::right}});
  for (const auto& layer : d["layers"]) {
    table.add({place_text(layer), layer["type"], to_string(layer["in_shape"].get<Shape>()),
               to_string(layer["out_shape"].get<Shape>()), grouped(layer["multiply_adds"]),
               byte_size(layer["bytes_touched"])});
  }
  std::printf("%s\n", table.text(columns).c_str());
}

/// A line each: a terminal may be narrow.
void print_memory(const Json& memory) {
  const auto print_estimate = [](const char* title, const Json& estimate) {
    std::printf("%-11s %s\n", title, byte_size(estimate["total"]).c_str());
    for (const auto* part : estimate.members_as_set())
      if (part->first != "total")
        std::printf("            %s %s\n", part->first.c_str(), byte_size(part->second).c_str());
  };
  print_estimate("to run", memory["run"]);
  if (!memory["learn"].is_null()) print_estimate("to learn", memory["learn"]);
  if (!memory["problem"].is_null()) std::printf("to learn    %s\n", memory["problem"].get<std::string>().c_str());
  if (memory["free"].is_null()) return;
  const std::string source = memory["source"];
  std::printf("free        %s (%s)\n", byte_size(memory["free"]).c_str(),
              source.starts_with("/") ? "control group" : source.c_str());
}

/// One line for each pair of an input and an output; of many pairs one for each output.
void print_latencies(const Json& d) {
  constexpr std::size_t kPairs = 32;
  const Json& pairs = d["latency"];
  if (pairs.size() <= kPairs && d["latency_left_out"] == 0) {
    for (const auto& row : pairs)
      std::printf("latency     %s to %s: %s\n", row["input"].get<std::string>().c_str(),
                  row["output"].get<std::string>().c_str(),
                  row["ticks"].is_null() ? "not connected" : (row["ticks"].dump() + " ticks").c_str());
    return;
  }
  const Json& outputs = d["latency_by_output"];
  for (const auto& row : outputs)
    std::printf("latency     %s inputs to %s: %s, %s not connected\n", grouped(row["inputs"]).c_str(),
                row["output"].get<std::string>().c_str(),
                row["least"].is_null() ? "-" : (row["least"].dump() + " to " + row["most"].dump() + " ticks").c_str(),
                grouped(row["not_connected"]).c_str());
  if (d["outputs"].size() > outputs.size())
    std::printf("latency     %s more outputs, left out\n", grouped(d["outputs"].size() - outputs.size()).c_str());
}

void print_loops(const Json& loops) {
  constexpr std::size_t kLoops = 32, kMembers = 4;
  if (loops.empty()) std::printf("feedback    none\n");
  for (std::size_t i = 0; i < std::min(loops.size(), kLoops); ++i)
    std::printf("feedback    loop of %s\n", joined(loops[i], kMembers).c_str());
  if (loops.size() > kLoops) std::printf("feedback    %s more loops\n", grouped(loops.size() - kLoops).c_str());
}

}  // namespace

void print_network(const Json& d) {
  const Terminal terminal = Terminal::of(STDOUT_FILENO);
  const auto& grid = d["grid"];
  const auto number = [](const Json& value) { return grouped(value.get<std::uint64_t>()); };
  std::printf("%s\n", terminal.styled(d["name"].get<std::string>(), "1").c_str());
  std::printf("grid %s x %s x %s, %s layers a cell; %s cells, %s links\n\n", grid["z"].dump().c_str(),
              grid["y"].dump().c_str(), grid["x"].dump().c_str(), grid["layers"].dump().c_str(),
              number(d["cells"]).c_str(), number(d["links"]).c_str());
  print_layers(d, terminal.columns());
  print_stored(d, terminal.columns());
  print_costs(d, terminal.columns());
  print_policies(d);
  std::printf("weights     %s in %s\n", number(d["parameters"]).c_str(), byte_size(d["weight_bytes"]).c_str());
  std::printf("a tick      %s multiply-adds, %s touched\n", number(d["multiply_adds"]).c_str(),
              byte_size(d["bytes_touched"]).c_str());
  std::printf("state       %s for %s session%s\n", byte_size(d["state_bytes"]).c_str(), d["sessions"].dump().c_str(),
              d["sessions"] == 1 ? "" : "s");
  if (!d["why_cpu_cells"].is_null())
    std::printf("placement   beside a device the CPU runs %s\n", d["why_cpu_cells"].get<std::string>().c_str());
  print_memory(d["memory"]);
  print_latencies(d);
  std::printf("settles     after %s ticks, feedback left aside\n", d["settle_ticks"].dump().c_str());
  print_loops(d["loops"]);
  if (d["live"] == true) std::printf("live        at tick %s\n", number(d["ticks"]).c_str());
  if (d["state_hash"].is_null())
    std::printf("state hash  by `weft hash`%s\n",
                d["kind"] == "network" ? ": this network has not run" : " or --weights");
  else
    std::printf("state hash  %s\n", d["state_hash"].get<std::string>().c_str());
}

}  // namespace weft::cli
