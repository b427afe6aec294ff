// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdlib>
#include <string_view>
#include <vector>

namespace weft {

/// True when tests of very many rows try each of them: WEFT_TEST_FULL=1 in the environment. Else they try a slice, so
/// that all tests end in a quarter of an hour on 2 cores.
inline bool is_thorough() {
  const char* const asked = std::getenv("WEFT_TEST_FULL");
  return asked && std::string_view(asked) == "1";
}

/// Slice that a test with `slices` of them tries beside its fixed part: WEFT_TEST_SLICE in the environment, modulo
/// `slices`, or the first. tools/test.sh sets it to the number of commits, so that pushes in a row try all.
inline std::size_t test_slice(std::size_t slices) {
  const char* const asked = std::getenv("WEFT_TEST_SLICE");
  return asked ? std::strtoull(asked, nullptr, 10) % slices : 0;
}

/// Of all calls that a fault may strike, one in so many is struck, from another one on in each run (first_struck());
/// sanitizers take ten times as long for each.
inline std::uint64_t struck_stride(std::uint64_t stride) {
#ifdef WEFT_SANITIZED
  stride *= 5;
#endif
  return is_thorough() ? 1 : stride;
}
inline std::uint64_t first_struck(std::uint64_t stride) { return 1 + test_slice(struck_stride(stride)); }

/// The rows of this run's slice, one in `slices`; all of them where tests are to be thorough.
template <typename Row>
std::vector<Row> in_slice(const std::vector<Row>& rows, std::size_t slices) {
  if (is_thorough()) return rows;
  std::vector<Row> mine;
  for (std::size_t i = test_slice(slices); i < rows.size(); i += slices) mine.push_back(rows[i]);
  return mine;
}

}  // namespace weft
