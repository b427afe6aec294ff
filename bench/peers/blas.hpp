// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace weft::bench {

/// The libraries we measure against, one thread each, all computing y [B, out] = x [B, in] w[out, in]^T.
/// Each is absent where the build did not find it.

/// False when this build has no OpenBLAS.
bool has_openblas() noexcept;
/// The core OpenBLAS chose ("SkylakeX"); OPENBLAS_CORETYPE in the environment of the process overrides it.
std::string openblas_core();
/// `w` row-major [out, in]. B = 1 calls sgemv, more sgemm.
void openblas_linear(std::size_t batch, std::size_t out, std::size_t in, const float* w, const float* x, float* y);

/// False when this build has no oneDNN.
bool has_onednn() noexcept;

/// An inner product prepared by oneDNN, with the weights in the layout it likes best: reordering is not timed.
class OnednnLinear {
 public:
  /// `w` row-major [out, in] is copied; x and y are used by every run.
  OnednnLinear(std::size_t batch, std::size_t out, std::size_t in, const float* w, const float* x, float* y);
  ~OnednnLinear();
  void run();

 private:
  struct Prepared;
  std::unique_ptr<Prepared> prepared_;
};

}  // namespace weft::bench
