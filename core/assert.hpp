// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string>

namespace weft::detail {
/// Prints the broken condition and where it stands, then aborts.
[[noreturn]] void assertion_failed(const char* condition, const std::string& text, const char* file, int line) noexcept;
}  // namespace weft::detail

/// Guards against our own bugs; on in every build. What a user can cause is a Result instead.
#define WEFT_ASSERT(condition, text) \
  (static_cast<bool>(condition) ? void(0) : ::weft::detail::assertion_failed(#condition, (text), __FILE__, __LINE__))

#ifdef NDEBUG
#define WEFT_DCHECK(condition, text) void(0)
#else
#define WEFT_DCHECK(condition, text) WEFT_ASSERT(condition, text)
#endif
