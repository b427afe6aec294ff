// SPDX-License-Identifier: Apache-2.0

#include "learning/internal/learned_maps.hpp"

#include "learning/rules/rule.hpp"

#include "kernels/gumbel.hpp"

#include "core/cache_line.hpp"

#include <algorithm>

namespace weft::learning {

using kernels::BinaryOp;
using kernels::ConstMatrixView;
using kernels::ConstWeight;
using kernels::MatrixView;
using kernels::OpStream;

namespace {

// The difference of two standard Gumbel numbers is logistic: its standard deviation is pi / sqrt(3).
constexpr float kOverLogisticDeviation = 0.551328895f;

void apply(OpStream& stream, const mesh::LinearMap& map, const ConstWeight& w, const ConstMatrixView& x,
           const MatrixView& y, float* workspace) {
  if (!map.window)
    stream.linear({w, nullptr, x, kernels::Activation::linear, {}, y});
  else if (map.is_transposed)
    stream.convolve_transposed({*map.window, w, nullptr, x, kernels::Activation::linear, {}, y, workspace});
  else
    stream.convolve({*map.window, w, nullptr, x, kernels::Activation::linear, {}, y, workspace});
}

void apply_transposed(OpStream& stream, const mesh::LinearMap& map, const ConstWeight& w, const ConstMatrixView& y,
                      const MatrixView& x, float* workspace) {
  if (!map.window)
    stream.linear_transposed({w, y, x});
  else if (map.is_transposed)
    stream.convolve({*map.window, w, nullptr, y, kernels::Activation::linear, {}, x, workspace});
  else
    stream.convolve_transposed({*map.window, w, nullptr, y, kernels::Activation::linear, {}, x, workspace});
}

/// w += the gradient of y . apply(w, x) by w.
void accumulate(OpStream& stream, const mesh::LinearMap& map, const ConstMatrixView& y, const ConstMatrixView& x,
                const kernels::Panels& w, float* workspace) {
  if (!map.window)
    stream.outer_accumulate({y, x, w});
  else if (map.is_transposed)
    stream.convolve_outer({*map.window, x, y, w, workspace});
  else
    stream.convolve_outer({*map.window, y, x, w, workspace});
}

MatrixView row(float* values, std::size_t width) { return {values, 1, width, padded(width)}; }

}  // namespace

bool learns_maps(const mesh::Graph& graph, mesh::NodeId id, const LearningOptions& options) {
  const mesh::Node& node = graph.nodes()[id];
  if (rule_of(options).feedback != FeedbackMatrices::learned || node.is_port()) return false;
  if (node.layer->weight_matrix() >= 0 || !node.owners.empty()) return false;
  const auto has_map = [](const mesh::ParameterSpec& parameter) { return parameter.map.has_value(); };
  const auto& parameters = node.layer->parameters();
  if (std::none_of(parameters.begin(), parameters.end(), has_map)) return false;
  const auto sends = [&](std::uint32_t edge) { return !graph.nodes()[graph.edges()[edge].from].is_port(); };
  const bool is_output = std::find(graph.outputs().begin(), graph.outputs().end(), id) != graph.outputs().end();
  if (is_output && rule_of(options).outputs_send_gradients) return false;
  if (node.layer->state_size() == 0 && std::none_of(node.sources.begin(), node.sources.end(), sends)) return false;
  // Others read fixed weights while this layer's would move.
  return std::none_of(graph.nodes().begin(), graph.nodes().end(), [&](const mesh::Node& each) {
    return std::find(each.owners.begin(), each.owners.end(), id) != each.owners.end();
  });
}

void add_logistic_noise(OpStream& stream, const ConstMatrixView* x, float deviation, std::array<std::uint32_t, 2> key,
                        const MatrixView& position, const MatrixView& y, const MatrixView& other) {
  stream.fill({0.0f, y});
  stream.gumbel_noise({y, key, position, position, other});
  stream.gumbel_noise({y, key, position, position, y});
  stream.binary({BinaryOp::sub, y, other, y});
  stream.scale({deviation * kOverLogisticDeviation, y, y});
  if (x) stream.binary({BinaryOp::add, *x, y, y});
}

std::vector<LearnedMaps::Group> LearnedMaps::groups_of(const mesh::Layer& layer) {
  std::vector<Group> groups;
  const auto& parameters = layer.parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const mesh::ParameterSpec& spec = parameters[i];
    if (!spec.map) continue;
    Map map{i, spec.in, spec.out, &*spec.map, {}};
    if (spec.map->window) {
      map.in = spec.map->window->image();
      map.out = spec.out * spec.map->window->positions();
      if (spec.map->is_transposed) std::swap(map.in, map.out);
    }
    const std::uint32_t reads = spec.map->reads;
    auto group = std::find_if(groups.begin(), groups.end(), [&](const Group& each) { return each.reads == reads; });
    if (group == groups.end()) group = groups.insert(group, {reads, map.in, 0, 1, {}});
    group->out += map.out;
    if (spec.map->window) group->taps = spec.map->window->taps();
    group->maps.push_back(map);
  }
  return groups;
}

LearnedMaps::LearnedMaps(const mesh::Layer& layer, float* values) : groups_(groups_of(layer)) {
  std::vector<float*> places;
  for (const mesh::ParameterSpec& spec : layer.parameters()) {
    places.push_back(values);
    views_.push_back(kernels::ConstPanels{values, spec.out, spec.in});
    values += padded(spec.stored_size());
  }
  position_ = values;
  for (Group& group : groups_)
    for (Map& map : group.maps) {
      const mesh::ParameterSpec& spec = layer.parameters()[map.parameter];
      map.feedback = {places[map.parameter], spec.out, spec.in};
    }
}

std::size_t LearnedMaps::floats_of(const mesh::Layer& layer) {
  std::size_t floats = kernels::kNoiseState;
  for (const mesh::ParameterSpec& spec : layer.parameters()) floats += padded(spec.stored_size());
  return floats;
}

std::size_t LearnedMaps::scratch_of(const mesh::Layer& layer) {
  std::size_t floats = 0;
  for (const Group& group : groups_of(layer)) floats = std::max(floats, 2 * (padded(group.in) + padded(group.out)));
  return floats;
}

void LearnedMaps::learn(OpStream& stream, const mesh::ConstWeights& weights, const Place& place) const noexcept {
  for (const Group& group : groups_) learn_group(stream, group, weights, place);
}

void LearnedMaps::learn_group(OpStream& stream, const Group& group, const mesh::ConstWeights& weights,
                              const Place& place) const noexcept {
  const MatrixView error = row(place.scratch, group.in), undone = row(error.data + padded(group.in), group.in);
  const MatrixView made = row(undone.data + padded(group.in), group.out);
  const MatrixView other = row(made.data + padded(group.out), group.out);
  const auto part = [&](std::size_t at, const Map& map) { return row(made.data + at, map.out); };
  const MatrixView position{position_, 1, kernels::kNoiseState, kernels::kNoiseState};
  add_logistic_noise(stream, nullptr, 1.0f, place.key, position, error, undone);
  std::size_t at = 0;
  for (const Map& map : group.maps) {
    apply(stream, *map.kind, weights.matrix(map.parameter), error, part(at, map), place.workspace);
    at += map.out;
  }
  at = 0;
  for (const Map& map : group.maps) {
    apply_transposed(stream, *map.kind, kernels::ConstPanels(map.feedback), part(at, map), undone, place.workspace);
    stream.binary({BinaryOp::sub, error, undone, error});
    at += map.out;
  }
  const float values = static_cast<float>(group.taps) * static_cast<float>(group.out);
  limit_rows(stream, 1.0f / (place.lr * values), true, made, other, place.rows);
  stream.scale_rows({place.rows.factors, error, error});
  stream.scale({place.lr, error, error});
  at = 0;
  for (const Map& map : group.maps) {
    accumulate(stream, *map.kind, part(at, map), error, map.feedback, place.workspace);
    at += map.out;
  }
}

}  // namespace weft::learning
