// SPDX-License-Identifier: Apache-2.0

#include "mesh/weight_store.hpp"

#include "kernels/linear.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace weft::mesh {
namespace {
// 16 floats: parameters start on a cache line.
std::size_t padded(std::size_t floats) { return (floats + 15) / 16 * 16; }
}  // namespace

Result<WeightStore> WeightStore::build(const Graph& graph, const std::vector<std::uint32_t>& node_region,
                                       const topology::Plan& plan, topology::NodeMemory& memory) {
  WeightStore store;
  store.memory_ = &memory;
  for (const auto& region : plan.regions) store.region_node_.push_back(region.seat.node);
  for (NodeId id = 0; id < graph.nodes().size(); ++id) {
    const Node& node = graph.nodes()[id];
    store.first_.push_back(static_cast<std::uint32_t>(store.parameters_.size()));
    if (node.is_port()) continue;
    for (std::uint32_t i = 0; i < node.layer->parameters().size(); ++i) {
      store.parameters_.push_back({id, i, &node.layer->parameters()[i], nullptr, 0});
      store.parameter_region_.push_back(node_region[id]);
    }
  }
  store.first_.push_back(static_cast<std::uint32_t>(store.parameters_.size()));
  WEFT_TRY(store.masters_, store.make_buffer());
  for (std::size_t i = 0; i < store.parameters_.size(); ++i) {
    store.parameters_[i].data = store.masters_.data(i);
    store.pointers_.push_back(store.masters_.data(i));
  }
  return store;
}

Result<ParameterBuffer> WeightStore::make_buffer() const {
  ParameterBuffer made;
  std::vector<std::size_t> floats(region_node_.size(), 0);
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    floats[parameter_region_[i]] += padded(parameters_[i].spec->stored_size());
  std::vector<float*> next(region_node_.size(), nullptr);
  for (std::size_t r = 0; r < region_node_.size(); ++r) {
    if (floats[r] == 0) continue;
    WEFT_TRY(auto buffer, memory_->allocate(floats[r] * sizeof(float), region_node_[r]));
    next[r] = buffer.as<float>().data();
    made.buffers_.push_back(std::move(buffer));
  }
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    float*& place = next[parameter_region_[i]];
    made.data_.push_back(place);
    place += padded(parameters_[i].spec->stored_size());
  }
  return made;
}

void WeightStore::initialize(const Graph& graph, std::uint64_t seed) {
  std::vector<float> values;
  for (Parameter& parameter : parameters_) {
    const ParameterSpec& spec = *parameter.spec;
    // One stream a parameter: adding a bias to a layer leaves its weights as they were.
    const std::uint64_t place = graph.spec().grid.index(graph.nodes()[parameter.node].at) * 16 + parameter.index;
    RandomStream random(seed, place, RandomPurpose::init);
    values.assign(spec.out * std::max<std::size_t>(spec.in, 1), 0.0f);
    spec.init(random, values);
    const Status written = write(parameter, values, spec.name);
    WEFT_ASSERT(written, "an initializer made values that cannot be stored: " + written.error().text());
  }
}

std::span<WeightStore::Parameter> WeightStore::of(NodeId node) noexcept {
  return std::span(parameters_).subspan(first_[node], first_[node + 1] - first_[node]);
}
std::span<const WeightStore::Parameter> WeightStore::of(NodeId node) const noexcept {
  return std::span(parameters_).subspan(first_[node], first_[node + 1] - first_[node]);
}

std::vector<float> WeightStore::read(const Parameter& parameter) const {
  const ParameterSpec& spec = *parameter.spec;
  if (!spec.is_matrix()) return {parameter.data, parameter.data + spec.out};
  std::vector<float> values(spec.out * spec.in);
  kernels::unpack_panels({parameter.data, spec.out, spec.in}, {values.data(), spec.out, spec.in, spec.in});
  return values;
}

Status WeightStore::write(Parameter& parameter, std::span<const float> values, std::string_view object) {
  const ParameterSpec& spec = *parameter.spec;
  const std::size_t wanted = spec.out * std::max<std::size_t>(spec.in, 1);
  if (values.size() != wanted)
    return fail(Errc::shape_mismatch, std::string(object) + " '" + spec.name + "': " + std::to_string(values.size()) +
                                          " values where " + std::to_string(wanted) + " are expected");
  for (std::size_t i = 0; i < values.size(); ++i)
    if (!std::isfinite(values[i]))
      return fail(Errc::not_finite, std::string(object) + " '" + spec.name + "': value " + std::to_string(i) + " is " +
                                        std::to_string(values[i]) + "; weights must be finite");
  if (spec.is_matrix())
    kernels::pack_panels({values.data(), spec.out, spec.in, spec.in}, {parameter.data, spec.out, spec.in});
  else
    std::memcpy(parameter.data, values.data(), values.size_bytes());
  ++parameter.version;
  return {};
}

Status WeightStore::morph(const Node& node, Dtype dtype) {
  if (dtype == Dtype::float32) return {};
  return fail(Errc::unsupported,
              node.object + ": this version stores weights as float32, not " + std::string(name(dtype)));
}

std::uint64_t WeightStore::bytes() const noexcept {
  std::uint64_t total = 0;
  for (const Parameter& parameter : parameters_) total += parameter.spec->stored_size() * sizeof(float);
  return total;
}

std::uint64_t WeightStore::count() const noexcept {
  std::uint64_t total = 0;
  for (const Parameter& parameter : parameters_)
    total += parameter.spec->out * std::max<std::size_t>(parameter.spec->in, 1);
  return total;
}

}  // namespace weft::mesh
