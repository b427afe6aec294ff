// SPDX-License-Identifier: Apache-2.0

#include "learning/drift/drift_options.hpp"

#include "learning/internal/drift_table.hpp"
#include "learning/options.hpp"

#include <bit>
#include <string>
#include <vector>

namespace weft::learning {
namespace {

const std::vector<std::string_view> kInputs{"error", "loss", "td_error", "return"}, kSwaps{"none", "initial", "best"};

using DetectorTable = OptionTable<DetectorOptions>;

std::vector<DetectorTable::Field> window_fields() {
  using O = DetectorOptions;
  return {
      option("detector", &O::kind, {.names = detector_names(), .meaning = "what looks for changes of the task"}),
      option("confidence", &O::confidence,
             {.low = 0,
              .high = 0.999,
              .meaning = "probability of a false alarm; 0: the detector's own, 0.002, 0.005, and 0.001 of hddm",
              .only_with = "detector=adwin|kswin|hddm_a|hddm_w"}),
      option("warning_confidence", &O::warning_confidence,
             {.low = 1e-12, .high = 0.999, .meaning = "the same of a warning", .only_with = "detector=hddm_a|hddm_w"}),
      option("clock", &O::clock,
             {.low = 1,
              .high = 65536,
              .unit = "scores",
              .meaning = "scores from one look to the next",
              .only_with = "detector=adwin"}),
      option("window", &O::window,
             {.low = 2,
              .high = 65536,
              .unit = "scores",
              .meaning = "the last scores, which are kept",
              .only_with = "detector=kswin"}),
      option("recent", &O::recent,
             {.low = 1,
              .high = 32768,
              .unit = "scores",
              .meaning = "the latest of them, which are held against as many of the others, drawn anew each time",
              .only_with = "detector=kswin"}),
      option("share", &O::share,
             {.low = 1e-6,
              .high = 0.999,
              .meaning = "of the newest score in a mean of scores",
              .only_with = "detector=hddm_w"}),
  };
}

std::vector<DetectorTable::Field> level_fields() {
  using O = DetectorOptions;
  return {
      option("tolerance", &O::tolerance,
             {.low = 0, .high = 1e9, .meaning = "change that is none (delta)", .only_with = "detector=page_hinkley"}),
      option("threshold", &O::threshold,
             {.low = 0,
              .high = 1e12,
              .meaning = "sum of deviations that is a change (lambda)",
              .only_with = "detector=page_hinkley"}),
      option("fading", &O::fading,
             {.low = 0,
              .high = 1,
              .meaning = "share of that sum that stays from one score to the next",
              .only_with = "detector=page_hinkley"}),
      option("warm_up", &O::warm_up,
             {.low = 1,
              .high = 1u << 20,
              .unit = "scores",
              .meaning = "scores before the first alarm; of eddm errors",
              .only_with = "detector=page_hinkley|ddm|eddm"}),
      option("warning_level", &O::warning_level,
             {.low = 0, .high = 1000, .meaning = "standard deviations of a warning", .only_with = "detector=ddm"}),
      option("change_level", &O::change_level,
             {.low = 0, .high = 1000, .meaning = "the same of a change", .only_with = "detector=ddm"}),
      option("warning_ratio", &O::warning_ratio,
             {.low = 0,
              .high = 1,
              .meaning = "share of the largest distance between errors that is a warning",
              .only_with = "detector=eddm"}),
      option("change_ratio", &O::change_ratio,
             {.low = 0, .high = 1, .meaning = "the same of a change", .only_with = "detector=eddm"}),
  };
}

const DetectorTable& detector_table() {
  static const DetectorTable table([] {
    auto fields = window_fields();
    for (auto& field : level_fields()) fields.push_back(field);
    return fields;
  }());
  return table;
}

}  // namespace

std::string_view name(DriftInput input) noexcept { return kInputs[static_cast<std::size_t>(input)]; }

std::string_view name(Swap swap) noexcept { return kSwaps[static_cast<std::size_t>(swap)]; }

namespace {

std::vector<OptionTable<DriftOptions>::Field> action_fields() {
  using O = DriftOptions;
  return {
      option(
          "renew", &O::renew,
          {.low = 0,
           .high = 1,
           .meaning = "share of the units of each hidden dense layer that begin anew at a change, those of least use "
                      "first, and one at least; 0: none"}),
      option("swap", &O::swap,
             {.names = kSwaps,
              .meaning = "weights that take the place of the present ones at a change: none, those that the network "
                         "began with (`initial`), or of these, earlier ones and the present ones those that are right "
                         "most often (`best`)"}),
      option("swap_weights", &O::swap_weights,
             {.low = 1, .high = 64, .meaning = "earlier weights that are kept", .only_with = "swap=best"}),
      option("swap_every", &O::swap_every,
             {.low = 1,
              .high = 1u << 30,
              .unit = "samples",
              .meaning = "samples from one copy of the weights to the next; of before a change is the copy before the "
                         "last one",
              .only_with = "swap=best"}),
      option("swap_samples", &O::swap_samples,
             {.low = 1,
              .high = 65536,
              .unit = "samples",
              .meaning = "the last samples with a label, by which weights are compared",
              .only_with = "swap=best"}),
  };
}

}  // namespace

const OptionTable<DriftOptions>& drift_table() {
  using O = DriftOptions;
  static const OptionTable<DriftOptions> table([] {
    std::vector<OptionTable<O>::Field> fields;
    append_options(fields, &O::detector, detector_table());
    fields.push_back(
        option("input", &O::input,
               {.names = kInputs,
                .meaning = "number that it takes: of each score 1 or 0 (`error`), or the loss; of an agent "
                           "that acts the size of each step's temporal-difference error (`td_error`), or "
                           "each episode's return, whose fall is a change (`return`)"}));
    fields.push_back(option(
        "rate_boost", &O::rate_boost,
        {.low = 1, .high = 1024, .meaning = "factor of all learning rates at a change, a power of two; 1: none"}));
    fields.push_back(option("boost_samples", &O::boost_samples,
                            {.low = 1,
                             .high = 1u << 30,
                             .unit = "scores",
                             .meaning = "scores after which the factor halves, again and again until it is 1"}));
    fields.push_back(option("react_every", &O::react_every,
                            {.low = 1,
                             .high = 65536,
                             .unit = "samples",
                             .meaning = "samples of `weft run` from one look for something to do to the next"}));
    fields.push_back(option("checkpoint", &O::checkpoint, {.meaning = "an agent takes a checkpoint at a change"}));
    for (auto& field : action_fields()) fields.push_back(field);
    return fields;
  }());
  return table;
}

Status check_drift(const DriftOptions& options) {
  const DetectorOptions& d = options.detector;
  const auto refuse = [](const std::string& text) { return fail(Errc::invalid_argument, "learning.drift." + text); };
  if (!std::has_single_bit(options.rate_boost))
    return refuse("rate_boost: " + std::to_string(options.rate_boost) + " is no power of two, so it cannot be halved " +
                  "until it is 1; give 1, 2, 4, 8, ...");
  if (d.kind == DetectorKind::kswin && d.window < 2 * d.recent)
    return refuse("window: " + std::to_string(d.window) + " does not hold learning.drift.recent " +
                  std::to_string(d.recent) + " twice; give " + std::to_string(2 * d.recent) + " or more");
  if (d.kind == DetectorKind::ddm && d.warning_level > d.change_level)
    return refuse("warning_level: " + number_text(d.warning_level) + " is above learning.drift.change_level " +
                  number_text(d.change_level) + ", so a change would come before its warning");
  // A share of the largest distance between errors, which shrinks.
  if (d.kind == DetectorKind::eddm && d.warning_ratio < d.change_ratio)
    return refuse("warning_ratio: " + number_text(d.warning_ratio) + " is below learning.drift.change_ratio " +
                  number_text(d.change_ratio) + ", so a change would come before its warning");
  if (takes_errors_only(d.kind) && options.input != DriftInput::error)
    return refuse("input: '" + std::string(name(options.input)) + "' with learning.drift.detector '" +
                  std::string(name(d.kind)) +
                  "', which takes errors of 0 or 1; give 'error', or 'adwin', 'kswin' or 'page_hinkley'");
  return {};
}

Status check_drift_actions(const LearningOptions& options) {
  const DriftOptions& d = options.drift;
  const auto refuse = [&](const std::string& key, const std::string& other, const std::string& why) {
    return fail(Errc::invalid_argument, "learning.drift." + key + " with learning." + other + ", " + why);
  };
  if (d.is_on() && is_of_acting(d.input) && !options.traces)
    return refuse("input: '" + std::string(name(d.input)) + "'", "traces false",
                  "and is of an agent that acts (reinforcement), which has them; give 'error' or 'loss'");
  const std::string renew = "renew: " + number_text(d.renew), swap = "swap: '" + std::string(name(d.swap)) + "'";
  if (!d.is_on() && (d.renew > 0.0f || d.swap != Swap::none))
    return fail(Errc::invalid_argument, "learning.drift." + (d.swap != Swap::none ? swap : renew) +
                                            " without a detector, so that no change is ever seen; give "
                                            "learning.drift.detector");
  const std::string held = "consolidation.method '" + std::string(name(options.consolidation.method)) + "'";
  if (d.renews() && options.consolidation.is_on())
    return refuse(renew, held, "which holds weights; give one of the two");
  if (d.swaps() && options.consolidation.is_on()) return refuse(swap, held, "which holds weights; give one of the two");
  if (d.swaps() && options.lora.is_on())
    return refuse(swap, "lora.rank " + std::to_string(options.lora.rank),
                  "whose adapters are no weights of a layer; give one of the two");
  if (!d.swaps() || d.swap != Swap::best) return {};
  if (options.late != Late::none)
    return refuse(swap, "late '" + std::string(name(options.late)) + "'",
                  "whose samples get their labels when they are gone; give 'initial', or late 'none'");
  if (targets_of(options.loss) == LossTargets::values)
    return refuse(swap, "loss '" + std::string(name(options.loss)) + "'",
                  "which knows no right answers; give 'initial', or a loss of labels");
  return {};
}

}  // namespace weft::learning
