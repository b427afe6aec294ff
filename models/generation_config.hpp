// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "models/sampler.hpp"

#include "core/json.hpp"
#include "core/result.hpp"

#include <string>
#include <string_view>

namespace weft::models {

/// The draw as Hugging Face's transformers have it: `config`'s keys (a generation_config.json, or null), their usual
/// values elsewhere, and their order of steps. `do_sample` is false by default there: the largest logit.
/// @error parse_failed, out_of_range: a key of another kind or range; unsupported: keys that change texts and are not
///        done, all of them
/// @source transformers 4, `GenerationConfig` and `_get_logits_processor`
Result<SamplerOptions> read_generation_config(const Json& config);

/// The draw of a preset: "llama.cpp", or "hf", which is read_generation_config's.
/// @error unknown_name; as read_generation_config
Result<SamplerOptions> sampler_of_preset(std::string_view preset, const Json& config);

/// Keys of the draw that a file names, as "temperature 0.6, top_k 20"; empty: none.
std::string described_sampling(const Json& config);

}  // namespace weft::models
