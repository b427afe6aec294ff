// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/result.hpp"

#include <string_view>

namespace weft::learning {

struct LearningOptions;

/// Steps with noise, by what each weight is of use for: gradient and noise are both the smaller the more useful a
/// weight is (upgd), or the noise alone (upgd_nonprotecting).
enum class Perturbation : int { none, upgd, upgd_nonprotecting };
std::string_view name(Perturbation method) noexcept;

/// The section "perturb" of "learning".
struct PerturbationOptions {
  Perturbation method = Perturbation::none;
  float noise = 0.001f;   // standard deviation
  float decay = 0.9999f;  // of utilities, with each update
  bool operator==(const PerturbationOptions&) const = default;

  bool is_on() const noexcept { return method != Perturbation::none; }
};

/// The section against the others. @error out_of_range, invalid_argument: naming key and value
Status check_perturbation(const LearningOptions& options);

}  // namespace weft::learning
