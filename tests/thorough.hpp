// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdlib>
#include <string_view>

namespace weft {

/// True when tests of very many rows try each of them: WEFT_TEST_FULL=1 in the environment. Else they try a slice, so
/// that all tests end in a quarter of an hour on 2 cores.
inline bool is_thorough() {
  const char* const asked = std::getenv("WEFT_TEST_FULL");
  return asked && std::string_view(asked) == "1";
}

}  // namespace weft
