// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/result.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace weft::agent {

/// The first place where two networks (as JSON texts) differ, "learning.rule: "fw_dtp" there, "dfa" here"; nothing
/// when equal. Rule, schedule and seed go first, for other differences may only follow from theirs. The stream's path
/// is passed over, since the digest of its data speaks for it, and the device, which changes no bit.
/// @error parse_failed: no JSON
Result<std::optional<std::string>> network_difference(std::string_view there, std::string_view here);

}  // namespace weft::agent
