// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <charconv>

namespace weft {

/// The double whose shortest digits are those of `value`: 0.1 for 0.1f, so that JSON shows what was meant.
inline double as_written(float value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  double out = value;
  std::from_chars(text, end, out);
  return out;
}

}  // namespace weft
