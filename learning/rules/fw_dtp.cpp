// SPDX-License-Identifier: Apache-2.0
// Difference target propagation with fixed feedback weights.
// Source: Shibuya, Inoue, Kawakami and Sato 2023, "Fixed-Weight Difference Target Propagation", arXiv:2212.10352.

#include "learning/rules/rule.hpp"

namespace weft::learning::rules {
namespace {

void through_fixed_feedback(const MatrixStep& s) {
  s.stream.linear({s.feedback, nullptr, s.residual, kernels::Activation::linear, {}, s.dx});
}

}  // namespace

constinit const RuleDefinition fw_dtp{
    .name = "fw_dtp", .feedback = FeedbackMatrices::per_layer, .through_matrix = through_fixed_feedback};

}  // namespace weft::learning::rules
