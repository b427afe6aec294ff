// SPDX-License-Identifier: Apache-2.0
// Direct feedback alignment: the outputs' errors through fixed random weights to every layer.
// Source: Nokland 2016, "Direct Feedback Alignment Provides Learning in Deep Neural Networks", arXiv:1609.01596.

#include "learning/rules/rule.hpp"

namespace weft::learning::rules {

constinit const RuleDefinition dfa{.name = "dfa",
                                   .path = ErrorPath::direct,
                                   .feedback = FeedbackMatrices::per_output,
                                   .feedback_scale = 1.6f,
                                   .step_limit = 0.5f,
                                   .displacement_limit = 1.0f,
                                   .activation_limit = 1.0f,
                                   .gradient_limit = 3.0f};

}  // namespace weft::learning::rules
