// SPDX-License-Identifier: Apache-2.0
// Difference target propagation: each layer learns to undo what it does, and targets travel through that.
// Source: Lee, Zhang, Fischer and Bengio 2015, "Difference Target Propagation", arXiv:1412.7525.

#include "learning/rules/rule.hpp"

namespace weft::learning::rules {

constinit const RuleDefinition dtp{.name = "dtp",
                                   .feedback = FeedbackMatrices::learned,
                                   .outputs_send_gradients = true,
                                   .step_limit = 0.5f,
                                   .adds_up = true,
                                   .displacement_limit = 1.0f,
                                   .activation_limit = 1.0f,
                                   .gradient_limit = 3.0f,
                                   .through_matrix = through_feedback};

}  // namespace weft::learning::rules
