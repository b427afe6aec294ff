// SPDX-License-Identifier: Apache-2.0

#include "mesh/layers/dropout.hpp"

#include "mesh/network/option.hpp"
#include "mesh/network/option_reader.hpp"

#include "kernels/dropout.hpp"

#include <algorithm>
#include <array>

namespace weft::mesh {
namespace {

using kernels::ConstMatrixView;
using kernels::MatrixView;

template <class View>
View part(const View& view, std::size_t first, std::size_t count) {
  return {view.data ? view.data + first * view.stride : nullptr, count, view.cols, view.stride};
}

class Dropout final : public Layer {
 public:
  Dropout(const Shape& shape, double rate, std::array<std::uint32_t, 2> key)
      : Layer(shape, shape),
        threshold_(static_cast<std::uint32_t>(rate * 4294967296.0)),
        scale_(static_cast<float>(1.0 / (1.0 - rate))),
        key_(key) {}

  std::size_t cache_size() const noexcept override { return out(); }
  std::size_t state_size() const noexcept override { return kernels::kNoiseState; }
  StateErrors state_errors() const noexcept override { return StateErrors::none; }
  std::vector<std::size_t> noise_states() const override { return {0}; }
  bool has_training_mode() const noexcept override { return true; }

  void forward(kernels::OpStream& stream, const ForwardArgs& args) const override {
    const std::size_t training = std::min(args.training_rows, args.x.rows), rest = args.x.rows - training;
    if (training > 0) {
      const MatrixView mask = part(args.cache, 0, training);
      stream.dropout_mask(
          {key_, part(args.state, 0, training), part(args.next_state, 0, training), threshold_, scale_, mask});
      stream.binary({kernels::BinaryOp::mul, part(args.x, 0, training), mask, part(args.y, 0, training)});
    }
    if (rest > 0) {
      stream.copy({part(args.state, training, rest), part(args.next_state, training, rest)});
      stream.fill({1.0f, part(args.cache, training, rest)});
      stream.copy({part(args.x, training, rest), part(args.y, training, rest)});
    }
  }
  void backward(kernels::OpStream& stream, const BackwardArgs& args) const override {
    // The next state is this one, or one draw further; nothing else depends on it smoothly.
    if (args.dstate.data && args.dnext_state.data)
      stream.copy({args.dnext_state, args.dstate});
    else if (args.dstate.data)
      stream.fill({0.0f, args.dstate});
    if (args.dx.data) stream.binary({kernels::BinaryOp::mul, args.dy, args.cache, args.dx});
  }

 private:
  std::uint32_t threshold_;
  float scale_;
  std::array<std::uint32_t, 2> key_;
};

}  // namespace

LayerDeclaration declare_dropout() {
  return {"...",
          "...",
          {option::same_out(), option::number("rate", 0.5, 0, 0.999, "-", "probability of 0 while training")}};
}

Result<std::unique_ptr<Layer>> make_dropout(const Shape& in, std::size_t out, OptionReader& options) {
  WEFT_TRY(const Shape shape, same_shape(options.object(), "dropout", in, out));
  WEFT_TRY(const double rate, options.number("rate"));
  return std::unique_ptr<Layer>(new Dropout(shape, rate, options.noise_key()));
}

}  // namespace weft::mesh
