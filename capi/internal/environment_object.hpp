// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "capi/internal/handles.hpp"
#include "capi/weft.h"

#include "agent/environments/environment.hpp"

#include <cstdint>
#include <memory>

namespace weft::capi {

struct EnvironmentObject final : Object {
  using Handle = weft_environment;
  static constexpr Kind kKind = Kind::environment;
  enum class Phase { new_one, running, over };  // of its episode
  explicit EnvironmentObject(const agent::EnvironmentOptions& of)
      : options(of), environment(agent::make_environment(of)) {}
  const agent::EnvironmentOptions options;
  std::unique_ptr<agent::Environment> environment;
  Phase phase = Phase::new_one;
  std::uint64_t steps = 0;  // of all episodes
};

}  // namespace weft::capi
