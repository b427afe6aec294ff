// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace weft::gpu {

/// A SPIR-V module as tools/embed_shader.py packed it.
class Module {
 public:
  Module(std::span<const unsigned char> packed) noexcept : packed_(packed) {}
  std::vector<std::uint32_t> words() const;

 private:
  std::span<const unsigned char> packed_;
};

/// One of gpu/shaders/*.comp as the build compiled it (cmake/WeftShaders.cmake).
struct Shader {
  std::string_view name;
  Module fused;     // for devices whose fma rounds once
  Module emulated;  // with fma made of binary64
};

/// All of them, by name ascending.
std::span<const Shader> shaders() noexcept;
/// The one of that name; asking for another is our bug.
const Shader& shader(std::string_view name) noexcept;

}  // namespace weft::gpu
