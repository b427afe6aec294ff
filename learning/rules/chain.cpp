// SPDX-License-Identifier: Apache-2.0
// Gradients travel on undiminished; each layer's target is a tenth of a step against its own: the rule of Loom, the
// system that Weft follows, with bounded steps.

#include "learning/rules/rule.hpp"

namespace weft::learning::rules {

constinit const RuleDefinition chain{.name = "chain",
                                     .lr = 0.2f,
                                     .target_share = 0.1f,
                                     .step_limit = 0.5f,
                                     .adds_up = true,
                                     .displacement_limit = 1.0f,
                                     .activation_limit = 1.0f,
                                     .gradient_limit = 3.0f};

}  // namespace weft::learning::rules
