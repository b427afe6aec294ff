// SPDX-License-Identifier: Apache-2.0

#include "kernels/internal/position.hpp"
#include "kernels/rope.hpp"

#include <cmath>
#include <cstdint>
#include <numbers>

// Everything here is binary64 sums, products and quotients in a fixed order: libm's exp, log, sin and cos may differ in
// the last bit from machine to machine. frexp and ldexp are exact.
namespace weft::kernels {
namespace {

constexpr double kLn2 = std::numbers::ln2;
constexpr double kTurn = 0x1p64;

// log(x), x > 0: x = 2^e m with m near 1, then the series of atanh((m - 1) / (m + 1)).
double log_of(double x) noexcept {
  int e = 0;
  double m = std::frexp(x, &e);
  if (m < 0.70710678118654752) m *= 2, --e;
  const double s = (m - 1) / (m + 1), s2 = s * s;
  double sum = 0;
  for (int k = 25; k >= 1; k -= 2) sum = sum * s2 + 1.0 / k;
  return e * kLn2 + 2 * s * sum;
}

// exp(x) for |x| < 700: x = n ln 2 + r, then Taylor's series.
double exp_of(double x) noexcept {
  const double n = std::floor(x / kLn2 + 0.5), r = x - n * kLn2;
  double sum = 1;
  for (int k = 18; k >= 1; --k) sum = 1 + r / k * sum;
  return std::ldexp(sum, static_cast<int>(n));
}

double power_of(double base, double exponent) noexcept { return exp_of(exponent * log_of(base)); }

double scaled(const RopeSettings& s, double frequency) noexcept {
  if (s.scaling == RopeScaling::linear) return frequency / s.factor;
  if (s.scaling != RopeScaling::llama3) return frequency;
  const double wavelength = 2 * std::numbers::pi / frequency;
  if (wavelength < s.original_context / s.high_frequency_factor) return frequency;
  if (wavelength > s.original_context / s.low_frequency_factor) return frequency / s.factor;
  const double mix =
      (s.original_context / wavelength - s.low_frequency_factor) / (s.high_frequency_factor - s.low_frequency_factor);
  return (1 - mix) * frequency / s.factor + mix * frequency;
}

// Sine and cosine of phase / 2^64 turns: the nearest quarter turn, then Taylor's series within an eighth of a turn.
void sine_and_cosine(std::uint64_t phase, double& sine, double& cosine) noexcept {
  const std::uint64_t quarter = (phase + (std::uint64_t{1} << 61)) >> 62;
  const auto rest = static_cast<std::int64_t>(phase - (quarter << 62));
  const double x = static_cast<double>(rest) * (2 * std::numbers::pi / kTurn), x2 = x * x;
  double s = 1, c = 1;
  for (int k = 18; k >= 2; k -= 2) {
    c = 1 - x2 / (k * (k - 1)) * c;
    s = 1 - x2 / (k * (k + 1)) * s;
  }
  s *= x;
  sine = quarter % 2 ? c : s;
  cosine = quarter % 2 ? s : c;
  if (quarter & 2) sine = -sine;
  if ((quarter + 1) & 2) cosine = -cosine;
}

}  // namespace

std::vector<std::uint64_t> rope_turns(const RopeSettings& settings) {
  const std::size_t dims = settings.dims ? settings.dims : settings.head_dim;
  const auto n = static_cast<double>(dims);
  const double theta =
      settings.scaling == RopeScaling::ntk ? settings.theta * power_of(settings.factor, n / (n - 2)) : settings.theta;
  std::vector<std::uint64_t> turns(dims / 2);
  for (std::size_t i = 0; i < turns.size(); ++i) {
    double frequency = scaled(settings, power_of(theta, -2 * static_cast<double>(i) / n));
    if (!settings.divisors.empty()) frequency /= settings.divisors[i];
    turns[i] = static_cast<std::uint64_t>(frequency / (2 * std::numbers::pi) * kTurn);
  }
  return turns;
}

void rope_row(const Rope& rope, std::uint64_t position, float* row) noexcept {
  const std::size_t n = rope.dims();
  for (std::size_t i = 0; i < n / 2; ++i) {
    double sine, cosine;
    sine_and_cosine(rope.turns[i] * position, sine, cosine);
    const bool is_half = rope.pairs == RopePairs::half;
    const std::size_t a = is_half ? i : 2 * i, b = is_half ? i + n / 2 : 2 * i + 1;
    row[a] = row[b] = static_cast<float>(cosine * rope.gain);
    row[n + a] = -static_cast<float>(sine * rope.gain);
    row[n + b] = static_cast<float>(sine * rope.gain);
  }
}

}  // namespace weft::kernels
