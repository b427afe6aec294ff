// SPDX-License-Identifier: Apache-2.0

#include "mesh/layers/position_embedding.hpp"

#include "mesh/layers/init.hpp"
#include "mesh/layers/tokenwise_state.hpp"
#include "mesh/network/option.hpp"
#include "mesh/network/option_reader.hpp"

#include "kernels/embedding.hpp"

#include <string>
#include <utility>

namespace weft::mesh {
namespace {

using kernels::BinaryOp;
using kernels::ConstMatrixView;
using kernels::MatrixView;

class PositionEmbedding final : public Layer, public TokenwiseState {
 public:
  PositionEmbedding(const Shape& shape, std::size_t tokens, std::size_t positions, bool is_stateful, Initializer init)
      : Layer(shape, shape), tokens_(tokens), is_stateful_(is_stateful) {
    parameters_.push_back({"table", shape.back(), positions, true, std::move(init)});
  }

  const std::vector<ParameterSpec>& parameters() const noexcept override { return parameters_; }
  std::size_t state_size() const noexcept override { return is_stateful_ ? 1 : 0; }
  StateErrors state_errors() const noexcept override { return StateErrors::none; }
  bool updates_state_in_place() const noexcept override { return true; }
  void cut(kernels::OpStream& stream, std::size_t tokens, float* state) const override {
    if (is_stateful_) stream.fill({static_cast<float>(tokens), {state, 1, 1, 1}});
  }
  std::size_t saved_size(std::size_t) const noexcept override { return 0; }
  void add_places(std::size_t, std::size_t, std::size_t offset, std::vector<StatePlace>& to) const override {
    to.push_back({offset, state_size()});
  }
  void save(const float*, std::size_t, std::size_t, float*) const noexcept override {}
  void load(const float*, std::size_t, std::size_t, float*) const noexcept override {}
  // The tokens' positions, then how many tokens there are, and their entries.
  std::size_t cache_size() const noexcept override { return tokens_ + 1 + out(); }

  void forward(kernels::OpStream& stream, const ForwardArgs& args) const override {
    for (std::size_t t = 0; t <= tokens_; ++t) {
      const MatrixView position = columns(args.cache, t, 1);
      stream.fill({static_cast<float>(t), position});
      if (is_stateful_ && t < tokens_) stream.binary({BinaryOp::add, position, args.state, position});
    }
    if (is_stateful_) stream.binary({BinaryOp::add, columns(args.cache, tokens_, 1), args.state, args.next_state});
    const MatrixView entries = columns(args.cache, tokens_ + 1, out());
    stream.embedding({args.weights.matrix(0), columns(args.cache, 0, tokens_), entries});
    stream.binary({BinaryOp::add, args.x, entries, args.y});
  }
  void backward(kernels::OpStream& stream, const BackwardArgs& args) const override {
    if (args.gradients.data)
      stream.embedding_backward({columns(args.cache, 0, tokens_),
                                 args.dy,
                                 kernels::kNoColumn,
                                 {args.gradients[0], parameters_[0].out, parameters_[0].in}});
    if (args.dx.data) stream.copy({args.dy, args.dx});
    if (!args.dstate.data) return;
    // The next count is this one and a number.
    if (args.dnext_state.data)
      stream.copy({args.dnext_state, args.dstate});
    else
      stream.fill({0.0f, args.dstate});
  }

 private:
  template <class View>
  static View columns(const View& view, std::size_t first, std::size_t count) noexcept {
    return {view.data + first, view.rows, count, view.stride};
  }

  std::size_t tokens_;
  bool is_stateful_;
  std::vector<ParameterSpec> parameters_;
};

}  // namespace

LayerDeclaration declare_position_embedding() {
  return {"in | tokens, in",
          "in | tokens, in",
          {option::same_out(), option::whole("positions", option::needed(), 1, 16777216, "-", "entries of the table"),
           option::flag("stateful", false, "whether a tick goes on where the last one ended; else it begins at 0"),
           option::init("normal", "how the table begins, with a fan-in of 1")}};
}

Result<std::unique_ptr<Layer>> make_position_embedding(const Shape& in, std::size_t out, OptionReader& options) {
  const std::string& object = options.object();
  WEFT_TRY(const Shape shape, same_shape(object, "position_embedding", in, out));
  if (shape.size() > 2)
    return fail(Errc::shape_mismatch,
                object + ": position_embedding takes [features] or [tokens, features], not " + weft::to_string(in));
  const std::size_t tokens = shape.size() == 2 ? shape.front() : 1;
  WEFT_TRY(const std::size_t positions, options.integer("positions"));
  if (tokens > positions)
    return fail(Errc::shape_mismatch, object + ".positions: " + std::to_string(positions) + " are less than the " +
                                          std::to_string(tokens) + " tokens of an input");
  WEFT_TRY(const bool is_stateful, options.boolean("stateful"));
  WEFT_TRY(const std::string kind, options.text("init"));
  WEFT_TRY(auto init, make_initializer(kind, 1, shape.back(), object));
  return std::unique_ptr<Layer>(new PositionEmbedding(shape, tokens, positions, is_stateful, std::move(init)));
}

}  // namespace weft::mesh
