// SPDX-License-Identifier: Apache-2.0

#include "gpu/internal/shader.hpp"

#include "core/assert.hpp"

#include <zlib.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>

namespace weft::gpu {

std::vector<std::uint32_t> Module::words() const {
  static_assert(std::endian::native == std::endian::little);
  std::uint32_t bytes = 0;
  std::memcpy(&bytes, packed_.data(), sizeof bytes);
  std::vector<std::uint32_t> words(bytes / sizeof(std::uint32_t));
  uLongf found = bytes;
  const int result = uncompress(reinterpret_cast<Bytef*>(words.data()), &found, packed_.data() + sizeof bytes,
                                static_cast<uLong>(packed_.size() - sizeof bytes));
  WEFT_ASSERT(result == Z_OK && found == bytes, "a shader that the build packed cannot be unpacked");
  return words;
}

const Shader& shader(std::string_view name) noexcept {
  const auto all = shaders();
  const auto at = std::lower_bound(all.begin(), all.end(), name,
                                   [](const Shader& each, std::string_view wanted) { return each.name < wanted; });
  WEFT_ASSERT(at != all.end() && at->name == name, "no gpu/shaders/" + std::string(name) + ".comp");
  return *at;
}

}  // namespace weft::gpu
