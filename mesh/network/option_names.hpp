// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <optional>
#include <span>
#include <string_view>

namespace weft::mesh {

/// The key of a layer that an unknown one most likely stands for: the name that other libraries give it ("units" for
/// "out"), or a slip of the hand. `known`: keys of this layer type; "out" is one of every layer's.
std::optional<std::string_view> meant_option(std::string_view given, std::span<const std::string_view> known);

}  // namespace weft::mesh
