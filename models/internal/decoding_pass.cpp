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

Rows::Rows(std::size_t rows, std::size_t width)
    : memory_(rows * whole_lines(width) * sizeof(float)), width_(width), stride_(whole_lines(width)) {}

kernels::MatrixView Rows::view(std::size_t first, std::size_t rows) noexcept {
  return {width_ ? static_cast<float*>(memory_.data()) + first * stride_ : nullptr, rows, width_, stride_};
}

LazyRows::LazyRows(std::size_t rows, std::size_t width)
    : memory_(rows * whole_lines(width) * sizeof(float)), width_(width), stride_(whole_lines(width)) {}

kernels::MatrixView LazyRows::view(std::size_t first, std::size_t rows) noexcept {
  return {width_ ? data() + first * stride_ : nullptr, rows, width_, stride_};
}

SequenceStates::SequenceStates(const mesh::Graph& graph, std::size_t sequences) {
  for (mesh::NodeId id = 0; id < graph.nodes().size(); ++id) {
    const mesh::Node& node = graph.nodes()[id];
    const std::size_t size = node.is_port() ? 0 : node.layer->state_size();
    in_place_.push_back(size == 0 || node.layer->updates_state_in_place());
    tokenwise_.push_back(size == 0 || !in_place_.back() ? nullptr : mesh::tokenwise_state(*node.layer));
    if (size != 0 && !tokenwise_.back()) not_tokenwise_ = graph.layer_spec(id).type;
    sides_[0].emplace_back(sequences, size);
    sides_[1].emplace_back(sequences, in_place_.back() ? 0 : size);
  }
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
      buffers_(graph_->nodes().size()),
      workspace_(workspace_stride_ * sharing.threads) {
  const std::vector<mesh::NodeId> head = head_of(*graph_);
  head_input_ = head.front();
  is_head_.resize(buffers_.size());
  for (std::size_t i = 1; i < head.size(); ++i) is_head_[head[i]] = true;
  // Other heads are computed with the rest: those with a state, several sources, or readers of their own.
  const auto stands_alone = [&](mesh::NodeId id) {
    const mesh::Node& node = graph_->nodes()[id];
    return node.layer->state_size() == 0 && node.sources.size() == 1;
  };
  splits_head_ = head.size() > 1 && std::all_of(head.begin() + 1, head.end(), stands_alone) &&
                 std::none_of(graph_->edges().begin(), graph_->edges().end(),
                              [&](const mesh::Edge& edge) { return is_head_[edge.from] && !is_head_[edge.to]; });
  if (!splits_head_) is_head_.assign(buffers_.size(), false);
  for (std::size_t id = 0; id < buffers_.size(); ++id) {
    const mesh::Node& node = graph_->nodes()[id];
    if (logits == Logits::none_apart && is_head_[id]) continue;
    Buffers& own = buffers_[id];
    own.y = Rows(rows, node.width);
    if (node.is_port()) continue;
    if (!node.reads_directly()) own.x = Rows(rows, node.in);
    if (node.layer->needs_preactivation()) own.z = Rows(rows, node.width);
    own.cache = Rows(rows, node.layer->cache_size());
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
  return buffers_[head_input_].y.row(row);
}

std::span<const float> DecodingPass::logits(std::size_t row) const noexcept {
  return buffers_[graph_->outputs().front()].y.row(row);
}

void DecodingPass::take_features(const DecodingPass& from) noexcept {
  const auto to = buffers_[head_input_].y.row(0);
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
  run(stream_, weights, memory, layers);
  stream_.set_parallel(nullptr);
}

void DecodingPass::run(kernels::OpStream& stream, const mesh::WeightStore& weights, const Memory& memory,
                       Layers layers) {
  const std::size_t row = memory.row, rows = memory.rows;
  for (const mesh::NodeId id : graph_->order()) {
    const mesh::Node& node = graph_->nodes()[id];
    if (node.is_port() || (layers == Layers::body && is_head_[id]) || (layers == Layers::head && !is_head_[id]))
      continue;
    Buffers& own = buffers_[id];
    mesh::ForwardArgs args;
    args.weights = weights.view(id);
    const auto source = [&](const mesh::Edge& edge) {
      return kernels::ConstMatrixView(buffers_[edge.from].y.view(row, rows));
    };
    if (node.reads_directly()) {
      args.x = source(graph_->edges()[node.sources[0]]);
    } else {
      mesh::combine_sources(stream, *graph_, node, source, own.x.view(row, rows));
      args.x = own.x.view(row, rows);
    }
    args.y = own.y.view(row, rows), args.z = own.z.view(row, rows), args.cache = own.cache.view(row, rows);
    args.state = memory.states.at(memory.side, id).view(memory.first, rows);
    args.next_state = memory.states.at(1 - memory.side, id).view(memory.first, rows);
    args.workspace = workspace_.data();
    node.layer->forward(stream, args);
  }
}

}  // namespace weft::models::internal
