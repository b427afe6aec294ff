// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "learning/past/past_options.hpp"

#include "core/option_table.hpp"

namespace weft::learning {

/// Options of the sections "replay" and "consolidation" of "learning".
const OptionTable<ReplayOptions>& replay_table();
const OptionTable<ConsolidationOptions>& consolidation_table();

}  // namespace weft::learning
