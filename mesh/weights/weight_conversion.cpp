// SPDX-License-Identifier: Apache-2.0

#include "mesh/weights/weight_conversion.hpp"

#include "mesh/weights/weight_store.hpp"

#include "kernels/linear.hpp"
#include "kernels/quantize.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace weft::mesh {
namespace {

Status check_storable(const ParameterSpec& spec, const kernels::ConstPanels& from, std::string_view object,
                      const Encoding& encoding, bool allow_non_finite) {
  const auto bad = kernels::first_unstorable(from, encoding.dtype, allow_non_finite);
  if (!bad) return {};
  return fail(Errc::not_finite,
              std::string(object) + " '" + spec.name + "': weight " + std::to_string(*bad) + " is " +
                  std::to_string(from.data[kernels::panel_index(spec.in, *bad / spec.in, *bad % spec.in)]) +
                  ", which " + to_string(encoding) + " does not take; set finite weights first");
}

}  // namespace

Result<WeightConversion> WeightConversion::make(const WeightStore& weights, NodeId node, std::string_view object,
                                                const Encoding& encoding, bool allow_non_finite) {
  WeightConversion made;
  bool has_matrix = false;
  if (auto fits = check_granularity(encoding.dtype, encoding.granularity); !fits)
    return fail(std::move(fits).error().within(object));
  for (const WeightStore::Parameter& parameter : weights.of(node)) {
    const ParameterSpec& spec = *parameter.spec;
    if (!spec.is_matrix()) continue;
    has_matrix = true;
    if (spec.own.encoding) continue;
    const std::size_t i = weights.first(node) + parameter.index;
    AlignedBuffer<float> dequantized;
    const kernels::ConstPanels from = weights.panels(i, dequantized);
    WEFT_CHECK(check_storable(spec, from, object, encoding, allow_non_finite));
    Matrix matrix;
    matrix.parameter = i;
    matrix.is_stored = encoding.dtype != Dtype::float32;
    matrix.has_master = parameter.data || !matrix.is_stored;
    if (matrix.is_stored) {
      WEFT_TRY(QuantizedWeight stored, weights.memory().make_quantized(i, encoding, spec.out, spec.in));
      stored.quantize(from);
      stored.version = parameter.version;
      matrix.stored = std::make_unique<QuantizedWeight>(std::move(stored));
    } else if (!parameter.data) {
      WEFT_TRY(matrix.master, weights.memory().make_master(i));
      weights.stored(i)->dequantize({reinterpret_cast<float*>(matrix.master.data()), spec.out, spec.in});
    }
    made.matrices.push_back(std::move(matrix));
  }
  if (made.matrices.empty())
    return fail(Errc::unsupported, std::string(object) + ": has no weight matrix to store as " + to_string(encoding) +
                                       (has_matrix ? ": the layers inside it say their own types; change those"
                                                   : "; only layers with one have a numeric type"));
  return made;
}

Status WeightStore::morph(NodeId node, std::string_view object, const Encoding& encoding, bool allow_non_finite) {
  const auto parameters = of(node);
  const auto is_matrix = [](const Parameter& parameter) {
    return parameter.spec->is_matrix() && !parameter.spec->own.encoding;
  };
  if (encoding == layers_[node].encoding && std::any_of(parameters.begin(), parameters.end(), is_matrix)) return {};
  WEFT_TRY(WeightConversion made, WeightConversion::make(*this, node, object, encoding, allow_non_finite));
  layers_[node].encoding = encoding;
  install(std::move(made));
  return {};
}

void WeightStore::install(WeightConversion made) noexcept {
  for (std::size_t m = 0; m < made.matrices.size(); ++m) {
    WeightConversion::Matrix& matrix = made.matrices[m];
    Storage& storage = storage_[matrix.parameter];
    Parameter& parameter = parameters_[matrix.parameter];
    if (!matrix.is_stored)
      storage.active.reset();
    else if (matrix.stored)
      storage.active = std::move(matrix.stored);
    if (!matrix.has_master) {
      parameter.data = nullptr;
      storage.master = {};
    } else if (matrix.master.bytes() != 0) {
      storage.master = std::move(matrix.master);
      parameter.data = reinterpret_cast<float*>(storage.master.data());
    }
    // Once for each layer.
    if (m + 1 == made.matrices.size() || parameters_[made.matrices[m + 1].parameter].node != parameter.node)
      set_views(parameter.node);
  }
}

void WeightStore::dequantize_master(std::size_t i) noexcept {
  QuantizedWeight* const stored = storage_[i].active.get();
  if (!stored) return;
  if (parameters_[i].data) stored->dequantize({parameters_[i].data, parameters_[i].spec->out, parameters_[i].spec->in});
  stored->version = ++parameters_[i].version;
  note_change();
}

Status WeightStore::release_masters(const Graph& graph, std::span<const NodeId> nodes) {
  const auto is_stored = [&](const Parameter& parameter) {
    return storage_[first_[parameter.node] + parameter.index].active != nullptr;
  };
  for (const NodeId node : nodes)
    if (const auto all = of(node); std::none_of(all.begin(), all.end(), is_stored))
      return fail(Errc::unsupported,
                  graph.nodes()[node].object + ": computes with its master weights; morph it to another type first");
  std::vector<bool> is_released(parameters_.size(), false), stays(parameters_.size(), false);
  for (const NodeId node : nodes)
    for (std::size_t i = first_[node]; i < first_[node + 1]; ++i) is_released[i] = storage_[i].active != nullptr;
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    stays[i] = !is_released[i] && parameters_[i].data && storage_[i].master.bytes() == 0;
  // The arena is made anew without them, so that its memory goes back to the system.
  WEFT_CHECK(make_arena(stays));
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    if (is_released[i]) {
      parameters_[i].data = nullptr;
      storage_[i].master = {};
    }
  for (NodeId node = 0; node < node_count(); ++node) set_views(node);
  return {};
}

void WeightStore::refresh(NodeId node) noexcept {
  for (std::size_t i = first_[node]; i < first_[node + 1]; ++i) {
    QuantizedWeight* const stored = storage_[i].active.get();
    if (!stored || !parameters_[i].data || stored->version == parameters_[i].version) continue;
    stored->quantize({parameters_[i].data, parameters_[i].spec->out, parameters_[i].spec->in});
    stored->version = parameters_[i].version;
  }
}

void WeightStore::quantize_stored(NodeId node, kernels::OpStream& stream) {
  for (std::size_t i = first_[node]; i < first_[node + 1]; ++i) {
    QuantizedWeight* const stored = storage_[i].active.get();
    if (!stored || !parameters_[i].data) continue;
    stored->quantize({parameters_[i].data, parameters_[i].spec->out, parameters_[i].spec->in}, stream);
    stored->version = parameters_[i].version;
  }
}

}  // namespace weft::mesh
