// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "gpu/internal/heap.hpp"

#include <array>
#include <cstddef>
#include <cstdint>

namespace weft::gpu {

/// Host memory that uploads and downloads pass through. Uploads fill one half while the device reads the other.
class Staging {
 public:
  static constexpr std::size_t kBytes = std::size_t{8} << 20;  // of a half, and of what downloads pass through

  Status initialise(Context& context);
  void release(Context& context) noexcept;

  bool has_room(std::size_t bytes) const noexcept { return halves_[half_].used + bytes <= kBytes; }
  /// The place of so many bytes in half(), into which they fit.
  std::size_t take(std::size_t bytes) noexcept;
  const Allocation& half() const noexcept { return halves_[half_].allocation; }
  /// Goes to the other half; the last submission that reads this one is `number`. Returns the other's: it must be done
  /// before a byte is taken.
  std::uint64_t turn(std::uint64_t number) noexcept;
  const Allocation& downloads() const noexcept { return downloads_; }

 private:
  struct Half {
    Allocation allocation;
    std::size_t used = 0;
    std::uint64_t number = 0;  // of the last submission that reads it
  };
  std::array<Half, 2> halves_;
  std::size_t half_ = 0;
  Allocation downloads_;
};

}  // namespace weft::gpu
