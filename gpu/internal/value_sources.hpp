// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "gpu/internal/recorder.hpp"

#include "kernels/views.hpp"

#include <array>
#include <cstddef>
#include <cstdint>

namespace weft::gpu {

/// Sources of values of the command graph that is being captured: an operation that reads a copy may read what was
/// copied, and one that reads a norm's result may norm its rows itself. The copy and the norm still run, but nobody
/// waits for them.
class ValueSources {
 public:
  using View = kernels::ConstMatrixView;
  /// A root mean square norm with gains.
  struct Norm {
    View x, y;
    const float* gain = nullptr;
    float epsilon = 0;
    std::uint32_t level = 0;
  };

  void forget() noexcept { *this = {}; }
  /// The last captured dispatch was the whole of a copy, or of a norm.
  void note_copy(Recorder& recorder, const View& x, const View& y);
  void note_norm(Recorder& recorder, const View& x, const View& y, const float* gain, float epsilon);
  /// Source that x was copied from, where neither was written since; else x.
  View source_of(Recorder& recorder, const View& x) const;
  /// The norm that made x, under the same condition; null: none is known.
  const Norm* norm_of(Recorder& recorder, const View& x) const;

 private:
  struct Copy {
    View x, y;
    std::uint32_t level = 0;
  };
  static constexpr std::size_t kCopies = 8;  // the last ones
  std::array<Copy, kCopies> copies_{};
  std::size_t next_ = 0;
  Norm norm_{};
};

/// True when both are the same rows.
inline bool is_same(const kernels::ConstMatrixView& a, const kernels::ConstMatrixView& b) noexcept {
  return a.data == b.data && a.rows == b.rows && a.cols == b.cols && (a.stride == b.stride || a.rows <= 1);
}

}  // namespace weft::gpu
