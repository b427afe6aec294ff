// SPDX-License-Identifier: Apache-2.0
// Local losses: each layer learns the targets by itself, read from it by a fixed random matrix.
// Source: Mostafa, Ramesh and Cauwenberghs 2018, "Deep Supervised Learning Using Local Errors", arXiv:1711.06756;
// Nokland and Eidnes 2019, "Training Neural Networks with Local Error Signals", arXiv:1901.06656.

#include "learning/rules/rule.hpp"

namespace weft::learning::rules {

constinit const RuleDefinition local_ce{.name = "local_ce",
                                        .path = ErrorPath::local,
                                        .feedback = FeedbackMatrices::heads,
                                        .output_step = 3.0f,
                                        .feedback_scale = 3.0f,
                                        .step_limit = 0.5f,
                                        .displacement_limit = 1.0f,
                                        .activation_limit = 1.0f,
                                        .gradient_limit = 3.0f};

}  // namespace weft::learning::rules
