// SPDX-License-Identifier: Apache-2.0

#include "core/option_row.hpp"

#include "core/assert.hpp"
#include "core/json.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

namespace weft {
namespace {

constexpr std::array<std::string_view, 12> kKinds{"flag",      "whole",       "number",     "text",
                                                  "choice",    "column",      "whole_list", "number_list",
                                                  "text_list", "column_list", "section",    "layers"};

bool is_whole(double value) { return value == std::floor(value) && std::fabs(value) <= 0x1p53; }

Json bound(double value) { return is_whole(value) ? Json(static_cast<std::int64_t>(value)) : Json(value); }

/// Large powers of two as such, other numbers as short as they go.
std::string bound_text(double value) {
  int exponent = 0;
  if (value >= 65536 && std::frexp(value, &exponent) == 0.5) return "2^" + std::to_string(exponent - 1);
  if (is_whole(value)) return std::to_string(static_cast<std::int64_t>(value));
  char text[32];
  std::snprintf(text, sizeof text, "%g", value);
  return text;
}

std::string range_text(const OptionRow& row, const std::string& otherwise) {
  const bool has_low = std::isfinite(row.low), has_high = std::isfinite(row.high);
  if (has_low && has_high) return bound_text(row.low) + " to " + bound_text(row.high);
  if (has_low) return otherwise + " from " + bound_text(row.low) + " on";
  return has_high ? otherwise + " up to " + bound_text(row.high) : otherwise;
}

Json to_json(const OptionRow& row) {
  Json out{{"key", row.key}, {"kind", name(row.kind)}};
  if (std::isfinite(row.low)) out["low"] = bound(row.low);
  if (std::isfinite(row.high)) out["high"] = bound(row.high);
  if (row.fewest > 0) out["fewest"] = row.fewest;
  if (row.most != SIZE_MAX) out["most"] = row.most;
  if (row.is_one_for_all) out["one_for_all"] = true;
  if (!row.names.empty()) out["names"] = row.names;
  if (!row.set.empty()) out["set"] = row.set;
  if (row.is_needed) out["needed"] = true;
  if (!row.fallback.empty()) {
    auto value = parse_json(row.fallback, row.key);
    WEFT_ASSERT(value, "an option's default is no JSON");
    out["default"] = *std::move(value);
  }
  if (!row.fallback_words.empty()) out["default_words"] = row.fallback_words;
  out["limits"] = limits_text(row);
  out["unit"] = row.unit;
  out["meaning"] = row.meaning;
  if (!row.only_with.empty()) out["only_with"] = row.only_with;
  if (!row.applies.empty()) out["applies"] = row.applies;
  if (!row.options.empty()) out["options"] = to_json(row.options);
  return out;
}

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

std::string limits_text(const OptionRow& row) {
  switch (row.kind) {
    case OptionKind::flag:
      return "true, false";
    case OptionKind::whole:
      return range_text(row, "a whole number");
    case OptionKind::number:
      return range_text(row, "a number");
    case OptionKind::text:
      return "a text";
    case OptionKind::column:
      return "a column";
    case OptionKind::whole_list:
      return "a list of whole numbers, " + range_text(row, "any");
    case OptionKind::number_list:
      return "a list of numbers";
    case OptionKind::text_list:
      return "a list of texts";
    case OptionKind::column_list:
      return "a list of columns";
    case OptionKind::section:
      return "an object";
    case OptionKind::layers:
      return "a list of layers";
    case OptionKind::choice:
      break;
  }
  std::string names;
  for (const std::string_view each : row.names) names.append(names.empty() ? "" : ", ").append(each);
  return names;
}

Json to_json(const std::vector<OptionRow>& rows) {
  Json out = Json::array();
  for (const OptionRow& row : rows) out.push_back(to_json(row));
  return out;
}

}  // namespace weft
