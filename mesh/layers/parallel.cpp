// SPDX-License-Identifier: Apache-2.0

#include "mesh/layers/parallel.hpp"

#include "mesh/layers/container.hpp"
#include "mesh/layers/grid_scatter.hpp"
#include "mesh/layers/identity.hpp"
#include "mesh/layers/mixture.hpp"
#include "mesh/network/option.hpp"
#include "mesh/network/option_reader.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace weft::mesh {
namespace {

using Builder = Container::Builder;
using Steps = std::vector<std::int32_t>;

std::string place_text(const std::vector<std::size_t>& numbers, std::size_t first) {
  return "[" + std::to_string(numbers[first]) + ", " + std::to_string(numbers[first + 1]) + ", " +
         std::to_string(numbers[first + 2]) + "]";
}

Status merge_elementwise(Builder& builder, const Steps& branches, Combine combine) {
  WEFT_TRY(const Shape joined, builder.joined(combine, branches, "merge"));
  Options none;
  OptionReader options(none, {}, "merge");
  WEFT_TRY(auto identity, make_identity(joined, 0, options));
  WEFT_CHECK(builder.add(std::move(identity), "merge", branches, combine));
  return {};
}

Status merge_on_grid(Builder& builder, const Steps& branches, OptionReader& options) {
  const std::string& object = options.object();
  WEFT_TRY(const auto grid, options.integers("grid", 3));
  WEFT_TRY(const auto places, options.integers("places", 3 * branches.size()));
  WEFT_TRY(const Shape joined, builder.joined(Combine::concat, branches, "merge"));
  const std::size_t features = builder.shape_of(branches[0]).back();
  for (const std::int32_t branch : branches)
    if (builder.shape_of(branch) != Shape{features})
      return fail(Errc::shape_mismatch, object +
                                            ".merge: grid_scatter takes vectors of equal width; the first branch has " +
                                            weft::to_string(builder.shape_of(branches[0])) + ", another has " +
                                            weft::to_string(builder.shape_of(branch)));
  auto values = volume({grid[0], grid[1], grid[2], features});
  if (!values || *values > kMaxWidth)
    return fail(Errc::too_large, object + ".grid: " + weft::to_string(grid) + " of " + std::to_string(features) +
                                     " values each are more than 16777216");
  std::vector<std::size_t> cells;
  for (std::size_t i = 0; i < branches.size(); ++i) {
    for (std::size_t axis = 0; axis < 3; ++axis)
      if (places[3 * i + axis] >= grid[axis])
        return fail(Errc::out_of_range, object + ".places: branch " + std::to_string(i) + " stands at " +
                                            place_text(places, 3 * i) + ", outside the grid " + weft::to_string(grid));
    cells.push_back((places[3 * i] * grid[1] + places[3 * i + 1]) * grid[2] + places[3 * i + 2]);
    if (std::find(cells.begin(), cells.end() - 1, cells.back()) != cells.end() - 1)
      return fail(Errc::duplicate_name, object + ".places: " + place_text(places, 3 * i) + " is taken by two branches");
  }
  WEFT_CHECK(builder.add(make_grid_scatter(grid, features, std::move(cells)), "merge", branches, Combine::concat));
  return {};
}

/// The softmax of logits that the first of `branches` gives, or that a matrix of its own does.
Result<std::int32_t> add_gate(Builder& builder, const Shape& in, const Shape& gated, const GateOptions& gate,
                              std::optional<std::int32_t> logits, OptionReader& options) {
  if (!logits) {
    WEFT_TRY(auto layer, make_gate(in, gate, options));
    return builder.add(std::move(layer), "gate", {Container::kInput}, Combine::concat);
  }
  if (const Shape& shape = builder.shape_of(*logits); shape != gated)
    return fail(Errc::shape_mismatch, options.object() + ".gate: the first layer makes " + weft::to_string(shape) +
                                          ", logits of " + std::to_string(gate.experts) + " experts are " +
                                          weft::to_string(gated));
  return builder.add(make_gate_of_logits(gated, gate), "gate", {*logits}, Combine::concat);
}

Status merge_by_gate(Builder& builder, const Shape& in, Steps branches, OptionReader& options) {
  GateOptions gate;
  WEFT_TRY(const std::string from, options.text("gate"));
  std::optional<std::int32_t> logits;
  if (from == "first") {
    if (branches.size() < 2)
      return fail(Errc::shape_mismatch, options.object() + ".gate: the first layer is the gate; an expert is needed");
    logits = branches.front();
    branches.erase(branches.begin());
  }
  gate.experts = branches.size();
  WEFT_TRY(gate.top_k, options.integer("top_k"));
  if (gate.top_k > gate.experts)
    return fail(Errc::out_of_range, options.object() + ".top_k: " + std::to_string(gate.top_k) + " of " +
                                        std::to_string(gate.experts) + " experts");
  WEFT_TRY(const double temperature, options.number("temperature"));
  WEFT_TRY(const double balance, options.number("balance"));
  WEFT_TRY(const double rate, options.number("balance_rate"));
  gate.temperature = static_cast<float>(temperature);
  gate.balance = static_cast<float>(balance);
  gate.balance_rate = static_cast<float>(rate);
  WEFT_CHECK(builder.joined(Combine::add, branches, "merge"));  // all of one shape
  Shape gated = in;
  gated.back() = gate.experts;
  Shape first = builder.shape_of(branches[0]);
  first.back() = gate.experts;
  if (first != gated)
    return fail(Errc::shape_mismatch, options.object() + ".merge: filter weighs every token of " + weft::to_string(in) +
                                          ", but its experts make " + weft::to_string(builder.shape_of(branches[0])));
  WEFT_TRY(const std::int32_t weights, add_gate(builder, in, gated, gate, logits, options));
  Steps sources{weights};
  sources.insert(sources.end(), branches.begin(), branches.end());
  WEFT_TRY(const Shape joined, builder.joined(Combine::concat, sources, "merge"));
  WEFT_TRY(const std::int32_t merge,
           builder.add(make_weighted_sum(joined, gate.experts), "merge", std::move(sources), Combine::concat));
  builder.choose(weights, std::move(branches), merge, gate.top_k);
  return {};
}

}  // namespace

LayerDeclaration declare_parallel() {
  return {
      "...",
      "concat: ..., sum | add, avg, filter: as its branches' | grid_scatter: z, y, x, features",
      {option::layers("the branches, side by side over the input"),
       option::choice("merge", "concat", {"concat", "add", "avg", "grid_scatter", "filter"},
                      "how their outputs come together (mesh/layers/parallel.hpp)"),
       option::only_with("merge=grid_scatter",
                         option::wholes("grid", option::needed(), 1, 16777216, 3, 3, "cells", "[z, y, x]")),
       option::only_with("merge=grid_scatter", option::wholes("places", option::needed(), 0, 16777216, 3, 16777216, "-",
                                                              "[z, y, x] of each branch in one list")),
       option::only_with("merge=filter",
                         option::choice("gate", "linear", {"linear", "first"},
                                        "where logits come from: a matrix of its own, or the first of the layers")),
       option::only_with("merge=filter", option::whole("top_k", 0, 0, 16777216, "-", "experts kept a token; 0: all")),
       option::only_with("merge=filter", option::number("temperature", 1, 1e-6, 1e6, "-", "divides the gate's logits")),
       option::only_with("merge=filter",
                         option::number("balance", 0, 0, 1e6, "-", "weight of the load-balance loss; 0: none")),
       option::only_with("merge=filter", option::number("balance_rate", 0.01, 1e-6, 1, "1/tick",
                                                        "how fast the running mean of the load moves"))}};
}

Result<std::unique_ptr<Layer>> make_parallel(const Shape& in, std::size_t out, OptionReader& options) {
  const std::string& object = options.object();
  if (out != 0)
    return fail(Errc::shape_mismatch, object + ".out: its branches say how wide a parallel is; leave 'out' away");
  Builder builder(in, options);
  Steps branches;
  for (const LayerSpec& layer : options.layers()) {
    WEFT_TRY(const std::int32_t step,
             builder.add(layer, "layers[" + std::to_string(branches.size()) + "]", {Container::kInput}));
    branches.push_back(step);
  }
  WEFT_TRY(const std::string merge, options.text("merge"));
  if (merge == "concat") {
    WEFT_CHECK(merge_elementwise(builder, branches, Combine::concat));
  } else if (merge == "add") {
    WEFT_CHECK(merge_elementwise(builder, branches, Combine::add));
  } else if (merge == "avg") {
    WEFT_CHECK(merge_elementwise(builder, branches, Combine::avg));
  } else if (merge == "grid_scatter") {
    WEFT_CHECK(merge_on_grid(builder, branches, options));
  } else {
    WEFT_CHECK(merge_by_gate(builder, in, branches, options));
  }
  return builder.finish();
}

}  // namespace weft::mesh
