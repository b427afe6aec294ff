// SPDX-License-Identifier: Apache-2.0

#include "mesh/layers/metacognition.hpp"

#include "mesh/runtime/metacognition_rule.hpp"

#include "kernels/statistics.hpp"

#include <cmath>
#include <optional>
#include <string>

namespace weft::mesh {
namespace {

class Metacognition final : public Layer {
 public:
  Metacognition(const Shape& in, const WatchRule& rule, float active_above)
      : Layer(in, Shape{sources(rule) * kernels::kStatistics}), rule_(rule), active_above_(active_above) {}

  const WatchRule* watch() const noexcept override { return &rule_; }
  double multiply_adds() const noexcept override { return 4 * static_cast<double>(in()); }

  void forward(kernels::OpStream& stream, const ForwardArgs& args) const override {
    const std::size_t count = sources(rule_), width = in() / count;
    for (std::size_t i = 0; i < count; ++i)
      stream.row_statistics(
          {{args.x.data + i * width, args.x.rows, width, args.x.stride},
           active_above_,
           {args.y.data + i * kernels::kStatistics, args.y.rows, kernels::kStatistics, args.y.stride}});
  }
  void backward(kernels::OpStream& stream, const BackwardArgs& args) const override {
    if (args.dx.data) stream.fill({0.0f, args.dx});
  }

 private:
  static std::size_t sources(const WatchRule& rule) { return rule.action == WatchRule::Action::swap ? 2 : 1; }

  WatchRule rule_;
  float active_above_;
};

/// The place of `text` among `names`, in their enumeration's order.
template <class Name, std::size_t count>
Result<Name> named(const std::array<std::string_view, count>& names, const std::string& text,
                   const std::string& place) {
  std::string known;
  for (std::size_t i = 0; i < count; ++i) {
    if (names[i] == text) return static_cast<Name>(i);
    known += (i ? ", " : "") + std::string(names[i]);
  }
  return fail(Errc::unknown_name, place + ": no '" + text + "'; known are " + known);
}

constexpr std::array<std::string_view, 6> kLooks{"mean", "deviation", "active", "rms", "gain_drift", "gradient_storm"};
constexpr std::array<std::string_view, 3> kActions{"morph", "reset", "swap"};

}  // namespace

Result<std::unique_ptr<Layer>> make_metacognition(const Shape& in, std::size_t out, OptionReader& options) {
  const std::string& object = options.object();
  WatchRule rule;
  WEFT_TRY(const std::string look, options.text("look", "rms"));
  WEFT_TRY(rule.look, named<WatchRule::Look>(kLooks, look, object + ".look"));
  WEFT_TRY(const std::string action, options.text("action", "reset"));
  WEFT_TRY(rule.action, named<WatchRule::Action>(kActions, action, object + ".action"));
  WEFT_TRY(const double above, options.number("above", NAN, -1e30, 1e30));
  WEFT_TRY(const double below, options.number("below", NAN, -1e30, 1e30));
  if (std::isnan(above) && std::isnan(below))
    return fail(Errc::parse_failed, object + ".above: a metacognition layer needs a bound, above or below it");
  if (!std::isnan(above)) rule.above = above;
  if (!std::isnan(below)) rule.below = below;
  if (rule.action == WatchRule::Action::morph) {
    WEFT_TRY(const std::string to, options.text("to", ""));
    const std::optional<Dtype> dtype = parse_dtype(to);
    if (!dtype) {
      std::string known;
      for (int i = 0; i < kDtypeCount; ++i) known += (i ? ", " : "") + std::string(name(static_cast<Dtype>(i)));
      return fail(Errc::unknown_name, object + ".to: no dtype '" + to + "' to morph to; known are " + known);
    }
    rule.encoding = Encoding(*dtype);
  }
  WEFT_TRY(rule.patience, options.integer("patience", 1, 1, std::size_t{1} << 32));
  WEFT_TRY(rule.cooldown, options.integer("cooldown", 1000, 4, std::size_t{1} << 32));
  WEFT_TRY(rule.horizon, options.integer("horizon", 256, 1, std::size_t{1} << 32));
  WEFT_TRY(const double active_above, options.number("active_above", 0.0, 0.0, 1e30));
  if (rule.action == WatchRule::Action::swap && (in.size() != 1 || in[0] % 2 != 0))
    return fail(Errc::shape_mismatch,
                object + ": swap takes two vectors of equal width, not an input of shape " + weft::to_string(in));
  std::unique_ptr<Layer> layer(new Metacognition(in, rule, static_cast<float>(active_above)));
  if (out != 0 && out != layer->out())
    return fail(Errc::shape_mismatch, object + ".out: metacognition gives " + std::to_string(layer->out()) +
                                          " numbers, not " + std::to_string(out) + "; leave 'out' away");
  return layer;
}

}  // namespace weft::mesh
