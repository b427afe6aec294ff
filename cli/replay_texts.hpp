// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/result.hpp"

#include <cstddef>
#include <cstdint>
#include <string>

namespace weft::cli {

/// A request log of `weft serve` and the model that writes its texts again.
struct TextReplayRequest {
  std::string log, model, device;
  std::size_t threads = 0;
  std::uint64_t max_memory = 0;
  bool json = false;
};

/// Prints what came of it. @error differs: a text is another one; parse_failed, naming the line; as
/// models::load_language_model and models::replay_texts
Status replay_request_log(const TextReplayRequest& request);

}  // namespace weft::cli
