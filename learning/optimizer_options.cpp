// SPDX-License-Identifier: Apache-2.0

#include "learning/internal/optimizer_options.hpp"

#include "core/option_table.hpp"

namespace weft::learning {
namespace {

const std::vector<std::string_view> kClips{"none", "value", "norm", "global_norm"};
const std::vector<std::string_view> kOptimizers(kernels::optimizer_names().begin(), kernels::optimizer_names().end());
const std::vector<std::string_view> kRateSchedules(kernels::rate_schedule_names().begin(),
                                                   kernels::rate_schedule_names().end());

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
              .fallback_words = "0.9, `rmsprop` 0",
              .is_always_written = true,
              .meaning = "share of the old velocity",
              .applies = "type=momentum|rmsprop"}),
      with_default(option("dampening", &O::dampening,
                          {.low = 0,
                           .high = 1,
                           .fallback_words = "as `momentum`",
                           .is_always_written = true,
                           .meaning = "share of the gradient that the velocity leaves out",
                           .applies = "type=momentum"}),
                   [](O& o) { o.dampening = o.momentum; }),
      option("nesterov", &O::nesterov,
             {.is_always_written = true, .meaning = "look-ahead form", .applies = "type=momentum"}),
  };
}

std::vector<OptimizerField> mean_fields() {
  using O = OptimizerOptions;
  return {
      option("beta1", &O::beta1,
             {.low = 0,
              .high = 0.999999,
              .is_always_written = true,
              .meaning = "share of the old mean of gradients",
              .applies = "type=adamw|lion"}),
      option("beta2", &O::beta2,
             {.low = 0,
              .high = 0.999999,
              .fallback_words = "0.999, `lion` 0.99",
              .is_always_written = true,
              .meaning = "share of the old mean of squares; of `lion` the mean of gradients that is kept",
              .applies = "type=adamw|lion"}),
      option("alpha", &O::alpha,
             {.low = 0, .high = 0.999999, .meaning = "share of the old mean of squares", .applies = "type=rmsprop"}),
      option(
          "centered", &O::centered,
          {.meaning = "divides by the standard deviation instead of the root of that mean", .applies = "type=rmsprop"}),
      option("epsilon", &O::epsilon,
             {.low = 1e-20,
              .high = 1,
              .is_always_written = true,
              .meaning = "added to the root",
              .applies = "type=adamw|rmsprop"}),
  };
}

std::vector<OptimizerField> decay_fields() {
  using O = OptimizerOptions;
  return {
      option("weight_decay", &O::weight_decay,
             {.low = 0,
              .high = 1,
              .is_always_written = true,
              .meaning = "as a gradient (`sgd`, `momentum`, `rmsprop`) or apart from it (`adamw`, `lion`); biases and "
                         "gains are spared"}),
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
              .meaning = "length of the fall, of the first period (`warm_restarts`), of a step (`step`); these need it",
              .applies = "type=linear|cosine|warm_restarts|step|polynomial"}),
      option("growth", &O::growth,
             {.low = 1,
              .high = 1024,
              .is_always_written = true,
              .meaning = "length of a period in lengths of the one before",
              .applies = "type=warm_restarts"}),
      option("end", &O::end,
             {.low = 0,
              .high = 1,
              .is_always_written = true,
              .meaning = "share of the rate at the end",
              .applies = "type=linear|cosine|warm_restarts|polynomial"}),
      option("factor", &O::factor,
             {.low = 1e-20,
              .high = 1,
              .is_always_written = true,
              .meaning = "factor of the rate at each update (`exponential`) or step (`step`)",
              .applies = "type=exponential|step"}),
      option(
          "power", &O::power,
          {.low = 1e-3, .high = 100, .is_always_written = true, .meaning = "exponent", .applies = "type=polynomial"}),
  });
  return table;
}

bool is_endless(RateScheduleKind kind) noexcept {
  return kind == RateScheduleKind::constant || kind == RateScheduleKind::exponential;
}

std::string_view name(OptimizerKind kind) noexcept { return kOptimizers[static_cast<std::size_t>(kind)]; }
std::string_view name(Clip clip) noexcept { return kClips[static_cast<std::size_t>(clip)]; }
std::string_view name(RateScheduleKind kind) noexcept { return kRateSchedules[static_cast<std::size_t>(kind)]; }

}  // namespace weft::learning
