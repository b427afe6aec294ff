// SPDX-License-Identifier: Apache-2.0
// The rule chain as Loom has it, the system that Weft follows: nothing bounds a step.

#include "learning/rules/rule.hpp"

namespace weft::learning::rules {

constinit const RuleDefinition chain_original{.name = "chain_original", .lr = 0.2f, .target_share = 0.1f};

}  // namespace weft::learning::rules
