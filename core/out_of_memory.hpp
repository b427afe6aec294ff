// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/result.hpp"

#include <new>
#include <utility>

namespace weft {

/// The Status of `work`, or a failure where there was no memory for it: for threads, which no exception may leave.
template <class Work>
Status or_out_of_memory(Work&& work) {
  try {
    return std::forward<Work>(work)();
  } catch (const std::bad_alloc&) {
    return fail(Errc::too_large, "out of memory");  // short enough to take none
  }
}

}  // namespace weft
