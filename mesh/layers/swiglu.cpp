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
  SwiGlu(const Shape& in, std::size_t hidden, std::size_t out, Activation gate, float norm_epsilon,
         std::vector<ParameterSpec> parameters)
      : Layer(in, with_features(in, out)),
        tokens_(in),
        hidden_(hidden),
        gate_(gate),
        norm_epsilon_(norm_epsilon),
        parameters_(std::move(parameters)) {}

  const std::vector<ParameterSpec>& parameters() const noexcept override { return parameters_; }
  std::size_t cache_size() const noexcept override {
    return tokens_.count() * (kernels::kGatedBlocks * hidden_ + (has_norm() ? hidden_ + 1 : 0));
  }
  // The two branches' gradients, and what the second sends to the input.
  std::size_t scratch_size() const noexcept override { return tokens_.count() * 2 * hidden_ + in(); }
  double multiply_adds() const noexcept override {
    return static_cast<double>(hidden_) * (2 * static_cast<double>(in()) + static_cast<double>(out()));
  }

  void forward(kernels::OpStream& stream, const ForwardArgs& args) const override {
    if (has_norm()) return forward_normed(stream, args);
    tokens_.each(args, [&](const ForwardArgs& own) { forward_tokens(stream, own); });
  }
  void backward(kernels::OpStream& stream, const BackwardArgs& args) const override {
    if (has_norm()) return backward_normed(stream, args);
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
    const MatrixView d_gate = block(args.scratch, 0);
    add_gradients(stream, args, kDown, args.dy, product(args.cache));
    stream.linear_transposed({args.weights.matrix(kDown), args.dy, d_gate});
    backward_branches(stream, args);
  }
  /// From the product's gradient, which stands in block 0 of the scratch, on.
  void backward_branches(kernels::OpStream& stream, const BackwardArgs& args) const {
    const MatrixView d_gate = block(args.scratch, 0), d_up = block(args.scratch, 1);
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
  bool has_norm() const noexcept { return norm_epsilon_ > 0; }
  bool has_bias() const noexcept { return parameters_.size() >= 2 * kSwigluMatrices; }
  std::size_t inner_gain() const noexcept { return parameters_.size() - 1; }

  /// The tokens of one session: what the gated unit leaves, the normed product, and the norm's numbers.
  template <class View>
  View gated_of(const View& cache, std::size_t b) const noexcept {
    const std::size_t width = kernels::kGatedBlocks * hidden_;
    return {cache.row(b), tokens_.count(), width, width};
  }
  template <class View>
  View normed_of(const View& cache, std::size_t b) const noexcept {
    return {cache.row(b) + tokens_.count() * kernels::kGatedBlocks * hidden_, tokens_.count(), hidden_, hidden_};
  }
  template <class View>
  auto numbers_of(const View& cache, std::size_t b) const noexcept {
    return cache.row(b) + tokens_.count() * (kernels::kGatedBlocks + 1) * hidden_;
  }
  /// The tokens of session b; a view without data stays one.
  template <class View>
  View tokens_of(const View& rows, std::size_t b) const noexcept {
    const std::size_t width = rows.cols / tokens_.count();
    return {rows.data ? rows.row(b) : nullptr, tokens_.count(), width, width};
  }

  void forward_normed(kernels::OpStream& stream, const ForwardArgs& args) const {
    const auto bias = [&](std::size_t i) { return has_bias() ? args.weights.vector(kSwigluMatrices + i) : nullptr; };
    for (std::size_t b = 0; b < args.y.rows; ++b) {
      const MatrixView gated = gated_of(args.cache, b), normed = normed_of(args.cache, b);
      stream.gated_linear({{args.weights.matrix(kGate), args.weights.matrix(kUp), bias(kGate), bias(kUp)},
                           tokens_of(args.x, b),
                           gate_,
                           gated});
      stream.rms_norm(
          {product(gated), args.weights.vector(inner_gain()), norm_epsilon_, normed, numbers_of(args.cache, b)});
      stream.linear({args.weights.matrix(kDown), bias(kDown), normed, Activation::linear, {}, tokens_of(args.y, b)});
    }
  }
  void backward_normed(kernels::OpStream& stream, const BackwardArgs& args) const {
    for (std::size_t b = 0; b < args.dy.rows; ++b) {
      BackwardArgs own = args;
      own.x = tokens_of(args.x, b), own.dy = tokens_of(args.dy, b), own.dx = tokens_of(args.dx, b);
      own.cache = gated_of(args.cache, b), own.scratch = tokens_of(args.scratch, b);
      const MatrixView d = block(own.scratch, 0);
      add_gradients(stream, own, kDown, own.dy, normed_of(args.cache, b));
      stream.linear_transposed({args.weights.matrix(kDown), own.dy, d});
      stream.rms_norm_backward({product(own.cache), args.weights.vector(inner_gain()), numbers_of(args.cache, b), d, d,
                                args.gradients.data ? args.gradients[inner_gain()] : nullptr});
      backward_branches(stream, own);
    }
  }
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
  float norm_epsilon_;  // 0: no norm
  std::vector<ParameterSpec> parameters_;
};

}  // namespace

LayerDeclaration declare_swiglu() {
  return {"..., in",
          "..., out",
          {option::out(option::computed("the input's width"), "values", "width of the output"),
           option::whole("hidden", 0, 0, 16777216, "values",
                         "width between; 0: 8/3 of the input's width, up to the next multiple of 16"),
           option::choice("gate", "silu", {"silu", "gelu", "relu2", "gelu_tanh"},
                          "SwiGLU, GeGLU (by erf, or by tanh) or the gate relu2"),
           option::choice("inner_norm", "none", {"none", "rms"},
                          "norm of the gated product, with learned gains, before W_down"),
           option::only_with("inner_norm=rms", option::number("epsilon", 1e-5, 1e-12, 1, "-", "of that norm")),
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
  parameters.push_back({"gate", hidden, width, true, branch, LinearMap{0}});
  parameters.push_back({"up", hidden, width, true, std::move(branch), LinearMap{0}});
  parameters.push_back({"down", out, hidden, true, std::move(down), LinearMap{1}});
  for (std::size_t i = 0; i < kSwigluMatrices && has_bias; ++i)
    parameters.push_back({parameters[i].name + "_bias", parameters[i].out, 0, false, constant(0.0f)});
  WEFT_TRY(const std::string norm, options.text("inner_norm"));
  double epsilon = 0;
  if (norm == "rms") {
    WEFT_TRY(epsilon, options.number("epsilon"));
    parameters.push_back({"inner_gain", hidden, 0, false, constant(1.0f)});
  }
  return std::unique_ptr<Layer>(new SwiGlu(in, hidden, out, *kernels::parse_activation(gate),
                                           static_cast<float>(epsilon), std::move(parameters)));
}

}  // namespace weft::mesh
