// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "learning/anomaly.hpp"

#include "core/option_table.hpp"

namespace weft::learning {

/// Options of the section "anomaly" of "learning".
const OptionTable<AnomalyOptions>& anomaly_table();

}  // namespace weft::learning
