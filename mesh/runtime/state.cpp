// SPDX-License-Identifier: Apache-2.0

#include "mesh/runtime/state.hpp"

#include "kernels/binary.hpp"

#include "core/cache_line.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>

namespace weft::mesh {
namespace {

/// Floats of one tick of a ring. Where they are a multiple of half a KiB, a line more: the rows of one session would
/// else stand powers of two apart, in few sets of the caches, and copying them would cost several times as much.
std::uint64_t ring_floats(const Ring& ring, std::uint64_t sessions) {
  const std::uint64_t floats = ring.stride * sessions;  // of which a size of 32 bits may not tell
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

void copy_rows(const kernels::ConstMatrixView& from, const kernels::MatrixView& to) noexcept {
  if (from.rows == 1)
    std::memcpy(to.data, from.data, from.cols * sizeof(float));
  else
    kernels::copy(from, to);
}

/// An archive that puts zeros into all it visits.
struct ZeroArchive {
  void operator()(const Field&, std::span<float> values) noexcept { std::fill(values.begin(), values.end(), 0.0f); }
};

std::uint64_t next_id() noexcept {
  static std::atomic<std::uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}
}  // namespace

constexpr std::array<State::RingField, 5> State::kRings{{
    {"output", &Rings::output, Scope::committed, [](const Node& node, const Options&) { return node.width; }},
    {"input", &Rings::input, Scope::history,
     [](const Node& node, const Options&) { return node.is_port() || node.reads_directly() ? 0 : node.in; }},
    {"preactivation", &Rings::preactivation, Scope::history,
     [](const Node& node, const Options& options) {
       return !node.is_port() && options.keeps_history && node.layer->needs_preactivation() ? node.width : 0;
     }},
    {"cache", &Rings::cache, Scope::history,
     [](const Node& node, const Options&) { return node.is_port() ? 0 : node.layer->cache_size(); }},
    {"hidden", &Rings::hidden, Scope::committed,
     [](const Node& node, const Options&) { return node.is_port() ? 0 : node.layer->state_size(); }},
}};

template <class Visit>
void State::each_extent(std::size_t session, std::uint64_t tick, Visit&& visit) const noexcept {
  const std::size_t slots = options_.keeps_history ? options_.depth : 1;
  for (const std::vector<Extent>* const all : {&live_extents_, &other_extents_})
    for (std::size_t back = slots; back-- > 0;)
      for (const Extent& extent : *all) {
        if (back > extent.mask) continue;
        float* const base = extent.base + ((tick - back) & extent.mask) * extent.slot;
        visit(kernels::MatrixView{base + session * extent.session, extent.rows, extent.floats, extent.step});
      }
}

namespace {

/// Depths of histories, ascending, each once.
std::vector<std::size_t> depths_of(const State::Options& options) {
  std::vector<std::size_t> depths{options.node_depths.begin(), options.node_depths.end()};
  if (depths.empty()) depths.push_back(options.depth);
  std::sort(depths.begin(), depths.end());
  depths.erase(std::unique(depths.begin(), depths.end()), depths.end());
  return depths;
}

/// The block of each node: that of its region and depth.
std::vector<std::uint32_t> blocks_of(std::size_t nodes, const std::vector<std::uint32_t>& node_region,
                                     const std::vector<std::size_t>& depths, const State::Options& options) {
  std::vector<std::uint32_t> blocks(nodes);
  for (NodeId id = 0; id < blocks.size(); ++id) {
    const auto place = std::lower_bound(depths.begin(), depths.end(), options.depth_of(id)) - depths.begin();
    blocks[id] = static_cast<std::uint32_t>(node_region[id] * depths.size() + static_cast<std::size_t>(place));
  }
  return blocks;
}

/// A digest that two states have in common when their memory is laid out alike.
template <class Blocks>
auto layout_of(const Blocks& blocks, const std::vector<std::uint32_t>& node_block,
               const std::vector<std::size_t>& depths, const State::Options& options) {
  StateHasher layout;
  layout.add(std::span<const std::uint32_t>(node_block));
  for (const auto& block : blocks) layout.add(block.live), layout.add(block.scratch);
  for (const std::size_t n : {options.sessions, options.depth, std::size_t{options.keeps_history}}) layout.add(n);
  for (const std::size_t depth : depths) layout.add(depth);
  return layout.digest();
}

}  // namespace

Result<State> State::build(const Graph& graph, const std::vector<std::uint32_t>& node_region,
                           const topology::Plan& plan, topology::NodeMemory& memory, Options options) {
  WEFT_ASSERT(options.depth >= 2 && std::has_single_bit(options.depth), "history depth must be a power of two");
  State state;
  state.options_ = std::move(options);
  const Options& wanted = state.options_;
  state.memory_ = &memory;
  state.id_ = next_id();
  state.rings_.resize(graph.nodes().size());
  // A block for each region and depth that is there.
  const std::vector<std::size_t> depths = depths_of(wanted);
  state.blocks_.resize(plan.regions.size() * depths.size());
  for (std::size_t b = 0; b < state.blocks_.size(); ++b) state.blocks_[b].depth = depths[b % depths.size()];
  const std::vector<std::uint32_t> node_block = blocks_of(graph.nodes().size(), node_region, depths, wanted);

  // Shapes first, then one buffer a region, then addresses.
  const auto shape = [&](Ring& ring, std::size_t width, Block& block, bool is_live) {
    ring.width = width;
    ring.stride = padded(width);
    ring.mask = block.depth - 1;
    (is_live ? block.live : block.scratch) += ring_floats(ring, wanted.sessions);
  };
  const auto each_ring = [&](auto&& visit) {
    for (NodeId id = 0; id < graph.nodes().size(); ++id)
      for (const RingField& field : kRings)
        if (const std::size_t width = field.width(graph.nodes()[id], wanted))
          visit(state.rings_[id].*field.ring, width, state.blocks_[node_block[id]], field.scope == Scope::committed);
  };
  each_ring(shape);
  state.layout_ = layout_of(state.blocks_, node_block, depths, wanted);

  for (NodeId id = static_cast<NodeId>(graph.port_count()); id < graph.nodes().size(); ++id)
    for (const std::size_t place : graph.nodes()[id].layer->noise_states()) state.noise_.emplace_back(id, place);

  struct Places {
    float *live = nullptr, *scratch = nullptr;
  };
  std::vector<Places> next(state.blocks_.size());
  for (std::size_t b = 0; b < state.blocks_.size(); ++b) {
    Block& block = state.blocks_[b];
    const std::size_t floats = (block.live + block.scratch) * block.depth;
    if (floats == 0) continue;
    WEFT_TRY(block.buffer, memory.allocate(floats * sizeof(float), plan.regions[b / depths.size()].assignment.node));
    next[b].live = block.buffer.as<float>().data();
    next[b].scratch = next[b].live + block.live * block.depth;
  }
  each_ring([&](Ring& ring, std::size_t, Block& block, bool is_live) {
    Places& places = next[static_cast<std::size_t>(&block - state.blocks_.data())];
    float*& place = is_live ? places.live : places.scratch;
    ring.base = place;
    ring.slot = is_live ? block.live : block.scratch;
    place += ring_floats(ring, wanted.sessions);
  });
  state.live_extents_ = state.extents(Scope::committed, node_block);
  if (wanted.keeps_history) state.other_extents_ = state.extents(Scope::history, node_block);
  state.each_extent(0, 0, [&](const kernels::MatrixView& rows) { state.live_session_size_ += rows.rows * rows.cols; });
  return state;
}

std::uint64_t State::bytes_for(const Graph& graph, const Options& options) noexcept {
  double floats = 0;  // exact up to 2^53, and no product of widths, sessions and ticks overflows it
  for (NodeId id = 0; id < graph.nodes().size(); ++id)
    for (const RingField& field : kRings)
      if (const std::size_t width = field.width(graph.nodes()[id], options))
        floats += static_cast<double>(ring_floats({nullptr, 0, padded(width), width}, options.sessions)) *
                  static_cast<double>(options.depth_of(id));
  const double bytes = floats * sizeof(float);
  return bytes < 0x1p63 ? static_cast<std::uint64_t>(bytes) : UINT64_MAX;
}

std::vector<State::Extent> State::extents(Scope scope, const std::vector<std::uint32_t>& node_block) const {
  std::vector<Extent> made;
  std::uint32_t block = 0;  // of the last one: only rows of one block are told apart by a distance
  for (NodeId id = 0; id < rings_.size(); ++id)
    for (const RingField& field : kRings) {
      const Ring& ring = rings_[id].*field.ring;
      if (!ring.base || field.scope != scope) continue;
      Extent* const last = made.empty() || block != node_block[id] ? nullptr : &made.back();
      block = node_block[id];
      if (last && last->rows == 1 && ring.base == last->base + last->floats) {
        last->floats += ring.stride;
      } else if (last && last->rows == 1 && last->floats == ring.stride && ring.base > last->base) {
        last->step = static_cast<std::size_t>(ring.base - last->base);
        last->rows = 2;
      } else if (last && last->floats == ring.stride && ring.base == last->base + last->rows * last->step) {
        ++last->rows;
      } else {
        made.push_back({ring.base, ring.slot, ring.stride, ring.stride, ring.stride, 1, ring.mask});
      }
    }
  return made;
}

Result<State> State::make_copy() const {
  State copy;
  copy.options_ = options_;
  copy.rings_ = rings_;
  copy.noise_ = noise_;
  copy.memory_ = memory_;
  copy.id_ = next_id();
  copy.layout_ = layout_;
  copy.blocks_.resize(blocks_.size());
  for (std::size_t r = 0; r < blocks_.size(); ++r) {
    copy.blocks_[r].live = blocks_[r].live;
    copy.blocks_[r].scratch = blocks_[r].scratch;
    copy.blocks_[r].depth = blocks_[r].depth;
    if (blocks_[r].buffer.empty()) continue;
    WEFT_TRY(copy.blocks_[r].buffer, memory_->allocate(blocks_[r].buffer.size(), blocks_[r].buffer.node()));
  }
  for (Rings& rings : copy.rings_)
    for (const RingField& field : kRings) {
      Ring* const ring = &(rings.*field.ring);
      const auto* const place = reinterpret_cast<const std::byte*>(ring->base);
      for (std::size_t r = 0; r < blocks_.size() && place; ++r) {
        const topology::NodeBuffer& from = blocks_[r].buffer;
        if (place < from.data() || place >= from.data() + from.size()) continue;
        ring->base = reinterpret_cast<float*>(copy.blocks_[r].buffer.data() + (place - from.data()));
        break;
      }
    }
  return copy;
}

void State::copy_from(const State& copy, BatchCopy& copies) {
  WEFT_ASSERT(layout_ == copy.layout_, "a state is copied from one of another layout");
  for (std::size_t r = 0; r < blocks_.size(); ++r)
    copies.add(blocks_[r].buffer.data(), copy.blocks_[r].buffer.data(), blocks_[r].buffer.size());
}

template <class Visit>
void State::each_live_block(std::uint64_t tick, Visit&& visit) const noexcept {
  for (const Block& block : blocks_) {
    auto* const first = const_cast<std::byte*>(block.buffer.data());
    if (options_.keeps_history)
      visit(first, (block.live + block.scratch) * block.depth * sizeof(float));
    else
      visit(first + (tick & (block.depth - 1)) * block.live * sizeof(float), block.live * sizeof(float));
  }
}

std::size_t State::live_bytes() const noexcept {
  std::size_t total = 0;
  each_live_block(0, [&](const std::byte*, std::size_t size) { total += size; });
  return total;
}

void State::take_live(std::uint64_t tick, std::byte* out, BatchCopy* copies) const {
  each_live_block(tick, [&](const std::byte* from, std::size_t size) {
    copy_or_note(out, from, size, copies);
    out += size;
  });
}

void State::restore_live(std::uint64_t tick, const std::byte* in, BatchCopy* copies) {
  each_live_block(tick, [&](std::byte* to, std::size_t size) {
    copy_or_note(to, in, size, copies);
    in += size;
  });
}

void State::take_live_session(std::size_t session, std::uint64_t tick, float* out) const noexcept {
  each_extent(session, tick, [&](const kernels::MatrixView& rows) {
    copy_rows(rows, {out, rows.rows, rows.cols, rows.cols});
    out += rows.rows * rows.cols;
  });
}

void State::restore_live_session(std::size_t session, std::uint64_t tick, const float* in) noexcept {
  each_extent(session, tick, [&](const kernels::MatrixView& rows) {
    copy_rows({in, rows.rows, rows.cols, rows.cols}, rows);
    in += rows.rows * rows.cols;
  });
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
  ZeroArchive zeros;
  visit_session(session, tick, zeros);
  const float* next = numbers.data();
  for (const auto& [node, place] : noise_) {
    std::copy_n(next, kNumberFloats, hidden(node, tick).row(session) + place + kStreamNumber);
    next += kNumberFloats;
  }
}

void State::set_streams(std::size_t session, std::uint64_t tick, std::uint64_t number) noexcept {
  for (const auto& [node, place] : noise_) number_stream(hidden(node, tick).row(session) + place, number);
}

void State::number_stream(float* noise, std::uint64_t number) noexcept {
  noise[kStreamNumber] = static_cast<float>(number & 0xffffffu);
  noise[kStreamNumber + 1] = static_cast<float>(number >> 24 & 0xffffffu);
}

void State::copy_streams(NodeId id, std::size_t session, std::uint64_t from, std::uint64_t to) noexcept {
  for (const auto& [node, place] : noise_)
    if (node == id)
      std::copy_n(hidden(node, from).row(session) + place + kStreamNumber, kNumberFloats,
                  hidden(node, to).row(session) + place + kStreamNumber);
}

std::size_t State::session_bytes_of(const std::vector<std::uint32_t>& node_depths, std::size_t depth) const noexcept {
  std::size_t floats = 0;
  for (NodeId id = 0; id < rings_.size(); ++id)
    for (const RingField& field : kRings)
      if (const Ring& ring = rings_[id].*field.ring; ring.base)
        floats += (node_depths.empty() ? depth : node_depths[id]) * ring.width;
  return floats * sizeof(float);
}

void State::copy_session(const State& from, std::size_t from_session, std::size_t to_session, std::uint64_t tick,
                         std::size_t ticks) noexcept {
  for (NodeId id = 0; id < rings_.size(); ++id)
    for (const RingField& field : kRings) {
      // History that learning reads is copied only when both states keep it.
      if (field.scope == Scope::history && options_.keeps_history != from.options_.keeps_history) continue;
      const std::size_t kept = std::min({ticks, options_.depth_of(id), from.options_.depth_of(id)});
      for (std::uint64_t back = 0; back < kept && back <= tick; ++back) {
        const kernels::MatrixView source = from.at(from.rings_[id].*field.ring, tick - back);
        if (source.data)
          std::copy_n(source.row(from_session), source.cols, at(rings_[id].*field.ring, tick - back).row(to_session));
      }
    }
}

std::optional<std::size_t> State::first_not_finite(std::size_t session, std::uint64_t tick) const noexcept {
  std::size_t next = 0;
  for (NodeId id = 0; id < rings_.size(); ++id)
    for (const RingField& field : kRings) {
      const Ring& ring = rings_[id].*field.ring;
      if (!ring.base) continue;
      for (std::size_t back = options_.depth_of(id); back-- > 0; next += ring.width) {
        const float* const row = at(ring, tick - back).row(session);
        for (std::size_t i = 0; i < ring.width && field.scope == Scope::committed; ++i)
          if (!std::isfinite(row[i])) return next + i;
      }
    }
  return std::nullopt;
}

std::uint64_t State::bytes() const noexcept {
  std::uint64_t total = 0;
  for (const Block& block : blocks_) total += block.buffer.size();
  return total;
}

}  // namespace weft::mesh
