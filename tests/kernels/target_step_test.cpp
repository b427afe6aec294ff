// SPDX-License-Identifier: Apache-2.0

#include "kernels/target_step.hpp"

#include "kernels/binary.hpp"
#include "kernels/norm.hpp"
#include "kernels/reduce.hpp"
#include "kernels/target_rules.hpp"
#include "kernels/unary.hpp"

#include "core/aligned_buffer.hpp"

#include "comparing.hpp"
#include <bit>
#include <cstdint>
#include <string>
#include <vector>

namespace weft::kernels::target_step_test {
namespace {

using testing_support::kSizes;
using testing_support::special_values;

using Row = std::vector<float>;

MatrixView of(Row& row) { return {row.data(), 1, row.size(), row.size()}; }
ConstMatrixView of(const Row& row) { return {row.data(), 1, row.size(), row.size()}; }

std::vector<std::uint32_t> bits(const Row& row) {
  std::vector<std::uint32_t> all;
  // Payloads of NaNs are left open.
  for (const float v : row) all.push_back(v != v ? 0x7fc00000u : std::bit_cast<std::uint32_t>(v));
  return all;
}

/// Values of about `scale`; with `special` zeros of both signs, tiny numbers, infinities and NaNs among them.
Row drawn(RandomStream& random, std::size_t n, float scale, bool special) {
  Row row(n);
  for (float& v : row) {
    v = scale * random.next_normal();
    if (special && random.next_below(8) == 0)
      v = special_values()[random.next_below(static_cast<std::uint32_t>(special_values().size()))];
  }
  return row;
}

/// min(1, limit / rms), as the operations of a stream have it: rms_norm, mul, scale, min.
float factor_by_operations(float limit, bool is_square, const Row& x) {
  Row normal(x.size()), factor(1), one{1.0f};
  rms_norm(of(x), nullptr, kLeastSquare, of(normal), factor.data());
  if (is_square) binary(BinaryOp::mul, of(factor), of(factor), of(factor));
  scale(limit, of(factor), of(factor));
  binary(BinaryOp::min, of(factor), of(one), of(factor));
  return factor[0];
}

TEST(TargetStep, LimitsADisplacementAsOperationsDo) {
  const FlushSubnormals flush;
  for (const Isa isa : available_isas()) {
    ASSERT_TRUE(set_active_isa(isa));
    for (const std::size_t n : kSizes)
      for (const bool special : {false, true})
        for (const DisplacementLimits limits :
             {DisplacementLimits{0, 0}, {1.0f, 0}, {0, 1.0f}, {0.25f, 0.5f}, {3.0f, 2.0f}}) {
          RandomStream random(n, special, RandomPurpose::test);
          const Row y = drawn(random, n, 1.5f, special), wanted = drawn(random, n, 0.7f, special);
          Row expected = wanted;
          if (limits.displacement != 0.0f) {
            const float factor = factor_by_operations(limits.displacement, false, expected);
            scale_rows(&factor, of(expected), of(expected));
          }
          if (limits.activation != 0.0f) {
            Row within(n);
            const float factor = factor_by_operations(limits.activation, false, y);
            scale_rows(&factor, of(y), of(within));
            binary(BinaryOp::sub, of(within), of(y), of(within));
            axpy(0.1f, of(within), of(expected));
          }
          Row result(n, 7.0f), in_place = wanted;
          limit_displacement(wanted.data(), y.data(), n, limits, result.data());
          ASSERT_EQ(last_isa_run(), general_isa(isa));
          limit_displacement(in_place.data(), y.data(), n, limits, in_place.data());
          ASSERT_EQ(bits(result), bits(expected)) << name(isa) << ' ' << n;
          ASSERT_EQ(bits(in_place), bits(expected)) << name(isa) << ' ' << n;
        }
  }
}

TEST(TargetStep, HasTheErrorThatOperationsHave) {
  const FlushSubnormals flush;
  std::size_t learned = 0, refused = 0;
  for (const Isa isa : available_isas()) {
    ASSERT_TRUE(set_active_isa(isa));
    for (const std::size_t n : kSizes)
      for (std::size_t a = 0; a < static_cast<std::size_t>(kActivationCount); ++a)
        for (const std::uint32_t kind : {0u, 1u, 2u}) {
          const auto activation = static_cast<Activation>(a);
          RandomStream random(n * 64 + a, kind, RandomPurpose::test);
          const std::size_t in = n % 7 + 1 + n / 2;
          Row z = drawn(random, n, 1.0f, kind == 1), y(n), d = drawn(random, n, 0.5f, kind == 1);
          const Row x = drawn(random, in, 2.0f, kind == 1);
          unary(activation, of(z), of(y));
          if (kind == 2)  // a target on the other side has no budget
            for (std::size_t i = 0; i < n; ++i) d[i] = -3.0f * y[i];
          const float step_limit = kind == 0 ? 0.4f : 0.0f;
          Row target(n), expected(n), factor(1);
          binary(BinaryOp::add, of(y), of(d), of(target));
          link_budget(of(y), of(target), factor.data());
          const bool learns = factor[0] != 0.0f;
          scale_rows(factor.data(), of(d), of(expected));
          if (step_limit != 0.0f) {
            const float limit = factor_by_operations(step_limit, true, x);
            scale_rows(&limit, of(expected), of(expected));
          }
          scale(-1.0f, of(expected), of(expected));
          if (activation != Activation::linear) unary_backward(activation, of(z), of(y), of(expected), of(expected));
          Row dy(n, 7.0f);
          const float* const slope = needs_preactivation(activation) ? z.data() : y.data();
          const bool result =
              target_error({y.data(), slope, d.data(), x.data(), n, in, activation, step_limit, -1.0f}, dy.data());
          ASSERT_EQ(last_isa_run(), general_isa(isa));
          ASSERT_EQ(result, learns) << name(isa) << ' ' << n << ' ' << name(activation) << ' ' << kind;
          ASSERT_EQ(bits(dy), bits(learns ? expected : Row(n, 7.0f)))
              << name(isa) << ' ' << n << ' ' << name(activation) << ' ' << kind;
          (learns ? learned : refused) += 1;
        }
  }
  EXPECT_GT(learned, 0u);
  EXPECT_GT(refused, 0u);
}

}  // namespace
}  // namespace weft::kernels::target_step_test
