// SPDX-License-Identifier: Apache-2.0

#include "learning/rules/rule.hpp"

#include <array>

namespace weft::learning {
namespace {

constexpr std::array kDefinitions{
#define WEFT_RULE(name) &rules::name,
#include "learning/rules/rules.def"
#undef WEFT_RULE
};

}  // namespace

void through_feedback(const MatrixStep& s) {
  using kernels::Activation;
  if (!s.is_tanh) return s.stream.linear({s.feedback, nullptr, s.residual, Activation::linear, {}, s.dx});
  s.stream.binary({kernels::BinaryOp::add, s.past.y, s.residual, s.target});
  s.stream.linear({s.feedback, s.bias, s.target, Activation::tanh, {}, s.weighted});
  s.stream.linear({s.feedback, s.bias, s.past.y, Activation::tanh, {}, s.dx});
  s.stream.binary({kernels::BinaryOp::sub, s.weighted, s.dx, s.dx});
}

const RuleDefinition& rule_of(Rule rule) noexcept { return *kDefinitions[static_cast<std::size_t>(rule)]; }
std::string_view name(Rule rule) noexcept { return rule_of(rule).name; }
std::optional<Rule> parse_rule(std::string_view text) noexcept {
  for (std::size_t i = 0; i < kDefinitions.size(); ++i)
    if (kDefinitions[i]->name == text) return static_cast<Rule>(i);
  return std::nullopt;
}

std::vector<std::string_view> rule_names() {
  std::vector<std::string_view> names;
  for (const RuleDefinition* const each : kDefinitions) names.push_back(each->name);
  return names;
}

}  // namespace weft::learning
