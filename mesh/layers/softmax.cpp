// SPDX-License-Identifier: Apache-2.0

#include "mesh/layers/softmax.hpp"

#include "kernels/gumbel.hpp"

#include <array>
#include <cmath>
#include <string>

namespace weft::mesh {
namespace {

/// The groups of equal width that a row falls into.
class Groups {
 public:
  Groups(std::size_t width, std::size_t count) : count_(count), width_(width / count) {}

  /// Calls visit(part) so that the views part(rows) together are all groups of all rows, in as few calls as may be.
  template <class Visit>
  void each(std::size_t rows, const Visit& visit) const {
    if (rows < count_) {
      for (std::size_t b = 0; b < rows; ++b)
        visit([&](auto view) { return decltype(view){view.data + b * view.stride, count_, width_, width_}; });
    } else {
      for (std::size_t g = 0; g < count_; ++g)
        visit([&](auto view) { return decltype(view){view.data + g * width_, view.rows, width_, view.stride}; });
    }
  }

 private:
  std::size_t count_, width_;
};

struct Division {
  std::size_t width, groups;
  float temperature;
};

/// A softmax of each group of a row: alpha = 1 the softmax, 2 sparsemax, anything above 1 alpha-entmax.
class Softmax final : public Layer {
 public:
  Softmax(const Division& shape, double alpha)
      : Layer(shape.width, shape.width),
        groups_(shape.width, shape.groups),
        temperature_(shape.temperature),
        alpha_minus_one_(static_cast<float>(alpha - 1)) {}

  // The bisections of entmax: passes of a few operations, or of an exponential and a logarithm.
  double multiply_adds() const noexcept override {
    const double passes = alpha_minus_one_ == 0.0f                               ? 1
                          : alpha_minus_one_ == 1.0f || alpha_minus_one_ == 0.5f ? 32
                                                                                 : 320;
    return passes * static_cast<double>(out());
  }

  void forward(kernels::OpStream& stream, const ForwardArgs& args) const override {
    groups_.each(args.x.rows, [&](const auto& part) {
      if (alpha_minus_one_ == 0.0f)
        stream.softmax(part(args.x), temperature_, part(args.y));
      else
        stream.entmax(part(args.x), alpha_minus_one_, temperature_, part(args.y));
    });
  }
  void backward(kernels::OpStream& stream, const BackwardArgs& args) const override {
    if (!args.dx.data) return;
    groups_.each(args.dy.rows, [&](const auto& part) {
      if (alpha_minus_one_ == 0.0f)
        stream.softmax_backward(part(args.y), part(args.dy), temperature_, part(args.dx));
      else
        stream.entmax_backward(part(args.y), part(args.dy), alpha_minus_one_, temperature_, part(args.dx));
    });
  }

 private:
  Groups groups_;
  float temperature_, alpha_minus_one_;
};

/// A softmax of x + Gumbel noise. The largest is at j as often as softmax(x) at T = 1 says, whatever the temperature.
/// A straight-through one gives that as 1 among zeros, and sends back the slope of the soft one, kept in the cache.
class GumbelSoftmax final : public Layer {
 public:
  GumbelSoftmax(const Division& shape, bool is_straight, std::array<std::uint32_t, 2> key)
      : Layer(shape.width, shape.width),
        groups_(shape.width, shape.groups),
        temperature_(shape.temperature),
        is_straight_(is_straight),
        key_(key) {}

  std::size_t state_size() const noexcept override { return kernels::kNoiseState; }
  std::vector<std::size_t> noise_states() const override { return {0}; }
  std::size_t cache_size() const noexcept override { return is_straight_ ? out() : 0; }
  // Ten rounds of Philox for four values, two logarithms.
  double multiply_adds() const noexcept override { return 16 * static_cast<double>(out()); }

  void forward(kernels::OpStream& stream, const ForwardArgs& args) const override {
    const kernels::Rows soft = is_straight_ ? args.cache : args.y;
    stream.gumbel_noise(args.x, key_, args.state, args.next_state, soft);
    groups_.each(args.x.rows, [&](const auto& part) {
      stream.softmax(part(soft), temperature_, part(soft));
      if (is_straight_) stream.one_hot_largest(part(soft), part(args.y));
    });
  }
  void backward(kernels::OpStream& stream, const BackwardArgs& args) const override {
    if (args.dstate.data) stream.fill(0.0f, args.dstate);
    if (!args.dx.data) return;
    const kernels::ConstRows soft = is_straight_ ? args.cache : args.y;
    groups_.each(args.dy.rows, [&](const auto& part) {
      stream.softmax_backward(part(soft), part(args.dy), temperature_, part(args.dx));
    });
  }

 private:
  Groups groups_;
  float temperature_;
  bool is_straight_;
  std::array<std::uint32_t, 2> key_;
};

Result<std::size_t> group_count(double asked, std::size_t width, const std::string& object) {
  const auto groups = static_cast<std::size_t>(asked);
  if (asked != std::floor(asked) || width % groups != 0)
    return fail(Errc::out_of_range, object + ".groups: " + std::to_string(width) + " values are not " +
                                        std::to_string(asked) + " groups of equal width");
  return groups;
}

}  // namespace

Result<std::unique_ptr<Layer>> make_softmax(const Shape& in, std::size_t out, OptionReader& options) {
  const std::string& object = options.object();
  Division shape;
  WEFT_TRY(shape.width, same_width(object, "softmax", in, out));
  WEFT_TRY(const double temperature, options.number("temperature", 1.0, 1e-6, 1e6));
  shape.temperature = static_cast<float>(temperature);
  WEFT_TRY(const double groups, options.number("groups", 1, 1, 16777216));
  WEFT_TRY(shape.groups, group_count(groups, shape.width, object));
  WEFT_TRY(const std::string kind, options.text("kind", "standard"));
  if (kind == "standard") return std::unique_ptr<Layer>(new Softmax(shape, 1));
  if (kind == "sparsemax") return std::unique_ptr<Layer>(new Softmax(shape, 2));
  if (kind == "entmax") {
    WEFT_TRY(const double alpha, options.number("alpha", 1.5, 1, 1000));
    return std::unique_ptr<Layer>(new Softmax(shape, alpha));
  }
  if (kind == "gumbel") {
    WEFT_TRY(const bool is_straight, options.boolean("straight_through", false));
    return std::unique_ptr<Layer>(new GumbelSoftmax(shape, is_straight, options.noise_key()));
  }
  return fail(Errc::unknown_name,
              object + ".kind: no softmax '" + kind + "'; known are standard, sparsemax, entmax, gumbel");
}

}  // namespace weft::mesh
