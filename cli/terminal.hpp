// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace weft::cli {

/// An environment variable, empty where it is not set.
std::string_view environment(const char* name);

/// Capabilities of an open file as a terminal.
struct Terminal {
  int descriptor = -1;
  bool is_terminal = false;
  bool redraws = false;  // understands carriage return and "erase to the end of the line"
  bool colours = false;  // NO_COLOR unset
  bool unicode = false;  // the locale is UTF-8

  static Terminal of(int descriptor);
  /// Columns now (a window may be resized); 0: not a terminal, so no bound.
  std::size_t columns() const noexcept;
  /// `text` in an ANSI style ("1" bold, "2" faint, "32" green), or plain.
  std::string styled(std::string_view text, std::string_view style) const;
};

/// Columns that `text` takes: code points, since all we print is one column wide.
std::size_t display_width(std::string_view text) noexcept;
/// The first `columns` columns of `text`, the last one an ellipsis when something was left off.
std::string fit(std::string_view text, std::size_t columns, bool unicode);
/// A bar of `columns` cells, `share` (0 to 1) of them filled.
std::string bar(double share, std::size_t columns, bool unicode);
/// Values of 0 to 1 as a curve of at most `columns` cells; neighbours are averaged when there are more.
std::string sparkline(std::span<const float> values, std::size_t columns, bool unicode);

}  // namespace weft::cli
