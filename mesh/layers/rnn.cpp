// SPDX-License-Identifier: Apache-2.0

#include "mesh/layers/rnn.hpp"

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

class Rnn final : public Recurrent {
 public:
  Rnn(Sizes sizes, Activation activation) : Recurrent(std::move(sizes)), activation_(activation) {}

 protected:
  void step(kernels::OpStream& stream, const ForwardArgs& args, const MatrixView& a,
            const MatrixView& b) const override {
    stream.binary({BinaryOp::add, a, b, args.y});
    stream.unary({activation_, args.y, args.y});
    stream.copy({args.y, args.next_state});
  }
  void step_back(kernels::OpStream& stream, const BackwardArgs& args, const ConstMatrixView&, const ConstMatrixView&,
                 const MatrixView& da, const MatrixView&) const override {
    stream.unary_backward({activation_, {}, args.y, args.dy, da});
  }

 private:
  Activation activation_;
};

}  // namespace

LayerDeclaration declare_rnn() {
  return {"in | tokens, in", "out | tokens, out",
          recurrent_options("width of h and of the output",
                            {option::choice("activation", "tanh", {"tanh", "relu"}, "of the two sums")})};
}

Result<std::unique_ptr<Layer>> make_rnn(const Shape& in, std::size_t out, OptionReader& options) {
  WEFT_TRY(const std::string text, options.text("activation"));
  WEFT_TRY(auto sizes, Rnn::read_sizes("rnn", in, out, 1, 1, options));
  return std::unique_ptr<Layer>(new Rnn(std::move(sizes), text == "tanh" ? Activation::tanh : Activation::relu));
}

}  // namespace weft::mesh
