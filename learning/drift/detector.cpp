// SPDX-License-Identifier: Apache-2.0

#include "learning/drift/detector.hpp"

#include "kernels/float_environment.hpp"

#include "core/assert.hpp"

#include <algorithm>
#include <cmath>

namespace weft::learning {

std::string_view name(DetectorKind kind) noexcept { return detector_names()[static_cast<std::size_t>(kind)]; }

const std::vector<std::string_view>& detector_names() {
  static const std::vector<std::string_view> names{
      "none",
#define WEFT_DETECTOR(name) #name,
#include "learning/drift/detectors.def"
#undef WEFT_DETECTOR
  };
  return names;
}

std::string_view name(DriftLevel level) noexcept {
  constexpr std::string_view kNames[] = {"none", "warning", "change", "improvement"};
  return kNames[static_cast<std::size_t>(level)];
}

bool takes_errors_only(DetectorKind kind) noexcept {
  return kind == DetectorKind::ddm || kind == DetectorKind::eddm || kind == DetectorKind::hddm_a ||
         kind == DetectorKind::hddm_w;
}

std::unique_ptr<DriftDetector> make_detector(const DetectorOptions& options, std::uint64_t seed) {
  switch (options.kind) {
    case DetectorKind::none:
      break;
#define WEFT_DETECTOR(name) \
  case DetectorKind::name:  \
    return make_##name(options, seed);
#include "learning/drift/detectors.def"
#undef WEFT_DETECTOR
  }
  WEFT_ASSERT(false, "a detector has a row");
  return nullptr;
}

bool is_count(double value, double most) noexcept {
  return value >= 0.0 && value <= most && value == std::floor(value);
}

DriftLevel DriftDetector::add(double value) noexcept {
  if (!std::isfinite(value)) return DriftLevel::none;
  const kernels::FlushSubnormals exact;
  return step(state_, value, inputs_++);
}

template <class Self, class Archive>
void DriftDetector::visit_fields(Self& self, Archive& archive) {
  archive(Field{"drift_inputs", Scope::messages}, self.inputs_);
  archive(Field{"drift_detector", Scope::messages}, std::span(self.state_));
}

void DriftDetector::visit(OutArchive& archive) const { visit_fields(*this, archive); }

bool DriftDetector::visit(InArchive& archive) {
  visit_fields(*this, archive);
  return !archive.has_failed() &&
         std::all_of(state_.begin(), state_.end(), [](double v) { return std::isfinite(v); }) && is_possible(state_);
}

}  // namespace weft::learning
