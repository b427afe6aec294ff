// SPDX-License-Identifier: Apache-2.0
// Gradients, one link back a tick: backpropagation through ticks as through layers.
// Source: Werbos 1990, "Backpropagation through time: what it does and how to do it".

#include "learning/rules/rule.hpp"

namespace weft::learning::rules {

constinit const RuleDefinition backprop{
    .name = "backprop", .path = ErrorPath::gradients, .step_limit = 1.0f, .adds_up = true};

}  // namespace weft::learning::rules
