// SPDX-License-Identifier: Apache-2.0

#include "cli/progress.hpp"

#include "core/printable.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace weft::cli {
namespace {
constexpr std::chrono::milliseconds kRedraw{100}, kLine{10000};
}

ProgressLine::ProgressLine() : terminal_(Terminal::of(STDERR_FILENO)) {
  if (!terminal_.redraws) last_ = std::chrono::steady_clock::now();
}

ProgressLine::~ProgressLine() { clear(); }

void ProgressLine::clear() {
  if (!is_drawn_) return;
  std::fputs("\r\x1b[K", stderr);
  std::fflush(stderr);
  is_drawn_ = false;
}

bool ProgressLine::is_due() const noexcept {
  return std::chrono::steady_clock::now() - last_ >= (terminal_.redraws ? kRedraw : kLine);
}

void ProgressLine::show(const std::string& text) {
  if (!is_due()) return;
  last_ = std::chrono::steady_clock::now();
  if (!terminal_.redraws) {
    std::fprintf(stderr, "weft: %s\n", escaped(text).c_str());
    return;
  }
  // The last column stays free: many terminals wrap when it is written.
  const std::size_t columns = std::max<std::size_t>(terminal_.columns(), 2) - 1;
  std::fprintf(stderr, "\r%s\x1b[K", fit(escaped(text), columns, terminal_.unicode).c_str());
  std::fflush(stderr);
  is_drawn_ = true;
}

}  // namespace weft::cli
