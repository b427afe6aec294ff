// SPDX-License-Identifier: Apache-2.0

#include "learning/optimizer.hpp"

#include <algorithm>
#include <bit>

namespace weft::learning {

namespace {

// A step that turns a weight of one bit turns all of it: layers of such weights move at a third of the rate. Measured
// on the digits, docs/learning.md.
float rate_share(Dtype dtype) noexcept { return dtype == Dtype::binary ? 1.0f / 3.0f : 1.0f; }

}  // namespace

std::size_t slots_of(OptimizerKind kind) noexcept {
  return kind == OptimizerKind::sgd ? 0 : kind == OptimizerKind::momentum ? 1 : 2;
}

std::size_t Optimizer::slots() const noexcept { return slots_of(options_.kind); }

Result<Optimizer> Optimizer::build(const mesh::WeightStore& weights, const OptimizerOptions& options) {
  Optimizer made;
  made.options_ = options;
  WEFT_TRY(made.gradients_, weights.make_buffer());
  for (std::size_t i = 0; i < made.slots(); ++i) {
    WEFT_TRY(auto slot, weights.make_buffer());
    made.slots_.push_back(std::move(slot));
  }
  mesh::NodeId nodes = 0;
  for (std::size_t i = 0; i < weights.parameters().size(); ++i) {
    made.gradient_pointers_.push_back(made.gradients_.data(i));
    nodes = std::max(nodes, weights.parameters()[i].node + 1);
  }
  for (mesh::NodeId id = 0; id < weights.node_count(); ++id) {
    made.first_.push_back(weights.first(id));
    std::vector<float*>& joined = made.joined_.emplace_back();
    for (const std::uint32_t parameter : weights.slots(id)) joined.push_back(made.gradient_pointers_[parameter]);
  }
  made.updates_.assign(weights.node_count(), 0);
  if (options.kind == OptimizerKind::adamw) made.corrections_.assign(2 * weights.node_count(), 0.0f);
  return made;
}

void Optimizer::clear_gradients(kernels::OpStream& stream, const mesh::WeightStore& weights, mesh::NodeId node) const {
  for (const auto& parameter : weights.of(node)) {
    const std::size_t n = parameter.spec->stored_size();
    stream.fill({0.0f, {gradient_pointers_[first_[node] + parameter.index], 1, n, n}});
  }
}

bool Optimizer::step(kernels::OpStream& stream, mesh::WeightStore& weights, mesh::NodeId node) {
  const auto parameters = weights.of(node);
  for (const auto& parameter : parameters) {
    const std::size_t n = parameter.spec->stored_size();
    if (!stream.is_finite({{gradient_pointers_[first_[node] + parameter.index], 1, n, n}})) return false;
  }
  float* const corrections = corrections_.data() + 2 * std::size_t{node};
  if (options_.kind == OptimizerKind::adamw)
    stream.adamw_step({&updates_[node], options_.beta1, options_.beta2, corrections});
  else
    ++updates_[node];
  const float lr = options_.lr * rate_share(weights.encoding(node).dtype);
  for (auto& parameter : parameters) {
    const std::size_t i = first_[node] + parameter.index, n = parameter.spec->stored_size();
    const float decay = parameter.spec->decays ? options_.weight_decay : 0.0f;
    switch (options_.kind) {
      case OptimizerKind::sgd:
        stream.sgd({n, parameter.data, gradient_pointers_[i], lr, decay});
        break;
      case OptimizerKind::momentum:
        stream.momentum({n, parameter.data, slot(0, i), gradient_pointers_[i], lr, options_.momentum,
                         options_.dampening, options_.nesterov, decay});
        break;
      case OptimizerKind::adamw:
        stream.adamw({n, parameter.data, slot(0, i), slot(1, i), gradient_pointers_[i], lr, options_.beta1,
                      options_.beta2, options_.epsilon, decay, corrections});
        break;
    }
    ++parameter.version;
  }
  weights.encode_stored(node, stream);
  return true;
}

void Optimizer::hash_layer(const mesh::WeightStore& weights, mesh::NodeId node, StateHasher& hasher) const {
  hasher.add(updates_[node]);
  for (std::size_t s = 0; s < slots(); ++s)
    for (const auto& parameter : weights.of(node))
      hasher.add(std::span<const float>(slot(s, first_[node] + parameter.index), parameter.spec->stored_size()));
}

void Optimizer::save_layer(const mesh::WeightStore& weights, mesh::NodeId node, std::vector<float>& out) const {
  // The count's bits, as they are: nobody computes with these two.
  for (const int half : {0, 32})
    out.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(updates_[node] >> half)));
  for (std::size_t s = 0; s < slots(); ++s)
    for (const auto& parameter : weights.of(node)) {
      const float* const values = slot(s, first_[node] + parameter.index);
      out.insert(out.end(), values, values + parameter.spec->stored_size());
    }
}

const float* Optimizer::restore_layer(const mesh::WeightStore& weights, mesh::NodeId node, const float* from) noexcept {
  updates_[node] = std::uint64_t{std::bit_cast<std::uint32_t>(from[1])} << 32 | std::bit_cast<std::uint32_t>(from[0]);
  from += 2;
  for (std::size_t s = 0; s < slots(); ++s)
    for (const auto& parameter : weights.of(node)) {
      const std::size_t size = parameter.spec->stored_size();
      std::copy_n(from, size, slot(s, first_[node] + parameter.index));
      from += size;
    }
  return from;
}

}  // namespace weft::learning
