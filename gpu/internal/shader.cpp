// SPDX-License-Identifier: Apache-2.0

#include "gpu/internal/shader.hpp"

#include "core/assert.hpp"

#include <algorithm>
#include <string>

namespace weft::gpu {

const Shader& shader(std::string_view name) noexcept {
  const auto all = shaders();
  const auto at = std::lower_bound(all.begin(), all.end(), name,
                                   [](const Shader& each, std::string_view wanted) { return each.name < wanted; });
  WEFT_ASSERT(at != all.end() && at->name == name, "no gpu/shaders/" + std::string(name) + ".comp");
  return *at;
}

}  // namespace weft::gpu
