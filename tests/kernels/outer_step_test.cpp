// SPDX-License-Identifier: Apache-2.0

#include "kernels/finite.hpp"
#include "kernels/float_environment.hpp"
#include "kernels/isa.hpp"
#include "kernels/linear.hpp"
#include "kernels/optimizer.hpp"

#include "core/aligned_buffer.hpp"
#include "core/philox.hpp"

#include <gtest/gtest.h>

#include "tests/kernels/general_isa.hpp"
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace weft::kernels::outer_step_test {
namespace {

std::vector<OptimizerOptions> all_options() {
  std::vector<OptimizerOptions> all;
  for (std::size_t i = 0; i < optimizer_names().size(); ++i)
    for (const bool flag : {false, true}) {
      OptimizerOptions o = default_options(static_cast<OptimizerKind>(i));
      o.lr = 0.1f, o.weight_decay = flag ? 0.01f : 0.0f, o.nesterov = o.centered = flag;
      if (o.kind == OptimizerKind::rmsprop && flag) o.momentum = 0.5f;
      o.clip = flag ? Clip::value : Clip::none, o.clip_limit = 0.5f;
      all.push_back(o);
    }
  all.push_back(default_options(OptimizerKind::momentum));
  all.back().lr = 0.1f, all.back().shares = {0.6561f, 0.3439f};
  return all;
}

/// A matrix with its bias, and the arrays of an optimiser beside both.
struct Layer {
  Layer(std::size_t out, std::size_t in, RandomStream& random) {
    for (std::size_t i = 0; i < 4; ++i) {
      matrix[i] = AlignedBuffer<float>(panels_size(out, in));
      for (std::size_t o = 0; o < out; ++o)
        for (std::size_t k = 0; k < in; ++k) matrix[i].data()[panel_index(in, o, k)] = value(random, i);
      bias[i] = AlignedBuffer<float>(out);
      for (std::size_t o = 0; o < out; ++o) bias[i].data()[o] = value(random, i);
    }
  }
  // Zeros of both signs among them; what may be a mean of squares is not negative.
  static float value(RandomStream& random, std::size_t array) {
    const std::uint32_t kind = random.next_below(8);
    const float x = kind == 0 ? 0.0f : kind == 1 ? -0.0f : random.next_normal();
    return array == 0 || array == 3 ? x : std::fabs(x);
  }
  OptimizerArguments arguments(std::array<AlignedBuffer<float>, 4>& of, const OptimizerOptions& o,
                               const float* factors) {
    const std::size_t used = arrays_of(o);
    const auto array = [&](std::size_t i) { return i < used ? of[i + 1].data() : nullptr; };
    return {of[0].size(), of[0].data(), array(0), array(1), array(2), nullptr, factors, nullptr};
  }
  std::vector<std::uint32_t> bits() const {
    std::vector<std::uint32_t> all;
    for (const auto* const each : {&matrix, &bias})
      for (const AlignedBuffer<float>& values : *each)
        for (std::size_t i = 0; i < values.size(); ++i) all.push_back(std::bit_cast<std::uint32_t>(values.data()[i]));
    return all;
  }
  std::array<AlignedBuffer<float>, 4> matrix, bias;
};

TEST(OuterStep, MovesAsGradientsInMemoryDo) {
  const FlushSubnormals flush;
  const float factors[kOptimizerFactors] = {0.05f, 0.19f, 0.002f};
  for (const auto& [out, in] : {std::pair<std::size_t, std::size_t>{1, 1}, {10, 3}, {16, 64}, {17, 5}, {64, 80}})
    for (const OptimizerOptions& o : all_options()) {
      RandomStream random(7, out * 1000 + in, RandomPurpose::test);
      std::vector<float> dy(out), x(in);
      // Products below the normal range, and zeros of both signs.
      for (float& v : dy) v = Layer::value(random, 0) * (random.next_below(4) ? 1.0f : 1e-30f);
      for (float& v : x) v = Layer::value(random, 0) * (random.next_below(4) ? 1.0f : 1e-12f);
      std::vector<std::uint32_t> wanted;
      for (const Isa isa : available_isas()) {
        ASSERT_TRUE(set_active_isa(isa));
        RandomStream same(8, out, RandomPurpose::test), again(8, out, RandomPurpose::test);
        Layer by_memory(out, in, same), by_product(out, in, again);
        AlignedBuffer<float> g(panels_size(out, in)), bias_g(out);
        outer_accumulate({dy.data(), 1, out, out}, {x.data(), 1, in, in}, {g.data(), out, in});
        for (std::size_t k = 0; k < out; ++k) bias_g.data()[k] += dy[k];
        OptimizerArguments matrix = by_memory.arguments(by_memory.matrix, o, factors),
                           bias = by_memory.arguments(by_memory.bias, o, factors);
        matrix.g = g.data(), bias.g = bias_g.data();
        optimizer_step(matrix, o), optimizer_step(bias, o);

        // In two parts, as threads do it.
        const OptimizerArguments own = by_product.arguments(by_product.matrix, o, factors);
        const std::size_t panels = panel_count(out), half = panels / 2;
        outer_step(own, {dy.data(), x.data(), out, in}, o, 0, half);
        outer_step(own, {dy.data(), x.data(), out, in}, o, half, panels - half);
        EXPECT_EQ(last_isa_run(), general_isa(isa));
        outer_step(by_product.arguments(by_product.bias, o, factors), {dy.data(), nullptr, out, in}, o, 0, 0);
        const std::string what = std::string(name(isa)) + ", optimiser " +
                                 std::string(optimizer_names()[static_cast<std::size_t>(o.kind)]) + ", " +
                                 std::to_string(out) + "x" + std::to_string(in);
        EXPECT_EQ(by_product.bits(), by_memory.bits()) << what;
        if (wanted.empty()) wanted = by_memory.bits();
        EXPECT_EQ(by_product.bits(), wanted) << what;
      }
    }
}

TEST(OuterStep, ModerateValuesAreThoseWhoseProductsAreFinite) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();
  for (const Isa isa : available_isas()) {
    ASSERT_TRUE(set_active_isa(isa));
    for (const std::size_t n : {1, 15, 16, 17, 100})
      for (const std::size_t place : {std::size_t{0}, n / 2, n - 1}) {
        std::vector<float> values(n, -1.5f);
        EXPECT_TRUE(are_moderate(values.data(), n));
        for (const float good : {0.0f, -0.0f, 1e-40f, 0x1.fffffep62f, -0x1.fffffep62f}) {
          values[place] = good;
          EXPECT_TRUE(are_moderate(values.data(), n)) << good;
          EXPECT_TRUE(std::isfinite(good * 0x1.fffffep62f));
        }
        for (const float bad : {0x1p63f, -0x1p63f, kInfinity, -kInfinity, kNan, -kNan}) {
          values[place] = bad;
          EXPECT_FALSE(are_moderate(values.data(), n)) << bad;
        }
      }
    EXPECT_TRUE(are_moderate(nullptr, 0));
  }
}

}  // namespace
}  // namespace weft::kernels::outer_step_test
