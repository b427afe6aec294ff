// SPDX-License-Identifier: Apache-2.0

#include "mesh/layers/swiglu.hpp"

#include "mesh/layers/init.hpp"
#include "mesh/layers/tokens.hpp"
#include "mesh/network/option.hpp"
#include "mesh/network/option_reader.hpp"

#include <string>
#include <utility>

namespace weft::mesh {
namespace {

using kernels::Activation;
using kernels::BinaryOp;
using kernels::ConstMatrixView;
using kernels::MatrixView;

constexpr std::size_t kGate = 0, kUp = 1, kDown = 2, kSwigluMatrices = 3;

class SwiGlu final : public Layer {
 public:
  SwiGlu(const Shape& in, std::size_t hidden, std::size_t out, Activation gate, std::vector<ParameterSpec> parameters)
      : Layer(in, with_features(in, out)),
        tokens_(in),
        hidden_(hidden),
        gate_(gate),
        parameters_(std::move(parameters)) {}

  const std::vector<ParameterSpec>& parameters() const noexcept override { return parameters_; }
  std::size_t cache_size() const noexcept override { return tokens_.count() * kernels::kGatedBlocks * hidden_; }
  // The two branches' gradients, and what the second sends to the input.
  std::size_t scratch_size() const noexcept override { return tokens_.count() * 2 * hidden_ + in(); }
  double multiply_adds() const noexcept override {
    return static_cast<double>(hidden_) * (2 * static_cast<double>(in()) + static_cast<double>(out()));
  }

  void forward(kernels::OpStream& stream, const ForwardArgs& args) const override {
    tokens_.each(args, [&](const ForwardArgs& own) { forward_tokens(stream, own); });
  }
  void backward(kernels::OpStream& stream, const BackwardArgs& args) const override {
    tokens_.each(args, [&](const BackwardArgs& own) { backward_tokens(stream, own); });
  }

 private:
  void forward_tokens(kernels::OpStream& stream, const ForwardArgs& args) const {
    const auto bias = [&](std::size_t i) { return has_bias() ? args.weights.vector(kSwigluMatrices + i) : nullptr; };
    stream.gated_linear({{args.weights.matrix(kGate), args.weights.matrix(kUp), bias(kGate), bias(kUp)},
                         args.x,
                         gate_,
                         values(args.cache)});
    stream.linear({args.weights.matrix(kDown), bias(kDown), product(args.cache), Activation::linear, {}, args.y});
  }

  void backward_tokens(kernels::OpStream& stream, const BackwardArgs& args) const {
    const MatrixView d_gate = block(args.scratch, 0), d_up = block(args.scratch, 1);
    add_gradients(stream, args, kDown, args.dy, product(args.cache));
    stream.linear_transposed({args.weights.matrix(kDown), args.dy, d_gate});
    stream.gated_backward({gate_, values(args.cache), d_gate, d_gate, d_up});
    add_gradients(stream, args, kGate, d_gate, args.x);
    add_gradients(stream, args, kUp, d_up, args.x);
    if (!args.dx.data) return;
    const MatrixView through_up{args.scratch.data + 2 * hidden_, args.scratch.rows, in_shape().back(),
                                args.scratch.stride};
    stream.linear_transposed({args.weights.matrix(kGate), d_gate, args.dx});
    stream.linear_transposed({args.weights.matrix(kUp), d_up, through_up});
    stream.binary({BinaryOp::add, args.dx, through_up, args.dx});
  }
  bool has_bias() const noexcept { return parameters_.size() > kSwigluMatrices; }
  template <class View>
  View values(const View& cache) const noexcept {
    return {cache.data, cache.rows, kernels::kGatedBlocks * hidden_, cache.stride};
  }
  template <class View>
  View product(const View& cache) const noexcept {
    return kernels::gated_block(values(cache), kernels::GatedBlock::product);
  }
  template <class View>
  View block(const View& rows, std::size_t i) const noexcept {
    return {rows.data + i * hidden_, rows.rows, hidden_, rows.stride};
  }
  void add_gradients(kernels::OpStream& stream, const BackwardArgs& args, std::size_t i, const ConstMatrixView& d,
                     const ConstMatrixView& x) const {
    if (!args.gradients.data) return;
    stream.outer_accumulate({d, x, {args.gradients[i], d.cols, x.cols}});
    if (has_bias()) stream.column_accumulate({d, args.gradients[kSwigluMatrices + i]});
  }

  Tokens tokens_;
  std::size_t hidden_;
  Activation gate_;
  std::vector<ParameterSpec> parameters_;
};

}  // namespace

LayerDeclaration declare_swiglu() {
  return {"..., in",
          "..., out",
          {option::out(option::computed("the input's width"), "values", "width of the output"),
           option::whole("hidden", 0, 0, 16777216, "values",
                         "width between; 0: 8/3 of the input's width, up to the next multiple of 16"),
           option::choice("gate", "silu", {"silu", "gelu", "relu2"}, "SwiGLU, GeGLU (by erf) or the gate relu2"),
           option::flag("bias", false, "whether the three biases exist; they start at 0"), option::init("xavier")}};
}

Result<std::unique_ptr<Layer>> make_swiglu(const Shape& in, std::size_t out, OptionReader& options) {
  const std::string& object = options.object();
  const std::size_t width = in.back();
  if (out == 0) out = width;
  WEFT_TRY(const std::size_t asked, options.integer("hidden"));
  const std::size_t hidden = asked > 0 ? asked : (8 * width + 47) / 48 * 16;
  WEFT_TRY(const std::string gate, options.text("gate"));
  WEFT_TRY(const bool has_bias, options.boolean("bias"));
  WEFT_TRY(const std::string init, options.text("init"));
  WEFT_TRY(auto branch, make_initializer(init, width, hidden, object));
  WEFT_TRY(auto down, make_initializer(init, hidden, out, object));
  std::vector<ParameterSpec> parameters;
  parameters.push_back({"gate", hidden, width, true, branch});
  parameters.push_back({"up", hidden, width, true, std::move(branch)});
  parameters.push_back({"down", out, hidden, true, std::move(down)});
  for (std::size_t i = 0; i < kSwigluMatrices && has_bias; ++i)
    parameters.push_back({parameters[i].name + "_bias", parameters[i].out, 0, false, constant(0.0f)});
  return std::unique_ptr<Layer>(new SwiGlu(in, hidden, out, *kernels::parse_activation(gate), std::move(parameters)));
}

}  // namespace weft::mesh
