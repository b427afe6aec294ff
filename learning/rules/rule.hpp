// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "learning/options.hpp"

#include "mesh/network/layer.hpp"

#include "kernels/op_stream.hpp"
#include "kernels/views.hpp"

#include <string_view>

namespace weft::learning {

/// The way of errors to the layers.
enum class ErrorPath : int {
  gradients,      ///< along links, on every path, through hidden states too; a layer takes their sum
  displacements,  ///< along links, on the shortest path; a layer takes their mean
  direct,         ///< from the outputs to every layer at once, through matrices of feedback
  local,          ///< none travel: each layer has the loss of what a fixed matrix of its own reads from it
};

inline bool is_along_links(ErrorPath path) noexcept {
  return path == ErrorPath::gradients || path == ErrorPath::displacements;
}

/// Random matrices that a rule sends errors through.
enum class FeedbackMatrices : int {
  none,
  per_layer,   ///< [in, width] of each layer with a weight matrix; of other layers another draw of their weights
  learned,     ///< the same, but those of layers with a weight matrix learn to undo the layer
  per_output,  ///< [width, output's width] of each layer and output
  heads,       ///< [output's width, width] of each layer and output
};
inline bool is_per_layer(FeedbackMatrices matrices) noexcept {
  return matrices == FeedbackMatrices::per_layer || matrices == FeedbackMatrices::learned;
}

/// A layer with a weight matrix that sends the displacement of its output on to its input.
struct MatrixStep {
  kernels::OpStream& stream;
  const mesh::BackwardArgs& past;        // when the displacement was caused
  const kernels::ConstWeight& matrix;    // [width, in]
  kernels::ConstPanels feedback;         // of a rule that has one per layer
  const float* bias = nullptr;           // beside it, where it is learned and `is_tanh`
  bool is_tanh = false;                  // the feedback function, else it is linear
  kernels::MatrixView residual;          // of the output
  kernels::MatrixView dx;                // the result
  kernels::MatrixView target, weighted;  // scratch, as wide as the output and as the input
  float* sums;                           // scratch, as many as values of the input
};

/// A layer of any type under a rule that has its own way with each.
struct LayerStep {
  kernels::OpStream& stream;
  const mesh::Layer& layer;
  std::string_view type;                 // of the layer
  const mesh::BackwardArgs& past;        // when the displacement was caused
  kernels::MatrixView residual;          // of the output; of a step a share of it, against the step
  kernels::MatrixView dx;                // of `through_layer`: the result
  mesh::Gradients gradients;             // of `own_step`: added to
  kernels::MatrixView target, weighted;  // scratch, as wide as the output (own_step: as any side of its parameters) and
                                         // as the input
  float* sums;                           // scratch, as many as values of the input
};

/// Properties that make a learning rule; docs/learning.md has the equations. @thread its functions: as StepRule::learn
struct RuleDefinition {
  std::string_view name;
  ErrorPath path = ErrorPath::displacements;
  FeedbackMatrices feedback = FeedbackMatrices::none;
  float lr = 0.03f;                     // sgd and momentum's default
  float output_step = 1.0f;             // default
  float feedback_scale = 1.0f;          // default
  bool takes_wanted_output = false;     // an output's target is what it should say, not a step against the gradient
  float target_share = 1.0f;            // of a displacement, by which the layer's own target is apart
  float budget_share = 1.0f;            // of that, in the target that a hidden layer's link budget is of
  bool gives_state_targets = true;      // of displacements: from tick to tick, where a layer's state takes them
  bool outputs_send_gradients = false;  // an output sends J^T d, not through a feedback matrix
  float step_limit = 0.0f;              // default, 0: none
  bool adds_up = false;  // layers act together on the outputs: in deep networks each one's limited step is smaller
  float displacement_limit = 0.0f;  // default, 0: none
  float activation_limit = 0.0f;    // default, 0: none
  float gradient_limit = 0.0f;      // default, 0: none
  void (*through_matrix)(const MatrixStep& step) = nullptr;
  void (*through_layer)(const LayerStep& step) = nullptr;  // of all layers, in the place of their backward
  bool (*own_step)(const LayerStep& step) = nullptr;       // likewise; false: the layer has none
};

/// dx = g(y + d) - g(y) with the feedback function g(t) = B t, or tanh(B t + c).
void through_feedback(const MatrixStep& step);

/// The definition of a rule.
const RuleDefinition& rule_of(Rule rule) noexcept;
inline const RuleDefinition& rule_of(const LearningOptions& options) noexcept { return rule_of(options.rule); }

namespace rules {
#define WEFT_RULE(name) extern const RuleDefinition name;
#include "learning/rules/rules.def"
#undef WEFT_RULE
}  // namespace rules

}  // namespace weft::learning
