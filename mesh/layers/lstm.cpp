// SPDX-License-Identifier: Apache-2.0

#include "mesh/layers/lstm.hpp"

#include "mesh/layers/recurrent.hpp"
#include "mesh/network/option.hpp"
#include "mesh/network/option_reader.hpp"

#include <utility>

namespace weft::mesh {
namespace {

using kernels::Activation;
using kernels::BinaryOp;
using kernels::ConstMatrixView;
using kernels::MatrixView;

// Blocks of the gates, and of the state.
constexpr std::size_t kI = 0, kF = 1, kG = 2, kO = 3, kLstmGates = 4;
constexpr std::size_t kH = 0, kC = 1, kStates = 2;

class Lstm final : public Recurrent {
 public:
  explicit Lstm(Sizes sizes) : Recurrent(std::move(sizes)) {}

 protected:
  void step(kernels::OpStream& stream, const ForwardArgs& args, const MatrixView& a,
            const MatrixView& b) const override {
    stream.binary({BinaryOp::add, a, b, a});
    stream.unary({Activation::sigmoid, blocks(a, kI, 2), blocks(a, kI, 2)});
    stream.unary({Activation::tanh, blocks(a, kG), blocks(a, kG)});
    stream.unary({Activation::sigmoid, blocks(a, kO), blocks(a, kO)});
    const MatrixView c = blocks(args.next_state, kC), tanh_c = blocks(b, 0);
    stream.binary({BinaryOp::mul, blocks(a, kI), blocks(a, kG), tanh_c});
    stream.binary({BinaryOp::mul, blocks(a, kF), blocks(args.state, kC), c});
    stream.binary({BinaryOp::add, c, tanh_c, c});
    stream.unary({Activation::tanh, c, tanh_c});
    stream.binary({BinaryOp::mul, blocks(a, kO), tanh_c, args.y});
    stream.copy({args.y, blocks(args.next_state, kH)});
  }

  void step_back(kernels::OpStream& stream, const BackwardArgs& args, const ConstMatrixView& a,
                 const ConstMatrixView& b, const MatrixView& da, const MatrixView&) const override {
    const ConstMatrixView tanh_c = blocks(b, 0);
    stream.binary({BinaryOp::mul, args.dy, tanh_c, blocks(da, kO)});
    // From here on dy is the gradient of c'.
    stream.binary({BinaryOp::mul, args.dy, blocks(a, kO), args.dy});
    stream.unary_backward({Activation::tanh, {}, tanh_c, args.dy, args.dy});
    if (args.dnext_state.data) stream.binary({BinaryOp::add, args.dy, blocks(args.dnext_state, kC), args.dy});
    stream.binary({BinaryOp::mul, args.dy, blocks(a, kG), blocks(da, kI)});
    stream.binary({BinaryOp::mul, args.dy, blocks(args.state, kC), blocks(da, kF)});
    stream.binary({BinaryOp::mul, args.dy, blocks(a, kI), blocks(da, kG)});
    if (args.dstate.data) stream.binary({BinaryOp::mul, args.dy, blocks(a, kF), blocks(args.dstate, kC)});
    backward_of(stream, Activation::sigmoid, blocks(a, kI, 2), blocks(da, kI, 2));
    backward_of(stream, Activation::tanh, blocks(a, kG), blocks(da, kG));
    backward_of(stream, Activation::sigmoid, blocks(a, kO), blocks(da, kO));
  }

  // c' = f c + i g, h' = o tanh(c'): f of the past, and by each gate what step_back has of an error of 1.
  void find_factors(kernels::OpStream& stream, const ConstMatrixView& state, const ConstMatrixView& a,
                    const ConstMatrixView& b, const RecurrentTraces::Factors& to) const override {
    const ConstMatrixView tanh_c = blocks(b, 0);
    const MatrixView& dc = to.inner_x;
    stream.copy({blocks(a, kF), to.keep});
    stream.unary_backward({Activation::tanh, {}, tanh_c, blocks(a, kO), to.through});
    stream.copy({blocks(a, kG), blocks(dc, kI)});
    stream.copy({blocks(state, kC), blocks(dc, kF)});
    backward_of(stream, Activation::sigmoid, blocks(a, kI, 2), blocks(dc, kI, 2));
    stream.unary_backward({Activation::tanh, {}, blocks(a, kG), blocks(a, kI), blocks(dc, kG)});
    stream.fill({0.0f, blocks(dc, kO)});
    stream.copy({dc, to.inner_h});
    stream.fill({0.0f, blocks(to.outer, kI, 3)});
    stream.unary_backward({Activation::sigmoid, {}, blocks(a, kO), tanh_c, blocks(to.outer, kO)});
  }
};

}  // namespace

LayerDeclaration declare_lstm() {
  return {"in | tokens, in", "out | tokens, out",
          recurrent_options("width of h, of c and of the output", {through_time_option()})};
}

Result<std::unique_ptr<Layer>> make_lstm(const Shape& in, std::size_t out, OptionReader& options) {
  WEFT_TRY(auto sizes, Lstm::read_sizes("lstm", in, out, kLstmGates, kStates, options));
  WEFT_TRY(sizes.through_time, read_through_time(sizes, options));
  return std::unique_ptr<Layer>(new Lstm(std::move(sizes)));
}

}  // namespace weft::mesh
