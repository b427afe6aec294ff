// SPDX-License-Identifier: Apache-2.0

#include "mesh/weights/parameter_memory.hpp"

#include "core/cache_line.hpp"

#include <utility>

namespace weft::mesh {
namespace {

constexpr std::size_t kArenaFrom = std::size_t{4} << 20;  // two huge pages: below, they would waste too much

}  // namespace

std::uint64_t ParameterBuffer::bytes() const noexcept {
  constexpr std::uint64_t kPage = 4096;
  std::uint64_t total = 0;
  for (const auto& buffer : buffers_) total += (buffer.size() + kPage - 1) / kPage * kPage;
  return total;
}

ParameterMemory::ParameterMemory(const topology::Plan& plan, topology::NodeMemory& memory) : memory_(&memory) {
  for (const auto& region : plan.regions) numa_nodes_.push_back(region.assignment.node);
}

void ParameterMemory::add(std::size_t floats, std::uint32_t region) {
  floats_.push_back(floats);
  regions_.push_back(region);
}

ParameterMemory ParameterMemory::with_sizes(std::vector<std::size_t> floats) const {
  ParameterMemory other = *this;
  other.floats_ = std::move(floats);
  return other;
}

Result<ParameterBuffer> ParameterMemory::make_buffer(const std::vector<bool>& is_inside) const {
  ParameterBuffer made;
  std::vector<std::size_t> floats(numa_nodes_.size(), 0);
  for (std::size_t i = 0; i < floats_.size(); ++i)
    if (is_inside[i]) floats[regions_[i]] += padded(floats_[i]);
  std::vector<float*> next(numa_nodes_.size(), nullptr);
  for (std::size_t r = 0; r < numa_nodes_.size(); ++r) {
    if (floats[r] == 0) continue;
    WEFT_TRY(auto buffer, memory_->allocate(floats[r] * sizeof(float), numa_nodes_[r]));
    next[r] = buffer.as<float>().data();
    made.buffers_.push_back(std::move(buffer));
  }
  for (std::size_t i = 0; i < floats_.size(); ++i) {
    float*& place = next[regions_[i]];
    made.data_.push_back(is_inside[i] ? place : nullptr);
    if (is_inside[i]) place += padded(floats_[i]);
  }
  return made;
}

Result<WeightMemory> ParameterMemory::make_master(std::size_t i) const {
  return WeightMemory::allocate(floats_[i] * sizeof(float), *memory_, numa_node(i));
}

Result<std::vector<WeightArena>> ParameterMemory::make_arenas(const std::vector<std::size_t>& bytes) const {
  std::vector<std::size_t> of_node;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (numa_node(i) >= of_node.size()) of_node.resize(numa_node(i) + 1);
    of_node[numa_node(i)] += cache_lines(bytes[i]);
  }
  std::vector<WeightArena> arenas(of_node.size());
  for (std::uint32_t node = 0; node < of_node.size(); ++node) {
    if (of_node[node] < kArenaFrom) continue;
    WEFT_TRY(arenas[node], WeightArena::make(of_node[node], *memory_, node));
  }
  return arenas;
}

Result<QuantizedWeight> ParameterMemory::make_quantized(std::size_t i, const Encoding& encoding, std::size_t out,
                                                        std::size_t in, std::span<WeightArena> arenas) const {
  const std::uint32_t node = numa_node(i);
  if (node < arenas.size())
    if (WeightMemory own = arenas[node].take(QuantizedWeight::block_size(encoding, out, in)); own.data())
      return QuantizedWeight::make(encoding, out, in, std::move(own));
  return QuantizedWeight::make(encoding, out, in, *memory_, node);
}

}  // namespace weft::mesh
