// SPDX-License-Identifier: Apache-2.0

#include "mesh/layers/softmax.hpp"

#include "mesh/layers/softmax_kinds.hpp"
#include "mesh/network/option.hpp"
#include "mesh/network/option_reader.hpp"

#include "kernels/gumbel.hpp"

#include <array>
#include <string>

namespace weft::mesh {
namespace {

/// A softmax of each group of a row: alpha = 1 the softmax, 2 sparsemax, anything above 1 alpha-entmax.
class Softmax final : public Layer {
 public:
  Softmax(const Shape& shape, std::size_t group, float temperature, double alpha)
      : Layer(shape, shape),
        groups_(in(), group),
        temperature_(temperature),
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
        stream.softmax({part(args.x), temperature_, part(args.y)});
      else
        stream.entmax({part(args.x), alpha_minus_one_, temperature_, part(args.y)});
    });
  }
  void backward(kernels::OpStream& stream, const BackwardArgs& args) const override {
    if (!args.dx.data) return;
    groups_.each(args.dy.rows, [&](const auto& part) {
      if (alpha_minus_one_ == 0.0f)
        stream.softmax_backward({part(args.y), part(args.dy), temperature_, part(args.dx)});
      else
        stream.entmax_backward({part(args.y), part(args.dy), alpha_minus_one_, temperature_, part(args.dx)});
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
  GumbelSoftmax(const Shape& shape, std::size_t group, float temperature, bool is_straight,
                std::array<std::uint32_t, 2> key)
      : Layer(shape, shape), groups_(in(), group), temperature_(temperature), is_straight_(is_straight), key_(key) {}

  std::size_t state_size() const noexcept override { return kernels::kNoiseState; }
  StateErrors state_errors() const noexcept override { return StateErrors::none; }
  std::vector<std::size_t> noise_states() const override { return {0}; }
  std::size_t cache_size() const noexcept override { return is_straight_ ? out() : 0; }
  // Ten rounds of Philox for four values, two logarithms.
  double multiply_adds() const noexcept override { return 16 * static_cast<double>(out()); }

  void forward(kernels::OpStream& stream, const ForwardArgs& args) const override {
    const kernels::MatrixView soft = is_straight_ ? args.cache : args.y;
    stream.gumbel_noise({args.x, key_, args.state, args.next_state, soft});
    groups_.each(args.x.rows, [&](const auto& part) {
      stream.softmax({part(soft), temperature_, part(soft)});
      if (is_straight_) stream.argmax_one_hot({part(soft), part(args.y)});
    });
  }
  void backward(kernels::OpStream& stream, const BackwardArgs& args) const override {
    if (args.dstate.data) stream.fill({0.0f, args.dstate});
    if (!args.dx.data) return;
    const kernels::ConstMatrixView soft = is_straight_ ? args.cache : args.y;
    groups_.each(args.dy.rows, [&](const auto& part) {
      stream.softmax_backward({part(soft), part(args.dy), temperature_, part(args.dx)});
    });
  }

 private:
  Groups groups_;
  float temperature_;
  bool is_straight_;
  std::array<std::uint32_t, 2> key_;
};

/// The width of each of the last axis' groups.
Result<std::size_t> group_width(OptionReader& options, std::size_t width) {
  WEFT_TRY(const std::size_t groups, options.integer("groups"));
  if (width % groups != 0)
    return fail(Errc::out_of_range, options.object() + ".groups: " + std::to_string(width) + " values are not " +
                                        std::to_string(groups) + " groups of equal width");
  return width / groups;
}

}  // namespace

LayerDeclaration declare_softmax() {
  return {
      "..., in",
      "..., in | hierarchical: ..., leaves",
      {option::out(option::computed("the input's width"), "values",
                   "only the input's own; hierarchical: the number of leaves"),
       option::number("temperature", 1, 1e-6, 1e6, "-", "T, which divides x"),
       option::choice("kind", "standard",
                      {"standard", "sparsemax", "entmax", "gumbel", "grid", "masked", "hierarchical"},
                      "which softmax (mesh/layers/softmax.hpp)"),
       option::only_with("kind=standard|sparsemax|entmax|gumbel|masked",
                         option::whole("groups", 1, 1, 16777216, "-",
                                       "groups of equal width that the last axis falls into, each with a sum of one")),
       option::only_with("kind=entmax", option::number("alpha", 1.5, 1, 1000, "-", "the larger, the sparser")),
       option::only_with("kind=gumbel",
                         option::flag("straight_through", false,
                                      "whether y is 1 at the largest and 0 elsewhere, with the slope of the soft one")),
       option::only_with("kind=grid",
                         option::wholes("axes", option::needed(), 0, 7, 1, 8, "-",
                                        "axes of the input's shape that it goes over, 0 the outermost, each once")),
       option::only_with(
           "kind=masked",
           option::bits("mask", option::needed(),
                        "1 for each entry of the last axis that counts, 0 for the others; some 1 a group")),
       option::only_with("kind=hierarchical",
                         option::wholes("branches", option::needed(), 1, 16777216, 1, 16777216, "-",
                                        "children of a node of each level, from the root on"))}};
}

Result<std::unique_ptr<Layer>> make_softmax(const Shape& in, std::size_t out, OptionReader& options) {
  const std::string& object = options.object();
  WEFT_TRY(const double asked, options.number("temperature"));
  const auto temperature = static_cast<float>(asked);
  WEFT_TRY(const std::string kind, options.text("kind"));
  if (kind == "hierarchical") {
    WEFT_TRY(const auto branches, options.integers("branches", 0));
    return make_tree_softmax(in, out, branches, temperature, object);
  }
  WEFT_TRY(const Shape shape, same_shape(object, "softmax", in, out));
  if (kind == "grid") {
    WEFT_TRY(const auto axes, options.integers("axes", 0));
    return make_grid_softmax(shape, axes, temperature, object);
  }
  WEFT_TRY(const std::size_t group, group_width(options, shape.back()));
  if (kind == "masked") {
    WEFT_TRY(const auto mask, options.integers("mask", 0));
    return make_masked_softmax(shape, group, mask, temperature, object);
  }
  if (kind == "standard") return std::unique_ptr<Layer>(new Softmax(shape, group, temperature, 1));
  if (kind == "sparsemax") return std::unique_ptr<Layer>(new Softmax(shape, group, temperature, 2));
  if (kind == "entmax") {
    WEFT_TRY(const double alpha, options.number("alpha"));
    return std::unique_ptr<Layer>(new Softmax(shape, group, temperature, alpha));
  }
  WEFT_TRY(const bool is_straight, options.boolean("straight_through"));
  return std::unique_ptr<Layer>(new GumbelSoftmax(shape, group, temperature, is_straight, options.noise_key()));
}

}  // namespace weft::mesh
