// SPDX-License-Identifier: Apache-2.0
// Operations that move and choose: permutations, embeddings, mixtures of experts.

#include "kernels/embedding.hpp"
#include "kernels/permute.hpp"

#include "tests/gpu/coded_testing.hpp"

namespace weft::gpu {
namespace {

using namespace testing_support;
using Values = kernels::testing_support::Matrix;

TEST(StreamMove, PermutationsMoveBits) {
  RandomStream random(40, 0, RandomPurpose::test);
  const std::vector<std::pair<std::vector<std::size_t>, std::vector<std::size_t>>> cases = {
      {{7, 5}, {1, 0}}, {{3, 4, 5}, {2, 0, 1}}, {{6}, {0}}, {{2, 3, 1, 4, 2}, {4, 2, 0, 3, 1}}, {{33, 20}, {1, 0}}};
  for (const auto& [shape, axes] : cases) {
    std::size_t volume = 1;
    for (const std::size_t n : shape) volume *= n;
    const auto order = kernels::AxisOrder::make(shape, axes), back = kernels::AxisOrder::inverse(shape, axes);
    Comparison c;
    const auto x = c.add(draw_matrix(random, 3, volume, true)), y = c.add(Values(3, volume)),
               z = c.add(Values(3, volume));
    c.expect_same("permute", [&](OpStream& stream, const auto& at) {
      stream.permute({at.rows(x), order, at.rows(y)});
      stream.permute({at.rows(y), back, at.rows(z)});
    });
  }
}

TEST(StreamMove, MixturesHaveTheCpusBits) {
  RandomStream random(41, 0, RandomPurpose::test);
  for (const std::size_t cols : {1, 65, 200})
    for (const std::size_t experts : {1, 5})
      for (const bool special : {false, true}) {
        Comparison c;
        const auto p = c.add(draw_matrix(random, 4, experts, special)),
                   x = c.add(draw_matrix(random, 4, experts * cols, special)), y = c.add(Values(4, cols)),
                   dy = c.add(draw_matrix(random, 4, cols, special)), dp = c.add(Values(4, experts)),
                   dx = c.add(Values(4, experts * cols));
        c.expect_same("mixture", [&](OpStream& stream, const auto& at) {
          stream.weighted_sum({at.rows(p), at.rows(x), at.rows(y)});
          stream.weighted_sum_backward({at.rows(p), at.rows(x), at.rows(dy), at.rows(dp), at.rows(dx)});
        });
      }
}

TEST(StreamMove, TheLargestAreChosenAsOnTheCpu) {
  RandomStream random(42, 0, RandomPurpose::test);
  for (const std::size_t cols : {1, 6, 64, 150})
    for (const bool special : {false, true}) {
      auto m = draw_matrix(random, 5, cols, special);
      // Ties, some of them across lanes.
      for (std::size_t i = 0; i < 4; ++i)
        for (std::size_t j = 0; j < cols; j += 3) m.at(i, j) = 0.5f;
      Comparison c;
      const auto x = c.add(m), one_hot = c.add(Values(5, cols)), kept = c.add(Values(5, cols)), all = c.add(m),
                 in_place = c.add(m);
      c.expect_same(std::to_string(cols), [&](OpStream& stream, const auto& at) {
        stream.argmax_one_hot({at.rows(x), at.rows(one_hot)});
        stream.top_k_mask({at.rows(x), 2, at.rows(kept)});
        stream.top_k_mask({at.rows(in_place), cols / 2 + 1, at.rows(in_place)});
        stream.top_k_mask({at.rows(x), 1000, at.rows(all)});
        stream.argmax_one_hot({at.rows(x), at.rows(x)});
      });
    }
}

TEST(StreamMove, EmbeddingsHaveTheCpusBits) {
  RandomStream random(43, 0, RandomPurpose::test);
  constexpr std::size_t kOut = 21, kIn = 12, kTokens = 9;
  for (const Encoding& encoding : kernels::testing_coded::all_encodings()) {
    Values places(2, kTokens);
    for (std::size_t b = 0; b < 2; ++b)
      for (std::size_t t = 0; t < kTokens; ++t) places.at(b, t) = static_cast<float>(random.next_below(kIn)) + 0.5f;
    places.at(0, 0) = -3.0f, places.at(0, 1) = 1e9f, places.at(0, 2) = std::nanf(""), places.at(1, 0) = 0x1p-140f;
    Comparison c;
    const CodedOperand table(c, random, encoding, kOut, kIn, kernels::testing_coded::Codes::any);
    const auto x = c.add(places), y = c.add(Values(2, kTokens * kOut)),
               dw = c.add(std::vector<float>(kernels::panels_size(kOut, kIn), 0.25f));
    c.expect_same(to_string(encoding), [&](OpStream& stream, const auto& at) {
      stream.embedding({table.at(at, Activations::float32), at.rows(x), at.rows(y)});
      stream.embedding_backward({at.rows(x), at.rows(y), 3, {at.data(dw), kOut, kIn}});
      stream.embedding_backward({at.rows(x), at.rows(y), kernels::kNoColumn, {at.data(dw), kOut, kIn}});
    });
  }
}

}  // namespace
}  // namespace weft::gpu
