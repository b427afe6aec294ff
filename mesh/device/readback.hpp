// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/aligned_buffer.hpp"

#include <cstddef>
#include <cstring>
#include <vector>

namespace weft::mesh {

/// Memory of the host's as a device had it, beside the host's own until it is wanted there.
struct Readback {
  struct Part {
    std::byte* host = nullptr;
    std::size_t offset = 0, bytes = 0;
  };
  AlignedBuffer<std::byte> bytes;  // kept: the system takes longer to give it than a device to fill it
  std::vector<Part> parts;

  /// Puts all of it where it belongs.
  void settle() const noexcept {
    for (const Part& part : parts) std::memcpy(part.host, bytes.data() + part.offset, part.bytes);
  }
};

}  // namespace weft::mesh
