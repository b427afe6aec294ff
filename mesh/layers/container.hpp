// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/layers/inner_fault.hpp"
#include "mesh/layers/tokenwise_state.hpp"
#include "mesh/network/layer.hpp"
#include "mesh/network/option_reader.hpp"
#include "mesh/network/source_combine.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace weft::mesh {

class Container;

/// Faults of layers inside a container: the layer that one began in, and the layer that answers for it.
class ContainerFaults {
 public:
  explicit ContainerFaults(const Container& of) noexcept : of_(of) {}

  /// True when a layer inside states a policy, at any depth.
  bool has_policies() const noexcept;
  /// The same of `restart` alone.
  bool may_restart() const noexcept;
  /// The layer that answers for a fault there: the innermost one on the way that states a policy. None: the container.
  std::optional<SupervisedLayer> supervised(std::span<const std::uint32_t> path) const;
  /// The same for the layer that has a parameter of the container's own.
  std::optional<SupervisedLayer> supervised_with(std::size_t parameter) const;
  /// Values that a firing left in one row.
  struct RowValues {
    const float *y, *cache, *state;
  };
  /// Adds the layers inside at which values of a row begin to be not finite: their output or their hidden state is not,
  /// and what they read of layers before them is. Values that nobody read, such as those of an expert of weight 0, do
  /// not count.
  void find(const RowValues& row, std::vector<InnerPath>& to) const;
  /// Passes the exception that is handled on as one of a step.
  [[noreturn]] void pass_on(std::size_t step) const;

 private:
  /// The step as a container of which some layer answers for itself; else null.
  const Container* inside(std::size_t step) const noexcept;
  std::optional<SupervisedLayer> answering(std::size_t step, std::optional<SupervisedLayer> inside) const;
  /// False: a source of the step has no part in what the step makes of this row.
  bool reads(std::size_t step, std::size_t source, const RowValues& row) const noexcept;

  const Container& of_;
};

/// Deepest nesting of containers: 16.
inline constexpr unsigned kMaxContainerDepth = 16;

/// Layers that compute one after the other within one tick: what sequential and parallel are made of. Each step reads
/// the container's input or earlier steps, so nothing can go round in a circle inside a tick. Inner values, caches and
/// combined inputs lie in the container's cache, inner hidden states one after the other in its state.
/// A step's own words about the storage and learning of its weights hold for them; the rest is the container's.
/// Errors come back step by step, last first; where a value has several readers their errors add, the last reader's
/// first.
/// @thread const calls from any thread
class Container : public Layer, public TokenwiseState {
 public:
  static constexpr std::int32_t kInput = -1;  // as a source: what the container reads

  const std::vector<ParameterSpec>& parameters() const noexcept final { return parameters_; }
  std::size_t cache_size() const noexcept final { return cache_size_; }
  std::size_t scratch_size() const noexcept final { return scratch_size_; }
  std::size_t state_size() const noexcept final { return state_size_; }
  bool learns_forward() const noexcept final;
  StateErrors state_errors() const noexcept final;
  bool updates_state_in_place() const noexcept final;
  bool is_tokenwise() const noexcept final;
  void cut(kernels::OpStream& stream, std::size_t tokens, float* state) const final;
  std::size_t saved_size(std::size_t tokens) const noexcept final;
  void save(const float* state, std::size_t first, std::size_t tokens, float* to) const noexcept final;
  void load(const float* from, std::size_t first, std::size_t tokens, float* state) const noexcept final;
  void add_places(std::size_t first, std::size_t tokens, std::size_t offset, std::vector<StatePlace>& to) const final;
  std::size_t workspace_size() const noexcept final { return workspace_size_; }
  std::size_t vocabulary_size() const noexcept final { return vocabulary_size_; }
  double multiply_adds() const noexcept final;
  std::uint64_t weight_bytes_touched(const Encoding& encoding, std::size_t rows) const noexcept final;
  std::vector<std::size_t> noise_states() const final;
  bool has_training_mode() const noexcept final;
  bool takes_samples() const noexcept final;
  bool counts_ticks() const noexcept final;
  std::span<const Coord> tied_to() const noexcept final { return tied_to_; }
  std::span<const WeightSlot> weight_slots() const noexcept final {
    return tied_to_.empty() ? std::span<const WeightSlot>() : slots_;
  }

  void forward(kernels::OpStream& stream, const ForwardArgs& args) const final;
  void backward(kernels::OpStream& stream, const BackwardArgs& args) const final;

  /// One layer inside.
  struct Step {
    std::shared_ptr<const Layer> layer;
    std::vector<std::int32_t> sources;
    Combine combine = Combine::concat;
    std::string name;                        // where it stands in the container, and how its parameters' names begin
    std::optional<Coord> owner;              // it computes with the weights of the layer there
    OwnStorage own;                          // of its weights
    std::optional<actors::Policy> policy{};  // of its faults; none: the container's
  };

  /// The output of a layer inside, of those of containers inside too.
  struct Inner {
    std::string name;       // where it stands: "layers[2]", in a container inside "layers[2].layers[0]"
    bool is_last = false;   // its output is the container's
    std::size_t place = 0;  // else: of its first value in a row of the container's cache
    std::size_t width = 0;
  };
  /// All of them, in the order in which they compute.
  std::vector<Inner> inner() const;

  /// True when a layer inside states a policy, at any depth. Exceptions of layers inside are InnerFaults then, and
  /// ContainerFaults finds who answers.
  bool has_policies() const noexcept { return has_policies_; }

  /// Builds steps from descriptions, one by one. The last step's output is the container's.
  class Builder {
   public:
    Builder(const Shape& in, OptionReader& options) : in_(in), options_(options) {}
    /// The layer `spec` describes, reading `from` when it names no sources itself. `key`: where it stands in the
    /// container, such as "layers[2]".
    Result<std::int32_t> add(const LayerSpec& spec, const std::string& key, std::vector<std::int32_t> from);
    /// A layer made by the container itself.
    Result<std::int32_t> add(std::unique_ptr<Layer> layer, const std::string& key, std::vector<std::int32_t> from,
                             Combine combine);
    /// `merge` weighs what `experts` make by the output of `gate`, of each token `top_k` of them, 0: all. Where values
    /// are at hand, the others are not computed. Says so before `finish`.
    void choose(std::int32_t gate, std::vector<std::int32_t> experts, std::int32_t merge, std::size_t top_k);
    const Shape& shape_of(std::int32_t step) const noexcept;
    /// The shape that sources make together.
    Result<Shape> joined(Combine combine, std::span<const std::int32_t> sources, const std::string& key) const;
    Result<std::unique_ptr<Layer>> finish();

   private:
    friend class Container;
    struct Choice {
      std::int32_t gate = 0, merge = 0;
      std::vector<std::int32_t> experts;
      std::size_t top_k = 0;
    };
    Result<std::vector<std::int32_t>> sources_of(const LayerSpec& spec, const std::string& key,
                                                 std::vector<std::int32_t> otherwise) const;
    Result<std::shared_ptr<const Layer>> make(const LayerSpec& spec, const Shape& in, const std::string& key);
    std::string object_of(const std::string& key) const { return options_.object() + "." + key; }

    Shape in_;
    OptionReader& options_;
    std::vector<Step> steps_;
    std::vector<std::string> names_;  // of steps that siblings may name
    std::optional<Choice> choice_;
  };

 private:
  /// Columns of a row of cache, scratch or state.
  struct Columns {
    std::size_t offset = 0, width = 0;
  };
  struct Place {
    Junction junction;
    std::vector<SourcePlace> sources;
    Columns y, x, z, cache, state;                    // x: width 0 where one source is read as it stands
    Columns dy;                                       // in scratch
    std::vector<bool> is_first;                       // by source: no later step has sent an error to it
    std::size_t slot = 0;                             // of its first parameter
    std::size_t first_parameter = 0, parameters = 0;  // of its own, among the container's
    std::int32_t expert = -1;                         // its number in the gate's output, where it may be left out
  };
  /// Experts of which some are chosen.
  struct Mixture {
    std::size_t gate = 0, merge = 0;  // the steps that give their shares, and weigh them
    std::size_t experts = 0, top_k = 0;
  };

  friend class ContainerFaults;
  explicit Container(Builder&& builder);
  void place_values();
  void place_experts(const Builder::Choice& choice);
  void place_parameters();
  /// Exceptions are passed on as those of the step.
  template <class Compute>
  void as_step(std::size_t step, const Compute& compute) const {
    if (!has_policies_) return compute();
    try {
      compute();
    } catch (...) {
      ContainerFaults(*this).pass_on(step);
    }
  }
  template <class Visit>
  void for_states(const Visit& visit) const;

  template <class View>
  static View part(const View& rows, const Columns& columns) noexcept {
    if (!rows.data || columns.width == 0) return {};
    return {rows.data + columns.offset, rows.rows, columns.width, rows.stride};
  }
  bool is_last(std::size_t step) const noexcept { return step + 1 == steps_.size(); }
  /// Value of a source: the container's x, or an earlier step's y.
  kernels::ConstMatrixView value(std::int32_t source, const kernels::ConstMatrixView& x,
                                 const kernels::ConstMatrixView& cache) const noexcept {
    return source == kInput ? x : part(cache, places_[static_cast<std::size_t>(source)].y);
  }
  kernels::ConstMatrixView input_of(std::size_t step, const kernels::ConstMatrixView& x,
                                    const kernels::ConstMatrixView& cache) const noexcept;
  void forward_step(kernels::OpStream& stream, const ForwardArgs& args, std::size_t step) const;
  /// `chosen`: words of experts, of which those with 0 may be skipped; without data: none may.
  void backward_step(kernels::OpStream& stream, const BackwardArgs& args, std::size_t step,
                     const kernels::MatrixView& chosen) const;
  /// A step's own part of a row's work, at most 1: an expert that is not always chosen has less.
  double part_of(std::size_t step, std::size_t rows) const noexcept;
  /// Calls visit(first, count, is_chosen) for rows that follow each other, of which an expert is chosen or is not.
  template <class Visit>
  void each_run(std::size_t step, const kernels::ConstMatrixView& cache, const Visit& visit) const;
  /// Words of experts, 0 of those that no row chose, as operations of a stream that does not compute at once.
  void mark_chosen(kernels::OpStream& stream, const kernels::ConstMatrixView& cache,
                   const kernels::MatrixView& words) const;
  /// True where a stream that does not compute at once may leave experts out: of so few rows that some may be chosen by
  /// none.
  bool may_skip(const kernels::OpStream& stream, std::size_t rows) const noexcept;
  bool leaves_out(std::size_t step, const kernels::OpStream& stream) const noexcept {
    return places_[step].expert >= 0 && stream.computes_at_once();
  }
  void send(kernels::OpStream& stream, const BackwardArgs& args, std::size_t step, const kernels::ConstMatrixView& x,
            const kernels::MatrixView& dx) const;

  std::vector<Step> steps_;
  std::vector<Place> places_;
  std::vector<ParameterSpec> parameters_;
  std::vector<Coord> tied_to_;
  std::vector<WeightSlot> slots_;
  std::vector<std::size_t> order_;  // of forward: experts come behind their gate
  Mixture mixture_;
  bool has_policies_ = false;
  std::size_t cache_size_ = 0, scratch_size_ = 0, state_size_ = 0, workspace_size_ = 0, vocabulary_size_ = 0;
  Columns dx_, split_, gate_, inner_scratch_;  // in scratch
  Columns chosen_, chosen_then_;               // of the first row: mark_chosen in the cache; in scratch, of backward
};

}  // namespace weft::mesh
