// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "learning/options.hpp"

#include "core/option_table.hpp"

#include <initializer_list>
#include <optional>
#include <string_view>
#include <vector>

namespace weft::learning {

/// Options of the sections `optimizer` and `rate_schedule` of learning.
const OptionTable<OptimizerOptions>& optimizer_table();
const OptionTable<RateSchedule>& rate_table();
/// True for an optimiser without state of its own, so that a step is the rate times the gradient.
bool has_plain_steps(const OptimizerOptions& options) noexcept;
/// True for schedules that take no number of updates.
bool is_endless(RateScheduleKind kind) noexcept;

/// The fields of several functions, in order.
template <class Field>
std::vector<Field> joined(std::initializer_list<std::vector<Field>> parts) {
  std::vector<Field> fields;
  for (const std::vector<Field>& part : parts) fields.insert(fields.end(), part.begin(), part.end());
  return fields;
}

/// The enumerator with this name.
template <class Enum>
std::optional<Enum> parse_enumerator(const std::vector<std::string_view>& names, std::string_view text) noexcept {
  for (std::size_t i = 0; i < names.size(); ++i)
    if (names[i] == text) return static_cast<Enum>(i);
  return std::nullopt;
}

}  // namespace weft::learning
