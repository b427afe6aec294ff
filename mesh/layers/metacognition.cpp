// SPDX-License-Identifier: Apache-2.0

#include "mesh/layers/metacognition.hpp"

#include "mesh/network/graph.hpp"
#include "mesh/network/option.hpp"
#include "mesh/network/option_reader.hpp"

#include "kernels/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

namespace weft::mesh {
namespace {

class Metacognition final : public Layer {
 public:
  Metacognition(const Shape& in, const WatchRule& rule, float active_above)
      : Layer(in, Shape{sources(rule) * kernels::kStatistics}), rule_(rule), active_above_(active_above) {}

  const WatchRule& rule() const noexcept { return rule_; }
  bool is_observer() const noexcept override { return true; }
  bool observes_gradients() const noexcept override { return rule_.statistic == WatchRule::Statistic::gradient_storm; }
  Result<MadeObserver> make_observer(const ObserverSite& site) const override;
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
Name named(const std::array<std::string_view, count>& names, std::string_view text) {
  return static_cast<Name>(std::find(names.begin(), names.end(), text) - names.begin());
}

constexpr std::array<std::string_view, 6> kStatisticNames{"mean", "deviation",  "active",
                                                          "rms",  "gain_drift", "gradient_storm"};
constexpr std::array<std::string_view, 3> kActions{"morph", "reset", "swap"};

}  // namespace

LayerDeclaration declare_metacognition() {
  return {"...",
          "4 | swap: 8",
          {option::out(option::computed("what action says"), "values", "only that width"),
           option::choice("statistic", "rms", {kStatisticNames.begin(), kStatisticNames.end()},
                          "what the condition is about (mesh/layers/metacognition.hpp)"),
           option::number("above", option::none(), -1e+30, 1e+30, "of statistic",
                          "the condition holds above this; this or below is needed"),
           option::number("below", option::none(), -1e+30, 1e+30, "of statistic", "the condition holds below this"),
           option::choice("action", "reset", {kActions.begin(), kActions.end()}, "what is done"),
           option::only_with("action=morph",
                             option::dtype("to", option::needed(), "what the source's matrices are stored as")),
           option::whole("min_ticks", 1, 1, 4294967296, "ticks", "how long the condition must hold"),
           option::whole("cooldown", 1000, 4, 4294967296, "ticks", "from one action to the next"),
           option::whole("horizon", 256, 1, 4294967296, "ticks", "of the slow averages"),
           option::number("active_above", 0, 0, 1e+30, "values", "what counts as active")}};
}

Result<std::unique_ptr<Layer>> make_metacognition(const Shape& in, std::size_t out, OptionReader& options) {
  const std::string& object = options.object();
  WatchRule rule;
  WEFT_TRY(const std::string statistic, options.text("statistic"));
  rule.statistic = named<WatchRule::Statistic>(kStatisticNames, statistic);
  WEFT_TRY(const std::string action, options.text("action"));
  rule.action = named<WatchRule::Action>(kActions, action);
  WEFT_TRY(const double above, options.number("above", NAN));
  WEFT_TRY(const double below, options.number("below", NAN));
  if (std::isnan(above) && std::isnan(below))
    return fail(Errc::parse_failed, object + ".above: a metacognition layer needs a bound, above or below it");
  if (!std::isnan(above)) rule.above = above;
  if (!std::isnan(below)) rule.below = below;
  if (rule.action == WatchRule::Action::morph) {
    WEFT_TRY(const std::string to, options.text("to"));
    rule.encoding = Encoding(*parse_dtype(to));
  }
  WEFT_TRY(rule.min_ticks, options.integer("min_ticks"));
  WEFT_TRY(rule.cooldown, options.integer("cooldown"));
  WEFT_TRY(rule.horizon, options.integer("horizon"));
  WEFT_TRY(const double active_above, options.number("active_above"));
  if (rule.action == WatchRule::Action::swap && (in.size() != 1 || in[0] % 2 != 0))
    return fail(Errc::shape_mismatch,
                object + ": swap takes two vectors of equal width, not an input of shape " + weft::to_string(in));
  std::unique_ptr<Layer> layer(new Metacognition(in, rule, static_cast<float>(active_above)));
  if (out != 0 && out != layer->out())
    return fail(Errc::shape_mismatch, object + ".out: metacognition gives " + std::to_string(layer->out()) +
                                          " numbers, not " + std::to_string(out) + "; leave 'out' away");
  return layer;
}

// Slow averages are made of + - * / in binary64: the same everywhere.
bool Watcher::holds(double value) noexcept {
  const bool is_relative =
      rule_.statistic == WatchRule::Statistic::gain_drift || rule_.statistic == WatchRule::Statistic::gradient_storm;
  if (!is_relative) return value > rule_.above || value < rule_.below;
  // Before the first value there is nothing to compare with, and a layer that learned nothing has no gradient.
  if (value == 0 && (seen_ == 0 || rule_.statistic == WatchRule::Statistic::gradient_storm)) return false;
  const bool is_warm = seen_ >= rule_.horizon;
  constexpr double kFar = std::numeric_limits<double>::max();
  double change = slow_ > 0 ? value / slow_ : kFar;
  // Drift counts both ways.
  if (rule_.statistic == WatchRule::Statistic::gain_drift && change < 1) change = change > 0 ? 1 / change : kFar;
  slow_ = seen_ == 0 ? value : slow_ + (value - slow_) / static_cast<double>(std::min(seen_ + 1, rule_.horizon));
  ++seen_;
  return is_warm && (change > rule_.above || change < rule_.below);
}

bool Watcher::update(std::uint64_t tick, double value) noexcept {
  held_ = holds(value) ? held_ + 1 : 0;
  if (held_ < rule_.min_ticks || tick < cooldown_until_) return false;
  held_ = 0;
  cooldown_until_ = tick + rule_.cooldown;
  ++actions_;
  if (rule_.action == WatchRule::Action::swap) {
    is_swapped_ = 1 - is_swapped_;
    // The other layer has a gain of its own.
    slow_ = 0, seen_ = 0;
  }
  return true;
}

Status Watcher::restore(std::span<const std::uint64_t> words) {
  const auto refuse = [](const char* why) {
    return fail(Errc::corrupt, std::string("memory of metacognition: ") + why);
  };
  if (words.size() != kWords) return refuse("not 5 words");
  const auto slow = std::bit_cast<double>(words[3]);
  if (!(slow >= 0) || !std::isfinite(slow)) return refuse("a mean that is negative or not finite");
  if ((words[4] & 1) != 0 && rule_.action != WatchRule::Action::swap) return refuse("a swap where the rule makes none");
  cooldown_until_ = words[0], held_ = words[1], seen_ = words[2], slow_ = slow;
  actions_ = words[4] >> 1, is_swapped_ = words[4] & 1;
  return {};
}

double Watcher::value_of(const Observation& seen) const noexcept {
  if (rule_.statistic == WatchRule::Statistic::gradient_storm)
    return static_cast<double>(seen.gradient_size(watched().node));
  const std::size_t column = watched_source() * kernels::kStatistics +
                             static_cast<std::size_t>(std::min(rule_.statistic, WatchRule::Statistic::rms));
  double value = 0;
  for (std::size_t b = 0; b < seen.output.rows; ++b) value += static_cast<double>(seen.output.row(b)[column]);
  return value / static_cast<double>(seen.output.rows);
}

void Watcher::observe(const Observation& seen, CommandSink& to) {
  const CellPlace target = watched(), other = spare();
  if (!update(seen.tick, value_of(seen))) return;
  switch (rule_.action) {
    case WatchRule::Action::morph:
      return send(to, target, CommandKind::morph, seen.tick);
    case WatchRule::Action::reset:
      return send(to, target, CommandKind::reset, seen.tick);
    case WatchRule::Action::swap:
      send(to, target, CommandKind::reset, seen.tick);
      send(to, target, CommandKind::disable, seen.tick);
      send(to, other, CommandKind::enable, seen.tick);
  }
}

void Watcher::send(CommandSink& to, const CellPlace& place, CommandKind kind, std::uint64_t tick) const {
  auto control = std::make_shared<Command>();
  control->kind = kind;
  control->level = place.level;
  control->sender = node_ + 1;
  control->encoding = rule_.encoding;
  control->not_before = tick + 3;  // as Observer says
  to.send(place.cell, std::move(control));
}

const WatchRule* watch_rule(const Layer& layer) noexcept {
  const auto* const found = dynamic_cast<const Metacognition*>(&layer);
  return found ? &found->rule() : nullptr;
}

Result<MadeObserver> Metacognition::make_observer(const ObserverSite& site) const {
  const Graph& graph = site.graph;
  const Node& node = graph.nodes()[site.node];
  const std::size_t wanted = sources(rule_);
  if (node.sources.size() != wanted)
    return fail(Errc::invalid_argument, node.object + ".from: it watches " + std::to_string(wanted) +
                                            (wanted == 1 ? " layer, not " : " layers, the second a spare, not ") +
                                            std::to_string(node.sources.size()));
  std::array<CellPlace, 2> places{};
  for (std::size_t i = 0; i < wanted; ++i) {
    const Edge& edge = graph.edges()[node.sources[i]];
    const Node& source = graph.nodes()[edge.from];
    if (source.is_port()) return fail(Errc::invalid_argument, node.object + ".from: " + source.object + " is no layer");
    if (wanted == 2 && edge.width != node.in / 2)
      return fail(Errc::shape_mismatch, node.object + ".from: a spare must be as wide as what it stands in for");
    const bool has_matrix = std::any_of(source.layer->parameters().begin(), source.layer->parameters().end(),
                                        [](const ParameterSpec& p) { return p.is_matrix() && !p.own.encoding; });
    if (rule_.action == WatchRule::Action::morph && !has_matrix)
      return fail(Errc::invalid_argument,
                  node.object + ".action: " + source.object + " has no weight matrix that could morph");
    places[i] = site.place_of(edge.from);
  }
  if (wanted == 2 && places[0].cell == places[1].cell)
    return fail(Errc::invalid_argument, node.object + ".from: a spare in the cell that it stands in for");
  return MadeObserver{std::make_unique<Watcher>(rule_, site.node, places[0], places[1]),
                      {places.begin(), places.begin() + static_cast<std::ptrdiff_t>(wanted)}};
}

}  // namespace weft::mesh
