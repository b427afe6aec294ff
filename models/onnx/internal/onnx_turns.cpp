// SPDX-License-Identifier: Apache-2.0

// Options of rotary positions out of tables of cosines and sines.

#include "models/onnx/internal/onnx_operators.hpp"

#include "kernels/rope.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <numbers>
#include <utility>

namespace weft::models::onnx {
namespace {

/// The nearest number of so many decimal digits.
double rounded(double value, int digits) {
  std::array<char, 40> text{};
  const auto end =
      std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::scientific, digits - 1).ptr;
  double number = value;
  std::from_chars(text.data(), end, number);
  return number;
}

/// Radians of a pair from position to position: each next angle is known to within a turn, and says it more exactly.
double frequency_of(const TurnTables& tables, std::size_t pair) {
  constexpr double kTurn = 2 * std::numbers::pi;
  double frequency = 0;
  for (std::size_t t = 1; t < tables.positions; ++t) {
    const std::size_t at = t * tables.pairs + pair;
    const double angle = std::atan2(tables.sines[at], tables.cosines[at]), far = static_cast<double>(t);
    frequency = (angle + kTurn * std::round((frequency * far - angle) / kTurn)) / far;
  }
  return frequency;
}

class TurnFinder {
 public:
  TurnFinder(const TurnTables& tables, bool is_half) : tables_(tables), count_(static_cast<double>(tables.pairs)) {
    turns_.is_half = is_half;
    turns_.dims = 2 * tables.pairs;
  }

  std::optional<Turns> find() && {
    const double gain = tables_.cosines[0];
    for (std::size_t i = 0; i < tables_.pairs; ++i)
      if (tables_.cosines[i] != gain || tables_.sines[i] != 0) return std::nullopt;
    if (!(gain >= 1e-3 && gain <= 1e3)) return std::nullopt;
    std::optional<Turns> best;
    double least = 1e-6 * (static_cast<double>(tables_.positions) + 8) * gain;
    for (const double theta : bases())
      // The number as float32 has it, and the shortest that this stands for.
      for (const double one : {gain, rounded(gain, 7)}) {
        if (best && least == 0) break;
        turns_.theta = theta, turns_.gain = one;
        estimates_ = divisors_for(theta);
        find_divisors();
        const double error = error_of(made());
        if (error <= least) least = error, best = turns_;
      }
    if (best && std::all_of(best->divisors.begin(), best->divisors.end(), [](double d) { return d == 1; }))
      best->divisors.clear();
    return best;
  }

 private:
  /// Divisors of the frequencies that a base would have.
  std::vector<double> divisors_for(double theta) const {
    std::vector<double> divisors;
    for (std::size_t i = 0; i < tables_.pairs; ++i)
      divisors.push_back(frequencies_.empty() ? 1.0
                                              : std::pow(theta, -static_cast<double>(i) / count_) / frequencies_[i]);
    return divisors;
  }

  /// Bases that the tables may be of: those that the first and the last pairs show, and usual ones. First the one
  /// whose divisors differ least. None: there are pairs that do not turn, or turn backwards.
  std::vector<double> bases() {
    if (tables_.positions == 1) return {turns_.theta};
    for (std::size_t i = 0; i < tables_.pairs; ++i) frequencies_.push_back(frequency_of(tables_, i));
    if (std::any_of(frequencies_.begin(), frequencies_.end(), [](double f) { return !(f > 0); })) return {};
    std::vector<std::pair<double, double>> found;  // how much divisors differ, and the base
    const auto add = [&](double theta) {
      if (!(theta > 1 && theta < 1e12)) return;
      const std::vector<double> divisors = divisors_for(theta);
      const auto [low, high] = std::minmax_element(divisors.begin(), divisors.end());
      if (*low >= 1e-3 && *high <= 1e9) found.emplace_back(std::round(*high / *low * 1e5), theta);
    };
    for (const std::size_t i : {std::size_t{1}, tables_.pairs - 1}) {
      if (i == 0 || i >= tables_.pairs) continue;
      const double theta = std::pow(frequencies_[i - 1] / frequencies_[i], count_);
      int digits = 1;
      while (digits < 9 && std::fabs(rounded(theta, digits) / theta - 1) > 1e-6 * count_) ++digits;
      add(rounded(theta, digits));
    }
    for (const double theta : {1e4, 5e5, 1e6}) add(theta);
    std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<double> thetas;
    for (const auto& [spread, theta] : found)
      if (std::find(thetas.begin(), thetas.end(), theta) == thetas.end()) thetas.push_back(theta);
    return thetas;
  }

  /// The plainest divisors that give the very tables; of the others the nearest ones.
  void find_divisors() {
    turns_.divisors = estimates_;
    std::vector<bool> is_found(tables_.pairs, false);
    std::vector<double> found = estimates_;
    for (int digits = 1; digits <= 9; ++digits) {
      for (std::size_t i = 0; i < tables_.pairs; ++i)
        turns_.divisors[i] = digits == 9   ? estimates_[i]
                             : digits == 8 ? static_cast<double>(static_cast<float>(estimates_[i]))
                                           : rounded(estimates_[i], digits);
      const TurnTables own = made();
      for (std::size_t i = 0; i < tables_.pairs; ++i)
        if (!is_found[i] && is_same(own, i)) is_found[i] = true, found[i] = turns_.divisors[i];
    }
    turns_.divisors = found;
  }

  TurnTables made() const {
    kernels::RopeSettings settings;
    settings.head_dim = settings.dims = turns_.dims;
    settings.theta = turns_.theta;
    settings.divisors = turns_.divisors;
    const std::vector<std::uint64_t> turns = kernels::rope_turns(settings);
    const kernels::Rope rope{turns_.dims, settings.pairs, turns.data(), nullptr, 0, turns_.dims, turns_.gain};
    TurnTables tables{tables_.positions, tables_.pairs, {}, {}};
    std::vector<float> row(2 * turns_.dims);
    for (std::size_t t = 0; t < tables.positions; ++t) {
      kernels::rope_row(rope, t, row.data());
      for (std::size_t i = 0; i < tables.pairs; ++i) {
        tables.cosines.push_back(static_cast<double>(row[i]));
        tables.sines.push_back(static_cast<double>(row[turns_.dims + tables.pairs + i]));
      }
    }
    return tables;
  }
  bool is_same(const TurnTables& own, std::size_t pair) const {
    for (std::size_t at = pair; at < own.cosines.size(); at += own.pairs)
      if (own.cosines[at] != tables_.cosines[at] || own.sines[at] != tables_.sines[at]) return false;
    return true;
  }
  double error_of(const TurnTables& own) const {
    double error = 0;
    for (std::size_t at = 0; at < own.cosines.size(); ++at)
      error = std::max(
          {error, std::fabs(own.cosines[at] - tables_.cosines[at]), std::fabs(own.sines[at] - tables_.sines[at])});
    return error;
  }

  const TurnTables& tables_;
  double count_;
  Turns turns_;
  std::vector<double> frequencies_, estimates_;  // estimates: of the divisors
};

}  // namespace

std::optional<Turns> turns_of(const TurnTables& tables, bool is_half) {
  if (tables.positions == 0 || tables.pairs == 0) return std::nullopt;
  return TurnFinder(tables, is_half).find();
}

}  // namespace weft::models::onnx
