// SPDX-License-Identifier: Apache-2.0

#include "cli/terminal.hpp"

#include <sys/ioctl.h>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>

namespace weft::cli {
namespace {

bool is_utf8_locale() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const std::string_view value = environment(name);
    if (value.empty()) continue;
    return value.find("UTF-8") != value.npos || value.find("utf8") != value.npos || value.find("UTF8") != value.npos;
  }
  return false;
}

constexpr std::array<std::string_view, 8> kBlocks{"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
constexpr std::array<std::string_view, 8> kStrokes{"_", ".", ":", "-", "=", "+", "*", "#"};

}  // namespace

std::string_view environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

Terminal Terminal::of(int descriptor) {
  Terminal t;
  t.descriptor = descriptor;
  t.is_terminal = isatty(descriptor) == 1;
  const std::string_view term = environment("TERM");
  t.redraws = t.is_terminal && !term.empty() && term != "dumb";
  t.colours = t.redraws && environment("NO_COLOR").empty();
  t.unicode = is_utf8_locale();
  return t;
}

std::size_t Terminal::columns() const noexcept {
  if (!is_terminal) return 0;
  winsize size{};
  if (ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  const long columns = std::atol(std::string(environment("COLUMNS")).c_str());
  return columns > 0 && columns < 10000 ? static_cast<std::size_t>(columns) : 80;
}

std::string Terminal::styled(std::string_view text, std::string_view style) const {
  if (!colours) return std::string(text);
  return "\x1b[" + std::string(style) + "m" + std::string(text) + "\x1b[0m";
}

std::size_t display_width(std::string_view text) noexcept {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::string fit(std::string_view text, std::size_t columns, bool unicode) {
  if (display_width(text) <= columns) return std::string(text);
  if (columns == 0) return {};
  std::size_t end = 0;
  for (std::size_t taken = 0; end < text.size(); ++end) {
    if ((static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) continue;
    if (taken++ == columns - 1) break;
  }
  return std::string(text.substr(0, end)) + (unicode ? "…" : "~");
}

std::string bar(double share, std::size_t columns, bool unicode) {
  const auto filled = static_cast<std::size_t>(std::clamp(share, 0.0, 1.0) * static_cast<double>(columns));
  std::string out;
  for (std::size_t i = 0; i < columns; ++i) out += i < filled ? (unicode ? "█" : "#") : (unicode ? "░" : ".");
  return out;
}

std::string sparkline(std::span<const float> values, std::size_t columns, bool unicode) {
  const std::size_t cells = std::min(columns, values.size());
  std::string out;
  for (std::size_t i = 0; i < cells; ++i) {
    const std::size_t begin = i * values.size() / cells, end = (i + 1) * values.size() / cells;
    double sum = 0;
    for (std::size_t j = begin; j < end; ++j) sum += values[j];
    const double mean = std::clamp(sum / static_cast<double>(end - begin), 0.0, 1.0);
    const auto level = static_cast<std::size_t>(std::lround(mean * 7));
    out += unicode ? kBlocks[level] : kStrokes[level];
  }
  return out;
}

}  // namespace weft::cli
