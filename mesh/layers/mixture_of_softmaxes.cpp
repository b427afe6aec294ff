// SPDX-License-Identifier: Apache-2.0

#include "mesh/layers/mixture_of_softmaxes.hpp"

#include "mesh/layers/init.hpp"
#include "mesh/layers/tokens.hpp"
#include "mesh/network/option.hpp"
#include "mesh/network/option_reader.hpp"

#include <string>

namespace weft::mesh {
namespace {

using kernels::Activation;
using kernels::ConstMatrixView;
using kernels::MatrixView;

/// Row b's values from column `first` on, as `count` rows.
template <class View>
View split(const View& view, std::size_t b, std::size_t first, std::size_t count, std::size_t width) {
  return {view.data + b * view.stride + first, count, width, width};
}

struct Mixture {
  std::size_t components, hidden;
  bool has_bias, is_log;
};

class MixtureOfSoftmaxes final : public Layer {
 public:
  MixtureOfSoftmaxes(const Shape& in, std::size_t out, const Mixture& own, std::vector<ParameterSpec> parameters)
      : Layer(in, with_features(in, out)),
        tokens_(in),
        own_(own),
        classes_(out),
        contexts_(own.components * own.hidden),
        scores_(own.components * out),
        parameters_(std::move(parameters)) {}

  const std::vector<ParameterSpec>& parameters() const noexcept override { return parameters_; }
  /// pi, contexts, each component's probabilities, and the mixture where y is its logarithm.
  std::size_t cache_size() const noexcept override {
    return tokens_.count() * (own_.components + contexts_ + scores_ + (own_.is_log ? classes_ : 0));
  }
  /// Slopes by the same, and by the input.
  std::size_t scratch_size() const noexcept override {
    return in() + tokens_.count() * (own_.components + contexts_ + scores_);
  }
  /// One token's weighted components.
  std::size_t workspace_size() const noexcept override { return scores_; }
  double multiply_adds() const noexcept override {
    const double of_contexts =
        static_cast<double>(contexts_ + own_.components) * static_cast<double>(in_shape().back());
    return static_cast<double>(tokens_.count()) *
           (of_contexts + static_cast<double>(scores_) * static_cast<double>(own_.hidden));
  }

  void forward(kernels::OpStream& stream, const ForwardArgs& args) const override {
    tokens_.each(args, [&](const ForwardArgs& row) {
      const MatrixView pi = columns(row.cache, 0, own_.components);
      const MatrixView contexts = columns(row.cache, own_.components, contexts_);
      stream.linear({row.weights.matrix(0), nullptr, row.x, Activation::linear, {}, pi});
      stream.softmax({pi, 1.0f, pi});
      stream.linear({row.weights.matrix(1), bias(row.weights, 3), row.x, Activation::tanh, {}, contexts});
      for (std::size_t k = 0; k < own_.components; ++k) {
        const MatrixView p = columns(row.cache, scores_at() + k * classes_, classes_);
        stream.linear({row.weights.matrix(2),
                       bias(row.weights, 4),
                       columns(contexts, k * own_.hidden, own_.hidden),
                       Activation::linear,
                       {},
                       p});
        stream.softmax({p, 1.0f, p});
      }
      const MatrixView mixed = own_.is_log ? columns(row.cache, scores_at() + scores_, classes_) : row.y;
      stream.fill({0.0f, mixed});
      const MatrixView weighted{row.workspace, own_.components, classes_, classes_};
      for (std::size_t b = 0; b < mixed.rows; ++b) {
        stream.scale_rows({pi.row(b), split(row.cache, b, scores_at(), own_.components, classes_), weighted});
        stream.column_accumulate({weighted, mixed.row(b)});
      }
      if (own_.is_log) stream.clamped_log({mixed, row.y});
    });
  }

  void backward(kernels::OpStream& stream, const BackwardArgs& args) const override {
    tokens_.each(args, [&](const BackwardArgs& row) {
      if (own_.is_log)
        stream.clamped_log_backward({columns(row.cache, scores_at() + scores_, classes_), row.dy, row.dy});
      const MatrixView dpi = columns(row.scratch, 0, own_.components);
      const MatrixView dcontexts = columns(row.scratch, own_.components, contexts_);
      for (std::size_t b = 0; b < row.dy.rows; ++b) {
        // The mixture's slope, once for each component.
        const ConstMatrixView up{row.dy.row(b), own_.components, classes_, 0};
        const ConstMatrixView p = split(row.cache, b, scores_at(), own_.components, classes_);
        const MatrixView d = split(row.scratch, b, scores_at(), own_.components, classes_);
        stream.row_dots({p, up, dpi.row(b)});
        stream.scale_rows({row.cache.row(b), up, d});
        stream.softmax_backward({p, d, 1.0f, d});
        if (!row.gradients.data) continue;
        // Token by token, so that a gradient's sum does not depend on who shares the batch.
        stream.outer_accumulate({d,
                                 split(row.cache, b, own_.components, own_.components, own_.hidden),
                                 {row.gradients[2], classes_, own_.hidden}});
        if (own_.has_bias) stream.column_accumulate({d, row.gradients[4]});
      }
      for (std::size_t k = 0; k < own_.components; ++k)
        stream.linear_transposed({row.weights.matrix(2), columns(row.scratch, scores_at() + k * classes_, classes_),
                                  columns(dcontexts, k * own_.hidden, own_.hidden)});
      stream.unary_backward(
          {Activation::tanh, {}, columns(row.cache, own_.components, contexts_), dcontexts, dcontexts});
      stream.softmax_backward({columns(row.cache, 0, own_.components), dpi, 1.0f, dpi});
      if (row.gradients.data) {
        stream.outer_accumulate({dpi, row.x, {row.gradients[0], own_.components, row.x.cols}});
        stream.outer_accumulate({dcontexts, row.x, {row.gradients[1], contexts_, row.x.cols}});
        if (own_.has_bias) stream.column_accumulate({dcontexts, row.gradients[3]});
      }
      if (!row.dx.data) return;
      const MatrixView share = columns(row.scratch, scores_at() + scores_, row.x.cols);
      stream.linear_transposed({row.weights.matrix(0), dpi, row.dx});
      stream.linear_transposed({row.weights.matrix(1), dcontexts, share});
      stream.binary({kernels::BinaryOp::add, row.dx, share, row.dx});
    });
  }

 private:
  std::size_t scores_at() const noexcept { return own_.components + contexts_; }
  const float* bias(const ConstWeights& weights, std::size_t i) const {
    return own_.has_bias ? weights.vector(i) : nullptr;
  }

  Tokens tokens_;
  Mixture own_;
  std::size_t classes_, contexts_, scores_;
  std::vector<ParameterSpec> parameters_;
};

}  // namespace

LayerDeclaration declare_mixture_of_softmaxes() {
  return {"..., in",
          "..., out",
          {option::out(option::needed(), "values", "number of classes"),
           option::whole("components", 4, 1, 65536, "-", "how many softmaxes are mixed"),
           option::whole("hidden", option::computed("the input's width"), 1, 16777216, "values", "width of a context"),
           option::flag("bias", true, "whether the contexts and the classes have biases; they start at 0"),
           option::choice("output", "log_probabilities", {"log_probabilities", "probabilities"}, "what y is"),
           option::init("xavier")}};
}

Result<std::unique_ptr<Layer>> make_mixture_of_softmaxes(const Shape& in, std::size_t out, OptionReader& options) {
  const std::string& object = options.object();
  Mixture own{};
  WEFT_TRY(own.components, options.integer("components"));
  WEFT_TRY(own.hidden, options.integer("hidden", in.back()));
  WEFT_TRY(own.has_bias, options.boolean("bias"));
  WEFT_TRY(const std::string output, options.text("output"));
  own.is_log = output == "log_probabilities";
  if (own.components * own.hidden > 16777216 || own.components * out > std::size_t{1} << 30)
    return fail(Errc::too_large, object + ".components: " + std::to_string(own.components) + " contexts of " +
                                     std::to_string(own.hidden) + " values and " + std::to_string(out) + " classes");
  WEFT_TRY(const std::string kind, options.text("init"));
  WEFT_TRY(auto of_prior, make_initializer(kind, in.back(), own.components, object));
  WEFT_TRY(auto of_contexts, make_initializer(kind, in.back(), own.hidden, object));
  WEFT_TRY(auto of_output, make_initializer(kind, own.hidden, out, object));
  const std::size_t contexts = own.components * own.hidden;
  std::vector<ParameterSpec> parameters;
  parameters.push_back({"prior", own.components, in.back(), true, std::move(of_prior), LinearMap{0}});
  parameters.push_back({"contexts", contexts, in.back(), true, std::move(of_contexts), LinearMap{0}});
  parameters.push_back({"output", out, own.hidden, true, std::move(of_output), LinearMap{1}});
  if (own.has_bias) {
    parameters.push_back({"contexts_bias", contexts, 0, false, constant(0.0f)});
    parameters.push_back({"output_bias", out, 0, false, constant(0.0f)});
  }
  return std::unique_ptr<Layer>(new MixtureOfSoftmaxes(in, out, own, std::move(parameters)));
}

}  // namespace weft::mesh
