// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/network/layer.hpp"
#include "mesh/network/option.hpp"
#include "mesh/network/option_reader.hpp"

#include "testing.hpp"
#include <limits>
#include <memory>
#include <stdexcept>
#include <vector>

namespace weft::mesh::testing_support {

/// Besides those of `fragile`: what makes a `fuse` fail on the way back.
inline constexpr float kThrowBack = 105.0f, kBadGradient = 106.0f, kBadMessage = 107.0f;

/// y = w x, with memory y = h = h/2 + w x, w = 1 at first; fails on rows whose value `at` is a trigger. Several may
/// stand in one container, each with a trigger of its own.
class Fuse final : public Layer {
 public:
  Fuse(std::size_t width, std::size_t at, bool remembers) : Layer(width, width), at_(at), remembers_(remembers) {
    parameters_.push_back({"scale", 1, 0, false, [](RandomStream&, std::span<float> v) { v[0] = 1.0f; }});
  }
  std::size_t state_size() const noexcept override { return remembers_ ? in() : 0; }
  StateErrors state_errors() const noexcept override { return StateErrors::none; }
  const std::vector<ParameterSpec>& parameters() const noexcept override { return parameters_; }

  void forward(kernels::OpStream&, const ForwardArgs& args) const override {
    const float w = args.weights.vector(0)[0];
    for (std::size_t b = 0; b < args.x.rows; ++b) {
      const float* const x = args.x.row(b);
      if (x[at_] == kThrow) throw std::runtime_error("the fuse blew");
      for (std::size_t j = 0; j < in(); ++j) {
        float y = w * x[j];
        if (remembers_) args.next_state.row(b)[j] = y = 0.5f * args.state.row(b)[j] + y;
        if (remembers_ && x[at_] == kBadHidden) args.next_state.row(b)[j] = kInf;
        args.y.row(b)[j] = x[at_] == kNan ? std::numeric_limits<float>::quiet_NaN() : x[at_] == kInfinite ? kInf : y;
      }
    }
  }
  void backward(kernels::OpStream& stream, const BackwardArgs& args) const override {
    for (std::size_t b = 0; b < args.x.rows; ++b) {
      const float *const x = args.x.row(b), *const dy = args.dy.row(b);
      if (x[at_] == kThrowBack) throw std::runtime_error("it blew on the way back");
      for (std::size_t j = 0; j < in(); ++j) {
        if (args.gradients.data) args.gradients[0][0] += x[at_] == kBadGradient ? kInf : dy[j] * x[j];
        if (args.dx.data) args.dx.row(b)[j] = x[at_] == kBadMessage ? kInf : args.weights.vector(0)[0] * dy[j];
      }
    }
    if (args.dstate.data) stream.fill({0.0f, args.dstate});
  }

 private:
  static constexpr float kInf = std::numeric_limits<float>::infinity();
  std::size_t at_;
  bool remembers_;
  std::vector<ParameterSpec> parameters_;
};

/// Adds the type "fuse" once a process.
inline void register_fuse() {
  static const Status done =
      register_layer("fuse",
                     [](const Shape& in, std::size_t, OptionReader& options) -> Result<std::unique_ptr<Layer>> {
                       WEFT_TRY(const std::size_t at, options.integer("trigger"));
                       WEFT_TRY(const bool remembers, options.boolean("memory"));
                       return std::unique_ptr<Layer>(new Fuse(in.at(0), at, remembers));
                     },
                     {"in",
                      "in",
                      {option::whole("trigger", 0, 0, 1000, "-", "the value that makes it fail"),
                       option::flag("memory", false, "whether it counts its ticks")}});
  must(done);
}

/// The events of a mesh, one a line.
inline std::string events_of(const Mesh& mesh) {
  std::string all;
  std::uint64_t first = 0;
  for (const auto& [fault, decision] : mesh.supervisor().events().read(first))
    all += std::to_string(fault.actor) + "@" + std::to_string(fault.tick) + " " + std::string(name(fault.kind)) + " '" +
           fault.reason.data() + "' " + std::string(name(decision.action)) + " " +
           std::to_string(decision.restarts_used) + (decision.escalated ? " escalated\n" : "\n");
  return all;
}

}  // namespace weft::mesh::testing_support
