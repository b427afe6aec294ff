// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/network/layer.hpp"

#include "testing.hpp"
#include <memory>
#include <utility>
#include <vector>

namespace weft::mesh::testing_support {

/// A type as users register them: it computes where its operands stand, and calls no operation.
/// h' = s x + h / 2, y = h'; the scales s learn.
class Raw final : public Layer {
 public:
  explicit Raw(std::size_t width) : Layer(width, width) {
    parameters_.push_back({"scale", width, 0, true, [](RandomStream& random, std::span<float> values) {
                             for (float& v : values) v = 0.5f + random.next_uniform();
                           }});
  }
  std::size_t state_size() const noexcept override { return in(); }
  std::size_t cache_size() const noexcept override { return in(); }
  const std::vector<ParameterSpec>& parameters() const noexcept override { return parameters_; }

  void forward(kernels::OpStream&, const ForwardArgs& args) const override {
    for (std::size_t b = 0; b < args.x.rows; ++b)
      for (std::size_t j = 0; j < in(); ++j) {
        const float y = args.weights.vector(0)[j] * args.x.row(b)[j] + 0.5f * args.state.row(b)[j];
        args.y.row(b)[j] = args.next_state.row(b)[j] = y;
        if (args.cache.data) args.cache.row(b)[j] = args.x.row(b)[j];
      }
  }
  void backward(kernels::OpStream&, const BackwardArgs& args) const override {
    for (std::size_t b = 0; b < args.x.rows; ++b)
      for (std::size_t j = 0; j < in(); ++j) {
        const float d = args.dy.row(b)[j] + (args.dnext_state.data ? args.dnext_state.row(b)[j] : 0.0f);
        if (args.gradients.data) args.gradients[0][j] += d * args.cache.row(b)[j];
        if (args.dx.data) args.dx.row(b)[j] = args.weights.vector(0)[j] * d;
        if (args.dstate.data) args.dstate.row(b)[j] = 0.5f * d;
      }
  }

 private:
  std::vector<ParameterSpec> parameters_;
};

/// Adds the type "raw" once a process.
inline void register_raw() {
  static const Status done =
      register_layer("raw", [](const Shape& in, std::size_t, OptionReader&) -> Result<std::unique_ptr<Layer>> {
        return std::unique_ptr<Layer>(new Raw(in.at(0)));
      });
  must(done);
}

}  // namespace weft::mesh::testing_support
