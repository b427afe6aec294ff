// SPDX-License-Identifier: Apache-2.0

#include "kernels/ops/list.hpp"

namespace weft::kernels {

std::string_view name(OpId op) noexcept {
  constexpr std::string_view kNames[] = {
#define WEFT_OP(name, Type) #name,
#include "kernels/ops.def"
#undef WEFT_OP
  };
  return kNames[static_cast<int>(op)];
}

}  // namespace weft::kernels
