// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/archive.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace weft::learning {

enum class DetectorKind : int {
  none,
#define WEFT_DETECTOR(name) name,
#include "learning/drift/detectors.def"
#undef WEFT_DETECTOR
};
std::string_view name(DetectorKind kind) noexcept;
/// "none" first.
const std::vector<std::string_view>& detector_names();

/// Finding after one more number. Warnings are of some detectors alone. improvement: a change to smaller numbers, fewer
/// errors; of detectors that see both.
enum class DriftLevel : int { none, warning, change, improvement };
std::string_view name(DriftLevel level) noexcept;

/// Options of a detector. 0 of `confidence`: the detector's own.
struct DetectorOptions {
  DetectorKind kind = DetectorKind::none;
  double confidence = 0;                       // probability of a false alarm: adwin, kswin, hddm_a, hddm_w
  double warning_confidence = 0.005;           // hddm_a, hddm_w
  std::uint32_t clock = 32;                    // inputs from one look to the next: adwin
  std::uint32_t window = 100;                  // inputs that are kept: kswin
  std::uint32_t recent = 30;                   // of them, the latest, against a draw from the others: kswin
  double tolerance = 0.005;                    // page_hinkley
  double threshold = 50;                       // page_hinkley
  double fading = 0.9999;                      // page_hinkley
  std::uint32_t warm_up = 30;                  // inputs (page_hinkley, ddm) or errors (eddm) before the first alarm
  double warning_level = 2, change_level = 3;  // deviations: ddm
  double warning_ratio = 0.95, change_ratio = 0.9;  // eddm
  double share = 0.05;                              // of the newest input in a mean: hddm_w
  bool operator==(const DetectorOptions&) const = default;
};

/// True for a detector of errors, 0 or 1; the others take any number.
bool takes_errors_only(DetectorKind kind) noexcept;

/// Detector of drift: formulas over a few numbers. They are all of its state, and zeros are a new one, so that it is
/// saved, hashed and put back in the middle of a window.
/// @thread one at a time
/// @exact  the same bits everywhere: binary64 without fusing, no libm, Philox with the purpose `drift`
class DriftDetector {
 public:
  virtual ~DriftDetector() = default;
  /// Takes one more number. One that is not finite is passed over: `none`.
  DriftLevel add(double value) noexcept;
  /// Numbers so far.
  std::uint64_t inputs() const noexcept { return inputs_; }
  std::span<const double> state() const noexcept { return state_; }

  void visit(OutArchive& archive) const;
  /// @return false: no such state can be
  [[nodiscard]] bool visit(InArchive& archive);

 protected:
  explicit DriftDetector(std::size_t state) : state_(state) {}

  /// `n`: inputs before this one, in all.
  virtual DriftLevel step(std::span<double> state, double value, std::uint64_t n) noexcept = 0;
  /// True for a state that `step` could have left; its numbers are finite.
  virtual bool is_possible(std::span<const double> state) const noexcept = 0;

 private:
  template <class Self, class Archive>
  static void visit_fields(Self& self, Archive& archive);

  std::vector<double> state_;
  std::uint64_t inputs_ = 0;
};

/// Not of `none`. `seed`: of the draws of kswin.
std::unique_ptr<DriftDetector> make_detector(const DetectorOptions& options, std::uint64_t seed = 0);

#define WEFT_DETECTOR(name) \
  std::unique_ptr<DriftDetector> make_##name(const DetectorOptions& options, std::uint64_t seed);
#include "learning/drift/detectors.def"
#undef WEFT_DETECTOR

/// True for a count that a binary64 holds: whole, from 0 to `most`.
bool is_count(double value, double most = 0x1p53) noexcept;

}  // namespace weft::learning
