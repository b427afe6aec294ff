// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace weft::gpu {

/// One of gpu/shaders/*.comp as the build compiled it (cmake/WeftShaders.cmake).
struct Shader {
  std::string_view name;
  std::span<const std::uint32_t> fused;     // for devices whose fma rounds once
  std::span<const std::uint32_t> emulated;  // with fma made of binary64
};

/// All of them, by name ascending.
std::span<const Shader> shaders() noexcept;
/// The one of that name; asking for another is our bug.
const Shader& shader(std::string_view name) noexcept;

}  // namespace weft::gpu
