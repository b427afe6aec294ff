// SPDX-License-Identifier: Apache-2.0

#include "models/internal/described_model.hpp"

#include "models/carriers.hpp"
#include "models/decoder_network.hpp"

#include "mesh/mesh.hpp"
#include "mesh/mesh_access.hpp"
#include "mesh/persistence/entity_model.hpp"
#include "mesh/weights/weight_store.hpp"

#include <map>
#include <string_view>
#include <utility>

namespace weft::models::internal {
namespace {

using mesh::WeightStore;

/// Of a mesh that is only read.
mesh::MeshOptions mesh_options(std::uint64_t max_memory) {
  mesh::MeshOptions options;
  options.threads = 1;
  options.max_memory = max_memory;
  options.keeps_masters = false;
  return options;
}

const WeightStore& weights_in(const DescribedModel& model) { return mesh::MeshAccess::weights(*model.mesh); }

std::string_view kept_type(const WeightStore& weights, const ParameterPlace& place, std::size_t parameter) {
  const Dtype dtype = weights.encoding_of(parameter).dtype;
  const bool is_half = dtype == Dtype::float16 || dtype == Dtype::bfloat16;
  return name(place.in != 0 && is_half ? dtype : Dtype::float32);
}

Status pack(const DescribedModel& model, std::size_t parameter, PlannedTensor& planned) {
  const WeightStore& weights = weights_in(model);
  const mesh::NodeId node = weights.parameters()[parameter].node;
  const Encoding encoding = weights.encoding_of(parameter);
  if (encoding != packed_ternary_encoding())
    return fail(Errc::unsupported,
                model.mesh->graph().nodes()[node].object + ": is " + to_string(encoding) +
                    ", and the model's description says ternary/tensor; weft morph makes that of it");
  planned.form = PlannedTensor::Form::packed_ternary;
  planned.type = "uint8";
  planned.shape[0] /= 4;
  return {};
}

}  // namespace

Result<DescribedModel> load_described(const formats::EntityFile& weights, const formats::EntityFile& described,
                                      std::uint64_t max_memory) {
  DescribedModel made;
  const Json& model = described.meta()["model"];
  const Json* const family = model.is_object() ? model.find("family") : nullptr;
  made.family = family && family->is_string() ? find_family(family->text()) : nullptr;
  if (!made.family)
    return fail(Errc::unsupported,
                "holds no description of a model; only what weft import made can be exported. Of a model that has "
                "learned since, say with --model where that file is");
  made.config = model["config"];
  ConfigReader config(made.config, "meta.model.config");
  made.family->describe(config, made.decoder);
  if (!config.problems().empty()) return config.problems().failure(Errc::unsupported, "description");
  WEFT_TRY(const mesh::NetworkSpec spec, mesh::network_of(weights));
  made.name = spec.name;
  WEFT_TRY(mesh::Mesh mesh, mesh::Mesh::build(spec, mesh_options(max_memory)));
  WEFT_CHECK(mesh::restore_weights(mesh, weights));
  made.mesh = std::make_shared<const mesh::Mesh>(std::move(mesh));
  return made;
}

Result<std::vector<PlannedTensor>> plan_tensors(const DescribedModel& model, bool is_gguf) {
  const WeightStore& weights = weights_in(model);
  std::map<std::pair<std::uint32_t, std::string>, std::size_t> parameters;
  for (std::size_t i = 0; i < weights.parameters().size(); ++i) {
    const WeightStore::Parameter& parameter = weights.parameters()[i];
    parameters[{model.mesh->graph().nodes()[parameter.node].at.z, parameter.spec->name}] = i;
  }
  std::vector<PlannedTensor> planned;
  std::map<std::string, std::size_t> known;
  const DecoderNetwork network = decoder_network(model.decoder, model.name, 1);
  for (const ParameterPlace& place : network.places) {
    const auto found = parameters.find({place.z, place.parameter});
    if (found == parameters.end() || weights.parameters()[found->second].spec->out != place.out ||
        weights.parameters()[found->second].spec->in != place.in)
      return fail(Errc::unsupported, "the network is not that of its description any more: at [" +
                                         std::to_string(place.z) + ",0,0,0] there is no '" + place.parameter + "' [" +
                                         std::to_string(place.out) + ", " + std::to_string(place.in) + "]");
    const std::size_t parameter = found->second;
    parameters.erase(found);
    const bool is_tied_head = model.decoder.is_tied && place.part == "output";
    const std::string name =
        tensor_name(*model.family, is_gguf, true, is_tied_head ? "token_embd" : place.part, place.block, place.is_bias);
    const auto [at, is_new] = known.emplace(name, planned.size());
    const TensorLayout layout = tensor_layout(*model.family, is_gguf, place);
    if (is_new) planned.push_back({name, std::string(kept_type(weights, place, parameter)), layout.shape, {}});
    planned[at->second].slices.push_back({parameter, layout});
    if (model.is_packed() && place.in != 0 && place.block) WEFT_CHECK(pack(model, parameter, planned[at->second]));
  }
  if (!parameters.empty())
    return fail(Errc::unsupported,
                "the network has a part that its description does not: '" + parameters.begin()->first.second + "'");
  return planned;
}

}  // namespace weft::models::internal
