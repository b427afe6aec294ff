// SPDX-License-Identifier: Apache-2.0
// A failure cannot be overlooked. expect: nodiscard
#include "core/result.hpp"

weft::Status work() { return {}; }

int main() {
#ifdef WEFT_BAD
  work();
#else
  return work() ? 0 : 1;
#endif
}
