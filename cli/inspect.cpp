// SPDX-License-Identifier: Apache-2.0

#include "cli/json_line.hpp"
#include "cli/session.hpp"
#include "cli/table.hpp"
#include "cli/terminal.hpp"
#include "cli/verb.hpp"
#include "cli/wording.hpp"

#include "mesh/device/device_assignment.hpp"
#include "mesh/mesh_access.hpp"
#include "mesh/runtime/cell.hpp"
#include "mesh/runtime/state.hpp"
#include "mesh/weights/weight_store.hpp"

#include <nlohmann/json.hpp>

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <utility>

namespace weft::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string activation_of(const mesh::NetworkSpec& spec, Coord at) {
  for (const mesh::LayerSpec& layer : spec.layers) {
    if (layer.at != at) continue;
    const auto found = layer.options.find("activation");
    if (found != layer.options.end())
      if (const auto* text = std::get_if<std::string>(&found->second)) return *text;
    return layer.type == "dense" ? "linear" : layer.type == "activation" ? "relu" : "-";
  }
  return "-";
}

std::string type_of(const mesh::NetworkSpec& spec, Coord at) {
  for (const mesh::LayerSpec& layer : spec.layers)
    if (layer.at == at) return layer.type;
  return "?";
}

std::string place(const mesh::Node& node) { return node.is_port() ? "\"" + node.port + "\"" : to_string(node.at); }

/// Of each matrix in another type than float32: its scales, and how far what computes is from the master, where the
/// file has one: of codes alone, masters are only what they decode to.
Json matrices_of(const mesh::Mesh& mesh, mesh::NodeId node, bool has_masters) {
  Json matrices = Json::array();
  for (const auto& parameter : mesh::MeshAccess::weights(mesh).of(node)) {
    const mesh::QuantizedWeight* const stored =
        mesh::MeshAccess::weights(mesh).stored(mesh::MeshAccess::weights(mesh).first(node) + parameter.index);
    if (!stored) continue;
    const auto [low, high] = stored->scale_range();
    Json matrix{{"name", parameter.spec->name}, {"scale_min", low}, {"scale_max", high}};
    if (parameter.data && has_masters) {
      const auto error = stored->error({parameter.data, parameter.spec->out, parameter.spec->in});
      matrix.update({{"rmse", error.rmse}, {"max_error", error.largest}, {"cosine", error.cosine}});
    }
    matrices.push_back(std::move(matrix));
  }
  return matrices;
}

Json layers_of(const mesh::Mesh& mesh, bool has_masters) {
  Json layers = Json::array();
  const mesh::Graph& graph = mesh.graph();
  for (std::size_t id = graph.port_count(); id < graph.nodes().size(); ++id) {
    const mesh::Node& node = graph.nodes()[id];
    const auto layer = static_cast<mesh::NodeId>(id);
    const Encoding encoding = mesh::MeshAccess::weights(mesh).encoding(layer);
    std::uint64_t parameters = 0;
    for (const mesh::ParameterSpec& p : node.layer->parameters())
      parameters += p.out * std::max<std::uint64_t>(p.in, 1);
    const std::uint64_t bytes = mesh::MeshAccess::weights(mesh).bytes(layer);
    Json from = Json::array();
    for (const std::uint32_t e : node.sources) from.push_back(place(graph.nodes()[graph.edges()[e].from]));
    layers.push_back({{"at", {node.at.z, node.at.y, node.at.x, node.at.l}},
                      {"type", type_of(mesh.spec(), node.at)},
                      {"in", node.in},
                      {"out", node.width},
                      {"in_shape", node.layer->in_shape()},
                      {"out_shape", node.layer->out_shape()},
                      {"multiply_adds", static_cast<std::uint64_t>(std::llround(node.layer->multiply_adds() *
                                                                                static_cast<double>(mesh.sessions())))},
                      {"bytes_touched", node.layer->bytes_touched(encoding, mesh.sessions())},
                      {"activation", activation_of(mesh.spec(), node.at)},
                      {"dtype", name(encoding.dtype)},
                      {"granularity", has_scale(encoding.dtype) ? Json(name(encoding.granularity)) : Json()},
                      {"activations", has_integer_kernel(encoding.dtype) ? Json(name(node.activations)) : Json()},
                      {"qat", node.quantization_aware},
                      {"learns", mesh::MeshAccess::weights(mesh).learns(layer)},
                      {"bits_per_weight",
                       parameters ? Json(8.0 * static_cast<double>(bytes) / static_cast<double>(parameters)) : Json()},
                      {"matrices", matrices_of(mesh, layer, has_masters)},
                      {"parameters", parameters},
                      {"bytes", bytes},
                      {"from", from},
                      {"in_loop", graph.is_in_loop(layer)}});
  }
  return layers;
}

Json latencies_of(const mesh::Graph& graph) {
  Json rows = Json::array();
  for (mesh::NodeId port = 0; port < graph.port_count(); ++port)
    for (std::size_t i = 0; i < graph.outputs().size(); ++i) {
      const auto ticks = graph.latency(port, graph.outputs()[i]);
      rows.push_back({{"input", graph.nodes()[port].port},
                      {"output", graph.spec().outputs[i].name},
                      {"ticks", ticks ? Json(*ticks) : Json()}});
    }
  return rows;
}

Json loops_of(const mesh::Graph& graph) {
  Json loops = Json::array();
  for (const auto& loop : graph.loops()) {
    Json members = Json::array();
    for (const mesh::NodeId id : loop) members.push_back(place(graph.nodes()[id]));
    loops.push_back(std::move(members));
  }
  return loops;
}

/// A figure of all layers together.
std::uint64_t total(const Json& layers, const char* key) {
  std::uint64_t sum = 0;
  for (const auto& layer : layers) sum += layer[key].get<std::uint64_t>();
  return sum;
}

Json describe(const Model& model, const Loaded& loaded) {
  const mesh::Mesh& mesh = *loaded.mesh;
  const mesh::Graph& graph = mesh.graph();
  const GridShape& grid = graph.spec().grid;
  Json inputs = Json::object(), outputs = Json::object();
  for (const mesh::PortSpec& port : graph.spec().inputs) inputs[port.name] = port.shape;
  for (std::size_t i = 0; i < graph.outputs().size(); ++i)
    outputs[graph.spec().outputs[i].name] = graph.nodes()[graph.outputs()[i]].width;
  // Of whatever device runs the rest.
  const std::string kept = mesh::host_places(graph).why;
  const Json layers = layers_of(mesh, loaded.is_live || !model.entity);
  Json out{{"file", model.path},
           {"kind", model.is_imported ? "entity v1"
                    : model.entity    ? "entity"
                                      : "network"},
           {"file_bytes", model.file_bytes},
           {"packed", model.entity && model.entity->packing() != formats::Packing::none},
           {"notes", model.notes},
           {"name", graph.spec().name},
           {"seed", graph.spec().seed},
           {"grid", {{"z", grid.z}, {"y", grid.y}, {"x", grid.x}, {"layers", grid.layers}}},
           {"inputs", inputs},
           {"outputs", outputs},
           {"layers", layers},
           {"cells", mesh::MeshAccess::cells(mesh).size()},
           {"links", graph.edges().size()},
           {"parameters", mesh::MeshAccess::weights(mesh).count()},
           {"weight_bytes", mesh::MeshAccess::weights(mesh).bytes()},
           {"multiply_adds", total(layers, "multiply_adds")},
           {"bytes_touched", total(layers, "bytes_touched")},
           {"state_bytes", mesh::MeshAccess::state(mesh).bytes()},
           {"sessions", mesh.sessions()},
           {"device", mesh.spec().device},
           {"why_cpu_cells", kept.empty() ? Json() : Json(kept)},
           {"latency", latencies_of(graph)},
           {"loops", loops_of(graph)},
           {"settle_ticks", graph.settle_ticks()},
           {"ticks", mesh.ticks()},
           {"live", loaded.is_live},
           {"state_hash", to_string(mesh.state_hash())}};
  return out;
}

std::string joined(const Json& names) {
  std::string out;
  for (const auto& each : names) out += (out.empty() ? "" : " ") + each.get<std::string>();
  return out;
}

std::string decimal(const Json& number, const char* format) {
  char text[32];
  std::snprintf(text, sizeof text, format, number.get<double>());
  return text;
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
      const auto figure = [&](const char* key, const char* format) {
        return has_master ? decimal(matrix[key], format) : std::string("no master");
      };
      table.add({to_string(Coord{at[0], at[1], at[2], at[3]}), matrix["name"], type_text(layer),
                 layer["granularity"].is_null()
                     ? "-"
                     : decimal(matrix["scale_min"], "%.3g") + " to " + decimal(matrix["scale_max"], "%.3g"),
                 figure("rmse", "%.3g"), figure("max_error", "%.3g"), figure("cosine", "%.6f")});
    }
  if (!is_empty) std::printf("%s\n", table.text(columns).c_str());
}

void print_layers(const Json& d, std::size_t columns) {
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
    const auto& at = layer["at"];
    table.add({to_string(Coord{at[0], at[1], at[2], at[3]}), layer["type"],
               std::to_string(layer["in"].get<std::size_t>()), std::to_string(layer["out"].get<std::size_t>()),
               layer["activation"], type_text(layer),
               layer["bits_per_weight"].is_null() ? "-" : decimal(layer["bits_per_weight"], "%.2f"),
               grouped(layer["parameters"]), byte_size(layer["bytes"]), joined(layer["from"])});
  }
  std::printf("%s\n", table.text(columns).c_str());
}

/// What a tick asks for, all sessions together.
void print_costs(const Json& d, std::size_t columns) {
  using Align = Table::Align;
  Table table(
      {{"place"}, {"type"}, {"takes"}, {"gives"}, {"multiply-adds", Align::right}, {"bytes touched", Align::right}});
  for (const auto& layer : d["layers"]) {
    const auto& at = layer["at"];
    table.add({to_string(Coord{at[0], at[1], at[2], at[3]}), layer["type"], to_string(layer["in_shape"].get<Shape>()),
               to_string(layer["out_shape"].get<Shape>()), grouped(layer["multiply_adds"]),
               byte_size(layer["bytes_touched"])});
  }
  std::printf("%s\n", table.text(columns).c_str());
}

void print(const Json& d) {
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
  std::printf("weights     %s in %s\n", number(d["parameters"]).c_str(), byte_size(d["weight_bytes"]).c_str());
  std::printf("a tick      %s multiply-adds, %s touched\n", number(d["multiply_adds"]).c_str(),
              byte_size(d["bytes_touched"]).c_str());
  std::printf("state       %s for %s session%s\n", byte_size(d["state_bytes"]).c_str(), d["sessions"].dump().c_str(),
              d["sessions"] == 1 ? "" : "s");
  if (!d["why_cpu_cells"].is_null())
    std::printf("placement   beside a device the CPU runs %s\n", d["why_cpu_cells"].get<std::string>().c_str());
  for (const auto& row : d["latency"])
    std::printf("latency     %s to %s: %s\n", row["input"].get<std::string>().c_str(),
                row["output"].get<std::string>().c_str(),
                row["ticks"].is_null() ? "not connected" : (row["ticks"].dump() + " ticks").c_str());
  std::printf("settles     after %s ticks, feedback left aside\n", d["settle_ticks"].dump().c_str());
  if (d["loops"].empty()) std::printf("feedback    none\n");
  for (const auto& loop : d["loops"]) std::printf("feedback    loop of %s\n", joined(loop).c_str());
  if (d["live"] == true) std::printf("live        at tick %s\n", number(d["ticks"]).c_str());
  std::printf("state hash  %s\n", d["state_hash"].get<std::string>().c_str());
}

}  // namespace

Verb add_inspect(CLI::App& program) {
  CLI::App* app =
      program.add_subcommand("inspect", "Show a network: layers, weights, latencies, feedback loops, memory");
  struct Request {
    std::string file;
    bool json = false;
  };
  auto request = std::make_shared<Request>();
  app->add_option("FILE", request->file, "A network file or an .entity file")->required();
  add_flag(*app, "json", request->json, "One JSON object on stdout");
  return {app, [request]() -> Status {
            WEFT_TRY(const Model model, read_model(request->file));
            mesh::MeshOptions options;
            options.threads = 1;
            auto loaded = load(model, options);
            if (!loaded) return fail(blamed(std::move(loaded).error(), request->file));
            const Json description = describe(model, *loaded);
            if (request->json)
              print_json(description);
            else
              print(escaped_texts(description));
            return {};
          }};
}

}  // namespace weft::cli
