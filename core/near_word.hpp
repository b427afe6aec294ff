// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace weft {

/// The word of `known` that was probably meant by `given`: equal except for case and for '-' or '_', an abbreviation of
/// three letters or more, or no more than a third of its letters away (left out, added, replaced, swapped). None:
/// nothing is near.
/// @thread any
std::optional<std::string_view> nearest_word(std::string_view given, std::span<const std::string_view> known);

/// "; did you mean 'relu'?", or nothing.
std::string did_you_mean(std::string_view given, std::span<const std::string_view> known);

}  // namespace weft
