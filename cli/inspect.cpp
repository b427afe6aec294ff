// SPDX-License-Identifier: Apache-2.0

#include "cli/inspect_text.hpp"
#include "cli/inspect_tokenizer.hpp"
#include "cli/inspect_weights.hpp"
#include "cli/json_line.hpp"
#include "cli/progress.hpp"
#include "cli/run_state.hpp"
#include "cli/text_format.hpp"
#include "cli/verb.hpp"

#include "learning/memory_estimate.hpp"

#include "mesh/device/device_assignment.hpp"
#include "mesh/memory/memory_estimate.hpp"
#include "mesh/mesh_access.hpp"
#include "mesh/persistence/entity_model.hpp"
#include "mesh/runtime/cell.hpp"
#include "mesh/runtime/state.hpp"
#include "mesh/weights/weight_store.hpp"

#include "topology/memory_limits.hpp"

#include "core/json.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace weft::cli {
namespace {

struct InspectRequest {
  std::string file;
  std::uint64_t max_memory = 0;
  bool json = false, weights = false;
};

/// A network as it is shown. Without a mesh its weights were not read or drawn, and nothing of them is shown.
struct Shown {
  const mesh::Graph& graph;
  const mesh::Mesh* mesh = nullptr;
  bool has_masters = true;  // besides what is stored
  bool is_folded = false;   // layers alike that follow each other are shown once
  ProgressLine* progress = nullptr;
  std::size_t saved_sessions = 1;  // in the file, as are
  std::uint64_t saved_ticks = 0;

  std::size_t sessions() const { return mesh ? mesh->sessions() : saved_sessions; }
  std::uint64_t ticks() const { return mesh ? mesh->ticks() : saved_ticks; }
  Encoding encoding(mesh::NodeId layer) const {
    return mesh ? mesh::MeshAccess::weights(*mesh).encoding(layer) : graph.nodes()[layer].encoding;
  }
  std::uint64_t bytes(mesh::NodeId layer) const {
    return mesh ? mesh::MeshAccess::weights(*mesh).bytes(layer) : mesh::weight_bytes(graph.nodes()[layer]);
  }
};

constexpr std::size_t kListed = 1000;                       // layers that are listed one by one on a terminal
constexpr std::size_t kWalkedOutputs = 256;                 // outputs whose latencies are counted
constexpr std::size_t kSummarized = 32;                     // outputs whose latencies are summarized
constexpr std::size_t kListedPairs = 1024;                  // latencies that are listed one by one
constexpr std::size_t kWalkedLinks = std::size_t{1} << 23;  // nodes and links visited for latencies, beyond one walk

std::string activation_of(const mesh::LayerSpec& layer) {
  const auto found = layer.options.find("activation");
  if (found != layer.options.end())
    if (const auto* text = std::get_if<std::string>(&found->second)) return *text;
  return layer.type == "dense" ? "linear" : layer.type == "activation" ? "relu" : "-";
}

std::string place(const mesh::Node& node) { return node.is_port() ? "\"" + node.port + "\"" : to_string(node.at); }

/// Encoding of a parameter, as it is stored where weights were read.
Encoding encoding_of(const Shown& shown, mesh::NodeId node, std::size_t index) {
  if (!shown.mesh) return shown.graph.nodes()[node].encoding_of(shown.graph.nodes()[node].layer->parameters()[index]);
  const mesh::WeightStore& weights = mesh::MeshAccess::weights(*shown.mesh);
  return weights.encoding_of(weights.first(node) + index);
}

/// The encodings of a layer's matrices: several where layers inside a container have types of their own.
std::set<std::string> encodings_of(const Shown& shown, mesh::NodeId node) {
  std::set<std::string> names;
  const auto& parameters = shown.graph.nodes()[node].layer->parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i)
    if (parameters[i].is_matrix()) names.insert(to_string(encoding_of(shown, node, i)));
  return names;
}

/// Words of layers inside a container about their own weights, one a parameter.
Json own_storage_of(const Shown& shown, mesh::NodeId id) {
  Json all = Json::array();
  const mesh::Node& node = shown.graph.nodes()[id];
  const auto& parameters = node.layer->parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const mesh::OwnStorage& own = parameters[i].own;
    if (!own.encoding && !own.activations && !own.quantization_aware && !own.is_frozen && own.rate_scale == 1.0f)
      continue;
    all.push_back({{"name", parameters[i].name},
                   {"dtype", to_string(encoding_of(shown, id, i))},
                   {"activations", name(own.activations.value_or(node.activations))},
                   {"qat", node.trains_stored(parameters[i])},
                   {"rate_scale", own.rate_scale},
                   {"freeze", node.freezes(parameters[i])}});
  }
  return all;
}

/// Policies that layers inside a container state for themselves.
void add_policies(const mesh::LayerSpec& container, const std::string& path, Json& to) {
  for (std::size_t i = 0; i < container.layers.size(); ++i) {
    const std::string name = path + "layers[" + std::to_string(i) + "]";
    if (const auto policy = container.layers[i].policy)
      to.push_back({{"layer", name}, {"policy", actors::name(*policy)}});
    add_policies(container.layers[i], name + ".", to);
  }
}

/// Of each matrix in another type than float32: its scales, and how far what computes is from the master, where the
/// file has one: of codes alone, masters are only what they decode to.
Json matrices_of(const mesh::Mesh& mesh, mesh::NodeId node, bool has_masters) {
  Json matrices = Json::array();
  for (const auto& parameter : mesh::MeshAccess::weights(mesh).of(node)) {
    const mesh::QuantizedWeight* const stored =
        mesh::MeshAccess::weights(mesh).stored(mesh::MeshAccess::weights(mesh).first(node) + parameter.index);
    if (!stored) continue;
    const auto [low, high] = stored->scale_range();
    Json matrix{{"name", parameter.spec->name},
                {"encoding", to_string(stored->encoding())},
                {"scale_min", low},
                {"scale_max", high}};
    if (parameter.data && has_masters) {
      const auto error = stored->error({parameter.data, parameter.spec->out, parameter.spec->in});
      matrix.update({{"rmse", error.rmse}, {"max_error", error.largest}, {"cosine", error.cosine}});
    }
    matrices.push_back(std::move(matrix));
  }
  return matrices;
}

std::uint64_t parameters_of(const mesh::Node& node) {
  std::uint64_t parameters = 0;
  for (const mesh::ParameterSpec& p : node.layer->parameters()) parameters += p.out * std::max<std::uint64_t>(p.in, 1);
  return parameters;
}

std::uint64_t work_of(const mesh::Node& node, std::size_t sessions) {
  return static_cast<std::uint64_t>(std::llround(node.layer->multiply_adds() * static_cast<double>(sessions)));
}

Json place_of(const mesh::Node& node) { return {node.at.z, node.at.y, node.at.x, node.at.l}; }

Json sources_of(const mesh::Graph& graph, const mesh::Node& node) {
  Json from = Json::array();
  for (const std::uint32_t e : node.sources) from.push_back(place(graph.nodes()[graph.edges()[e].from]));
  return from;
}

/// All that is shown of a layer but its place, its sources and whether it is in a loop.
Json body_of(const Shown& shown, mesh::NodeId id) {
  const mesh::Graph& graph = shown.graph;
  const mesh::Node& node = graph.nodes()[id];
  const mesh::LayerSpec& spec = graph.layer_spec(id);
  const Encoding encoding = shown.encoding(id);
  const std::uint64_t parameters = parameters_of(node), bytes = shown.bytes(id);
  const bool is_mixed = encodings_of(shown, id).size() > 1;
  Json policies = Json::array();
  add_policies(spec, "", policies);
  return {
      {"type", spec.type},
      {"in", node.in},
      {"out", node.width},
      {"in_shape", node.layer->in_shape()},
      {"out_shape", node.layer->out_shape()},
      {"multiply_adds", work_of(node, shown.sessions())},
      {"bytes_touched", node.layer->bytes_touched(encoding, shown.sessions())},
      {"activation", activation_of(spec)},
      {"dtype", is_mixed ? "mixed" : name(encoding.dtype)},
      {"granularity", has_scale(encoding.dtype) && !is_mixed ? Json(name(encoding.granularity)) : Json()},
      {"inside", own_storage_of(shown, id)},
      {"policies", std::move(policies)},
      {"activations", has_integer_kernel(encoding.dtype) ? Json(name(node.activations)) : Json()},
      {"activation_dtype", name(node.value_dtypes.activation)},
      {"gradient_dtype", name(node.value_dtypes.gradient)},
      {"qat", node.quantization_aware},
      {"learns", !shown.mesh || mesh::MeshAccess::weights(*shown.mesh).learns(id)},
      {"bits_per_weight",
       parameters ? Json(8.0 * static_cast<double>(bytes) / static_cast<double>(parameters)) : Json()},
      {"matrices", shown.mesh && !shown.is_folded ? matrices_of(*shown.mesh, id, shown.has_masters) : Json::array()},
      {"parameters", parameters},
      {"bytes", bytes}};
}

/// True when two layers differ in nothing that is shown but their places and sources.
bool are_alike(const Shown& shown, mesh::NodeId a, mesh::NodeId b) {
  const mesh::Node &one = shown.graph.nodes()[a], &other = shown.graph.nodes()[b];
  const mesh::LayerSpec &first = shown.graph.layer_spec(a), &second = shown.graph.layer_spec(b);
  return first.type == second.type && one.in == other.in && one.shape == other.shape &&
         first.options == second.options && first.layers.empty() && second.layers.empty() &&
         one.layer->in_shape() == other.layer->in_shape() && shown.encoding(a) == shown.encoding(b) &&
         one.activations == other.activations && one.quantization_aware == other.quantization_aware;
}

Json layers_of(const Shown& shown) {
  const mesh::Graph& graph = shown.graph;
  Json layers = Json::array();
  for (auto id = static_cast<mesh::NodeId>(graph.port_count()); id < graph.nodes().size(); ++id) {
    const mesh::Node& node = graph.nodes()[id];
    if (shown.is_folded && !layers.empty() && are_alike(shown, id - 1, id)) {
      layers.back()["last"] = place_of(node);
      layers.back()["alike"] = layers.back().get_or("alike", std::uint64_t{1}) + 1;
      continue;
    }
    Json& layer = layers.push_back(body_of(shown, id));
    layer["at"] = place_of(node);
    layer["from"] = sources_of(graph, node);
    if (shown.progress && id % 1024 == 0 && shown.progress->is_due())
      shown.progress->show("layer " + grouped(id) + " of " + grouped(graph.nodes().size()));
  }
  return layers;
}

std::string sources_text(const mesh::Graph& graph, const mesh::Node& node) {
  std::string text;
  for (const std::uint32_t e : node.sources) {
    const mesh::Node& from = graph.nodes()[graph.edges()[e].from];
    text.append(text.empty() ? "[" : ",");
    text.append(from.is_port() ? Json(place(from)).dump() : "\"" + to_string(from.at) + "\"");
  }
  return text.empty() ? "[]" : text + "]";
}

/// Prints all layers as a JSON array, piece by piece: as values, 10^5 of them take 300 MB. What layers alike that
/// follow each other have in common is made once.
void print_layers_json(const Shown& shown) {
  constexpr std::size_t kChunk = std::size_t{1} << 16;
  const mesh::Graph& graph = shown.graph;
  const auto first = static_cast<mesh::NodeId>(graph.port_count());
  std::string text = "[", body;
  for (mesh::NodeId id = first; id < graph.nodes().size(); ++id) {
    const mesh::Node& node = graph.nodes()[id];
    // Weights of layers alike still differ.
    if (id == first || shown.mesh || !are_alike(shown, id - 1, id)) {
      body = body_of(shown, id).dump(Json::Order::as_set);
      body = body.substr(1, body.size() - 2);
    }
    text.append(id == first ? "{" : ",{").append("\"at\":").append(to_string(node.at)).append(",").append(body);
    text.append(",\"from\":").append(sources_text(graph, node));
    text.append(",\"in_loop\":").append(graph.is_in_loop(id) ? "true}" : "false}");
    if (text.size() < kChunk) continue;
    print_json_part(text);
    text.clear();
  }
  print_json_part(text + "]");
}

/// Ticks from inputs to outputs: pairs up to a bound, their count beyond it, and a summary for each of the first
/// outputs. Time and size are bounded, whatever the product of inputs and outputs is.
struct Latencies {
  Json pairs = Json::array(), by_output = Json::array();
  std::uint64_t left_out = 0;
};

Json summary_of(const std::string& output, const std::vector<std::optional<std::uint32_t>>& ticks) {
  std::uint64_t not_connected = 0;
  std::optional<std::uint32_t> least, most;
  for (const auto& each : ticks) {
    not_connected += !each;
    if (!each) continue;
    least = std::min(least.value_or(*each), *each);
    most = std::max(most.value_or(*each), *each);
  }
  return {{"output", output},
          {"inputs", ticks.size()},
          {"least", least ? Json(*least) : Json()},
          {"most", most ? Json(*most) : Json()},
          {"not_connected", not_connected}};
}

Latencies latencies_of(const mesh::Graph& graph) {
  Latencies found;
  const std::size_t walk = graph.nodes().size() + graph.edges().size();
  const std::size_t outputs = std::min(graph.outputs().size(), kWalkedOutputs);
  std::vector<std::optional<std::uint32_t>> ticks;
  for (std::size_t i = 0, walked = 0; i < outputs; ++i) {
    const bool is_same = i > 0 && graph.outputs()[i] == graph.outputs()[i - 1];
    if (!is_same && i > 0 && (walked += walk) > kWalkedLinks) break;
    if (!is_same) ticks = graph.latencies_to(graph.outputs()[i]);
    const std::string& output = graph.spec().outputs[i].name;
    if (i < kSummarized) found.by_output.push_back(summary_of(output, ticks));
    for (std::size_t port = 0; port < ticks.size() && found.pairs.size() < kListedPairs; ++port)
      found.pairs.push_back({{"input", graph.nodes()[port].port},
                             {"output", output},
                             {"ticks", ticks[port] ? Json(*ticks[port]) : Json()}});
    if (found.pairs.size() >= kListedPairs && i + 1 >= kSummarized) break;
  }
  found.left_out = std::uint64_t{graph.port_count()} * graph.outputs().size() - found.pairs.size();
  return found;
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

struct Totals {
  std::uint64_t cells = 0, parameters = 0, weight_bytes = 0, multiply_adds = 0, bytes_touched = 0;
};

/// Statistics of all layers together.
Totals totals_of(const Shown& shown) {
  Totals sum;
  for (auto id = static_cast<mesh::NodeId>(shown.graph.port_count()); id < shown.graph.nodes().size(); ++id) {
    const mesh::Node& node = shown.graph.nodes()[id];
    sum.cells += id == shown.graph.port_count() || shown.graph.nodes()[id - 1].cell != node.cell;
    sum.parameters += parameters_of(node);
    sum.weight_bytes += shown.bytes(id);
    sum.multiply_adds += work_of(node, shown.sessions());
    sum.bytes_touched += node.layer->bytes_touched(shown.encoding(id), shown.sessions());
  }
  return sum;
}

Json estimate_json(const mesh::MemoryEstimate& estimate) {
  Json parts = Json::object();
  for (const auto& [part, bytes] : estimate.parts) parts[part] = bytes;
  parts["total"] = estimate.total();
  return parts;
}

/// Memory that the network would take to run and to learn, and that is free.
Json memory_of(const Shown& shown) {
  // Enough to tell what a learner takes of any machine; more is told as a problem, at once.
  constexpr std::uint64_t kMostTold = std::uint64_t{256} << 20;
  Json memory{{"run", estimate_json(mesh::estimate_memory(shown.graph, {.sessions = shown.sessions()}))},
              {"learn", Json()},
              {"problem", Json()}};
  if (const std::string& section = shown.graph.spec().learning; !section.empty()) {
    auto options = learning::read_learning(section);
    auto learn = options ? learning::estimate_memory(shown.graph, learning::with_defaults(*options), shown.sessions(),
                                                     std::min(kMostTold, mesh::free_memory(0)))
                         : Result<mesh::MemoryEstimate>(fail(options.error()));
    if (learn)
      memory["learn"] = estimate_json(*learn);
    else
      memory["problem"] = learn.error().text();
  }
  const topology::MemoryLimits limits = topology::read_memory_limits();
  const topology::MemoryLimit* const tightest = limits.tightest();
  memory["free"] = tightest ? Json(tightest->free) : Json();
  memory["source"] = tightest ? Json(tightest->source) : Json();
  return memory;
}

/// All but the layers.
Json describe(const Model& model, const Shown& shown, bool is_live) {
  const mesh::Graph& graph = shown.graph;
  const GridShape& grid = graph.spec().grid;
  Json inputs = Json::object(), outputs = Json::object();
  for (const mesh::PortSpec& port : graph.spec().inputs) inputs[port.name] = port.shape;
  for (std::size_t i = 0; i < graph.outputs().size(); ++i)
    outputs[graph.spec().outputs[i].name] = graph.nodes()[graph.outputs()[i]].width;
  // Of whatever device runs the rest.
  const std::string kept = mesh::host_places(graph).why;
  const Totals totals = totals_of(shown);
  const Latencies latencies = latencies_of(graph);
  const bool has_mesh = shown.mesh != nullptr;
  return {{"file", model.path},
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
          {"cells", totals.cells},
          {"links", graph.edges().size()},
          {"parameters", totals.parameters},
          {"weight_bytes", totals.weight_bytes},
          {"multiply_adds", totals.multiply_adds},
          {"bytes_touched", totals.bytes_touched},
          {"state_bytes", has_mesh ? mesh::MeshAccess::state(*shown.mesh).bytes()
                                   : mesh::State::bytes_for(graph, {shown.sessions(), 2, false})},
          {"memory", memory_of(shown)},
          {"sessions", shown.sessions()},
          {"device", graph.spec().device},
          {"why_cpu_cells", kept.empty() ? Json() : Json(kept)},
          {"latency", latencies.pairs},
          {"latency_by_output", latencies.by_output},
          {"latency_left_out", latencies.left_out},
          {"loops", loops_of(graph)},
          {"settle_ticks", graph.settle_ticks()},
          {"ticks", shown.ticks()},
          {"live", is_live},
          {"state_hash", has_mesh ? Json(to_string(shown.mesh->state_hash())) : Json()}};
}

/// Estimates of a mesh and a learner against --max-memory; without it inspect only tells.
Status check_memory(const Shown& shown, const std::string& file, std::uint64_t most) {
  if (most == 0) return {};
  const mesh::Graph& graph = shown.graph;
  WEFT_CHECK(
      mesh::check_memory(file + ": the network", mesh::estimate_memory(graph, {.sessions = shown.sessions()}), most));
  if (graph.spec().learning.empty()) return {};
  WEFT_TRY(const auto options, learning::read_learning(graph.spec().learning));
  WEFT_TRY(const auto learn,
           learning::estimate_memory(graph, learning::with_defaults(options), shown.sessions(), most));
  return mesh::check_memory(file + ": learning", learn, most);
}

void print(const Model& model, const Shown& shown, bool is_live, bool json) {
  Json description = describe(model, shown, is_live);
  if (json) {
    std::string text = description.dump(Json::Order::as_set);
    text.pop_back();
    shown.progress->clear();
    print_json_part(text + ",\"layers\":");
    print_layers_json(shown);
    return end_json_line("}");
  }
  description["layers"] = layers_of(shown);
  shown.progress->clear();
  print_network(escaped_texts(description));
}

/// A network is described without its weights, unless they are asked for and the file has some.
Status look_at(const Model& model, const InspectRequest& request, ProgressLine& progress) {
  progress.show(grouped(model.spec.layers.size()) + " layers");
  const auto shown = [&](const mesh::Graph& graph) {
    return Shown{graph, nullptr, true, !request.json && graph.nodes().size() > kListed, &progress};
  };
  if (!model.entity || !request.weights) {
    auto graph = mesh::Graph::build(model.spec);
    if (!graph) return fail(blamed(std::move(graph).error(), model.path));
    Shown alone = shown(*graph);
    const bool is_live = model.entity && mesh::holds_live_state(*model.entity);
    if (is_live) {
      const Json& live = model.entity->meta()["live"];
      alone.saved_sessions = mesh::sessions_of(*model.entity);
      if (live.is_object() && live["ticks"].is_natural()) alone.saved_ticks = live["ticks"].get<std::uint64_t>();
    }
    WEFT_CHECK(check_memory(alone, model.path, request.max_memory));
    print(model, alone, is_live, request.json);
    return {};
  }
  mesh::MeshOptions options;
  options.threads = 1;
  options.max_memory = request.max_memory;
  auto loaded = load(model, options);
  if (!loaded) return fail(blamed(std::move(loaded).error(), model.path));
  Shown with = shown(loaded->mesh->graph());
  with.mesh = loaded->mesh.get();
  with.has_masters = loaded->is_live;
  print(model, with, loaded->is_live, request.json);
  return {};
}

}  // namespace

Verb add_inspect(CLI::App& program) {
  CLI::App* app = add_verb(program, "inspect", "Show a network: layers, weights, latencies, feedback loops, memory");
  auto request = std::make_shared<InspectRequest>();
  add_argument(
      *app, "FILE", request->file,
      "A network file, an .entity file, a model of others (GGUF, ONNX, safetensors, a Hugging Face folder), or a "
      "tokenizer.json")
      .required();
  add_flag(*app, "weights", request->weights,
           "Of an .entity file: read its weights and state too, for scales, errors of types and the state hash");
  add_max_memory(*app, request->max_memory);
  add_flag(*app, "json", request->json, "One JSON object on stdout");
  return {app, [request]() -> Status {
            if (is_tokenizer_file(request->file)) return inspect_tokenizer(request->file, request->json);
            if (is_foreign_model(request->file)) return inspect_foreign_model(request->file, request->json);
            ProgressLine progress;
            progress.show("reading " + request->file);
            WEFT_TRY(const Model model, read_model(request->file, request->weights));
            return look_at(model, *request, progress);
          }};
}

}  // namespace weft::cli
