// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <array>
#include <cstdint>

namespace weft {

/// Philox 4x32-10: four uniform 32-bit words from a 128-bit counter and a 64-bit key.
/// @exact  the same words everywhere: integer arithmetic only
/// @source Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3", SC'11
std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter,
                                        std::array<std::uint32_t, 2> key) noexcept;

/// Purpose of a stream of random numbers; part of its address, so purposes never share numbers.
enum class RandomPurpose : std::uint32_t {
  init,
  feedback,
  shuffle,
  dropout,
  noise,
  test,
  environment,
  explore,
  drift,
  generator,
  renew,
  replay,
  renew_unit,
  perturb,
  adapter
};

/// A counter-based random stream: its numbers are a function of (seed, place, purpose, position) alone.
/// @thread value type, no shared state
class RandomStream {
 public:
  RandomStream(std::uint64_t seed, std::uint64_t place, RandomPurpose purpose) noexcept;

  std::uint32_t next_u32() noexcept;
  /// Uniform in [0, 1), a multiple of 2^-24.
  float next_uniform() noexcept;
  /// Uniform in [0, bound), bound >= 1, without modulo bias.
  /// @source Lemire 2019, "Fast random integer generation in an interval", algorithm 5
  std::uint32_t next_below(std::uint32_t bound) noexcept;
  /// Sum of twelve uniforms minus six: mean 0, variance 1, |x| <= 6, and no libm call whose last bit differs.
  float next_normal() noexcept;

  /// Number of 32-bit words drawn; saved with the state, restored by `seek`.
  std::uint64_t position() const noexcept { return position_; }
  void seek(std::uint64_t position) noexcept { position_ = position; }

 private:
  std::array<std::uint32_t, 2> key_;
  std::array<std::uint32_t, 2> place_;
  std::uint64_t position_ = 0;
  std::uint64_t block_index_ = ~std::uint64_t{0};
  std::array<std::uint32_t, 4> block_{};
};

}  // namespace weft
