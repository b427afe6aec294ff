// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/result.hpp"

#include <cstdio>
#include <cstdlib>
#include <utility>

namespace weft::bench {

/// The value, or the end: a benchmark has no caller to tell.
template <class T>
T must(Result<T> result) {
  if (result) return std::move(result).value();
  std::fprintf(stderr, "weft: error: %s\n", result.error().text().c_str());
  std::exit(exit_code(result.error().code()));
}

}  // namespace weft::bench
