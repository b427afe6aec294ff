// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "models/internal/ragged_stream.hpp"
#include "models/internal/zeroed_pages.hpp"

#include "mesh/layers/tokenwise_state.hpp"
#include "mesh/network/graph.hpp"
#include "mesh/weights/weight_store.hpp"

#include "scheduler/team.hpp"

#include "kernels/cpu_stream.hpp"

#include "core/aligned_buffer.hpp"
#include "core/result.hpp"
#include "core/state_hash.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace weft::models::internal {

/// Rows of binary32 numbers, each of which begins at a cache line, of several widths, one width at a time: what a layer
/// computes, until another may overwrite it. 0 at first. Memory is taken when it is written: of passes on a device it
/// never is.
class SharedRows {
 public:
  explicit SharedRows(std::size_t rows = 0) noexcept : rows_(rows) {}
  /// Before there is memory: rows of this width will be asked for.
  void reserve(std::size_t width) noexcept { widest_ = std::max(widest_, width); }
  /// Floats that it needs, whole cache lines.
  std::size_t floats() const noexcept;
  /// Takes the first of so many, and returns what follows them.
  float* place(float* memory) noexcept;
  /// Rows `first` to `first` + `rows`; of no width a view without data.
  kernels::MatrixView view(std::size_t first, std::size_t rows, std::size_t width) noexcept;
  std::span<const float> memory() const noexcept { return {data_, data_ ? floats() : 0}; }

 private:
  float* data_ = nullptr;
  std::size_t rows_, widest_ = 0;
};

/// Rows of one width in pages that are taken when they are written, and can be given back row by row.
class LazyRows {
 public:
  LazyRows(std::size_t rows, std::size_t width) noexcept;
  /// As SharedRows.
  std::size_t floats() const noexcept { return rows_ * stride_; }
  float* place(float* memory) noexcept;
  std::span<float> row(std::size_t i) noexcept { return {data_ + i * stride_, width_}; }
  kernels::MatrixView view(std::size_t first, std::size_t rows) noexcept;
  /// Gives the whole pages of a row back. What the others hold may be anything then.
  void release(std::size_t i) noexcept { ZeroedPages::release(data_ + i * stride_, width_ * sizeof(float)); }
  std::span<const float> memory() const noexcept { return {data_, data_ ? floats() : 0}; }

 private:
  float* data_ = nullptr;
  std::size_t rows_, width_, stride_;
};

/// Hidden states of several sequences, by node, [sequences, state_size()]: on two sides, before and after a run, or but
/// one where the layer updates it in place, as attention does, whose keys and values would take long to copy.
class SequenceStates {
 public:
  SequenceStates() = default;
  /// Of huge pages the first token of a text may take all.
  SequenceStates(const mesh::Graph& graph, std::size_t sequences, PageSize pages);
  static std::uint64_t bytes(const mesh::Graph& graph, std::size_t sequences) noexcept;

  LazyRows& at(std::size_t side, mesh::NodeId node) noexcept { return sides_[in_place_[node] ? 0 : side][node]; }
  /// From one side to the other.
  void copy(std::size_t from, std::size_t to, std::size_t sequence) noexcept;
  /// To zeros on one side.
  void clear(std::size_t side, std::size_t sequence) noexcept;

  /// True where all states are what each token left (mesh::TokenwiseState): then the calls below may be made.
  bool are_tokenwise() const noexcept { return not_tokenwise_.empty(); }
  /// The type of a layer whose state is of another kind; empty where there is none.
  const std::string& not_tokenwise() const noexcept { return not_tokenwise_; }
  /// Places of what tokens `first` to `first` + `tokens` of a sequence left in all layers, and of the counts of tokens.
  /// @pre are_tokenwise()
  std::vector<std::span<float>> places(std::size_t sequence, std::size_t first, std::size_t tokens);
  /// A sequence's states as they are after its first `tokens` tokens.
  void cut(std::size_t sequence, std::size_t tokens);
  /// Visits the memory of all sequences. @pre are_tokenwise()
  template <class Visit>
  void each_memory(const Visit& visit) const {
    for (std::size_t node = 0; node < tokenwise_.size(); ++node)
      if (tokenwise_[node]) visit(sides_[0][node].memory());
  }
  /// As `cut` to none, and gives their memory back.
  void release(std::size_t sequence) noexcept;
  /// Floats of what so many tokens left, and copies of it out of a sequence's states and back (TokenwiseState).
  std::size_t saved_size(std::size_t tokens) const noexcept;
  void save(std::size_t sequence, std::size_t first, std::size_t tokens, float* to) noexcept;
  void load(const float* from, std::size_t sequence, std::size_t first, std::size_t tokens) noexcept;
  /// Digest of a sequence's states after `tokens` tokens: of what they left, and of whole states of other kinds.
  Hash128 hash(std::size_t side, std::size_t sequence, std::size_t tokens);

 private:
  ZeroedPages memory_;  // of all nodes and both sides
  std::array<std::vector<LazyRows>, 2> sides_{};
  std::vector<bool> in_place_{};
  std::vector<const mesh::TokenwiseState*> tokenwise_{};  // by node; null where there is no state or another kind
  std::string not_tokenwise_{};
};

/// A failure (shape_mismatch) that names the network and says that texts cannot be generated with it.
Failure no_language_model(const mesh::NetworkSpec& spec, const std::string& text);

/// Layers for a number of tokens at once of several sequences, and memory for what they compute, in binary32.
/// @exact  a row has the bits that it has alone
/// @thread one at a time; weights are only read
class DecodingPass {
 public:
  /// Threads among which a team's operations are cut, at most, and multiply-adds from which on.
  struct Sharing {
    std::size_t threads = 1;
    double grain_size = kernels::ParallelOptions::kGrainSize;
    /// Layers compute where earlier ones did whose results are read no more, so that it stays in the caches. False for
    /// a device, which then sees what nobody reads.
    bool reuses_memory = true;
  };
  /// Tokens whose logits there is memory for: each, or none where their layers can be run apart (splits_head), so that
  /// the body alone may be run.
  enum class Logits { each, none_apart };
  /// @error as `with_context` and Graph::build; shape_mismatch: links backwards
  static Result<DecodingPass> make(const mesh::NetworkSpec& spec, std::size_t tokens, std::size_t context,
                                   std::size_t rows, const Sharing& sharing, Logits logits = Logits::each);

  std::size_t tokens() const noexcept { return tokens_; }
  const mesh::Graph& graph() const noexcept { return *graph_; }
  /// Ids of a row's tokens, to be set before a run.
  std::span<float> ids(std::size_t row) noexcept { return y(0, row); }
  /// Logits after each token of a row, [tokens, vocabulary], until the next run.
  std::span<const float> logits(std::size_t row) const noexcept;
  std::span<float> logits(std::size_t row) noexcept { return y(graph_->outputs().front(), row); }
  /// Input of the layer that makes them, [tokens, width], until the next run.
  std::span<const float> features(std::size_t row) const noexcept;
  std::span<float> features(std::size_t row) noexcept { return y(head_input_, row); }

  /// Memory of sequences: the states of `rows` of them, from `first` on, on `side` before a run and on the other after
  /// it; and the row of the pass that the first of them has.
  /// Or `rows` rows of any sequences, from row 0 on, as `runs` say. @pre with runs: tokens() == 1 and are_tokenwise()
  struct Memory {
    SequenceStates& states;
    std::size_t side = 0, first = 0, rows = 1, row = 0;
    std::span<const SequenceRun> runs{};
  };
  /// Layers of a run: all; all but those that make the logits; or these alone, from the features of `take_features`.
  enum class Layers { all, body, head };
  /// False where the layers that make the logits cannot be run apart: then the body is all.
  bool splits_head() const noexcept { return splits_head_; }
  /// These layers once, in topological order, each operation by the team's threads (null: by the caller alone).
  void run(scheduler::Team* team, const mesh::WeightStore& weights, const Memory& memory, Layers layers = Layers::all);
  /// The same by a stream, such as one that records.
  void run(kernels::OpStream& stream, const mesh::WeightStore& weights, const Memory& memory, Layers layers);
  /// Visits all memory that a run touches, but for weights and states, and tells whether it holds features or logits;
  /// the threads' last.
  template <class Visit>
  void each_memory(const Visit& visit) const {
    const std::size_t features = place_[head_input_], logits = place_[graph_->outputs().front()];
    for (std::size_t i = 0; i < y_.size(); ++i) visit(y_[i].memory(), i == features || i == logits);
    for (const Inner& each : inner_)
      for (const SharedRows* const rows : {&each.x, &each.z, &each.cache}) visit(rows->memory(), false);
    visit(std::span<const float>(workspace_, workspace_stride_ * sharing_.threads), false);
  }
  /// Input of the layer that makes the logits, to be written: row 0. @pre tokens() == 1
  std::span<float> head_input() noexcept { return y(head_input_, 0); }
  /// Copies the features of the last token of another pass's row 0 to row 0 of this one. @pre tokens() == 1
  void take_features(const DecodingPass& from) noexcept;

 private:
  DecodingPass(mesh::Graph graph, std::size_t tokens, std::size_t rows, const Sharing& sharing, Logits logits);
  void run_layers(kernels::OpStream& stream, const mesh::WeightStore& weights, const Memory& memory, Layers layers,
                  RaggedStream* ragged);
  void place_outputs(std::size_t rows, Logits logits);
  void allocate();
  std::span<float> y(mesh::NodeId id, std::size_t row) noexcept {
    const kernels::MatrixView all = y_view(id, row, 1);
    return {all.data, all.cols};
  }
  struct Inner {
    SharedRows x, z, cache;
  };
  Inner& inner(mesh::NodeId id) noexcept { return inner_[sharing_.reuses_memory ? 0 : id]; }
  kernels::MatrixView y_view(mesh::NodeId id, std::size_t row, std::size_t rows) noexcept {
    return y_[place_[id]].view(row, rows, graph_->nodes()[id].width);
  }

  std::unique_ptr<mesh::Graph> graph_;
  std::size_t tokens_, workspace_stride_;
  Sharing sharing_;
  kernels::CpuStream stream_{};
  mesh::NodeId head_input_ = 0;  // the node that the layer of the logits reads
  std::vector<bool> is_head_;    // by node: it makes the logits, or bounds them
  bool splits_head_ = false;
  std::vector<std::size_t> place_;  // by node: of its y in y_
  std::vector<SharedRows> y_;
  std::vector<Inner> inner_;    // of all nodes, or by node
  float* workspace_ = nullptr;  // a part of workspace_stride_ for each thread
  ZeroedPages memory_{};        // of all of these
};

}  // namespace weft::models::internal
