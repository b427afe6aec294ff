// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/bytes.hpp"

#include <cstddef>
#include <cstring>

namespace weft::formats {

/// The little-endian value at `at`; core/state_hash.cpp asserts that the machine is little-endian.
template <class T>
T load(ByteSpan bytes, std::size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

}  // namespace weft::formats
