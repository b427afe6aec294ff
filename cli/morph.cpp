// SPDX-License-Identifier: Apache-2.0

#include "cli/encoding_flags.hpp"
#include "cli/json_line.hpp"
#include "cli/output.hpp"
#include "cli/run_state.hpp"
#include "cli/text_format.hpp"
#include "cli/verb.hpp"

#include "mesh/mesh_access.hpp"
#include "mesh/weights/weight_store.hpp"

#include "storage/durable.hpp"
#include "storage/file_system.hpp"

#include "core/json.hpp"
#include "core/printable.hpp"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace weft::cli {
namespace {

struct MorphRequest {
  std::string file, out;
  std::vector<std::string> places{"*"};
  EncodingFlags encoding;
  std::uint64_t max_memory = 0;
  bool qat = false, weights_only = false, json = false;
};

/// Writes a type and "qat" into the description of a layer inside a container.
Status change_inside(const MorphRequest& request, const std::optional<Encoding>& encoding, const std::string& place,
                     mesh::LayerSpec& layer) {
  if (layer.type == "shared")
    return fail(Errc::invalid_argument,
                "--layer " + place + ": computes with another layer's weights; change that one");
  if (encoding) {
    layer.dtype = encoding->dtype;
    layer.granularity.reset();
    if (request.encoding.granularity) layer.granularity = encoding->granularity;
  }
  if (request.qat) layer.quantization_aware = true;
  return {};
}

/// Changes layers inside containers, and "qat", before the model is loaded. Gives the places that are left.
Result<std::vector<std::string>> change_description(const MorphRequest& request,
                                                    const std::optional<Encoding>& encoding, mesh::NetworkSpec& spec) {
  WEFT_TRY(const mesh::Graph graph, mesh::Graph::build(spec));
  std::vector<std::string> rest;
  for (const std::string& place : request.places) {
    WEFT_TRY(mesh::LayerSpec* const inside, find_inside(spec, graph, place));
    if (inside) {
      WEFT_CHECK(change_inside(request, encoding, place, *inside));
      continue;
    }
    rest.push_back(place);
    if (!request.qat) continue;
    WEFT_TRY(const std::vector<mesh::NodeId> found, find_layers(graph, place));
    for (mesh::LayerSpec& layer : spec.layers)
      if (std::find(found.begin(), found.end(), *graph.find_layer(layer.at)) != found.end() &&
          (encoding ? encoding->dtype : Dtype{layer.dtype}) != Dtype::float32)
        layer.quantization_aware = true;
  }
  return rest;
}

Status morph(const MorphRequest& request) {
  WEFT_TRY(const auto encoding, read_encoding(request.encoding));
  if (!encoding && !request.qat)
    return fail(Errc::invalid_argument, "--dtype: say which type the weights become, or --qat");
  WEFT_TRY(Model model, read_model(request.file));
  WEFT_CHECK(check_output({"--output", request.out}, inputs_of(model)));
  auto places = change_description(request, encoding, model.spec);
  if (!places) return fail(blamed(std::move(places).error(), request.file));
  mesh::MeshOptions options;
  options.threads = 1;
  options.max_memory = request.max_memory;
  auto loaded = load(model, options);
  if (!loaded) return fail(blamed(std::move(loaded).error(), request.file));
  mesh::Mesh& mesh = *loaded->mesh;
  const std::uint64_t before = mesh::MeshAccess::weights(mesh).bytes();
  std::set<mesh::NodeId> nodes;  // a layer named twice is one layer
  for (const std::string& place : *places) {
    WEFT_TRY(const auto found, find_layers(mesh.graph(), place));
    nodes.insert(found.begin(), found.end());
  }
  const std::size_t count = nodes.size() + request.places.size() - places->size();
  for (const mesh::NodeId node : nodes)
    if (Status done = !encoding
                          ? Status()
                          : mesh::MeshAccess::weights(mesh).morph(node, mesh.graph().nodes()[node].object, *encoding);
        !done)
      return fail(std::move(done).error().within(request.file));
  WEFT_TRY(const auto bytes, encode(*loaded, model, loaded->is_live && !request.weights_only, request.out));
  WEFT_CHECK(storage::write_file_durably(storage::real_file_system(), request.out, bytes));
  const std::uint64_t after = mesh::MeshAccess::weights(mesh).bytes();
  if (request.json)
    print_json({{"file", request.out},
                {"layers", count},
                {"encoding", encoding ? Json(to_string(*encoding)) : Json()},
                {"qat", request.qat},
                {"weight_bytes_before", before},
                {"weight_bytes", after},
                {"file_bytes", bytes.size()}});
  else
    std::printf("%s: %zu layer%s as %s, weights %s (were %s), file %s\n", escaped(request.out).c_str(), count,
                count == 1 ? "" : "s", encoding ? to_string(*encoding).c_str() : "they were", byte_size(after).c_str(),
                byte_size(before).c_str(), byte_size(bytes.size()).c_str());
  return {};
}

}  // namespace

Verb add_morph(CLI::App& program) {
  CLI::App* app = add_verb(program, "morph", "Store the weights of a model in another numeric type");
  auto request = std::make_shared<MorphRequest>();
  add_argument(*app, "FILE", request->file, "An .entity file, or a network file").required();
  // One place a flag, so that FILE may follow, and as inspect prints it: [0,1,0,0] is no list.
  add_option(*app, "layer", request->places,
             "Place z,y,x,layer of a layer, or * for all with a weight matrix; of one inside z,y,x,layer.layers[0]")
      .one_a_flag();
  add_encoding_flags(*app, request->encoding);
  add_qat_flag(*app, request->qat);
  add_output(*app, request->out);
  add_flag(*app, "weights-only", request->weights_only, "Leave live state and master weights out of the file");
  add_max_memory(*app, request->max_memory);
  add_flag(*app, "json", request->json, "One JSON object on stdout");
  return {app, [request] { return morph(*request); }};
}

}  // namespace weft::cli
