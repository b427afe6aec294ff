// SPDX-License-Identifier: Apache-2.0
#undef WEFT_THIS_FILE
#define WEFT_THIS_FILE "bench/peers/machine.cpp"

#define WEFT_WITH_DOTS
#include "kernels/foreach_isa.hpp"
#include "kernels/simd/panel-inl.hpp"
#if WEFT_ISA_IS_VNNI
#include "kernels/simd/dot-inl.hpp"
#endif

#include "bench/peers/measure.hpp"
#include <array>
#include <cmath>
#include <cstdint>

WEFT_ISA_BEGIN();
namespace weft::kernels::WEFT_ISA {
namespace {

#if WEFT_ISA_IS_SCALAR

std::size_t fma_burst(std::size_t steps, float* out) {
  float sums[8] = {0, 1, 2, 3, 4, 5, 6, 7};
  for (std::size_t i = 0; i < steps; ++i)
    for (float& sum : sums) sum = std::fma(0.5f, 0.25f, sum);
  for (const float sum : sums) *out += sum;
  return steps * 8;
}
float read_floats(const float* data, std::size_t floats) {
  float sums[8] = {};
  for (std::size_t i = 0; i < floats; ++i) sums[i % 8] += data[i];
  float total = 0;
  for (const float sum : sums) total += sum;
  return total;
}
void update_floats(float* data, std::size_t floats, float addend) {
  for (std::size_t i = 0; i < floats; ++i) data[i] += addend;
}

#else

constexpr PanelTag kTag;
constexpr std::size_t kSums = 12;

// Twelve independent sums: more than latency times throughput of any core today. Returns fmas done, lanes counted.
std::size_t fma_burst(std::size_t steps, float* out) {
  PanelVector sums[kSums];
  // Different starts, or the compiler would see one sum twelve times.
  WEFT_UNROLL for (std::size_t j = 0; j < kSums; ++j) sums[j] = hn::Set(kTag, *out + static_cast<float>(j));
  const auto a = hn::Set(kTag, 0.5f + *out), b = hn::Set(kTag, 0.25f);
  for (std::size_t i = 0; i < steps; ++i) {
    WEFT_UNROLL for (std::size_t j = 0; j < kSums; ++j) sums[j] = hn::MulAdd(a, b, sums[j]);
  }
  auto total = hn::Zero(kTag);
  WEFT_UNROLL for (const auto& sum : sums) total = hn::Add(total, sum);
  *out = hn::GetLane(total) * 1e-30f;
  return steps * kSums * kPanelLanes;
}

float read_floats(const float* data, std::size_t floats) {
  PanelVector sums[8];
  WEFT_UNROLL for (auto& sum : sums) sum = hn::Zero(kTag);
  std::size_t i = 0;
  for (; i + 8 * kPanelLanes <= floats; i += 8 * kPanelLanes) {
    WEFT_UNROLL for (std::size_t j = 0; j < 8; ++j) sums[j] =
        hn::Add(sums[j], hn::Load(kTag, data + i + j * kPanelLanes));
  }
  auto total = hn::Zero(kTag);
  WEFT_UNROLL for (const auto& sum : sums) total = hn::Add(total, sum);
  float rest = 0.0f;
  for (; i < floats; ++i) rest += data[i];
  return hn::GetLane(total) + rest;
}

void update_floats(float* data, std::size_t floats, float addend) {
  const auto more = hn::Set(kTag, addend);
  std::size_t i = 0;
  for (; i + 4 * kPanelLanes <= floats; i += 4 * kPanelLanes) {
    WEFT_UNROLL for (std::size_t j = 0; j < 4; ++j) {
      float* at = data + i + j * kPanelLanes;
      hn::Store(hn::Add(hn::Load(kTag, at), more), kTag, at);
    }
  }
  for (; i < floats; ++i) data[i] += addend;
}

#endif

#if WEFT_ISA_IS_VNNI
// As fma_burst, of products of bytes.
std::size_t byte_burst(std::size_t steps, std::int32_t* out) {
  using D = Dot<true>;
  constexpr std::size_t kByteSums = 12;
  D::Sum sums[kByteSums];
  WEFT_UNROLL for (std::size_t j = 0; j < kByteSums; ++j) sums[j] =
      D::start(hn::Set(IntTag(), *out + static_cast<std::int32_t>(j)));
  const auto a = hn::Set(WordTag(), 0x01020304u + static_cast<std::uint32_t>(*out)),
             b = hn::Set(WordTag(), 0x01ff01ffu);
  for (std::size_t i = 0; i < steps; ++i) {
    WEFT_UNROLL for (std::size_t j = 0; j < kByteSums; ++j) sums[j] = D::add(sums[j], a, b);
  }
  D::Sum total{};
  WEFT_UNROLL for (const auto& sum : sums) total += sum;
  *out = total[0] & 1;
  return steps * kByteSums * kPanelLanes * 4;
}
#else
std::size_t byte_burst(std::size_t, std::int32_t*) { return 0; }
#endif

}  // namespace
}  // namespace weft::kernels::WEFT_ISA
WEFT_ISA_END();

#if WEFT_ISA_IS_LAST
namespace weft::kernels {
namespace {
constexpr auto kFmaBurst = WEFT_DISPATCH(fma_burst);
constexpr auto kByteBurst = WEFT_DISPATCH(byte_burst);
constexpr auto kReadFloats = WEFT_DISPATCH(read_floats);
constexpr auto kUpdateFloats = WEFT_DISPATCH(update_floats);
}  // namespace
}  // namespace weft::kernels

namespace weft::bench {

double fma_burst() {
  static thread_local float sink = 0.0f;
  return 2.0 * double(kernels::kFmaBurst.get()(10000, &sink));
}

double byte_burst() {
  if (kernels::active_isa() != kernels::Isa::avx512_vnni) return 0;  // amx runs VNNI's code too
  static thread_local std::int32_t sink = 0;
  return 2.0 * double(kernels::kByteBurst.get()(10000, &sink));
}

float read_all(const float* data, std::size_t floats) { return kernels::kReadFloats.get()(data, floats); }
void update_all(float* data, std::size_t floats, float addend) { kernels::kUpdateFloats.get()(data, floats, addend); }

}  // namespace weft::bench
#endif
