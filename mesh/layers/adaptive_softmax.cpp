// SPDX-License-Identifier: Apache-2.0

#include "mesh/layers/adaptive_softmax.hpp"

#include "mesh/layers/init.hpp"
#include "mesh/layers/tokens.hpp"
#include "mesh/network/option.hpp"
#include "mesh/network/option_reader.hpp"

#include <algorithm>
#include <cmath>
#include <string>

namespace weft::mesh {
namespace {

using kernels::Activation;
using kernels::ConstMatrixView;
using kernels::MatrixView;

/// The classes [first, first + classes) behind the head's entry `entry`, by way of `hidden` values.
struct Cluster {
  std::size_t first, classes, hidden, entry;
  std::size_t parameter;    // its projection; the matrix of its classes follows
  std::size_t cached;       // in the cache: its hidden values
  std::size_t conditional;  // in the cache, for probabilities: those of its classes, given the cluster
};

class AdaptiveSoftmax final : public Layer {
 public:
  AdaptiveSoftmax(const Shape& in, std::size_t out, std::size_t head_classes, std::vector<Cluster> clusters,
                  bool is_log, bool has_bias, std::vector<ParameterSpec> parameters)
      : Layer(in, with_features(in, out)),
        tokens_(in),
        head_classes_(head_classes),
        head_(head_classes + clusters.size()),
        clusters_(std::move(clusters)),
        is_log_(is_log),
        has_bias_(has_bias),
        parameters_(std::move(parameters)) {
    kept_ = head_;
    for (Cluster& cluster : clusters_) {
      cluster.cached = kept_;
      cluster.conditional = kept_ + cluster.hidden;
      kept_ += cluster.hidden + (is_log_ ? 0 : cluster.classes);
      widest_ = std::max(widest_, cluster.hidden);
    }
  }

  const std::vector<ParameterSpec>& parameters() const noexcept override { return parameters_; }
  std::size_t cache_size() const noexcept override { return tokens_.count() * kept_; }
  /// Slopes by the head, by one cluster's hidden values and by its share of the input.
  std::size_t scratch_size() const noexcept override { return in() + tokens_.count() * (head_ + widest_); }
  double multiply_adds() const noexcept override {
    double products = 0;
    for (const ParameterSpec& parameter : parameters_)
      products += static_cast<double>(parameter.out) * static_cast<double>(parameter.in);
    return products * static_cast<double>(tokens_.count());
  }

  void forward(kernels::OpStream& stream, const ForwardArgs& args) const override {
    tokens_.each(args, [&](const ForwardArgs& row) {
      const MatrixView head = columns(row.cache, 0, head_);
      stream.linear(
          {row.weights.matrix(0), has_bias_ ? row.weights.vector(1) : nullptr, row.x, Activation::linear, {}, head});
      if (is_log_)
        stream.log_softmax({head, {}, head});
      else
        stream.softmax({head, 1.0f, head});
      stream.copy({columns(head, 0, head_classes_), columns(row.y, 0, head_classes_)});
      for (const Cluster& cluster : clusters_) {
        const MatrixView hidden = columns(row.cache, cluster.cached, cluster.hidden);
        const MatrixView y = columns(row.y, cluster.first, cluster.classes);
        const MatrixView own = is_log_ ? y : columns(row.cache, cluster.conditional, cluster.classes);
        stream.linear({row.weights.matrix(cluster.parameter), nullptr, row.x, Activation::linear, {}, hidden});
        stream.linear({row.weights.matrix(cluster.parameter + 1), nullptr, hidden, Activation::linear, {}, own});
        if (is_log_) {
          stream.log_softmax({own, columns(head, cluster.entry, 1), y});
          continue;
        }
        stream.softmax({own, 1.0f, own});
        for (std::size_t b = 0; b < y.rows; ++b) stream.scale_rows({head.row(b) + cluster.entry, at(own, b), at(y, b)});
      }
    });
  }

  void backward(kernels::OpStream& stream, const BackwardArgs& args) const override {
    tokens_.each(args, [&](const BackwardArgs& row) {
      const ConstMatrixView head = columns(row.cache, 0, head_);
      const MatrixView dhead = columns(row.scratch, 0, head_);
      stream.copy({columns(row.dy, 0, head_classes_), columns(dhead, 0, head_classes_)});
      stream.fill({0.0f, columns(dhead, head_classes_, clusters_.size())});
      for (const Cluster& cluster : clusters_) to_logits(stream, row, cluster, dhead);
      if (is_log_)
        stream.log_softmax_backward({head, {}, dhead, dhead, {}});
      else
        stream.softmax_backward({head, dhead, 1.0f, dhead});
      if (row.gradients.data) {
        stream.outer_accumulate({dhead, row.x, {row.gradients[0], head_, row.x.cols}});
        if (has_bias_) stream.column_accumulate({dhead, row.gradients[1]});
      }
      if (row.dx.data) stream.linear_transposed({row.weights.matrix(0), dhead, row.dx});
      for (const Cluster& cluster : clusters_) to_input(stream, row, cluster);
    });
  }

 private:
  template <class View>
  static View at(const View& view, std::size_t b) {
    return {view.data + b * view.stride, 1, view.cols, view.stride};
  }

  /// Makes the part of dy that is the cluster's the slope by its logits, and adds what is the head's to dhead.
  void to_logits(kernels::OpStream& stream, const BackwardArgs& row, const Cluster& cluster,
                 const MatrixView& dhead) const {
    const MatrixView d = columns(row.dy, cluster.first, cluster.classes);
    if (is_log_) {
      stream.log_softmax_backward({columns(row.y, cluster.first, cluster.classes), columns(row.cache, cluster.entry, 1),
                                   d, d, columns(dhead, cluster.entry, 1)});
      return;
    }
    const ConstMatrixView own = columns(row.cache, cluster.conditional, cluster.classes);
    for (std::size_t b = 0; b < d.rows; ++b) {
      stream.row_dots({at(d, b), at(own, b), dhead.row(b) + cluster.entry});
      stream.scale_rows({row.cache.row(b) + cluster.entry, at(d, b), at(d, b)});
    }
    stream.softmax_backward({own, d, 1.0f, d});
  }

  /// From a cluster's logits, whose slope is in dy, to its matrices and the input.
  void to_input(kernels::OpStream& stream, const BackwardArgs& row, const Cluster& cluster) const {
    const MatrixView d = columns(row.dy, cluster.first, cluster.classes);
    const MatrixView dhidden = columns(row.scratch, head_, cluster.hidden);
    stream.linear_transposed({row.weights.matrix(cluster.parameter + 1), d, dhidden});
    if (row.gradients.data) {
      stream.outer_accumulate({d,
                               columns(row.cache, cluster.cached, cluster.hidden),
                               {row.gradients[cluster.parameter + 1], cluster.classes, cluster.hidden}});
      stream.outer_accumulate({dhidden, row.x, {row.gradients[cluster.parameter], cluster.hidden, row.x.cols}});
    }
    if (!row.dx.data) return;
    const MatrixView share = columns(row.scratch, head_ + widest_, row.x.cols);
    stream.linear_transposed({row.weights.matrix(cluster.parameter), dhidden, share});
    stream.binary({kernels::BinaryOp::add, row.dx, share, row.dx});
  }

  Tokens tokens_;
  std::size_t head_classes_, head_, kept_ = 0, widest_ = 0;
  std::vector<Cluster> clusters_;
  bool is_log_, has_bias_;
  std::vector<ParameterSpec> parameters_;
};

/// The clusters that `cutoffs` make of `out` classes.
Result<std::vector<Cluster>> cut(const std::vector<std::size_t>& cutoffs, double div_value, std::size_t in,
                                 std::size_t out, std::size_t parameter, const std::string& object) {
  std::vector<Cluster> clusters;
  double divisor = 1;
  for (std::size_t i = 0; i < cutoffs.size(); ++i) {
    const std::size_t end = i + 1 < cutoffs.size() ? cutoffs[i + 1] : out;
    if (end <= cutoffs[i])
      return fail(Errc::out_of_range, object + ".cutoffs: " + weft::to_string(cutoffs) + " of " + std::to_string(out) +
                                          " classes; they must ascend and leave the last cluster a class");
    divisor *= div_value;
    const auto hidden = static_cast<std::size_t>(std::floor(static_cast<double>(in) / divisor));
    if (hidden == 0)
      return fail(Errc::out_of_range, object + ".div_value: cluster " + std::to_string(i) + " would be " +
                                          std::to_string(in) + " / " + std::to_string(divisor) +
                                          " values wide, less than 1; cut less or divide by less");
    clusters.push_back({cutoffs[i], end - cutoffs[i], hidden, cutoffs[0] + i, parameter + 2 * i, 0, 0});
  }
  return clusters;
}

}  // namespace

LayerDeclaration declare_adaptive_softmax() {
  return {"..., in",
          "..., out",
          {option::out(option::needed(), "values", "number of classes"),
           option::wholes("cutoffs", option::needed(), 1, 16777216, 1, 16777216, "-",
                          "where clusters begin, ascending, below out"),
           option::number("div_value", 4, 1, 65536, "-", "how much narrower each cluster is than the one before"),
           option::flag("head_bias", false, "whether the head has a bias; it starts at 0"),
           option::choice("output", "log_probabilities", {"log_probabilities", "probabilities"}, "what y is"),
           option::init("xavier")}};
}

Result<std::unique_ptr<Layer>> make_adaptive_softmax(const Shape& in, std::size_t out, OptionReader& options) {
  const std::string& object = options.object();
  WEFT_TRY(const auto cutoffs, options.integers("cutoffs", 0));
  WEFT_TRY(const double div_value, options.number("div_value"));
  WEFT_TRY(const bool has_bias, options.boolean("head_bias"));
  WEFT_TRY(const std::string output, options.text("output"));
  WEFT_TRY(const std::string kind, options.text("init"));
  WEFT_TRY(auto clusters, cut(cutoffs, div_value, in.back(), out, has_bias ? 2 : 1, object));

  std::vector<ParameterSpec> parameters;
  const auto add = [&](std::string name, std::size_t rows, std::size_t width, std::uint32_t reads) -> Status {
    WEFT_TRY(auto init, make_initializer(kind, width, rows, object));
    parameters.push_back({std::move(name), rows, width, true, std::move(init), LinearMap{reads}});
    return {};
  };
  WEFT_CHECK(add("head", cutoffs[0] + clusters.size(), in.back(), 0));
  if (has_bias) parameters.push_back({"head_bias", cutoffs[0] + clusters.size(), 0, false, constant(0.0f)});
  for (std::size_t i = 0; i < clusters.size(); ++i) {
    WEFT_CHECK(add("project_" + std::to_string(i), clusters[i].hidden, in.back(), 0));
    WEFT_CHECK(add("classes_" + std::to_string(i), clusters[i].classes, clusters[i].hidden,
                   static_cast<std::uint32_t>(i + 1)));
  }
  return std::unique_ptr<Layer>(new AdaptiveSoftmax(in, out, cutoffs[0], std::move(clusters),
                                                    output == "log_probabilities", has_bias, std::move(parameters)));
}

}  // namespace weft::mesh
