// SPDX-License-Identifier: Apache-2.0
// Difference target propagation with fixed feedback weights.
// Source: Shibuya, Inoue, Kawakami and Sato 2023, "Fixed-Weight Difference Target Propagation", arXiv:2212.10352.

#include "learning/rules/rule.hpp"

namespace weft::learning::rules {

constinit const RuleDefinition fw_dtp{.name = "fw_dtp",
                                      .feedback = FeedbackMatrices::per_layer,
                                      .step_limit = 0.5f,
                                      .displacement_limit = 1.0f,
                                      .activation_limit = 1.0f,
                                      .gradient_limit = 3.0f,
                                      .through_matrix = through_feedback};

}  // namespace weft::learning::rules
