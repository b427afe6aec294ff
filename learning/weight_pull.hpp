// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/result.hpp"

#include <cstdint>
#include <string_view>

namespace weft::mesh {
class Mesh;
}

namespace weft::learning {

/// Weights that the present ones are pulled to: those that they began with, or ones that are drawn anew each time.
enum class Pull : int { none, initial, fresh };
std::string_view name(Pull pull) noexcept;

/// The section "plasticity" of "learning": what keeps a network able to learn for long.
struct PlasticityOptions {
  Pull pull = Pull::none;
  std::uint32_t every = 100;  // samples from one pull to the next
  float share = 0.001f;       // of the way to the other weights; of `fresh`, by which weights shrink
  float scale = 0.01f;        // of the fresh weights that are added
  bool operator==(const PlasticityOptions&) const = default;

  bool is_on() const noexcept { return pull != Pull::none; }
  /// Samples of `count` after the `samples`-th up to the next pull, that one's counted.
  std::uint64_t room(std::uint64_t samples, std::uint64_t count) const noexcept {
    const std::uint64_t left = every - samples % every;
    return is_on() && left < count ? left : count;
  }
  bool is_due(std::uint64_t samples) const noexcept { return is_on() && samples > 0 && samples % every == 0; }
};

/// Pulls the weights of all layers that learn, after the `samples`-th sample.
///   initial:  w = w + share (w0 - w);  w0 drawn anew from the network's seed, as at its beginning
///   fresh:    w = (1 - share) w + scale f;  f drawn by the layer's initializer, by seed and number of the pull
/// @exact  the same bits on every ISA and device: binary32, nothing fused
/// @source initial: Kumar, Marklund, Rumbaugh, Blumenschein and Van Roy 2023, "Maintaining plasticity in continual
///         learning via regenerative regularization", arXiv:2308.11958, at times instead of at each step; fresh: Ash
///         and Adams 2020, "On warm-starting neural network training", arXiv:1910.08475
void pull_weights(mesh::Mesh& mesh, const PlasticityOptions& options, std::uint64_t samples);

}  // namespace weft::learning
