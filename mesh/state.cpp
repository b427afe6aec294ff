// SPDX-License-Identifier: Apache-2.0

#include "mesh/state.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace weft::mesh {
namespace {
std::size_t padded(std::size_t floats) { return (floats + 15) / 16 * 16; }

// Of the kernels::kNoiseState floats that say where noise stands, the first two are the counter, the others the stream.
constexpr std::size_t kStreamNumber = 2, kNumberFloats = 2;
}  // namespace

Result<State> State::build(const Graph& graph, const std::vector<std::uint32_t>& node_region,
                           const topology::Plan& plan, topology::NodeMemory& memory, Options options) {
  WEFT_ASSERT(options.depth >= 2 && std::has_single_bit(options.depth), "history depth must be a power of two");
  State state;
  state.options_ = options;
  state.rings_.resize(graph.nodes().size());

  // Shapes first, then one buffer a region, then addresses.
  std::vector<std::size_t> floats(plan.regions.size(), 0);
  const auto shape = [&](Ring& ring, std::size_t width, std::size_t region) {
    ring.width = width;
    ring.stride = padded(width);
    ring.slot = ring.stride * options.sessions;
    floats[region] += ring.slot * options.depth;
  };
  const auto each_ring = [&](auto&& visit) {
    for (NodeId id = 0; id < graph.nodes().size(); ++id) {
      const Node& node = graph.nodes()[id];
      Rings& rings = state.rings_[id];
      visit(rings.output, node.width, node_region[id]);
      if (node.is_port()) continue;
      if (!node.reads_directly()) visit(rings.input, node.in, node_region[id]);
      if (node.layer->state_size()) visit(rings.hidden, node.layer->state_size(), node_region[id]);
      if (node.layer->cache_size()) visit(rings.cache, node.layer->cache_size(), node_region[id]);
      if (options.keeps_history && node.layer->needs_preactivation())
        visit(rings.preactivation, node.width, node_region[id]);
    }
  };
  each_ring(shape);

  for (NodeId id = static_cast<NodeId>(graph.port_count()); id < graph.nodes().size(); ++id)
    for (const std::size_t place : graph.nodes()[id].layer->noise_states()) state.noise_.emplace_back(id, place);

  std::vector<float*> next(plan.regions.size(), nullptr);
  for (std::size_t r = 0; r < plan.regions.size(); ++r) {
    if (floats[r] == 0) continue;
    WEFT_TRY(auto buffer, memory.allocate(floats[r] * sizeof(float), plan.regions[r].seat.node));
    next[r] = buffer.as<float>().data();
    state.buffers_.push_back(std::move(buffer));
  }
  each_ring([&](Ring& ring, std::size_t, std::size_t region) {
    ring.base = next[region];
    next[region] += ring.slot * options.depth;
  });
  return state;
}

template <class Visit>
void State::each_row(std::size_t session, std::uint64_t tick, Visit&& visit) const noexcept {
  for (const Rings& rings : rings_)
    for (const Ring* ring : {&rings.output, &rings.input, &rings.preactivation, &rings.cache, &rings.hidden})
      if (ring->base)
        for (std::size_t t = 0; t < options_.depth; ++t)
          visit(ring->base + ((tick + 1 + t) & (options_.depth - 1)) * ring->slot + session * ring->stride,
                ring->width);
}

void State::reset() noexcept {
  for (topology::NodeBuffer& buffer : buffers_) std::memset(buffer.data(), 0, buffer.size());
}

void State::reset_session(std::size_t session, std::uint64_t tick) noexcept {
  std::vector<float> numbers;
  for (const auto& [node, place] : noise_) {
    const float* number = hidden(node, tick).row(session) + place + kStreamNumber;
    numbers.insert(numbers.end(), number, number + kNumberFloats);
  }
  each_row(session, tick, [](float* row, std::size_t width) { std::fill_n(row, width, 0.0f); });
  const float* next = numbers.data();
  for (const auto& [node, place] : noise_) {
    std::copy_n(next, kNumberFloats, hidden(node, tick).row(session) + place + kStreamNumber);
    next += kNumberFloats;
  }
}

void State::set_streams(std::size_t session, std::uint64_t tick, std::uint64_t number) noexcept {
  for (const auto& [node, place] : noise_) {
    float* to = hidden(node, tick).row(session) + place + kStreamNumber;
    to[0] = static_cast<float>(number & 0xffffffu), to[1] = static_cast<float>(number >> 24 & 0xffffffu);
  }
}

void State::copy_streams(NodeId id, std::size_t session, std::uint64_t from, std::uint64_t to) noexcept {
  for (const auto& [node, place] : noise_)
    if (node == id)
      std::copy_n(hidden(node, from).row(session) + place + kStreamNumber, kNumberFloats,
                  hidden(node, to).row(session) + place + kStreamNumber);
}

std::size_t State::session_size() const noexcept {
  std::size_t total = 0;
  each_row(0, 0, [&](float*, std::size_t width) { total += width; });
  return total;
}

void State::save_session(std::size_t session, std::uint64_t tick, std::span<float> out) const noexcept {
  float* next = out.data();
  each_row(session, tick, [&](float* row, std::size_t width) { next = std::copy_n(row, width, next); });
}

void State::load_session(std::size_t session, std::uint64_t tick, std::span<const float> in) noexcept {
  const float* next = in.data();
  each_row(session, tick, [&](float* row, std::size_t width) {
    std::copy_n(next, width, row);
    next += width;
  });
}

std::optional<std::size_t> State::first_not_finite(std::span<const float> session) const noexcept {
  std::size_t next = 0;
  for (const Rings& rings : rings_)
    for (const Ring* ring : {&rings.output, &rings.input, &rings.preactivation, &rings.cache, &rings.hidden}) {
      if (!ring->base) continue;
      const std::size_t end = next + options_.depth * ring->width;
      for (; next < end; ++next)
        if ((ring == &rings.output || ring == &rings.hidden) && !std::isfinite(session[next])) return next;
    }
  return std::nullopt;
}

std::uint64_t State::bytes() const noexcept {
  std::uint64_t total = 0;
  for (const topology::NodeBuffer& buffer : buffers_) total += buffer.size();
  return total;
}

}  // namespace weft::mesh
