// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace weft::kernels {

/// The course of a learning rate; rows in kernels/formulas/schedules.def.
enum class RateScheduleKind : int {
#define WEFT_RATE_SCHEDULE(number, name, takes) name = number,
#include "kernels/formulas/schedules.def"
#undef WEFT_RATE_SCHEDULE
};
/// Names by number.
std::span<const std::string_view> rate_schedule_names() noexcept;
/// The options that count for each, by number: their keys, with spaces between, as in its row.
std::span<const std::string_view> rate_schedule_options() noexcept;

/// Parameter | default | meaning
/// warmup | 0 | first so many updates with a rate that rises in a straight line
/// updates | 0 | length of the fall (linear, cosine, polynomial), of the first period (warm_restarts), of a step (step)
/// growth | 1 | length of a period in those of the one before (warm_restarts)
/// end | 0 | share of the rate at the end (linear, cosine, warm_restarts, polynomial)
/// factor | 1 | of the rate, at each update (exponential) or step (step)
/// power | 1 | exponent (polynomial)
struct RateSchedule {
  RateScheduleKind kind = RateScheduleKind::constant;
  std::uint32_t warmup = 0, updates = 0, growth = 1;
  float end = 0.0f, factor = 1.0f, power = 1.0f;
  bool operator==(const RateSchedule&) const = default;
};

/// True where the rate never changes.
bool is_constant(const RateSchedule& schedule) noexcept;

/// The share of the learning rate for update `n`, counted from 0. Formulas: kernels/formulas/schedules/. From 2^32 - 1
/// updates on it stays.
/// @thread any, inside FlushSubnormals
/// @exact  no libm: binary32, and powers and quotients by binary64, rounded once
float rate_share(const RateSchedule& schedule, std::uint64_t n) noexcept;

}  // namespace weft::kernels
