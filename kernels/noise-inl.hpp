// SPDX-License-Identifier: Apache-2.0
// Not a header of its own: re-included once per ISA (kernels/foreach_isa.hpp), the scalar pass too.
// The Philox numbers of a row: what gumbel and dropout draw from (docs/numerics.md, section 11).

#if defined(WEFT_KERNELS_NOISE_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_KERNELS_NOISE_INL
#undef WEFT_KERNELS_NOISE_INL
#else
#define WEFT_KERNELS_NOISE_INL
#endif

#include "kernels/rows-inl.hpp"

#include "core/philox.hpp"

#include <array>
#include <cstddef>
#include <cstdint>

WEFT_ISA_BEGIN();
namespace weft::kernels::WEFT_ISA {
namespace {

// A chunk of 64 columns takes 16 Philox blocks, word w of block i being column 16 w + i: blocks are lanes.
constexpr std::size_t kChunkColumns = 64, kBlocks = 16;

inline std::uint64_t digits(float low, float high) noexcept {
  const auto digit = [](float v) -> std::uint64_t {
    return v >= 0.0f && v < 0x1p24f ? static_cast<std::uint32_t>(v) : 0u;
  };
  return digit(low) | digit(high) << 24;
}

// Position of a row's noise stream; writes the next position.
struct Position {
  Position(const float* state, std::size_t row, float* next) noexcept
      : counter(digits(state[0], state[1])), stream(digits(state[2], state[3])) {
    if (stream == 0) stream = row + 1;
    const std::uint64_t parts[2] = {counter + 1, stream};
    for (std::size_t i = 0; i < 2; ++i) {
      next[2 * i] = static_cast<float>(parts[i] & 0xffffffu);
      next[2 * i + 1] = static_cast<float>(parts[i] >> 24 & 0xffffffu);
    }
  }
  Position(std::uint64_t number, std::uint64_t of) noexcept : counter(number & 0xffffffffffffu), stream(of) {}
  // Words 1 to 3 of a Philox counter; word 0 is the block's number in the row.
  std::uint32_t word(int i) const noexcept {
    return static_cast<std::uint32_t>(i == 1 ? counter : i == 2 ? counter >> 32 | (stream >> 32) << 16 : stream);
  }
  std::uint64_t counter, stream;
};

#if WEFT_ISA_IS_SCALAR

// Calls visit(place, word) for each of a chunk's words; `place` is its column within the chunk.
template <class Visit>
void for_each_word_of_chunk(std::size_t chunk, std::array<std::uint32_t, 2> key, const Position& at,
                            const Visit& visit) noexcept {
  for (std::size_t i = 0; i < kBlocks; ++i) {
    const auto block = static_cast<std::uint32_t>(chunk * kBlocks + i);
    const auto words = philox4x32({block, at.word(1), at.word(2), at.word(3)}, key);
    for (std::size_t w = 0; w < 4; ++w) visit(w * kBlocks + i, words[w]);
  }
}

// Calls visit(column, word) for each of a row's n columns.
template <class Visit>
void for_each_word(std::size_t n, std::array<std::uint32_t, 2> key, const Position& at, const Visit& visit) noexcept {
  for (std::size_t first = 0; first < n; first += kChunkColumns)
    for_each_word_of_chunk(first / kChunkColumns, key, at, [&](std::size_t place, std::uint32_t word) {
      if (first + place < n) visit(first + place, word);
    });
}

#else

using WordTag = hn::RebindToUnsigned<FloatTag>;
using WordVec = hn::Vec<WordTag>;

// The upper and lower words of the products a m.
HWY_INLINE void Product(WordVec a, std::uint32_t m, WordVec& high, WordVec& low) {
  const WordTag d;
  const hn::Repartition<std::uint64_t, WordTag> wide;
  const WordVec by = hn::Set(d, m);
  const auto even = hn::MulEven(a, by);
  const auto odd = hn::MulEven(hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(wide, a))), by);
  high = hn::OddEven(hn::BitCast(d, odd), hn::BitCast(d, hn::ShiftRight<32>(even)));
  low = hn::Mul(a, by);
}

// philox4x32 of core/philox.cpp, a counter a lane.
HWY_INLINE void Philox(WordVec (&c)[4], std::array<std::uint32_t, 2> k) {
  const WordTag d;
  for (int round = 0; round < 10; ++round) {
    WordVec high0, low0, high1, low1;
    Product(c[0], 0xD2511F53u, high0, low0);
    Product(c[2], 0xCD9E8D57u, high1, low1);
    c[0] = hn::Xor(hn::Xor(high1, c[1]), hn::Set(d, k[0]));
    c[1] = low1;
    c[2] = hn::Xor(hn::Xor(high0, c[3]), hn::Set(d, k[1]));
    c[3] = low0;
    k[0] += 0x9E3779B9u;
    k[1] += 0xBB67AE85u;
  }
}

// Calls visit(place, words) for each vector of a chunk's words; `place` is its first column within the chunk.
template <class Visit>
HWY_INLINE void ForEachWordOfChunk(std::size_t chunk, std::array<std::uint32_t, 2> key, const Position& at,
                                   const Visit& visit) {
  const WordTag du;
  for (std::size_t i = 0; i < kBlocks; i += kVectorLanes) {
    WordVec words[4] = {hn::Add(hn::Iota(du, 0), hn::Set(du, static_cast<std::uint32_t>(chunk * kBlocks + i))),
                        hn::Set(du, at.word(1)), hn::Set(du, at.word(2)), hn::Set(du, at.word(3))};
    Philox(words, key);
    for (std::size_t w = 0; w < 4; ++w) visit(w * kBlocks + i, words[w]);
  }
}

#endif

}  // namespace
}  // namespace weft::kernels::WEFT_ISA
WEFT_ISA_END();

#endif  // guard that flips
