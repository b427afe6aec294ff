// SPDX-License-Identifier: Apache-2.0

#include "core/dtype.hpp"

namespace weft {
namespace {
struct DtypeRow {
  std::string_view name;
  int bits;
};
constexpr DtypeRow kDtypeRows[] = {
#define WEFT_DTYPE(name, bits) {#name, bits},
#include "core/dtypes.def"
#undef WEFT_DTYPE
};
}  // namespace

std::string_view name(Dtype dtype) noexcept { return kDtypeRows[static_cast<int>(dtype)].name; }
int bits(Dtype dtype) noexcept { return kDtypeRows[static_cast<int>(dtype)].bits; }

std::optional<Dtype> parse_dtype(std::string_view text) noexcept {
  for (int i = 0; i < kDtypeCount; ++i)
    if (kDtypeRows[i].name == text) return static_cast<Dtype>(i);
  return std::nullopt;
}

}  // namespace weft
