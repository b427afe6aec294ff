// SPDX-License-Identifier: Apache-2.0

#include "core/result.hpp"

#include <cstdio>
#include <cstdlib>

namespace weft {
namespace {
struct ErrorRow {
  std::string_view name;
  int exit_code;
};
constexpr ErrorRow kErrorRows[] = {
#define WEFT_ERROR(name, exit_code, meaning) {#name, exit_code},
#include "core/errors.def"
#undef WEFT_ERROR
};
}  // namespace

std::string_view name(Errc code) noexcept { return kErrorRows[static_cast<int>(code)].name; }
int exit_code(Errc code) noexcept { return kErrorRows[static_cast<int>(code)].exit_code; }

Error::Error(Errc code, std::string text, const char* file, int line)
    : code_(code), text_(std::move(text)), file_(file), line_(line) {}

Error Error::within(std::string_view context) && {
  const std::string before = std::string(context) + ": ";
  if (!text_.starts_with(before)) text_ = before + text_;
  return std::move(*this);
}

namespace detail {
void assertion_failed(const char* condition, const std::string& text, const char* file, int line) noexcept {
  std::fprintf(stderr, "weft: %s:%d: broken assumption (%s): %s\n", file, line, condition, text.c_str());
  std::abort();
}
}  // namespace detail
}  // namespace weft
