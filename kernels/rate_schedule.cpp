// SPDX-License-Identifier: Apache-2.0

#include "kernels/rate_schedule.hpp"

#include "kernels/math.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace weft::kernels {
namespace {

constexpr std::string_view kScheduleNames[] = {
#define WEFT_RATE_SCHEDULE(number, name, takes) #name,
#include "kernels/formulas/schedules.def"
#undef WEFT_RATE_SCHEDULE
};
constexpr std::string_view kScheduleOptions[] = {
#define WEFT_RATE_SCHEDULE(number, name, takes) #takes,
#include "kernels/formulas/schedules.def"
#undef WEFT_RATE_SCHEDULE
};

/// Names that kernels/formulas/ computes with, as shaders have them.
namespace rate_formulas {
using std::min;
using uint = std::uint32_t;
using RateSettings = const RateSchedule&;

float fused(float a, float b, float c) noexcept { return std::fma(a, b, c); }
float mul(float a, float b) noexcept { return a * b; }
float add(float a, float b) noexcept { return a + b; }
float sub(float a, float b) noexcept { return a - b; }
float ratio(uint a, uint b) noexcept { return static_cast<float>(static_cast<double>(a) / static_cast<double>(b)); }
float power_share(float factor, uint n) noexcept {
  return static_cast<float>(math::power(static_cast<double>(factor), n));
}
float exact_cos(float x) noexcept { return math::cos(x); }
float exact_exp(float x) noexcept { return math::exp(x); }
float exact_log(float x) noexcept { return math::log(x); }

#include "kernels/formulas/rate.inc"
}  // namespace rate_formulas

}  // namespace

std::span<const std::string_view> rate_schedule_names() noexcept { return kScheduleNames; }
std::span<const std::string_view> rate_schedule_options() noexcept { return kScheduleOptions; }

bool is_constant(const RateSchedule& schedule) noexcept {
  return schedule.kind == RateScheduleKind::constant && schedule.warmup == 0;
}

float rate_share(const RateSchedule& schedule, std::uint64_t n) noexcept {
  const auto update = static_cast<std::uint32_t>(std::min<std::uint64_t>(n, UINT32_MAX));
  return rate_formulas::share_of_rate(static_cast<std::uint32_t>(schedule.kind), update, schedule);
}

}  // namespace weft::kernels
