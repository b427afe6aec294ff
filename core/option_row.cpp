// SPDX-License-Identifier: Apache-2.0

#include "core/option_row.hpp"

#include "core/assert.hpp"

#include <algorithm>
#include <array>

namespace weft {
namespace {

constexpr std::array<std::string_view, 12> kKinds{"flag",      "whole",       "number",     "text",
                                                  "choice",    "column",      "whole_list", "number_list",
                                                  "text_list", "column_list", "section",    "layers"};

}  // namespace

std::string_view name(OptionKind kind) noexcept { return kKinds[static_cast<std::size_t>(kind)]; }

OptionCondition parse_condition(std::string_view text) {
  const std::size_t equals = text.find('=');
  OptionCondition condition{text.substr(0, equals), {}};
  for (std::size_t at = equals; at < text.size();) {
    const std::size_t end = std::min(text.find('|', at + 1), text.size());
    condition.values.push_back(text.substr(at + 1, end - at - 1));
    at = end;
  }
  return condition;
}

const OptionRow& option_row(const std::vector<OptionRow>& rows, std::string_view key) {
  const auto found = std::find_if(rows.begin(), rows.end(), [&](const OptionRow& row) { return row.key == key; });
  WEFT_ASSERT(found != rows.end(), "no option has this key");
  return *found;
}

}  // namespace weft
