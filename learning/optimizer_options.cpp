// SPDX-License-Identifier: Apache-2.0

#include "learning/internal/optimizer_options.hpp"

#include "core/option_table.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <span>
#include <sstream>
#include <string>

namespace weft::learning {
namespace {

const std::vector<std::string_view> kClips{"none", "value", "norm", "global_norm"};
const std::vector<std::string_view> kOptimizers(kernels::optimizer_names().begin(), kernels::optimizer_names().end());
const std::vector<std::string_view> kRateSchedules(kernels::rate_schedule_names().begin(),
                                                   kernels::rate_schedule_names().end());

using Conditions = std::map<std::string, std::string, std::less<>>;

/// optimizers_with("momentum"), by option: the types whose rows name it.
Conditions conditions(std::span<const std::string_view> types, std::span<const std::string_view> options) {
  Conditions all;
  for (std::size_t i = 0; i < types.size(); ++i) {
    std::istringstream keys{std::string(options[i])};
    for (std::string key; keys >> key;) {
      std::string& condition = all[key];
      condition.append(condition.empty() ? "type=" : "|").append(types[i]);
    }
  }
  return all;
}

std::string_view optimizers_with(std::string_view option) {
  static const Conditions all = conditions(kOptimizers, kernels::optimizer_options());
  const auto found = all.find(option);
  WEFT_ASSERT(found != all.end(), "no optimiser takes " + std::string(option));
  return found->second;
}

std::string_view schedules_with(std::string_view option) {
  static const Conditions all = conditions(kRateSchedules, kernels::rate_schedule_options());
  const auto found = all.find(option);
  WEFT_ASSERT(found != all.end(), "no schedule takes " + std::string(option));
  return found->second;
}

bool takes(OptimizerKind kind, std::string_view option) {
  const auto values = parse_condition(optimizers_with(option)).values;
  return std::find(values.begin(), values.end(), name(kind)) != values.end();
}

/// "0.9, `rmsprop` 0": the default, and those of optimisers that have another one.
std::string defaults_of(float OptimizerOptions::*member, std::string_view option) {
  std::ostringstream text;
  const float usual = OptimizerOptions().*member;
  text << usual;
  for (std::size_t i = 0; i < kOptimizers.size(); ++i) {
    const auto kind = static_cast<OptimizerKind>(i);
    const float own = kernels::default_options(kind).*member;
    if (takes(kind, option) && own != usual) text << ", `" << kOptimizers[i] << "` " << own;
  }
  return text.str();
}

/// "`adamw`, `lion`": the optimisers whose rows name it, or (`has` false) the others.
std::string optimizers_in_words(std::string_view option, bool has) {
  std::string text;
  for (std::size_t i = 0; i < kOptimizers.size(); ++i)
    if (takes(static_cast<OptimizerKind>(i), option) == has)
      text.append(text.empty() ? "`" : ", `").append(kOptimizers[i]).append("`");
  return text;
}

using OptimizerField = OptionTable<OptimizerOptions>::Field;

/// The optimiser, which brings the defaults of the options after it.
OptimizerField optimizer_field() {
  auto field = option("type", &OptimizerOptions::kind,
                      {.names = kOptimizers, .is_always_written = true, .meaning = "how weights move"});
  field.read = [row = field.row](const JsonValue& value, OptimizerOptions& o) -> Status {
    WEFT_TRY(const auto kind, OptionCodec<OptimizerKind>::read(row, value));
    o = kernels::default_options(kind);
    o.lr = 0.0f;
    return {};
  };
  return field;
}

std::vector<OptimizerField> velocity_fields() {
  using O = OptimizerOptions;
  static const std::string momenta = defaults_of(&O::momentum, "momentum");
  return {
      optimizer_field(),
      option("lr", &O::lr,
             {.low = 0,
              .high = 1000,
              .is_always_written = true,
              .meaning = "learning rate; 0: the default of the optimiser or the rule"}),
      option("momentum", &O::momentum,
             {.low = 0,
              .high = 1,
              .fallback_words = momenta,
              .is_always_written = true,
              .meaning = "share of the old velocity",
              .applies = optimizers_with("momentum")}),
      with_default(option("dampening", &O::dampening,
                          {.low = 0,
                           .high = 1,
                           .fallback_words = "as `momentum`",
                           .is_always_written = true,
                           .meaning = "share of the gradient that the velocity leaves out",
                           .applies = optimizers_with("dampening")}),
                   [](O& o) { o.dampening = o.momentum; }),
      option("nesterov", &O::nesterov,
             {.is_always_written = true, .meaning = "look-ahead form", .applies = optimizers_with("nesterov")}),
  };
}

std::vector<OptimizerField> mean_fields() {
  using O = OptimizerOptions;
  static const std::string second_betas = defaults_of(&O::beta2, "beta2");
  return {
      option("beta1", &O::beta1,
             {.low = 0,
              .high = 0.999999,
              .is_always_written = true,
              .meaning = "share of the old mean of gradients",
              .applies = optimizers_with("beta1")}),
      option("beta2", &O::beta2,
             {.low = 0,
              .high = 0.999999,
              .fallback_words = second_betas,
              .is_always_written = true,
              .meaning = "share of the old mean of squares, or of the mean of gradients where no squares are kept",
              .applies = optimizers_with("beta2")}),
      option("alpha", &O::alpha,
             {.low = 0,
              .high = 0.999999,
              .meaning = "share of the old mean of squares",
              .applies = optimizers_with("alpha")}),
      option("centered", &O::centered,
             {.meaning = "divides by the standard deviation instead of the root of that mean",
              .applies = optimizers_with("centered")}),
      option("epsilon", &O::epsilon,
             {.low = 1e-20,
              .high = 1,
              .is_always_written = true,
              .meaning = "added to the root",
              .applies = optimizers_with("epsilon")}),
  };
}

std::vector<OptimizerField> decay_fields() {
  using O = OptimizerOptions;
  static const std::string decay = "as a gradient (" + optimizers_in_words("decoupled", false) +
                                   ") or apart from it (" + optimizers_in_words("decoupled", true) +
                                   "); biases and gains are spared";
  return {
      option("weight_decay", &O::weight_decay, {.low = 0, .high = 1, .is_always_written = true, .meaning = decay}),
      option(
          "clip", &O::clip,
          {.names = kClips,
           .meaning = "limits gradients: each value, the norm of a layer's, or the norm of all layers' (not with the "
                      "schedule `pipelined`)"}),
      option("clip_limit", &O::clip_limit,
             {.low = 1e-20, .high = 1e20, .meaning = "the limit", .applies = "clip=value|norm|global_norm"}),
  };
}

}  // namespace

const OptionTable<OptimizerOptions>& optimizer_table() {
  static const OptionTable<OptimizerOptions> table(joined({velocity_fields(), mean_fields(), decay_fields()}));
  return table;
}

const OptionTable<RateSchedule>& rate_table() {
  using O = RateSchedule;
  static const OptionTable<RateSchedule> table({
      option("type", &O::kind, {.names = kRateSchedules, .is_always_written = true, .meaning = "course of the rate"}),
      option("warmup", &O::warmup,
             {.is_always_written = true,
              .unit = "updates",
              .meaning = "first updates, in which the rate rises in a straight line; the schedule follows"}),
      option("updates", &O::updates,
             {.is_always_written = true,
              .unit = "updates",
              .meaning = "length of the fall, of the first period or of a step; the schedules that have it need it",
              .applies = schedules_with("updates")}),
      option("growth", &O::growth,
             {.low = 1,
              .high = 1024,
              .is_always_written = true,
              .meaning = "length of a period in lengths of the one before",
              .applies = schedules_with("growth")}),
      option("end", &O::end,
             {.low = 0,
              .high = 1,
              .is_always_written = true,
              .meaning = "share of the rate at the end",
              .applies = schedules_with("end")}),
      option("factor", &O::factor,
             {.low = 1e-20,
              .high = 1,
              .is_always_written = true,
              .meaning = "factor of the rate at each update, or at each step",
              .applies = schedules_with("factor")}),
      option("power", &O::power,
             {.low = 1e-3,
              .high = 100,
              .is_always_written = true,
              .meaning = "exponent",
              .applies = schedules_with("power")}),
  });
  return table;
}

bool has_plain_steps(const OptimizerOptions& options) noexcept { return kernels::arrays_of(options) == 0; }

bool is_endless(RateScheduleKind kind) noexcept {
  const auto values = parse_condition(schedules_with("updates")).values;
  return std::find(values.begin(), values.end(), name(kind)) == values.end();
}

std::string_view name(OptimizerKind kind) noexcept { return kOptimizers[static_cast<std::size_t>(kind)]; }
std::string_view name(Clip clip) noexcept { return kClips[static_cast<std::size_t>(clip)]; }
std::string_view name(RateScheduleKind kind) noexcept { return kRateSchedules[static_cast<std::size_t>(kind)]; }

}  // namespace weft::learning
