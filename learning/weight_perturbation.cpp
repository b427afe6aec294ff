// SPDX-License-Identifier: Apache-2.0

#include "learning/weight_perturbation.hpp"

#include "learning/internal/optimizer_options.hpp"
#include "learning/internal/perturbation_table.hpp"
#include "learning/options.hpp"

#include <string>
#include <vector>

namespace weft::learning {
namespace {

const std::vector<std::string_view> kPerturbations{"none", "upgd", "upgd_nonprotecting"};

}  // namespace

std::string_view name(Perturbation method) noexcept { return kPerturbations[static_cast<std::size_t>(method)]; }

const OptionTable<PerturbationOptions>& perturbation_table() {
  using O = PerturbationOptions;
  static const OptionTable<PerturbationOptions> table({
      option("method", &O::method,
             {.names = kPerturbations,
              .meaning = "steps with noise: none, gradient and noise both by what a weight is of use for (`upgd`), or "
                         "the noise alone (`upgd_nonprotecting`)"}),
      option("noise", &O::noise,
             {.low = 0,
              .high = 1000,
              .meaning = "standard deviation of what is added to each gradient",
              .only_with = "method=upgd|upgd_nonprotecting"}),
      option("decay", &O::decay,
             {.low = 0,
              .high = 0.999999,
              .meaning = "factor of utilities with each update",
              .only_with = "method=upgd|upgd_nonprotecting"}),
  });
  return table;
}

Status check_perturbation(const LearningOptions& options) {
  const PerturbationOptions& p = options.perturb;
  WEFT_CHECK(perturbation_table().check(p, "learning.perturb"));
  if (!p.is_on()) return {};
  const auto refuse = [&](const std::string& found, std::string_view value, const std::string& wanted) {
    return fail(Errc::invalid_argument, "learning.perturb.method: '" + std::string(name(p.method)) +
                                            "' with learning." + found + " '" + std::string(value) + "'" + wanted);
  };
  if (options.schedule != Schedule::settle)
    return refuse("schedule", name(options.schedule),
                  ", where layers learn from different samples at once, and the largest utility is of all; give "
                  "'settle'");
  if (!has_plain_steps(options.optimizer))
    return refuse("optimizer.type", name(options.optimizer.kind), "; give 'sgd'");
  if (options.optimizer.clip != Clip::none)
    return refuse("optimizer.clip", name(options.optimizer.clip), "; give 'none'");
  if (options.traces) return refuse("traces", "true", ", whose steps have a bound; give one of the two");
  if (options.consolidation.is_on())
    return refuse("consolidation.method", name(options.consolidation.method),
                  ", which holds weights; give one of the two");
  return {};
}

}  // namespace weft::learning
