// SPDX-License-Identifier: Apache-2.0

#include "learning/options.hpp"

#include "core/json_reader.hpp"

#include <array>
#include <vector>

namespace weft::learning {
namespace {

const std::vector<std::string_view> kRules{"backprop", "gap", "chain", "fw_dtp", "dfa"};
const std::vector<std::string_view> kSchedules{"settle", "pipelined"};
const std::vector<std::string_view> kLosses{"cross_entropy", "mse"};
const std::vector<std::string_view> kOptimizers{"sgd", "momentum", "adamw"};

template <class Enum>
std::optional<Enum> parse(const std::vector<std::string_view>& names, std::string_view text) noexcept {
  for (std::size_t i = 0; i < names.size(); ++i)
    if (names[i] == text) return static_cast<Enum>(i);
  return std::nullopt;
}

Result<OptimizerOptions> read_optimizer(JsonReader reader) {
  OptimizerOptions o;
  WEFT_TRY(o.kind, reader.one_of_or("type", o.kind, parse_optimizer, kOptimizers));
  WEFT_TRY(o.lr, reader.f32_or("lr", o.lr, 0.0f, 1000.0f));
  WEFT_TRY(o.momentum, reader.f32_or("momentum", o.momentum, 0.0f, 1.0f));
  WEFT_TRY(o.dampening, reader.f32_or("dampening", o.momentum, 0.0f, 1.0f));
  WEFT_TRY(o.nesterov, reader.boolean_or("nesterov", o.nesterov));
  WEFT_TRY(o.beta1, reader.f32_or("beta1", o.beta1, 0.0f, 0.999999f));
  WEFT_TRY(o.beta2, reader.f32_or("beta2", o.beta2, 0.0f, 0.999999f));
  WEFT_TRY(o.epsilon, reader.f32_or("epsilon", o.epsilon, 1e-20f, 1.0f));
  WEFT_TRY(o.weight_decay, reader.f32_or("weight_decay", o.weight_decay, 0.0f, 1.0f));
  WEFT_CHECK(reader.finish());
  return o;
}

}  // namespace

std::string_view name(Rule rule) noexcept { return kRules[static_cast<std::size_t>(rule)]; }
std::optional<Rule> parse_rule(std::string_view text) noexcept { return parse<Rule>(kRules, text); }
std::string_view name(Schedule schedule) noexcept { return kSchedules[static_cast<std::size_t>(schedule)]; }
std::optional<Schedule> parse_schedule(std::string_view text) noexcept { return parse<Schedule>(kSchedules, text); }
std::string_view name(Loss loss) noexcept { return kLosses[static_cast<std::size_t>(loss)]; }
std::optional<Loss> parse_loss(std::string_view text) noexcept { return parse<Loss>(kLosses, text); }
std::string_view name(OptimizerKind kind) noexcept { return kOptimizers[static_cast<std::size_t>(kind)]; }
std::optional<OptimizerKind> parse_optimizer(std::string_view text) noexcept {
  return parse<OptimizerKind>(kOptimizers, text);
}

LearningOptions with_defaults(LearningOptions options) noexcept {
  if (options.optimizer.lr == 0.0f) {
    // Rows: measured on the digits with the momentum form, docs/learning.md.
    static constexpr std::array<float, 5> kRates{0.03f, 0.001f, 0.2f, 0.03f, 0.03f};
    options.optimizer.lr =
        options.optimizer.kind == OptimizerKind::adamw ? 0.001f : kRates[static_cast<std::size_t>(options.rule)];
  }
  if (options.output_step == 0.0f) options.output_step = options.rule == Rule::gap ? 5.0f : 1.0f;
  if (options.feedback_scale == 0.0f) options.feedback_scale = options.rule == Rule::dfa ? 1.6f : 1.0f;
  return options;
}

Result<LearningOptions> read_learning(std::string_view text) {
  LearningOptions o;
  if (text.empty()) return o;
  WEFT_TRY(const auto document, parse_json(text, "learning"));
  WEFT_TRY(JsonReader reader, JsonReader::open(document, "learning"));
  WEFT_TRY(o.rule, reader.one_of_or("rule", o.rule, parse_rule, kRules));
  WEFT_TRY(o.schedule, reader.one_of_or("schedule", o.schedule, parse_schedule, kSchedules));
  WEFT_TRY(o.loss, reader.one_of_or("loss", o.loss, parse_loss, kLosses));
  if (const auto optimizer = reader.find("optimizer")) {
    WEFT_TRY(JsonReader inner, optimizer->object());
    WEFT_TRY(o.optimizer, read_optimizer(std::move(inner)));
  }
  WEFT_TRY(o.horizon, reader.u32_or("horizon", o.horizon, 0, 1024));
  WEFT_TRY(o.hold, reader.u32_or("hold", o.hold, 0, 1u << 20));
  WEFT_TRY(o.output_step, reader.f32_or("output_step", o.output_step, 0.0f, 1e6f));
  WEFT_TRY(o.feedback_scale, reader.f32_or("feedback_scale", o.feedback_scale, 0.0f, 1e6f));
  WEFT_TRY(const std::uint32_t learners, reader.u32_or("learners", 1, 1, 65536));
  o.learners = learners;
  WEFT_CHECK(reader.finish());
  return o;
}

std::string write_learning(const LearningOptions& o) {
  const auto& p = o.optimizer;
  const Json out{
      {"rule", name(o.rule)},
      {"schedule", name(o.schedule)},
      {"loss", name(o.loss)},
      {"optimizer",
       {{"type", name(p.kind)},
        {"lr", p.lr},
        {"momentum", p.momentum},
        {"dampening", p.dampening},
        {"nesterov", p.nesterov},
        {"beta1", p.beta1},
        {"beta2", p.beta2},
        {"epsilon", p.epsilon},
        {"weight_decay", p.weight_decay}}},
      {"horizon", o.horizon},
      {"hold", o.hold},
      {"output_step", o.output_step},
      {"feedback_scale", o.feedback_scale},
      {"learners", o.learners},
  };
  return out.dump();
}

}  // namespace weft::learning
