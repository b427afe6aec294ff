// SPDX-License-Identifier: Apache-2.0

#include "mesh/runtime/state.hpp"

#include "kernels/binary.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>

namespace weft::mesh {
namespace {
std::size_t padded(std::size_t floats) { return (floats + 15) / 16 * 16; }

/// Floats of one tick of a ring. Where they are a multiple of half a KiB, a line more: the rows of one session would
/// else stand powers of two apart, in few sets of the caches, and copying them would cost several times as much.
std::size_t room(const Ring& ring, std::size_t sessions) {
  const std::size_t floats = ring.stride * sessions;
  return floats + (sessions > 1 && floats % 128 == 0 ? 16 : 0);
}

// Of the kernels::kNoiseState floats that say where noise stands, the first two are the counter, the others the stream.
constexpr std::size_t kStreamNumber = 2, kNumberFloats = 2;

void copy_or_note(void* to, const void* from, std::size_t size, BatchCopy* copies) {
  if (copies)
    copies->add(to, from, size);
  else if (size)
    std::memcpy(to, from, size);
}

void copy_rows(const kernels::ConstRows& from, const kernels::Rows& to) noexcept {
  if (from.rows == 1)
    std::memcpy(to.data, from.data, from.cols * sizeof(float));
  else
    kernels::copy(from, to);
}

std::uint64_t next_id() noexcept {
  static std::atomic<std::uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}
}  // namespace

template <class Visit>
void State::each_stretch(std::size_t session, std::uint64_t tick, Visit&& visit) const noexcept {
  const std::size_t slots = options_.keeps_history ? options_.depth : 1;
  for (const std::vector<Stretch>* const all : {&live_stretches_, &other_stretches_})
    for (std::size_t back = slots; back-- > 0;)
      for (const Stretch& stretch : *all) {
        float* const base = stretch.base + ((tick - back) & (options_.depth - 1)) * stretch.slot;
        visit(kernels::Rows{base + session * stretch.session, stretch.rows, stretch.floats, stretch.step});
      }
}

Result<State> State::build(const Graph& graph, const std::vector<std::uint32_t>& node_region,
                           const topology::Plan& plan, topology::NodeMemory& memory, Options options) {
  WEFT_ASSERT(options.depth >= 2 && std::has_single_bit(options.depth), "history depth must be a power of two");
  State state;
  state.options_ = options;
  state.memory_ = &memory;
  state.id_ = next_id();
  state.rings_.resize(graph.nodes().size());
  state.blocks_.resize(plan.regions.size());

  // Shapes first, then one buffer a region, then addresses.
  const auto shape = [&](Ring& ring, std::size_t width, Block& block, bool is_live) {
    ring.width = width;
    ring.stride = padded(width);
    (is_live ? block.live : block.scratch) += room(ring, options.sessions);
  };
  const auto each_ring = [&](auto&& visit) {
    for (NodeId id = 0; id < graph.nodes().size(); ++id) {
      const Node& node = graph.nodes()[id];
      Rings& rings = state.rings_[id];
      Block& block = state.blocks_[node_region[id]];
      visit(rings.output, node.width, block, true);
      if (node.is_port()) continue;
      if (!node.reads_directly()) visit(rings.input, node.in, block, false);
      if (node.layer->state_size()) visit(rings.hidden, node.layer->state_size(), block, true);
      if (node.layer->cache_size()) visit(rings.cache, node.layer->cache_size(), block, false);
      if (options.keeps_history && node.layer->needs_preactivation())
        visit(rings.preactivation, node.width, block, false);
    }
  };
  each_ring(shape);
  StateHasher layout;
  layout.add(std::span<const std::uint32_t>(node_region));
  for (const Block& block : state.blocks_) layout.add(block.live), layout.add(block.scratch);
  for (const std::size_t n : {options.sessions, options.depth, std::size_t{options.keeps_history}}) layout.add(n);
  state.layout_ = layout.digest();

  for (NodeId id = static_cast<NodeId>(graph.port_count()); id < graph.nodes().size(); ++id)
    for (const std::size_t place : graph.nodes()[id].layer->noise_states()) state.noise_.emplace_back(id, place);

  struct Places {
    float *live = nullptr, *scratch = nullptr;
  };
  std::vector<Places> next(plan.regions.size());
  for (std::size_t r = 0; r < plan.regions.size(); ++r) {
    Block& block = state.blocks_[r];
    const std::size_t floats = (block.live + block.scratch) * options.depth;
    if (floats == 0) continue;
    WEFT_TRY(block.buffer, memory.allocate(floats * sizeof(float), plan.regions[r].assignment.node));
    next[r].live = block.buffer.as<float>().data();
    next[r].scratch = next[r].live + block.live * options.depth;
  }
  each_ring([&](Ring& ring, std::size_t, Block& block, bool is_live) {
    Places& places = next[static_cast<std::size_t>(&block - state.blocks_.data())];
    float*& place = is_live ? places.live : places.scratch;
    ring.base = place;
    ring.slot = is_live ? block.live : block.scratch;
    place += room(ring, options.sessions);
  });
  state.live_stretches_ = state.stretches({&Rings::output, &Rings::hidden}, node_region);
  if (options.keeps_history)
    state.other_stretches_ = state.stretches({&Rings::input, &Rings::preactivation, &Rings::cache}, node_region);
  state.each_stretch(0, 0, [&](const kernels::Rows& rows) { state.live_session_size_ += rows.rows * rows.cols; });
  return state;
}

std::vector<State::Stretch> State::stretches(std::initializer_list<RingOf> of,
                                             const std::vector<std::uint32_t>& node_region) const {
  std::vector<Stretch> made;
  std::uint32_t region = 0;  // of the last one: only rows of one block are told apart by a distance
  for (NodeId id = 0; id < rings_.size(); ++id)
    for (const RingOf which : of) {
      const Ring& ring = rings_[id].*which;
      if (!ring.base) continue;
      Stretch* const last = made.empty() || region != node_region[id] ? nullptr : &made.back();
      region = node_region[id];
      if (last && last->rows == 1 && ring.base == last->base + last->floats) {
        last->floats += ring.stride;
      } else if (last && last->rows == 1 && last->floats == ring.stride && ring.base > last->base) {
        last->step = static_cast<std::size_t>(ring.base - last->base);
        last->rows = 2;
      } else if (last && last->floats == ring.stride && ring.base == last->base + last->rows * last->step) {
        ++last->rows;
      } else {
        made.push_back({ring.base, ring.slot, ring.stride, ring.stride, ring.stride, 1});
      }
    }
  return made;
}

Result<State> State::make_twin() const {
  State twin;
  twin.options_ = options_;
  twin.rings_ = rings_;
  twin.noise_ = noise_;
  twin.memory_ = memory_;
  twin.id_ = next_id();
  twin.layout_ = layout_;
  twin.blocks_.resize(blocks_.size());
  for (std::size_t r = 0; r < blocks_.size(); ++r) {
    twin.blocks_[r].live = blocks_[r].live;
    twin.blocks_[r].scratch = blocks_[r].scratch;
    if (blocks_[r].buffer.empty()) continue;
    WEFT_TRY(twin.blocks_[r].buffer, memory_->allocate(blocks_[r].buffer.size(), blocks_[r].buffer.node()));
  }
  for (Rings& rings : twin.rings_)
    for (Ring* ring : {&rings.output, &rings.input, &rings.preactivation, &rings.cache, &rings.hidden}) {
      const auto* const place = reinterpret_cast<const std::byte*>(ring->base);
      for (std::size_t r = 0; r < blocks_.size() && place; ++r) {
        const topology::NodeBuffer& from = blocks_[r].buffer;
        if (place < from.data() || place >= from.data() + from.size()) continue;
        ring->base = reinterpret_cast<float*>(twin.blocks_[r].buffer.data() + (place - from.data()));
        break;
      }
    }
  return twin;
}

void State::copy_from(const State& twin, BatchCopy& copies) {
  WEFT_ASSERT(layout_ == twin.layout_, "a state is copied from one of another layout");
  for (std::size_t r = 0; r < blocks_.size(); ++r)
    copies.add(blocks_[r].buffer.data(), twin.blocks_[r].buffer.data(), blocks_[r].buffer.size());
}

template <class Visit>
void State::each_live_block(std::uint64_t tick, Visit&& visit) const noexcept {
  for (const Block& block : blocks_) {
    auto* const first = const_cast<std::byte*>(block.buffer.data());
    if (options_.keeps_history)
      visit(first, (block.live + block.scratch) * options_.depth * sizeof(float));
    else
      visit(first + (tick & (options_.depth - 1)) * block.live * sizeof(float), block.live * sizeof(float));
  }
}

std::size_t State::live_bytes() const noexcept {
  std::size_t total = 0;
  each_live_block(0, [&](const std::byte*, std::size_t size) { total += size; });
  return total;
}

void State::save_live(std::uint64_t tick, std::byte* out, BatchCopy* copies) const {
  each_live_block(tick, [&](const std::byte* from, std::size_t size) {
    copy_or_note(out, from, size, copies);
    out += size;
  });
}

void State::load_live(std::uint64_t tick, const std::byte* in, BatchCopy* copies) {
  each_live_block(tick, [&](std::byte* to, std::size_t size) {
    copy_or_note(to, in, size, copies);
    in += size;
  });
}

void State::save_live_session(std::size_t session, std::uint64_t tick, float* out) const noexcept {
  each_stretch(session, tick, [&](const kernels::Rows& rows) {
    copy_rows(rows, {out, rows.rows, rows.cols, rows.cols});
    out += rows.rows * rows.cols;
  });
}

void State::load_live_session(std::size_t session, std::uint64_t tick, const float* in) noexcept {
  each_stretch(session, tick, [&](const kernels::Rows& rows) {
    copy_rows({in, rows.rows, rows.cols, rows.cols}, rows);
    in += rows.rows * rows.cols;
  });
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
  for (Block& block : blocks_)
    if (!block.buffer.empty()) std::memset(block.buffer.data(), 0, block.buffer.size());
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
  for (const Block& block : blocks_) total += block.buffer.size();
  return total;
}

}  // namespace weft::mesh
