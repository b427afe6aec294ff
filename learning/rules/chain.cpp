// SPDX-License-Identifier: Apache-2.0
// Targets a tenth of a gradient step away: a rule of the system that Weft follows, taken literally.

#include "learning/rules/rule.hpp"

namespace weft::learning::rules {

constinit const RuleDefinition chain{.name = "chain", .lr = 0.2f, .jacobian_share = 0.1f};

}  // namespace weft::learning::rules
