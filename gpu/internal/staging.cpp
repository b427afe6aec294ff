// SPDX-License-Identifier: Apache-2.0

#include "gpu/internal/staging.hpp"

namespace weft::gpu {

Status Staging::initialise(Context& context) {
  for (Half& half : halves_) {
    WEFT_TRY(half.allocation, make_allocation(context, kBytes, Use::upload, "staging memory"));
  }
  WEFT_TRY(downloads_, make_allocation(context, kBytes, Use::download, "staging memory"));
  return {};
}

void Staging::release(Context& context) noexcept {
  for (const Half& half : halves_) destroy(context, half.allocation);
  destroy(context, downloads_);
}

std::size_t Staging::take(std::size_t bytes) noexcept {
  const std::size_t at = halves_[half_].used;
  halves_[half_].used += (bytes + 15) / 16 * 16;
  return at;
}

std::uint64_t Staging::turn(std::uint64_t number) noexcept {
  halves_[half_].number = number;
  half_ = 1 - half_;
  halves_[half_].used = 0;
  return halves_[half_].number;
}

}  // namespace weft::gpu
