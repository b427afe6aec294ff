// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "tests/gpu/gpu_testing.hpp"
#include "tests/kernels/coded_weights.hpp"
#include <cstring>
#include <vector>

namespace weft::gpu::testing_support {

/// Bytes as operands are: in whole floats.
inline std::vector<float> as_floats(const void* bytes, std::size_t count) {
  std::vector<float> floats((count + 3) / 4);
  if (count > 0) std::memcpy(floats.data(), bytes, count);
  return floats;
}

/// A stored weight of random codes as an operand of a Comparison.
class CodedOperand {
 public:
  CodedOperand(Comparison& c, RandomStream& random, const Encoding& encoding, std::size_t out, std::size_t in,
               kernels::testing_coded::Codes which)
      : matrix_(encoding, out, in) {
    matrix_.fill(random, which);
    const auto bytes = kernels::weight_bytes(encoding, out, in);
    codes_ = c.add(as_floats(matrix_.view().codes, bytes.codes));
    scales_ = c.add(as_floats(matrix_.view().scales, bytes.scales));
    zeros_ = c.add(as_floats(matrix_.view().zeros, bytes.zeros));
  }
  ConstWeight at(const Comparison::At& at, Activations activations) const {
    ConstWeight w = matrix_.view();
    w.codes = at.data(codes_);
    if (w.scales) w.scales = at.data(scales_);
    if (w.zeros) w.zeros = at.data(zeros_);
    w.activations = activations;
    return w;
  }

 private:
  kernels::testing_coded::CodedMatrix matrix_;
  std::size_t codes_, scales_, zeros_;
};

}  // namespace weft::gpu::testing_support
