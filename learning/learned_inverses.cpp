// SPDX-License-Identifier: Apache-2.0

#include "learning/internal/learned_inverses.hpp"

#include "learning/internal/feedback_weights.hpp"
#include "learning/rules/rule.hpp"

#include "kernels/gumbel.hpp"

#include "core/cache_line.hpp"
#include "core/philox.hpp"

#include <array>
#include <cmath>

namespace weft::learning {

using kernels::BinaryOp;
using kernels::MatrixView;
using mesh::NodeId;

namespace {

std::size_t size_of(const mesh::Graph& graph, NodeId id, const LearningOptions& options) {
  const mesh::Node& node = graph.nodes()[id];
  if (learns_maps(graph, id, options)) return LearnedMaps::floats_of(*node.layer);
  if (node.is_port() || node.layer->weight_matrix() < 0 || !node.layer->row_product()) return 0;
  if (rule_of(options).feedback != FeedbackMatrices::learned) return 0;
  return kernels::panels_size(node.in, node.width) + padded(node.in) + options.learners * kernels::kNoiseState;
}

}  // namespace

std::size_t LearnedInverses::floats_of(const mesh::Graph& graph, const LearningOptions& options) {
  std::size_t floats = 0;
  for (NodeId id = 0; id < graph.nodes().size(); ++id) floats += padded(size_of(graph, id, options));
  return floats;
}

LearnedInverses::LearnedInverses(const mesh::Graph& graph, const LearningOptions& options)
    : values_(floats_of(graph, options)),
      learners_(options.learners),
      seed_(graph.spec().seed),
      lr_(options.inverse_lr),
      noise_(options.inverse_noise),
      is_tanh_(options.feedback == Feedback::tanh) {
  std::size_t end = 0;
  std::vector<float> drawn;
  for (NodeId id = 0; id < graph.nodes().size(); ++id) {
    const mesh::Node& node = graph.nodes()[id];
    offsets_.push_back(end);
    sizes_.push_back(size_of(graph, id, options));
    maps_.emplace_back();
    in_.push_back(node.in);
    width_.push_back(node.width);
    end += padded(sizes_.back());
    if (sizes_.back() == 0) continue;
    if (learns_maps(graph, id, options)) {
      maps_.back() = LearnedMaps(*node.layer, at(id));
      float* to = at(id);
      for (std::size_t i = 0; i < node.layer->parameters().size(); ++i) {
        draw_parameter(graph, id, i, drawn, to);
        to += padded(node.layer->parameters()[i].stored_size());
      }
      continue;
    }
    RandomStream random(seed_, graph.spec().grid.index(node.at) * 16, RandomPurpose::feedback);
    const float deviation = options.feedback_scale / std::sqrt(static_cast<float>(node.width));
    for (std::size_t r = 0; r < node.in; ++r)
      for (std::size_t c = 0; c < node.width; ++c)
        values_[offsets_.back() + kernels::panel_index(node.width, r, c)] = random.next_normal() * deviation;
  }
}

std::array<std::uint32_t, 2> LearnedInverses::noise_key(NodeId node) const noexcept {
  return {static_cast<std::uint32_t>(seed_) ^ 0x9e3779b9u,
          static_cast<std::uint32_t>(seed_ >> 32) ^ static_cast<std::uint32_t>(node)};
}

void LearnedInverses::learn_maps(kernels::OpStream& stream, NodeId node, const mesh::ConstWeights& weights,
                                 float* scratch, float* workspace, const RowNumbers& rows) const noexcept {
  maps_[node].learn(stream, weights, {scratch, workspace, rows, noise_key(node), lr_});
}

void LearnedInverses::learn(kernels::OpStream& stream, NodeId node, const mesh::Layer& layer,
                            const mesh::ConstWeights& weights, const kernels::ConstMatrixView& x,
                            const Scratch& scratch) noexcept {
  const std::size_t in = in_[node], width = width_[node];
  float* const bias = at(node) + matrix_size(node);
  const MatrixView position{bias + padded(in), learners_, kernels::kNoiseState, kernels::kNoiseState};
  const MatrixView& noisy = scratch.input;
  const MatrixView& other = scratch.other_input;
  add_logistic_noise(stream, &x, noise_, noise_key(node), position, noisy, other);
  const float* const own_bias = layer.parameters().size() > 1 ? weights.vector(1) : nullptr;
  stream.linear({weights.matrix(0), own_bias, noisy, *layer.row_product(), {}, scratch.output});
  // e = (x' - g(y')) g'.
  const MatrixView error = other;
  stream.linear({matrix(node),
                 is_tanh_ ? bias : nullptr,
                 scratch.output,
                 is_tanh_ ? kernels::Activation::tanh : kernels::Activation::linear,
                 {},
                 error});
  stream.binary({BinaryOp::sub, noisy, error, noisy});
  if (is_tanh_) stream.unary_backward({kernels::Activation::tanh, {}, error, noisy, noisy});
  limit_rows(stream, 1.0f / (lr_ * static_cast<float>(width)), true, scratch.output, scratch.other_output,
             scratch.rows);
  stream.scale_rows({scratch.rows.factors, noisy, noisy});
  stream.scale({lr_ / static_cast<float>(learners_), noisy, noisy});
  stream.outer_accumulate({noisy, scratch.output, {at(node), in, width}});
  if (is_tanh_) stream.column_accumulate({noisy, bias});
}

}  // namespace weft::learning
