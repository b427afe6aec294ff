// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "learning/weight_perturbation.hpp"

#include "core/option_table.hpp"

namespace weft::learning {

/// Options of the section "perturb" of "learning".
const OptionTable<PerturbationOptions>& perturbation_table();

}  // namespace weft::learning
