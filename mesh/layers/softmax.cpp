// SPDX-License-Identifier: Apache-2.0

#include "mesh/layers/softmax.hpp"

#include <cmath>
#include <string>

namespace weft::mesh {
namespace {

/// A softmax of each group of a row: alpha = 1 the softmax, 2 sparsemax, anything above 1 alpha-entmax.
class Softmax final : public Layer {
 public:
  struct Shape {
    std::size_t width, groups;
    float temperature;
    double alpha;
  };
  explicit Softmax(const Shape& shape)
      : Layer(shape.width, shape.width),
        groups_(shape.groups),
        temperature_(shape.temperature),
        alpha_minus_one_(static_cast<float>(shape.alpha - 1)) {}

  // The bisections of entmax: passes of a few operations, or of an exponential and a logarithm.
  double multiply_adds() const noexcept override {
    const double passes = alpha_minus_one_ == 0.0f                               ? 1
                          : alpha_minus_one_ == 1.0f || alpha_minus_one_ == 0.5f ? 32
                                                                                 : 320;
    return passes * static_cast<double>(out());
  }

  void forward(kernels::OpStream& stream, const ForwardArgs& args) const override {
    each_group(args.x.rows, [&](const auto& part) {
      if (alpha_minus_one_ == 0.0f)
        stream.softmax(part(args.x), temperature_, part(args.y));
      else
        stream.entmax(part(args.x), alpha_minus_one_, temperature_, part(args.y));
    });
  }
  void backward(kernels::OpStream& stream, const BackwardArgs& args) const override {
    if (!args.dx.data) return;
    each_group(args.dy.rows, [&](const auto& part) {
      if (alpha_minus_one_ == 0.0f)
        stream.softmax_backward(part(args.y), part(args.dy), temperature_, part(args.dx));
      else
        stream.entmax_backward(part(args.y), part(args.dy), alpha_minus_one_, temperature_, part(args.dx));
    });
  }

 private:
  /// Calls visit(part) so that the views part(rows) together are all groups of all rows, in as few calls as may be.
  template <class Visit>
  void each_group(std::size_t rows, const Visit& visit) const {
    const std::size_t width = out() / groups_;
    if (rows < groups_) {
      for (std::size_t b = 0; b < rows; ++b)
        visit([&](auto view) { return decltype(view){view.data + b * view.stride, groups_, width, width}; });
    } else {
      for (std::size_t g = 0; g < groups_; ++g)
        visit([&](auto view) { return decltype(view){view.data + g * width, view.rows, width, view.stride}; });
    }
  }

  std::size_t groups_;
  float temperature_, alpha_minus_one_;
};

Result<std::size_t> group_count(double asked, std::size_t width, const std::string& object) {
  const auto groups = static_cast<std::size_t>(asked);
  if (asked != std::floor(asked) || width % groups != 0)
    return fail(Errc::out_of_range, object + ".groups: " + std::to_string(width) + " values are not " +
                                        std::to_string(asked) + " groups of equal width");
  return groups;
}

}  // namespace

Result<std::unique_ptr<Layer>> make_softmax(std::size_t in, std::size_t out, OptionReader& options) {
  const std::string& object = options.object();
  Softmax::Shape shape;
  WEFT_TRY(shape.width, same_width(object, "softmax", in, out));
  WEFT_TRY(const double temperature, options.number("temperature", 1.0, 1e-6, 1e6));
  shape.temperature = static_cast<float>(temperature);
  WEFT_TRY(const double groups, options.number("groups", 1, 1, 16777216));
  WEFT_TRY(shape.groups, group_count(groups, shape.width, object));
  WEFT_TRY(const std::string kind, options.text("kind", "standard"));
  shape.alpha = kind == "sparsemax" ? 2 : 1;
  if (kind == "entmax") {
    WEFT_TRY(shape.alpha, options.number("alpha", 1.5, 1, 1000));
  } else if (kind != "standard" && kind != "sparsemax") {
    return fail(Errc::unknown_name, object + ".kind: no softmax '" + kind + "'; known are standard, sparsemax, entmax");
  }
  return std::unique_ptr<Layer>(new Softmax(shape));
}

}  // namespace weft::mesh
