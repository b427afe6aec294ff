// SPDX-License-Identifier: Apache-2.0

#include "gpu/internal/self_test.hpp"

#include "gpu/internal/push.hpp"
#include "gpu/internal/recorder.hpp"
#include "gpu/shaders/self_test_operands.inc"

#include "kernels/float_environment.hpp"
#include "kernels/math.hpp"

#include "core/philox.hpp"

#include <array>
#include <bit>
#include <chrono>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

namespace weft::gpu {
namespace {

constexpr std::size_t kCases = 4096;
// Results of gpu/shaders/selftest.comp, in its order.
constexpr std::array kNames = {"fma",           "product",        "quotient",     "root",  "fused", "sum",
                               "exact product", "division",       "sqrt",         "exp",   "tanh",  "log",
                               "difference",    "fused, as read", "sum, as read", "finite"};
constexpr std::size_t kOwn = 4;  // the device's own operations, which need not be exact

struct Cases {
  std::vector<float> a, b, c;
};

/// Bits at random (so every exponent), neighbours of each other, and pairs of special values.
Cases make_cases() {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const std::array special = {
      0.0f,      -0.0f,           kInf,     -kInf,    std::nanf(""), 0x1p-126f, -0x1p-126f, 0x1p-127f,     1.0f, -1.0f,
      0x1p-149f, 0x1.fffffep127f, 0x1p-63f, -0x1p64f, 0x1.8p-64f,    88.72f,    -87.3f,     0x1.fffffep0f, 3.0f};
  RandomStream random(5, 16, RandomPurpose::test);
  const auto any = [&] { return std::bit_cast<float>(random.next_u32()); };
  const auto near_one = [&] { return std::bit_cast<float>(0x3f000000u | random.next_u32() >> 8); };
  Cases cases;
  const auto add = [&](float a, float b, float c) {
    cases.a.push_back(a);
    cases.b.push_back(b);
    cases.c.push_back(c);
  };
  for (const float a : special)
    for (const float b : special) add(a, b, special[cases.a.size() % special.size()]);
  // The corner of tininess: products and sums around 2^-126.
  for (int i = 0; i < 256; ++i) add(near_one() * 0x1p-63f, near_one() * 0x1p-63f, i % 2 ? 0.0f : 0x1p-126f);
  add(0x1.fffffep-1f, 0x1.000001p-126f, 0.0f);  // 0x1p-126f here, but the next case is below it by a hair
  add(0x1.ffffffp-64f, 0x1p-63f, 0.0f);
  while (cases.a.size() < kCases / 2) {
    // fma that cancels: rounding twice shows.
    const float a = near_one(), b = near_one();
    add(a, b, -(a * b));
  }
  while (cases.a.size() < kCases) add(random.next_below(2) ? any() : near_one() * 80.0f, any(), any());
  return cases;
}

std::vector<float> on_cpu(const Cases& cases) {
  const kernels::FlushSubnormals exact;
  const std::size_t n = kCases;
  std::vector<float> y(kNames.size() * n);
  for (std::size_t i = 0; i < n; ++i) {
    const float a = cases.a[i], b = cases.b[i], c = cases.c[i];
    const std::array<float, kNames.size()> results = {
        std::fma(a, b, c),
        a * b,
        a / b,
        std::sqrt(a),
        std::fma(a, b, c),
        a + c,
        a * b,
        a / b,
        std::sqrt(a),
        kernels::math::exp(a),
        kernels::math::tanh(a),
        kernels::math::log(a),
        a - c,
        std::fma(a, b, c),
        a + c,
        std::isfinite(a) && std::isfinite(b) && std::isfinite(c) ? 1.0f : 0.0f};
    for (std::size_t k = 0; k < results.size(); ++k) y[k * n + i] = results[k];
  }
  return y;
}

bool same(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b) || (a != a && b != b);
}

struct SelfTestPush {
  WEFT_SELF_TEST_OPERANDS(WEFT_MEMBER)
};

struct MatrixPlacesPush {
  WEFT_MATRIX_PLACES_OPERANDS(WEFT_MEMBER)
};

Result<std::vector<float>> on_device(const std::shared_ptr<Context>& context, Heap& heap, const Cases& cases,
                                     const std::string& cache_folder) {
  WEFT_TRY(const auto pipelines, Pipelines::create(context, cache_folder));
  WEFT_TRY(const auto recorder, Recorder::create(context, heap, *pipelines));
  const std::size_t bytes = kCases * sizeof(float);
  WEFT_TRY(const Buffer in, heap.allocate(3 * bytes, "the self-test"));
  WEFT_TRY(const Buffer out, heap.allocate(kNames.size() * bytes, "the self-test"));
  recorder->upload(cases.a.data(), bytes, in.data());
  recorder->upload(cases.b.data(), bytes, in.data() + kCases);
  recorder->upload(cases.c.data(), bytes, in.data() + 2 * kCases);
  const SelfTestPush push{in.address(), in.address() + bytes, in.address() + 2 * bytes, out.address(), kCases};
  recorder->dispatch(shader("selftest"), {}, push, {kCases / 128, 1}, {{in.address(), in.address() + 3 * bytes}},
                     {{out.address(), out.address() + kNames.size() * bytes}});
  std::vector<float> y(kNames.size() * kCases);
  WEFT_CHECK(recorder->download(out.data(), y.size() * sizeof(float), y.data()));
  if (context->strikes(DriverFault::inexact))
    y[kOwn * kCases] = std::bit_cast<float>(std::bit_cast<std::uint32_t>(y[kOwn * kCases]) ^ 1);
  return y;
}

double share_of_differing(const std::vector<float>& got, const std::vector<float>& want, std::size_t which) {
  std::size_t count = 0;
  for (std::size_t i = which * kCases; i < (which + 1) * kCases; ++i) count += !same(got[i], want[i]);
  return static_cast<double>(count) / kCases;
}

std::string hex(float x) {
  char text[48];
  std::snprintf(text, sizeof text, "%a", static_cast<double>(x));
  return text;
}

/// True for a difference that the contract leaves to the hardware (docs/numerics.md, "The tininess corner").
bool is_tininess_corner(float got, float want) {
  return std::fabs(want) == 0x1p-126f && got == 0.0f && std::signbit(got) == std::signbit(want);
}

/// "" when all of our operations have the CPU's bits; else how many do not, and the first that does not.
std::string differences(const Cases& cases, const std::vector<float>& got, const std::vector<float>& want,
                        SelfTest& report) {
  report.tiny_after_rounding = true;
  for (std::size_t which = kOwn; which < kNames.size(); ++which)
    for (std::size_t j = 0; j < kCases; ++j) {
      const std::size_t i = which * kCases + j;
      if (same(got[i], want[i])) continue;
      if (is_tininess_corner(got[i], want[i])) {
        report.tiny_after_rounding = false;
        continue;
      }
      return std::string(kNames[which]) + " of (" + hex(cases.a[j]) + ", " + hex(cases.b[j]) + ", " + hex(cases.c[j]) +
             ") is " + hex(got[i]) + ", not " + hex(want[i]);
    }
  return "";
}

void judge_hardware(const Cases& cases, const std::vector<float>& got, const std::vector<float>& want,
                    SelfTest& report) {
  report.fma_differs = share_of_differing(got, want, 0);
  report.division_differs = share_of_differing(got, want, 2);
  report.root_differs = share_of_differing(got, want, 3);
  report.fma_is_fused = report.flushes = true;
  for (std::size_t i = 0; i < kCases; ++i) {
    const bool is_subnormal = got[i] != 0.0f && std::fabs(got[i]) < std::numeric_limits<float>::min();
    report.flushes &= !is_subnormal;
    const float want_i = want[i];
    // If nothing is tiny, only a second rounding makes a difference.
    const bool is_plain = std::fabs(want_i) > 0x1p-100f && std::fabs(want_i) < 0x1p126f &&
                          std::fabs(cases.c[i]) > 0x1p-100f && std::fabs(cases.c[i]) < 0x1p126f;
    report.fma_is_fused &= !is_plain || same(got[i], want_i);
  }
}

}  // namespace

Result<bool> matrices_are_regular(const std::shared_ptr<Context>& context, Heap& heap, Pipelines& pipelines) {
  constexpr std::size_t kSubgroup = 32, kElements = 8, kSide = 16;
  WEFT_TRY(const auto recorder, Recorder::create(context, heap, pipelines));
  std::array<std::uint32_t, kSubgroup * kElements> found{};
  WEFT_TRY(const Buffer out, heap.allocate(sizeof found, "a look at matrices"));
  recorder->dispatch(shader("matrix_places"), {}, MatrixPlacesPush{out.address()}, {1, 1}, {},
                     {{out.address(), out.address() + sizeof found}});
  WEFT_CHECK(recorder->download(out.data(), sizeof found, found.data()));
  for (std::size_t lane = 0; lane < kSubgroup; ++lane)
    for (std::size_t i = 0; i < kElements; ++i) {
      const std::size_t row = lane / 4 + i / 4 * 8, output = lane % 4 * 2 + i % 2 + i / 2 % 2 * 8;
      if (found[lane * kElements + i] != row * kSide + output) return false;
    }
  return true;
}

Result<SelfTest> prove(const std::shared_ptr<Context>& context, Heap& heap, const std::string& cache_folder) {
  struct Kind {
    const char* name;
    Variant variant;
  };
  const std::array kinds = {Kind{"fused", {false, false}}, Kind{"fused, flushing in code", {false, true}},
                            Kind{"emulated", {true, false}}};
  const auto began = std::chrono::steady_clock::now();
  const Cases cases = make_cases();
  const std::vector<float> want = on_cpu(cases);
  SelfTest report;
  report.cases = kCases * (kNames.size() - kOwn);
  std::string found;
  for (const Kind& kind : kinds) {
    if (kind.variant.emulated && !context->info.float64) {
      found += "; emulation needs 64-bit floats, which it lacks";
      continue;
    }
    context->variant = kind.variant;
    WEFT_TRY(const std::vector<float> got, on_device(context, heap, cases, cache_folder));
    if (found.empty()) judge_hardware(cases, got, want, report);
    const std::string problem = differences(cases, got, want, report);
    report.variant = kind.name;
    report.milliseconds = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - began).count();
    if (problem.empty()) return report;
    found += std::string(found.empty() ? "" : "; ") + kind.name + ": " + problem;
  }
  return fail(Errc::unsupported, "vulkan: the arithmetic of " + context->info.name + " is not exact: " + found);
}

}  // namespace weft::gpu
