// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "learning/lora.hpp"

#include "core/option_table.hpp"

namespace weft::learning {

/// Options of the section "lora" of "learning".
const OptionTable<LoraOptions>& lora_table();

}  // namespace weft::learning
