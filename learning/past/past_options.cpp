// SPDX-License-Identifier: Apache-2.0

#include "learning/past/past_options.hpp"

#include "learning/internal/past_tables.hpp"
#include "learning/options.hpp"
#include "learning/rules/rule.hpp"

#include "core/option_table.hpp"

#include <cmath>
#include <string>
#include <vector>

namespace weft::learning {
namespace {

const std::vector<std::string_view> kReplayMethods{"none", "er", "der++"};
const std::vector<std::string_view> kConsolidations{"none", "ewc", "si", "lwf"};
constexpr double kMostStrength = 1e12;

std::string in_quotes(std::string_view text) { return std::string("'").append(text).append("'"); }

Failure refuse(const std::string& key, const std::string& value, const std::string& with, const std::string& give) {
  return fail(Errc::invalid_argument, "learning." + key + ": " + value + " with learning." + with + "; give " + give);
}

Status check_numbers(const LearningOptions& options) {
  const ReplayOptions& r = options.replay;
  const ConsolidationOptions& c = options.consolidation;
  const struct {
    const char* key;
    double value, least, most;
  } bounds[] = {
      {"replay.samples", static_cast<double>(r.samples), 1, 65536},
      {"replay.capacity", static_cast<double>(r.capacity), 1, 1u << 30},
      {"replay.alpha", r.alpha, 0, 1e6},
      {"replay.beta", r.beta, 0, 1e6},
      {"consolidation.every", static_cast<double>(c.every), 1, 1u << 30},
      {"consolidation.strength", c.strength, 0, kMostStrength},
      {"consolidation.decay", c.decay, 0, 1},
      {"consolidation.damping", c.damping, 1e-20, 1e6},
      {"consolidation.temperature", c.temperature, 1e-3, 1e3},
  };
  for (const auto& [key, value, least, most] : bounds)
    if (!(value >= least && value <= most))
      return fail(Errc::out_of_range, "learning." + std::string(key) + ": " + std::to_string(value) +
                                          " is not within [" + std::to_string(least) + ", " + std::to_string(most) +
                                          "]");
  return {};
}

}  // namespace

std::string_view name(ReplayMethod method) noexcept { return kReplayMethods[static_cast<std::size_t>(method)]; }
std::string_view name(Consolidation method) noexcept { return kConsolidations[static_cast<std::size_t>(method)]; }

const OptionTable<ReplayOptions>& replay_table() {
  using O = ReplayOptions;
  static const OptionTable<ReplayOptions> table({
      option("method", &O::method,
             {.names = kReplayMethods,
              .meaning = "what each update learns beside new samples: nothing, stored samples by their labels (`er`), "
                         "or also by the answers that they had when they were stored (`der++`)"}),
      option("samples", &O::samples,
             {.low = 1,
              .high = 65536,
              .unit = "samples",
              .meaning = "stored samples in each update; each takes a session beside those of the learners"}),
      option("capacity", &O::capacity,
             {.low = 1, .high = 1u << 30, .unit = "samples", .meaning = "samples that are stored at most"}),
      option("alpha", &O::alpha,
             {.low = 0,
              .high = 1e6,
              .meaning = "factor of the mean square of the distance to the stored answers",
              .only_with = "method=der++"}),
      option("beta", &O::beta,
             {.low = 0, .high = 1e6, .meaning = "factor of a stored sample's loss, beside a new one's"}),
  });
  return table;
}

const OptionTable<ConsolidationOptions>& consolidation_table() {
  using O = ConsolidationOptions;
  static const OptionTable<ConsolidationOptions> table({
      option("method", &O::method,
             {.names = kConsolidations,
              .meaning = "what holds weights near those that learned what was before: nothing, the loss's dependence "
                         "on each (`ewc`), what each did for the loss (`si`), or the answers of the network of then "
                         "(`lwf`)"}),
      option("every", &O::every,
             {.low = 1, .high = 1u << 30, .unit = "updates", .meaning = "updates from one consolidation to the next"}),
      option("strength", &O::strength, {.low = 0, .high = kMostStrength, .meaning = "of the hold"}),
      option("decay", &O::decay,
             {.low = 0,
              .high = 1,
              .meaning = "factor of the importance of what was before, at each consolidation",
              .only_with = "method=ewc"}),
      option("damping", &O::damping,
             {.low = 1e-20,
              .high = 1e6,
              .meaning = "added to the squares of the ways that weights went",
              .only_with = "method=si"}),
      option("temperature", &O::temperature,
             {.low = 1e-3, .high = 1e3, .meaning = "of the answers that are compared", .only_with = "method=lwf"}),
  });
  return table;
}

Status check_past(const LearningOptions& options) {
  WEFT_CHECK(check_numbers(options));
  const ReplayOptions& r = options.replay;
  const ConsolidationOptions& c = options.consolidation;
  const std::string late = "late " + in_quotes(name(options.late));
  const std::string rule = "rule " + in_quotes(name(options.rule));
  const bool has_gradients = rule_of(options).path == ErrorPath::gradients;
  if (r.is_on() && options.late != Late::none)
    return refuse("replay.method", in_quotes(name(r.method)), late + ", whose samples are learned from at other times",
                  "'none'");
  if (c.is_on() && options.late != Late::none)
    return refuse("consolidation.method", in_quotes(name(c.method)),
                  late + ", whose samples are learned from at other times", "'none'");
  const bool has_guides = r.has_answers() || c.guides();
  const std::string key = r.has_answers() ? "replay.method" : "consolidation.method";
  const std::string method = in_quotes(r.has_answers() ? name(r.method) : name(c.method));
  if (has_guides && options.schedule != Schedule::settle)
    return refuse(key, method,
                  "schedule " + in_quotes(name(options.schedule)) + ", where answers leave after later samples entered",
                  "'settle'");
  if (has_guides && !has_gradients)
    return refuse(key, method, rule + ", which has no gradient of the outputs to add to", "'backprop'");
  if (c.weighs() && !has_gradients)
    return refuse("consolidation.method", in_quotes(name(c.method)), rule + ", which has no gradients of the loss",
                  "'backprop'");
  if (r.is_on() && c.guides())
    return refuse("replay.method", in_quotes(name(r.method)), "consolidation.method 'lwf', which stores no samples",
                  "one of the two");
  if (c.guides() && targets_of(options.loss) != LossTargets::labels)
    return refuse("consolidation.method", "'lwf'",
                  "loss " + in_quotes(name(options.loss)) + ", whose answers are no single set of classes",
                  "'cross_entropy'");
  return {};
}

}  // namespace weft::learning
