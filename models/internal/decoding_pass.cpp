// SPDX-License-Identifier: Apache-2.0

#include "models/internal/decoding_pass.hpp"

#include "models/decoding.hpp"

#include "mesh/network/source_combine.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace weft::models::internal {
namespace {

constexpr std::size_t kLine = AlignedBuffer<float>::kAlignment / sizeof(float);

constexpr std::size_t whole_lines(std::size_t width) { return (width + kLine - 1) / kLine * kLine; }

/// Nodes that make the logits: a layer, and a bound of its values that it may have behind it. The last is read by none
/// but the output; before the first comes the node that it reads.
std::vector<mesh::NodeId> head_of(const mesh::Graph& graph) {
  const auto source = [&](mesh::NodeId of) { return graph.edges()[graph.nodes()[of].sources[0]].from; };
  std::vector<mesh::NodeId> head{graph.outputs().front()};
  while (!graph.nodes()[head.back()].is_port() && graph.layer_spec(head.back()).type == "soft_cap")
    head.push_back(source(head.back()));
  if (!graph.nodes()[head.back()].is_port()) head.push_back(source(head.back()));
  std::reverse(head.begin(), head.end());
  return head;
}

}  // namespace

std::size_t SharedRows::floats() const noexcept { return rows_ * whole_lines(widest_); }

float* SharedRows::place(float* memory) noexcept {
  if (floats() != 0) data_ = memory;
  return memory + floats();
}

kernels::MatrixView SharedRows::view(std::size_t first, std::size_t rows, std::size_t width) noexcept {
  const std::size_t stride = whole_lines(width);
  return {width ? data_ + first * stride : nullptr, rows, width, stride};
}

LazyRows::LazyRows(std::size_t rows, std::size_t width) noexcept
    : rows_(rows), width_(width), stride_(whole_lines(width)) {}

float* LazyRows::place(float* memory) noexcept {
  if (floats() != 0) data_ = memory;
  return memory + floats();
}

kernels::MatrixView LazyRows::view(std::size_t first, std::size_t rows) noexcept {
  return {width_ ? data_ + first * stride_ : nullptr, rows, width_, stride_};
}

SequenceStates::SequenceStates(const mesh::Graph& graph, std::size_t sequences, PageSize pages) {
  for (mesh::NodeId id = 0; id < graph.nodes().size(); ++id) {
    const mesh::Node& node = graph.nodes()[id];
    const std::size_t size = node.is_port() ? 0 : node.layer->state_size();
    in_place_.push_back(size == 0 || node.layer->updates_state_in_place());
    tokenwise_.push_back(size == 0 || !in_place_.back() ? nullptr : mesh::tokenwise_state(*node.layer));
    if (size != 0 && !tokenwise_.back()) not_tokenwise_ = graph.layer_spec(id).type;
    sides_[0].emplace_back(sequences, size);
    sides_[1].emplace_back(sequences, in_place_.back() ? 0 : size);
  }
  std::size_t floats = 0;
  for (const auto& side : sides_)
    for (const LazyRows& each : side) floats += each.floats();
  memory_ = ZeroedPages(floats * sizeof(float), pages);
  auto* at = static_cast<float*>(memory_.data());
  for (auto& side : sides_)
    for (LazyRows& each : side) at = each.place(at);
}

std::uint64_t SequenceStates::bytes(const mesh::Graph& graph, std::size_t sequences) noexcept {
  std::uint64_t bytes = 0;
  for (const mesh::Node& node : graph.nodes())
    if (!node.is_port())
      bytes += (node.layer->updates_state_in_place() ? 1 : 2) * sizeof(float) * node.layer->state_size() * sequences;
  return bytes;
}

void SequenceStates::copy(std::size_t from, std::size_t to, std::size_t sequence) noexcept {
  for (std::size_t node = 0; node < in_place_.size(); ++node) {
    if (in_place_[node]) continue;
    const auto row = sides_[from][node].row(sequence);
    std::copy(row.begin(), row.end(), sides_[to][node].row(sequence).begin());
  }
}

void SequenceStates::clear(std::size_t side, std::size_t sequence) noexcept {
  for (std::size_t node = 0; node < in_place_.size(); ++node) {
    const auto row = sides_[in_place_[node] ? 0 : side][node].row(sequence);
    std::fill(row.begin(), row.end(), 0.0f);
  }
}

void SequenceStates::cut(std::size_t sequence, std::size_t tokens) {
  kernels::CpuStream stream;
  for (std::size_t node = 0; node < tokenwise_.size(); ++node)
    if (tokenwise_[node]) tokenwise_[node]->cut(stream, tokens, sides_[0][node].row(sequence).data());
}

std::vector<std::span<float>> SequenceStates::places(std::size_t sequence, std::size_t first, std::size_t tokens) {
  std::vector<std::span<float>> all;
  std::vector<mesh::StatePlace> found;
  for (std::size_t node = 0; node < tokenwise_.size(); ++node) {
    if (!tokenwise_[node]) continue;
    found.clear();
    tokenwise_[node]->add_places(first, tokens, 0, found);
    for (const mesh::StatePlace& each : found)
      all.push_back(sides_[0][node].row(sequence).subspan(each.first, each.count));
  }
  return all;
}

void SequenceStates::release(std::size_t sequence) noexcept {
  for (LazyRows& each : sides_[0]) each.release(sequence);
  cut(sequence, 0);
}

std::size_t SequenceStates::saved_size(std::size_t tokens) const noexcept {
  std::size_t size = 0;
  for (const mesh::TokenwiseState* const each : tokenwise_) size += each ? each->saved_size(tokens) : 0;
  return size;
}

void SequenceStates::save(std::size_t sequence, std::size_t first, std::size_t tokens, float* to) noexcept {
  for (std::size_t node = 0; node < tokenwise_.size(); ++node) {
    if (!tokenwise_[node]) continue;
    tokenwise_[node]->save(sides_[0][node].row(sequence).data(), first, tokens, to);
    to += tokenwise_[node]->saved_size(tokens);
  }
}

void SequenceStates::load(const float* from, std::size_t sequence, std::size_t first, std::size_t tokens) noexcept {
  for (std::size_t node = 0; node < tokenwise_.size(); ++node) {
    if (!tokenwise_[node]) continue;
    tokenwise_[node]->load(from, first, tokens, sides_[0][node].row(sequence).data());
    from += tokenwise_[node]->saved_size(tokens);
  }
}

Hash128 SequenceStates::hash(std::size_t side, std::size_t sequence, std::size_t tokens) {
  StateHasher hasher;
  std::vector<float> part;
  for (std::size_t node = 0; node < tokenwise_.size(); ++node) {
    const auto row = sides_[in_place_[node] ? 0 : side][node].row(sequence);
    if (tokenwise_[node]) {
      part.resize(tokenwise_[node]->saved_size(tokens));
      tokenwise_[node]->save(row.data(), 0, tokens, part.data());
      hasher.add(std::span<const float>(part));
    } else {
      hasher.add(std::span<const float>(row));
    }
  }
  hasher.add(std::uint64_t{tokens});
  return hasher.digest();
}

Failure no_language_model(const mesh::NetworkSpec& spec, const std::string& text) {
  return fail(Errc::shape_mismatch,
              "network '" + spec.name + "': " + text + "; weft import makes networks that texts can be generated with");
}

DecodingPass::DecodingPass(mesh::Graph graph, std::size_t tokens, std::size_t rows, const Sharing& sharing,
                           Logits logits)
    : graph_(std::make_unique<mesh::Graph>(std::move(graph))),
      tokens_(tokens),
      workspace_stride_(whole_lines(graph_->workspace_size())),
      sharing_(sharing),
      place_(graph_->nodes().size()) {
  const std::vector<mesh::NodeId> head = head_of(*graph_);
  head_input_ = head.front();
  is_head_.resize(place_.size());
  for (std::size_t i = 1; i < head.size(); ++i) is_head_[head[i]] = true;
  // Other heads are computed with the rest: those with a state, several sources, or readers of their own.
  const auto stands_alone = [&](mesh::NodeId id) {
    const mesh::Node& node = graph_->nodes()[id];
    return node.layer->state_size() == 0 && node.sources.size() == 1;
  };
  splits_head_ = head.size() > 1 && std::all_of(head.begin() + 1, head.end(), stands_alone) &&
                 std::none_of(graph_->edges().begin(), graph_->edges().end(),
                              [&](const mesh::Edge& edge) { return is_head_[edge.from] && !is_head_[edge.to]; });
  if (!splits_head_) is_head_.assign(place_.size(), false);
  place_outputs(rows, logits);
  while (inner_.size() < (sharing.reuses_memory ? 1 : place_.size()))
    inner_.push_back({SharedRows(rows), SharedRows(rows), SharedRows(rows)});
  for (std::size_t id = 0; id < place_.size(); ++id) {
    const mesh::Node& node = graph_->nodes()[id];
    if (node.is_port() || (logits == Logits::none_apart && is_head_[id])) continue;
    Inner& own = inner(static_cast<mesh::NodeId>(id));
    if (!node.reads_directly()) own.x.reserve(node.in);
    if (node.layer->needs_preactivation()) own.z.reserve(node.width);
    own.cache.reserve(node.layer->cache_size());
  }
  allocate();
}

// In pages of 2 MiB: a pass touches all it has with its first token, and small pages cost a fault each. What may never
// be touched stands last: logits, where a pass runs the body alone.
void DecodingPass::allocate() {
  const std::size_t logits = place_[graph_->outputs().front()];
  std::vector<SharedRows*> all;
  for (Inner& each : inner_) all.insert(all.end(), {&each.x, &each.z, &each.cache});
  for (std::size_t i = 0; i < y_.size(); ++i)
    if (i != logits) all.push_back(&y_[i]);
  all.push_back(&y_[logits]);
  std::size_t floats = workspace_stride_ * sharing_.threads;
  for (const SharedRows* const each : all) floats += each->floats();
  memory_ = ZeroedPages(floats * sizeof(float), PageSize::huge);
  workspace_ = static_cast<float*>(memory_.data());
  float* at = workspace_ + workspace_stride_ * sharing_.threads;
  for (SharedRows* const each : all) at = each->place(at);
}

// A place that nobody reads after a node's forward is given to a later one; the caller's keep their own.
void DecodingPass::place_outputs(std::size_t rows, Logits logits) {
  const auto& nodes = graph_->nodes();
  std::vector<std::size_t> reads_left(nodes.size());
  for (const mesh::Edge& edge : graph_->edges()) ++reads_left[edge.from];
  const auto is_kept = [&](mesh::NodeId id) {
    return nodes[id].is_port() || is_head_[id] || id == head_input_ || id == graph_->outputs().front();
  };
  std::vector<std::size_t> free;
  y_.emplace_back(rows);  // of those that are left out
  const auto take = [&](mesh::NodeId id) {
    if (free.empty() || is_kept(id)) {
      y_.emplace_back(rows);
      place_[id] = y_.size() - 1;
    } else {
      place_[id] = free.back();
      free.pop_back();
    }
    y_[place_[id]].reserve(nodes[id].width);
  };
  for (mesh::NodeId id = 0; id < nodes.size(); ++id)
    if (nodes[id].is_port()) take(id);
  for (const mesh::NodeId id : graph_->order()) {
    if (nodes[id].is_port() || (logits == Logits::none_apart && is_head_[id])) continue;
    take(id);
    for (const auto source : nodes[id].sources) {
      const mesh::NodeId from = graph_->edges()[source].from;
      if (--reads_left[from] == 0 && !is_kept(from) && sharing_.reuses_memory) free.push_back(place_[from]);
    }
  }
}

Result<DecodingPass> DecodingPass::make(const mesh::NetworkSpec& spec, std::size_t tokens, std::size_t context,
                                        std::size_t rows, const Sharing& sharing, Logits logits) {
  WEFT_TRY(const mesh::NetworkSpec own, with_context(spec, tokens, context));
  WEFT_TRY(mesh::Graph graph, mesh::Graph::build(own));
  if (!graph.loops().empty()) return no_language_model(spec, "has links backwards");
  return DecodingPass(std::move(graph), tokens, rows, sharing, logits);
}

std::span<const float> DecodingPass::features(std::size_t row) const noexcept {
  return const_cast<DecodingPass*>(this)->y(head_input_, row);
}

std::span<const float> DecodingPass::logits(std::size_t row) const noexcept {
  return const_cast<DecodingPass*>(this)->y(graph_->outputs().front(), row);
}

void DecodingPass::take_features(const DecodingPass& from) noexcept {
  const auto to = y(head_input_, 0);
  const auto all = from.features(0);
  std::copy(all.end() - static_cast<std::ptrdiff_t>(to.size()), all.end(), to.begin());
}

void DecodingPass::run(scheduler::Team* team, const mesh::WeightStore& weights, const Memory& memory, Layers layers) {
  std::optional<kernels::ParallelOptions> parallel;
  if (team) {
    const std::size_t threads = std::min(team->size(), sharing_.threads);
    parallel = kernels::ParallelOptions{kernels::ParallelFor(*team), threads, workspace_stride_, sharing_.grain_size};
  }
  stream_.set_parallel(parallel ? &*parallel : nullptr);
  if (memory.runs.empty()) {
    run(stream_, weights, memory, layers);
  } else {
    RaggedStream ragged(stream_, memory.runs);
    run_layers(ragged, weights, memory, layers, &ragged);
  }
  stream_.set_parallel(nullptr);
}

void DecodingPass::run(kernels::OpStream& stream, const mesh::WeightStore& weights, const Memory& memory,
                       Layers layers) {
  run_layers(stream, weights, memory, layers, nullptr);
}

void DecodingPass::run_layers(kernels::OpStream& stream, const mesh::WeightStore& weights, const Memory& memory,
                              Layers layers, RaggedStream* ragged) {
  const std::size_t row = memory.row, rows = memory.rows;
  for (const mesh::NodeId id : graph_->order()) {
    const mesh::Node& node = graph_->nodes()[id];
    if (node.is_port() || (layers == Layers::body && is_head_[id]) || (layers == Layers::head && !is_head_[id]))
      continue;
    mesh::ForwardArgs args;
    args.weights = weights.view(id);
    const auto source = [&](const mesh::Edge& edge) { return kernels::ConstMatrixView(y_view(edge.from, row, rows)); };
    if (node.reads_directly()) {
      args.x = source(graph_->edges()[node.sources[0]]);
    } else {
      const kernels::MatrixView x = inner(id).x.view(row, rows, node.in);
      mesh::combine_sources(stream, *graph_, node, source, x);
      args.x = x;
    }
    Inner& own = inner(id);
    args.y = y_view(id, row, rows), args.z = own.z.view(row, rows, node.layer->needs_preactivation() ? node.width : 0);
    args.cache = own.cache.view(row, rows, node.layer->cache_size());
    args.state = memory.states.at(memory.side, id).view(memory.first, rows);
    args.next_state = memory.states.at(1 - memory.side, id).view(memory.first, rows);
    args.workspace = workspace_;
    if (ragged) ragged->enter(args.next_state);
    node.layer->forward(stream, args);
  }
}

}  // namespace weft::models::internal
