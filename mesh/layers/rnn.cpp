// SPDX-License-Identifier: Apache-2.0

#include "mesh/layers/rnn.hpp"

#include "mesh/layers/recurrent.hpp"

#include <utility>

namespace weft::mesh {
namespace {

using kernels::Activation;
using kernels::BinaryOp;
using kernels::ConstRows;
using kernels::Rows;

class Rnn final : public Recurrent {
 public:
  static Result<std::unique_ptr<Layer>> make(std::size_t in, std::size_t hidden, Activation activation,
                                             const Filling& filling, std::string_view object) {
    const Sizes sizes{in, hidden, 1, 1};
    WEFT_TRY(auto parameters, make_parameters(sizes, filling, object));
    return std::unique_ptr<Layer>(new Rnn(sizes, activation, std::move(parameters)));
  }

 protected:
  void step(kernels::OpStream& stream, const ForwardArgs& args, const Rows& a, const Rows& b) const override {
    stream.binary(BinaryOp::add, a, b, args.y);
    stream.unary(activation_, args.y, args.y);
    stream.copy(args.y, args.next_state);
  }
  void step_back(kernels::OpStream& stream, const BackwardArgs& args, const ConstRows&, const ConstRows&,
                 const Rows& da, const Rows&) const override {
    stream.unary_backward(activation_, {}, args.y, args.dy, da);
  }

 private:
  Rnn(const Sizes& sizes, Activation activation, std::vector<ParameterSpec> parameters)
      : Recurrent(sizes, std::move(parameters)), activation_(activation) {}

  Activation activation_;
};

}  // namespace

Result<std::unique_ptr<Layer>> make_rnn(const Shape& in, std::size_t out, OptionReader& options) {
  WEFT_TRY(const std::size_t width, vector_width(options.object(), "rnn", in));
  WEFT_TRY(const std::string text, options.text("activation", "tanh"));
  if (text != "tanh" && text != "relu")
    return fail(Errc::unknown_name,
                options.object() + ".activation: an rnn has no activation '" + text + "'; known are tanh, relu");
  WEFT_TRY(const bool has_bias, options.boolean("bias", true));
  WEFT_TRY(std::string init, options.text("init", "uniform"));
  return Rnn::make(width, out ? out : width, text == "tanh" ? Activation::tanh : Activation::relu,
                   {has_bias, std::move(init)}, options.object());
}

}  // namespace weft::mesh
