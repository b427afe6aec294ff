// SPDX-License-Identifier: Apache-2.0

#include "learning/options.hpp"

#include "core/json_reader.hpp"

#include <array>
#include <sstream>
#include <string>
#include <vector>

namespace weft::learning {
namespace {

const std::vector<std::string_view> kRules{"backprop", "gap", "chain", "fw_dtp", "dfa"};
const std::vector<std::string_view> kSchedules{"settle", "pipelined"};
const std::vector<std::string_view> kLosses{"cross_entropy", "mse"};
const std::vector<std::string_view> kClips{"none", "value", "norm", "global_norm"};
const std::vector<std::string_view> kOptimizers(kernels::optimizer_names().begin(), kernels::optimizer_names().end());
const std::vector<std::string_view> kRateSchedules(kernels::rate_schedule_names().begin(),
                                                   kernels::rate_schedule_names().end());

template <class Enum>
std::optional<Enum> parse(const std::vector<std::string_view>& names, std::string_view text) noexcept {
  for (std::size_t i = 0; i < names.size(); ++i)
    if (names[i] == text) return static_cast<Enum>(i);
  return std::nullopt;
}

std::string number_text(float value) {
  std::ostringstream out;
  out << value;
  return out.str();
}

Result<OptimizerOptions> read_optimizer(JsonReader reader) {
  WEFT_TRY(const OptimizerKind kind, reader.one_of_or("type", OptimizerOptions().kind, parse_optimizer, kOptimizers));
  OptimizerOptions o = kernels::default_options(kind);
  WEFT_TRY(o.lr, reader.f32_or("lr", 0.0f, 0.0f, 1000.0f));
  WEFT_TRY(o.momentum, reader.f32_or("momentum", o.momentum, 0.0f, 1.0f));
  WEFT_TRY(o.dampening, reader.f32_or("dampening", o.momentum, 0.0f, 1.0f));
  WEFT_TRY(o.nesterov, reader.boolean_or("nesterov", o.nesterov));
  WEFT_TRY(o.beta1, reader.f32_or("beta1", o.beta1, 0.0f, 0.999999f));
  WEFT_TRY(o.beta2, reader.f32_or("beta2", o.beta2, 0.0f, 0.999999f));
  WEFT_TRY(o.epsilon, reader.f32_or("epsilon", o.epsilon, 1e-20f, 1.0f));
  WEFT_TRY(o.weight_decay, reader.f32_or("weight_decay", o.weight_decay, 0.0f, 1.0f));
  WEFT_TRY(o.alpha, reader.f32_or("alpha", o.alpha, 0.0f, 0.999999f));
  WEFT_TRY(o.centered, reader.boolean_or("centered", o.centered));
  WEFT_TRY(o.clip, reader.one_of_or("clip", o.clip, parse_clip, kClips));
  WEFT_TRY(o.clip_limit, reader.f32_or("clip_limit", o.clip_limit, 1e-20f, 1e20f));
  WEFT_CHECK(reader.finish());
  return o;
}

Result<RateSchedule> read_rate_schedule(JsonReader reader) {
  RateSchedule o;
  WEFT_TRY(o.kind, reader.one_of_or("type", o.kind, parse_rate_schedule, kRateSchedules));
  WEFT_TRY(o.warmup, reader.u32_or("warmup", o.warmup, 0, UINT32_MAX));
  WEFT_TRY(o.updates, reader.u32_or("updates", o.updates, 0, UINT32_MAX));
  WEFT_TRY(o.growth, reader.u32_or("growth", o.growth, 1, 1024));
  WEFT_TRY(o.end, reader.f32_or("end", o.end, 0.0f, 1.0f));
  WEFT_TRY(o.factor, reader.f32_or("factor", o.factor, 1e-20f, 1.0f));
  WEFT_TRY(o.power, reader.f32_or("power", o.power, 1e-3f, 100.0f));
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

std::string_view name(Clip clip) noexcept { return kClips[static_cast<std::size_t>(clip)]; }
std::optional<Clip> parse_clip(std::string_view text) noexcept { return parse<Clip>(kClips, text); }
std::string_view name(RateScheduleKind kind) noexcept { return kRateSchedules[static_cast<std::size_t>(kind)]; }
std::optional<RateScheduleKind> parse_rate_schedule(std::string_view text) noexcept {
  return parse<RateScheduleKind>(kRateSchedules, text);
}

Status check_options(const LearningOptions& options) {
  const OptimizerOptions& o = options.optimizer;
  const RateSchedule& s = options.rate_schedule;
  constexpr float kLargestShare = 0.999999f;
  const struct {
    const char* key;
    float value, least, most;
  } bounds[] = {
      {"optimizer.lr", o.lr, 0.0f, 1000.0f},
      {"optimizer.momentum", o.momentum, 0.0f, 1.0f},
      {"optimizer.dampening", o.dampening, 0.0f, 1.0f},
      {"optimizer.beta1", o.beta1, 0.0f, kLargestShare},
      {"optimizer.beta2", o.beta2, 0.0f, kLargestShare},
      {"optimizer.epsilon", o.epsilon, 1e-20f, 1.0f},
      {"optimizer.weight_decay", o.weight_decay, 0.0f, 1.0f},
      {"optimizer.alpha", o.alpha, 0.0f, kLargestShare},
      {"optimizer.clip_limit", o.clip_limit, 1e-20f, 1e20f},
      {"rate_schedule.growth", static_cast<float>(s.growth), 1.0f, 1024.0f},
      {"rate_schedule.end", s.end, 0.0f, 1.0f},
      {"rate_schedule.factor", s.factor, 1e-20f, 1.0f},
      {"rate_schedule.power", s.power, 1e-3f, 100.0f},
  };
  for (const auto& [key, value, least, most] : bounds)
    if (!(value >= least && value <= most))
      return fail(Errc::out_of_range, "learning." + std::string(key) + ": " + number_text(value) + " is not within [" +
                                          number_text(least) + ", " + number_text(most) + "]");
  const bool is_endless = s.kind == RateScheduleKind::constant || s.kind == RateScheduleKind::exponential;
  if (!is_endless && s.updates == 0)
    return fail(Errc::invalid_argument, "learning.rate_schedule.updates: 0; '" + std::string(name(s.kind)) +
                                            "' needs the number of updates that it takes");
  if (options.optimizer.clip == Clip::global_norm && options.schedule == Schedule::pipelined)
    return fail(Errc::invalid_argument,
                "learning.optimizer.clip: 'global_norm' with learning.schedule 'pipelined', where layers learn from "
                "different samples at once; use 'norm', or the schedule 'settle'");
  return {};
}

LearningOptions with_defaults(LearningOptions options) noexcept {
  if (options.optimizer.lr == 0.0f) {
    // Rows: measured on the digits with the momentum form, docs/learning.md.
    static constexpr std::array<float, 5> kRates{0.03f, 0.001f, 0.2f, 0.03f, 0.03f};
    const float own = kernels::default_options(options.optimizer.kind).lr;
    options.optimizer.lr = own != 0.0f ? own : kRates[static_cast<std::size_t>(options.rule)];
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
  if (const auto schedule = reader.find("rate_schedule")) {
    WEFT_TRY(JsonReader inner, schedule->object());
    WEFT_TRY(o.rate_schedule, read_rate_schedule(std::move(inner)));
  }
  WEFT_TRY(o.horizon, reader.u32_or("horizon", o.horizon, 0, 1024));
  WEFT_TRY(o.hold, reader.u32_or("hold", o.hold, 0, 1u << 20));
  WEFT_TRY(o.output_step, reader.f32_or("output_step", o.output_step, 0.0f, 1e6f));
  WEFT_TRY(o.feedback_scale, reader.f32_or("feedback_scale", o.feedback_scale, 0.0f, 1e6f));
  WEFT_TRY(const std::uint32_t learners, reader.u32_or("learners", 1, 1, 65536));
  o.learners = learners;
  WEFT_CHECK(reader.finish());
  WEFT_CHECK(check_options(o));
  return o;
}

std::string write_learning(const LearningOptions& o) {
  const auto& p = o.optimizer;
  Json out{
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
  const OptimizerOptions usual = kernels::default_options(p.kind);
  if (p.alpha != usual.alpha) out["optimizer"]["alpha"] = p.alpha;
  if (p.centered) out["optimizer"]["centered"] = true;
  if (p.clip != Clip::none) out["optimizer"]["clip"] = name(p.clip);
  if (p.clip_limit != usual.clip_limit) out["optimizer"]["clip_limit"] = p.clip_limit;
  if (const RateSchedule& s = o.rate_schedule; s != RateSchedule())
    out["rate_schedule"] = {{"type", name(s.kind)}, {"warmup", s.warmup}, {"updates", s.updates}, {"growth", s.growth},
                            {"end", s.end},         {"factor", s.factor}, {"power", s.power}};
  return out.dump();
}

}  // namespace weft::learning
