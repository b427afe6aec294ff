// SPDX-License-Identifier: Apache-2.0
// Simplified difference target propagation: learned inverses from the outputs on, no gradient passes any layer.
// Source: Bartunov et al. 2018, "Assessing the Scalability of Biologically-Motivated Deep Learning Algorithms and
// Architectures", arXiv:1807.04587.

#include "learning/rules/rule.hpp"

namespace weft::learning::rules {

constinit const RuleDefinition sdtp{.name = "sdtp",
                                    .feedback = FeedbackMatrices::learned,
                                    .step_limit = 0.5f,
                                    .adds_up = true,
                                    .displacement_limit = 1.0f,
                                    .activation_limit = 1.0f,
                                    .gradient_limit = 3.0f,
                                    .through_matrix = through_feedback};

}  // namespace weft::learning::rules
