// SPDX-License-Identifier: Apache-2.0
// The rule chain as Loom has it, the system that Weft follows: weights move by the whole gradient, a tenth of it is in
// the target that the link budget compares with, and nothing bounds a step.

#include "learning/rules/rule.hpp"

namespace weft::learning::rules {

constinit const RuleDefinition chain_original{.name = "chain_original", .lr = 0.02f, .budget_share = 0.1f};

}  // namespace weft::learning::rules
