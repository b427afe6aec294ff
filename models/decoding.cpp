// SPDX-License-Identifier: Apache-2.0

#include "models/decoding.hpp"

#include "mesh/memory/memory_estimate.hpp"
#include "mesh/mesh_access.hpp"
#include "mesh/network/source_combine.hpp"
#include "mesh/weights/weight_store.hpp"

#include "kernels/cpu_stream.hpp"
#include "kernels/float_environment.hpp"

#include "core/aligned_buffer.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

namespace weft::models {
namespace {

using kernels::ConstMatrixView;
using kernels::MatrixView;

constexpr std::size_t kPromptBlock = 32;

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

/// Layers for a number of tokens at once, and memory for what they compute.
class Pass {
 public:
  static Result<Pass> make(const mesh::NetworkSpec& spec, std::size_t tokens, std::size_t context) {
    WEFT_TRY(const mesh::NetworkSpec own, with_context(spec, tokens, context));
    WEFT_TRY(mesh::Graph graph, mesh::Graph::build(own));
    return Pass(std::move(graph), tokens);
  }

  std::size_t tokens() const noexcept { return tokens_; }
  const mesh::Graph& graph() const noexcept { return *graph_; }
  std::span<float> ids() { return buffers_[0].y.span(); }
  std::span<const float> logits() const { return buffers_[graph_->outputs().front()].y.span(); }

  void run(kernels::CpuStream& stream, const mesh::WeightStore& weights, std::vector<AlignedBuffer<float>>& states,
           std::vector<AlignedBuffer<float>>& next_states) {
    for (const mesh::NodeId id : graph_->order()) {
      const mesh::Node& node = graph_->nodes()[id];
      if (node.is_port()) continue;
      Buffers& own = buffers_[id];
      mesh::ForwardArgs args;
      args.weights = weights.view(id);
      const auto source = [&](const mesh::Edge& edge) { return ConstMatrixView(row(buffers_[edge.from].y)); };
      if (node.reads_directly()) {
        args.x = source(graph_->edges()[node.sources[0]]);
      } else {
        mesh::combine_sources(stream, *graph_, node, source, row(own.x));
        args.x = row(own.x);
      }
      args.y = row(own.y), args.z = row(own.z), args.cache = row(own.cache);
      args.state = row(states[id]), args.next_state = row(next_states[id]);
      args.workspace = workspace_.data();
      node.layer->forward(stream, args);
    }
  }

 private:
  struct Values {
    AlignedBuffer<float> memory;
    std::span<float> span() { return {memory.data(), memory.size()}; }
    std::span<const float> span() const { return {memory.data(), memory.size()}; }
  };
  struct Buffers {
    Values y;
    AlignedBuffer<float> x, z, cache;
  };
  Pass(mesh::Graph graph, std::size_t tokens)
      : graph_(std::make_unique<mesh::Graph>(std::move(graph))),
        tokens_(tokens),
        buffers_(graph_->nodes().size()),
        workspace_(graph_->workspace_size()) {
    for (std::size_t id = 0; id < buffers_.size(); ++id) {
      const mesh::Node& node = graph_->nodes()[id];
      Buffers& own = buffers_[id];
      own.y.memory = AlignedBuffer<float>(node.width);
      if (node.is_port()) continue;
      if (!node.reads_directly()) own.x = AlignedBuffer<float>(node.in);
      if (node.layer->needs_preactivation()) own.z = AlignedBuffer<float>(node.width);
      own.cache = AlignedBuffer<float>(node.layer->cache_size());
    }
  }
  static MatrixView row(AlignedBuffer<float>& values) {
    return {values.size() ? values.data() : nullptr, 1, values.size(), values.size()};
  }
  static MatrixView row(Values& values) { return row(values.memory); }

  std::unique_ptr<mesh::Graph> graph_;
  std::size_t tokens_;
  std::vector<Buffers> buffers_;  // by node
  AlignedBuffer<float> workspace_;
};

Failure no_language_model(const mesh::NetworkSpec& spec, const std::string& text) {
  return fail(Errc::shape_mismatch,
              "network '" + spec.name + "': " + text + "; weft import makes networks that texts can be generated with");
}

}  // namespace

Result<mesh::NetworkSpec> with_context(const mesh::NetworkSpec& spec, std::size_t tokens, std::size_t context) {
  if (spec.inputs.size() != 1 || spec.inputs[0].name != "tokens" || spec.inputs[0].shape.size() != 1)
    return no_language_model(spec, "has no single input 'tokens' of one axis");
  if (spec.outputs.size() != 1 || spec.outputs[0].name != "logits")
    return no_language_model(spec, "has no single output 'logits'");
  mesh::NetworkSpec own = spec;
  own.inputs[0].shape = {tokens};
  own.learning.clear();
  own.stream.clear();
  for (mesh::LayerSpec& layer : own.layers)
    if (!layer.shape.empty()) layer.shape = tokens == 1 ? Shape{layer.shape.back()} : Shape{tokens, layer.shape.back()};
  if (context != 0) remember(own.layers, context);
  return own;
}

struct Decoding::Parts {
  Parts(const mesh::Mesh& of, std::size_t tokens) : mesh(of), context(tokens) {}
  const mesh::Mesh& mesh;
  std::size_t context, vocabulary = 0, position = 0;
  std::vector<Pass> passes;                                   // by blocks of the prompt, one by one
  std::array<std::vector<AlignedBuffer<float>>, 2> states{};  // by node, before and after a pass
  kernels::CpuStream stream{};

  void run(Pass& pass, std::span<const text::TokenId> ids) {
    std::copy(ids.begin(), ids.end(), pass.ids().begin());
    pass.run(stream, mesh::MeshAccess::weights(mesh), states[0], states[1]);
    std::swap(states[0], states[1]);
    position += ids.size();
  }
};

Decoding::Decoding(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Decoding::Decoding(Decoding&&) noexcept = default;
Decoding& Decoding::operator=(Decoding&&) noexcept = default;
Decoding::~Decoding() = default;

Result<Decoding> Decoding::begin(const mesh::Mesh& mesh, std::size_t context, std::uint64_t max_memory) {
  std::unique_ptr<Parts> parts(new Parts(mesh, context));
  for (const std::size_t tokens : {std::min(kPromptBlock, context), std::size_t{1}}) {
    WEFT_TRY(Pass pass, Pass::make(mesh.spec(), tokens, context));
    if (!pass.graph().loops().empty()) return no_language_model(mesh.spec(), "has links backwards");
    parts->passes.push_back(std::move(pass));
  }
  const mesh::Graph& graph = parts->passes.back().graph();
  std::uint64_t bytes = 0;
  for (const mesh::Node& node : graph.nodes())
    if (!node.is_port()) bytes += 2 * sizeof(float) * node.layer->state_size();
  mesh::MemoryEstimate estimate;
  estimate.add("keys and values of " + std::to_string(context) + " tokens", bytes);
  WEFT_CHECK(mesh::check_memory("the context", estimate, max_memory));
  parts->vocabulary = graph.nodes()[graph.outputs().front()].width;
  for (std::vector<AlignedBuffer<float>>& states : parts->states)
    for (const mesh::Node& node : graph.nodes()) {
      states.emplace_back(node.is_port() ? 0 : node.layer->state_size());
      std::fill_n(states.back().data(), states.back().size(), 0.0f);
    }
  return Decoding(std::move(parts));
}

std::size_t Decoding::position() const noexcept { return parts_->position; }
std::size_t Decoding::context() const noexcept { return parts_->context; }

Result<std::span<const float>> Decoding::accept(std::span<const text::TokenId> ids) {
  Parts& p = *parts_;
  if (ids.empty()) return fail(Errc::invalid_argument, "no tokens to go on from");
  if (ids.size() > p.context - p.position)
    return fail(Errc::full, std::to_string(p.position) + " tokens and " + std::to_string(ids.size()) +
                                " more are above the context of " + std::to_string(p.context));
  for (const text::TokenId id : ids)
    if (id >= p.vocabulary)
      return fail(Errc::out_of_range,
                  "token " + std::to_string(id) + ", the model has " + std::to_string(p.vocabulary));
  const kernels::FlushSubnormals exact;
  while (!ids.empty()) {
    Pass& pass = ids.size() >= p.passes[0].tokens() ? p.passes[0] : p.passes[1];
    p.run(pass, ids.first(pass.tokens()));
    ids = ids.subspan(pass.tokens());
    if (!ids.empty()) continue;
    const auto logits = pass.logits().last(p.vocabulary);
    if (!std::all_of(logits.begin(), logits.end(), [](float value) { return std::isfinite(value); }))
      return fail(Errc::not_finite, "a logit after token " + std::to_string(p.position - 1) + " is not finite");
    return logits;
  }
  return fail(Errc::internal, "no pass was run");
}

}  // namespace weft::models
