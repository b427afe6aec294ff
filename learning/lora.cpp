// SPDX-License-Identifier: Apache-2.0

#include "learning/lora.hpp"

#include "learning/internal/lora_table.hpp"
#include "learning/options.hpp"

#include <string>

namespace weft::learning {

const OptionTable<LoraOptions>& lora_table() {
  using O = LoraOptions;
  static const OptionTable<LoraOptions> table({
      option("rank", &O::rank,
             {.low = 0,
              .high = 4096,
              .meaning = "rank of the adapters by which matrices move, while all else stays; 0: none"}),
      option("alpha", &O::alpha, {.low = 0, .high = 1e6, .meaning = "over `rank` the scale of an adapter; 0: `rank`"}),
      option("matrices", &O::matrices,
             {.most = 64,
              .fallback_words = "all",
              .meaning = "matrices that have an adapter, by the last part of their names: `query`, `weight`"}),
  });
  return table;
}

Status check_lora(const LearningOptions& options) {
  WEFT_CHECK(lora_table().check(options.lora, "learning.lora"));
  if (!options.lora.is_on()) return {};
  const struct {
    const char* key;
    bool is_on;
  } others[] = {{"traces", options.traces},
                {"perturb", options.perturb.is_on()},
                {"consolidation", options.consolidation.is_on()},
                {"plasticity", options.plasticity.is_on()},
                {"renew", options.renew.is_on()},
                {"drift.renew", options.drift.renews()}};
  for (const auto& [key, is_on] : others)
    if (is_on)
      return fail(Errc::invalid_argument, "learning.lora.rank: " + std::to_string(options.lora.rank) +
                                              " with learning." + key +
                                              ", which is about each weight of a layer; give one of the two");
  return {};
}

}  // namespace weft::learning
