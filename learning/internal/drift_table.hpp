// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "learning/drift/drift_options.hpp"

#include "core/option_table.hpp"

namespace weft::learning {

/// Options of the section "drift" of "learning".
const OptionTable<DriftOptions>& drift_table();

}  // namespace weft::learning
