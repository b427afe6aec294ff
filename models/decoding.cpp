// SPDX-License-Identifier: Apache-2.0

#include "models/decoding.hpp"

#include "models/internal/decoding_pass.hpp"

#include <utility>
#include <vector>

namespace weft::models {
namespace {

void remember(std::vector<mesh::LayerSpec>& layers, std::size_t context) {
  for (mesh::LayerSpec& layer : layers) {
    remember(layer.layers, context);
    if (layer.type == "position_embedding") layer.options["stateful"] = true;
    if (layer.type != "attention") continue;
    layer.options["context"] = static_cast<double>(context);
    layer.options["causal"] = true;
    const auto window = layer.options.find("window");
    if (window != layer.options.end() && std::get<double>(window->second) > static_cast<double>(context))
      layer.options.erase(window);
  }
}

}  // namespace

Result<mesh::NetworkSpec> with_context(const mesh::NetworkSpec& spec, std::size_t tokens, std::size_t context) {
  if (spec.inputs.size() != 1 || spec.inputs[0].name != "tokens" || spec.inputs[0].shape.size() != 1)
    return internal::no_language_model(spec, "has no single input 'tokens' of one axis");
  if (spec.outputs.size() != 1 || spec.outputs[0].name != "logits")
    return internal::no_language_model(spec, "has no single output 'logits'");
  mesh::NetworkSpec own = spec;
  own.inputs[0].shape = {tokens};
  own.learning.clear();
  own.stream.clear();
  for (mesh::LayerSpec& layer : own.layers)
    if (!layer.shape.empty()) layer.shape = tokens == 1 ? Shape{layer.shape.back()} : Shape{tokens, layer.shape.back()};
  if (context != 0) remember(own.layers, context);
  return own;
}

Decoding::Decoding(DecodingBatch batch) : batch_(std::move(batch)) {}

Result<Decoding> Decoding::begin(const mesh::Mesh& mesh, std::size_t context, std::uint64_t max_memory) {
  WEFT_TRY(DecodingBatch batch, DecodingBatch::begin(mesh, 1, context, max_memory));
  return Decoding(std::move(batch));
}

void Decoding::restart() noexcept { batch_.restart(0); }
std::size_t Decoding::position() const noexcept { return batch_.position(0); }
std::size_t Decoding::vocabulary() const noexcept { return batch_.vocabulary(); }
std::size_t Decoding::context() const noexcept { return batch_.context(); }

Result<std::span<const float>> Decoding::accept(std::span<const text::TokenId> ids) { return batch_.accept(0, ids); }

}  // namespace weft::models
