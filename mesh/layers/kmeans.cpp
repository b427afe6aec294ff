// SPDX-License-Identifier: Apache-2.0

#include "mesh/layers/kmeans.hpp"

#include "mesh/layers/init.hpp"
#include "mesh/layers/tokens.hpp"
#include "mesh/network/option.hpp"
#include "mesh/network/option_reader.hpp"

#include <algorithm>
#include <string>

namespace weft::mesh {
namespace {

using kernels::ConstMatrixView;
using kernels::ConstWeight;
using kernels::MatrixView;

struct Assignment {
  std::size_t clusters;
  float temperature;
  bool is_euclidean, gives_probabilities, gives_features;
  std::size_t width(std::size_t features) const {
    return (gives_probabilities ? clusters : 0) + (gives_features ? features : 0);
  }
};

class KMeans final : public Layer {
 public:
  KMeans(const Shape& in, const Assignment& assignment, Initializer init)
      : Layer(in, with_features(in, assignment.width(in.back()))), tokens_(in), own_(assignment) {
    // Decay would pull the centres to zero, where no data need be.
    parameters_.push_back({"centres", own_.clusters, in.back(), false, std::move(init)});
  }

  const std::vector<ParameterSpec>& parameters() const noexcept override { return parameters_; }
  /// Probabilities where y does not have them, then distances where their root was taken.
  std::size_t cache_size() const noexcept override {
    return tokens_.count() * own_.clusters * ((own_.gives_probabilities ? 0u : 1u) + (own_.is_euclidean ? 1u : 0u));
  }
  std::size_t scratch_size() const noexcept override { return tokens_.count() * own_.clusters; }
  double multiply_adds() const noexcept override {
    return (own_.gives_features ? 2.0 : 1.0) * static_cast<double>(in()) * static_cast<double>(own_.clusters);
  }

  void forward(kernels::OpStream& stream, const ForwardArgs& args) const override {
    tokens_.each(args, [&](const ForwardArgs& row) {
      const MatrixView p =
          own_.gives_probabilities ? columns(row.y, 0, own_.clusters) : columns(row.cache, 0, own_.clusters);
      stream.squared_distances({row.weights.matrix(0), row.x, p});
      if (own_.is_euclidean) {
        const MatrixView distance = distances(row.cache);
        stream.square_root({p, distance});
        stream.scale({-1.0f, distance, p});
      } else {
        stream.scale({-1.0f, p, p});
      }
      stream.softmax({p, own_.temperature, p});
      if (own_.gives_features) stream.linear_transposed({row.weights.matrix(0), p, features(row.y)});
    });
  }

  void backward(kernels::OpStream& stream, const BackwardArgs& args) const override {
    tokens_.each(args, [&](const BackwardArgs& row) {
      const ConstMatrixView p =
          own_.gives_probabilities ? columns(row.y, 0, own_.clusters) : columns(row.cache, 0, own_.clusters);
      float* const gradient = row.gradients.data ? row.gradients[0] : nullptr;
      const kernels::Panels centres{gradient, own_.clusters, row.x.cols};
      MatrixView d = columns(row.dy, 0, own_.clusters);
      if (own_.gives_features) {
        const ConstMatrixView from = features(row.dy);
        if (gradient) stream.outer_accumulate({p, from, centres});
        // Gradients are not rounded to 8 bits for centres that are stored as integers.
        ConstWeight weight = row.weights.matrix(0);
        weight.activations = Activations::float32;
        d = columns(row.scratch, 0, own_.clusters);
        stream.linear({weight, nullptr, from, kernels::Activation::linear, {}, d});
        if (own_.gives_probabilities) stream.binary({kernels::BinaryOp::add, d, columns(row.dy, 0, own_.clusters), d});
      }
      stream.softmax_backward({p, d, own_.temperature, d});
      stream.scale({-1.0f, d, d});
      if (own_.is_euclidean) stream.square_root_backward({distances(row.cache), d, d});
      stream.squared_distances_backward({row.weights.matrix(0), row.x, d, row.dx, centres});
    });
  }

 private:
  template <class View>
  View distances(const View& cache) const {
    return columns(cache, own_.gives_probabilities ? 0 : own_.clusters, own_.clusters);
  }
  template <class View>
  View features(const View& y) const {
    const std::size_t first = own_.gives_probabilities ? own_.clusters : 0;
    return columns(y, first, y.cols - first);
  }

  Tokens tokens_;
  Assignment own_;
  std::vector<ParameterSpec> parameters_;
};

/// Initial centres.
Result<Initializer> first_centres(OptionReader& options, std::size_t clusters, std::size_t features) {
  WEFT_TRY(const std::vector<double> given, options.numbers("centres"));
  WEFT_TRY(const std::string kind, options.text("init"));
  if (given.empty()) return make_initializer(kind, features, clusters, options.object());
  if (given.size() != clusters * features)
    return fail(Errc::shape_mismatch, options.object() + ".centres: " + std::to_string(given.size()) +
                                          " numbers where " + std::to_string(clusters) + " centres of " +
                                          std::to_string(features) + " values are expected");
  return Initializer([given](RandomStream&, std::span<float> values) {
    std::transform(given.begin(), given.end(), values.begin(), [](double v) { return static_cast<float>(v); });
  });
}

}  // namespace

LayerDeclaration declare_kmeans() {
  return {"..., in",
          "..., clusters | features: ..., in | both: ..., clusters + in",
          {option::out(option::computed("what output says"), "values",
                       "only that width; of probabilities alone it may stand for clusters"),
           option::choice("output", "probabilities", {"probabilities", "features", "both"},
                          "p, the mixture of centres that p makes, or p and then it"),
           option::whole("clusters", option::computed("out, of probabilities"), 1, 16777216, "-", "number of centres"),
           option::number("temperature", 1, 1e-6, 1e6, "of d", "T, which divides d"),
           option::choice("distance", "squared", {"squared", "euclidean"}, "d: the squared distance, or its root"),
           option::numbers("centres", option::none(), "values",
                           "where centres begin: clusters times in numbers, one centre after the other"),
           option::init("normal", "how the centres begin where they are not given")}};
}

Result<std::unique_ptr<Layer>> make_kmeans(const Shape& in, std::size_t out, OptionReader& options) {
  const std::string& object = options.object();
  Assignment assignment{};
  WEFT_TRY(const std::string output, options.text("output"));
  assignment.gives_probabilities = output != "features";
  assignment.gives_features = output != "probabilities";
  WEFT_TRY(assignment.clusters, options.integer("clusters", output == "probabilities" ? out : 0));
  if (assignment.clusters == 0)
    return fail(Errc::parse_failed, object + ".clusters: a kmeans layer needs the number of its centres, at least 1");
  WEFT_TRY(const double temperature, options.number("temperature"));
  assignment.temperature = static_cast<float>(temperature);
  WEFT_TRY(const std::string distance, options.text("distance"));
  assignment.is_euclidean = distance == "euclidean";
  const std::size_t width = assignment.width(in.back());
  if (out != 0 && out != width)
    return fail(Errc::shape_mismatch, object + ".out: " + output + " of " + std::to_string(assignment.clusters) +
                                          " clusters of " + std::to_string(in.back()) + " features are " +
                                          std::to_string(width) + " values, not " + std::to_string(out));
  WEFT_TRY(auto init, first_centres(options, assignment.clusters, in.back()));
  return std::unique_ptr<Layer>(new KMeans(in, assignment, std::move(init)));
}

}  // namespace weft::mesh
