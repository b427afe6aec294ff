// SPDX-License-Identifier: Apache-2.0

#undef WEFT_THIS_FILE
#define WEFT_THIS_FILE "kernels/optimizer.cpp"
#include "kernels/optimizer.hpp"

#include "kernels/foreach_isa.hpp"
#include "kernels/formulas/scalar.hpp"
#include "kernels/internal/values-inl.hpp"
#include "kernels/math.hpp"
#include "kernels/views.hpp"
#if !WEFT_ISA_IS_SCALAR
#include "kernels/formulas/vector-inl.hpp"
#if HWY_TARGET == HWY_WASM
#include "kernels/internal/wasm_momentum.hpp"
#endif
#endif

#include <algorithm>
#include <cmath>
#include <iterator>

WEFT_ISA_BEGIN();
namespace weft::kernels::WEFT_ISA {
namespace {

using namespace formulas;

#if !WEFT_ISA_IS_SCALAR
using Real = FloatVec;
#endif

struct Weight {
  Real weight, gradient, first, second, third;
};
struct Settings {
  Real rate, weight_decay, momentum, dampening, beta1, beta2, alpha, epsilon, correction1, correction2;
  Real velocity_share, gradient_share;
  bool has_shares, centered, has_momentum;
};

#define WEFT_OPTIMIZER_STEP(name) HWY_INLINE void step_##name(Weight& u, const Settings& s)
#include "kernels/formulas/optimizers.def"
#undef WEFT_OPTIMIZER_STEP

HWY_INLINE Settings settings_of(const OptimizerArguments& of, const OptimizerOptions& o) {
  const float* const f = of.factors;
  const StepShares shares = step_shares(o);
  return {repeated(f ? f[0] : o.lr), repeated(o.weight_decay),
          repeated(o.momentum),      repeated(o.dampening),
          repeated(o.beta1),         repeated(o.beta2),
          repeated(o.alpha),         repeated(o.epsilon),
          repeated(f ? f[1] : 1.0f), repeated(f ? f[2] : 1.0f),
          repeated(shares.velocity), repeated(shares.gradient),
          shares != StepShares{},    o.centered,
          o.momentum != 0.0f};
}

/// Weights by their gradients in memory.
struct FromMemory {
  template <class Body>
  HWY_INLINE void operator()(const OptimizerArguments& of, const Body& body) const {
    const float* const g = of.g;
    const std::size_t n = of.n;
    for_each_value(n, [&](auto load, auto store) HWY_ATTR { body(load, store, load(g)); });
  }
};

/// Weights by the outer product that is their gradients.
struct FromProduct {
  const OuterProduct& product;
  std::size_t first, count;

  template <class Body>
  HWY_INLINE void operator()(const OptimizerArguments&, const Body& body) const {
    const float *const errors = product.dy, *const inputs = product.x;
    const std::size_t out = product.out, in = product.in, end = first + count;
    if (!inputs) {
      for_each_value(out, [&](auto load, auto store) HWY_ATTR { body(load, store, add(load(errors), 0.0f)); });
      return;
    }
    // Backwards: what the forward read last is still in cache, and what is moved last is read first by the next one.
    for (std::size_t panel = end; panel-- > first;) {
      const float* dy = errors + panel * kPanelWidth;
      alignas(64) float lanes[kPanelWidth];
      if (const std::size_t width = out - panel * kPanelWidth; width < kPanelWidth) {
        // Lanes that pad a panel have no error: their gradients are 0.
        std::fill(std::copy_n(dy, width, lanes), std::end(lanes), 0.0f);
        dy = lanes;
      }
      each_of_panel(dy, inputs, in, panel * in * kPanelWidth, body);
    }
  }

 private:
#if WEFT_ISA_IS_SCALAR
  template <class Body>
  static void each_of_panel(const float* dy, const float* x, std::size_t in, std::size_t at, const Body& body) {
    for (std::size_t k = 0; k < in; ++k)
      for (std::size_t lane = 0; lane < kPanelWidth; ++lane, ++at)
        body([at](const float* p) { return p[at]; }, [at](float v, float* p) { p[at] = v; },
             fused(dy[lane], x[k], 0.0f));
  }
#else
  static_assert(kPanelWidth % kVectorLanes == 0);
  template <class Body>
  static HWY_INLINE void each_of_panel(const float* dy, const float* x, std::size_t in, std::size_t at,
                                       const Body& body) {
    constexpr std::size_t kVectors = kPanelWidth / kVectorLanes;
    const FloatTag d;
    Real ds[kVectors];
    for (std::size_t v = 0; v < kVectors; ++v) ds[v] = hn::LoadU(d, dy + v * kVectorLanes);
    for (std::size_t k = 0; k < in; ++k) {
      const Real xs = hn::Set(d, x[k]);
      for (std::size_t v = 0; v < kVectors; ++v, at += kVectorLanes)
        body([&](const float* p) HWY_ATTR { return hn::Load(d, p + at); },
             [&](Real value, float* p) HWY_ATTR { hn::Store(value, d, p + at); }, fused(ds[v], xs, 0.0f));
    }
  }
#endif
};

#define WEFT_OPTIMIZER(number, name, arrays, used, corrects, defaults, takes)        \
  struct Stepper_##name {                                                            \
    static constexpr int kArrays = arrays;                                           \
    static HWY_INLINE void step(Weight& u, const Settings& s) { step_##name(u, s); } \
  };
#include "kernels/formulas/optimizers.def"
#undef WEFT_OPTIMIZER

// A function for each: small updates pay for the registers of their own formula only.
template <class Stepper, bool kClips, class From>
HWY_NOINLINE void walk(const OptimizerArguments& of, const OptimizerOptions& options, const From& from) {
  constexpr int kArrays = Stepper::kArrays;
  // Copies stay in registers: no store of a vector can change them. Member by member, since the caller has just written
  // them so: one wide load would wait for all of these stores.
  float *const w = of.w, *const first = of.first, *const second = of.second, *const third = of.third;
  const Settings s = settings_of(of, options);
  const Real limit = repeated(options.clip_limit);
  const Real factor = kClips && of.squares ? clip_factor(repeated(*of.squares), limit) : repeated(1.0f);
  const bool clips_values = options.clip == Clip::value;
  from(of, [&](const auto& load, const auto& store, Real gradient) HWY_ATTR {
    Weight u{load(w), gradient, repeated(0.0f), repeated(0.0f), repeated(0.0f)};
    if constexpr (kClips) u.gradient = clips_values ? clip_value(u.gradient, limit) : mul(u.gradient, factor);
    if constexpr (kArrays > 0) u.first = load(first);
    if constexpr (kArrays > 1)
      if (second) u.second = load(second);
    if constexpr (kArrays > 2)
      if (third) u.third = load(third);
    Stepper::step(u, s);
    store(u.weight, w);
    if constexpr (kArrays > 0) store(u.first, first);
    if constexpr (kArrays > 1)
      if (second) store(u.second, second);
    if constexpr (kArrays > 2)
      if (third) store(u.third, third);
  });
}

template <class From>
HWY_INLINE void move_all(const OptimizerArguments& of, const OptimizerOptions& options, const From& from) {
  const bool clips = options.clip == Clip::value || of.squares;
  switch (options.kind) {
#define WEFT_OPTIMIZER(number, name, arrays, used, corrects, defaults, takes) \
  case OptimizerKind::name:                                                   \
    return clips ? walk<Stepper_##name, true>(of, options, from) : walk<Stepper_##name, false>(of, options, from);
#include "kernels/formulas/optimizers.def"
#undef WEFT_OPTIMIZER
  }
}

void optimizer_step(const OptimizerArguments& of, const OptimizerOptions& options) noexcept {
  WEFT_ISA_RAN();
  move_all(of, options, FromMemory());
}

#if !WEFT_ISA_IS_SCALAR && HWY_TARGET == HWY_WASM
bool is_plain_momentum(const OptimizerOptions& o) noexcept {
  return o.kind == OptimizerKind::momentum && o.clip == Clip::none && o.weight_decay == 0.0f;
}

void momentum_step(const OptimizerArguments& of, const OuterProduct& product, const OptimizerOptions& o,
                   std::size_t first, std::size_t count) noexcept {
  const StepShares shares = step_shares(o);
  const wasm::MomentumStep step{
      o.momentum,      1.0f - o.dampening, of.factors ? of.factors[0] : o.lr, shares != StepShares{},
      shares.velocity, shares.gradient};
  const double least_x = wasm::least_magnitude(product.x, product.in);
  for (std::size_t panel = first + count; panel-- > first;) {
    alignas(64) float dy[kPanelWidth];
    const float* const errors = product.dy + panel * kPanelWidth;
    std::fill(std::copy_n(errors, std::min(product.out - panel * kPanelWidth, kPanelWidth), dy), std::end(dy), 0.0f);
    const std::size_t at = panel * product.in * kPanelWidth;
    // Twice as much as is needed, since each of the two products is rounded.
    const bool has_tiny = least_x * wasm::least_magnitude(dy, kPanelWidth) * step.kept_gradient < 0x1p-125;
    const auto run = step.has_shares ? wasm::momentum_panel<true, true>
                     : has_tiny      ? wasm::momentum_panel<true, false>
                                     : wasm::momentum_panel<false, false>;
    run(dy, product.x, product.in, step, of.w + at, of.first + at);
  }
}
#endif

void outer_step(const OptimizerArguments& of, const OuterProduct& product, const OptimizerOptions& options,
                std::size_t first, std::size_t count) noexcept {
  WEFT_ISA_RAN();
#if !WEFT_ISA_IS_SCALAR && HWY_TARGET == HWY_WASM
  if (product.x && !of.squares && is_plain_momentum(options)) return momentum_step(of, product, options, first, count);
#endif
  move_all(of, options, FromProduct{product, first, count});
}

}  // namespace
}  // namespace weft::kernels::WEFT_ISA
WEFT_ISA_END();

#if WEFT_ISA_IS_LAST
namespace weft::kernels {
namespace {
constexpr auto kStep = WEFT_DISPATCH(optimizer_step);
constexpr auto kOuterStep = WEFT_DISPATCH(outer_step);
constexpr std::string_view kNames[] = {
#define WEFT_OPTIMIZER(number, name, arrays, used, corrects, defaults, takes) #name,
#include "kernels/formulas/optimizers.def"
#undef WEFT_OPTIMIZER
};
constexpr std::string_view kOptions[] = {
#define WEFT_OPTIMIZER(number, name, arrays, used, corrects, defaults, takes) #takes,
#include "kernels/formulas/optimizers.def"
#undef WEFT_OPTIMIZER
};
}  // namespace

std::span<const std::string_view> optimizer_names() noexcept { return kNames; }
std::span<const std::string_view> optimizer_options() noexcept { return kOptions; }

OptimizerOptions default_options(OptimizerKind kind) noexcept {
  OptimizerOptions o;
  o.kind = kind;
  switch (kind) {
#define WEFT_OPTIMIZER(number, name, arrays, used, corrects, defaults, takes) \
  case OptimizerKind::name:                                                   \
    defaults;                                                                 \
    break;
#include "kernels/formulas/optimizers.def"
#undef WEFT_OPTIMIZER
  }
  return o;
}

std::size_t arrays_of(const OptimizerOptions& o) noexcept {
  switch (o.kind) {
#define WEFT_OPTIMIZER(number, name, arrays, used, corrects, defaults, takes) \
  case OptimizerKind::name:                                                   \
    return used;
#include "kernels/formulas/optimizers.def"
#undef WEFT_OPTIMIZER
  }
  return 0;
}

bool counts_updates(const OptimizerOptions& o) noexcept {
  switch (o.kind) {
#define WEFT_OPTIMIZER(number, name, arrays, used, corrects, defaults, takes) \
  case OptimizerKind::name:                                                   \
    return corrects;
#include "kernels/formulas/optimizers.def"
#undef WEFT_OPTIMIZER
  }
  return false;
}

void optimizer_step(const OptimizerArguments& of, const OptimizerOptions& options) noexcept {
  kStep.get()(of, options);
}
void outer_step(const OptimizerArguments& of, const OuterProduct& product, const OptimizerOptions& options,
                std::size_t first, std::size_t count) noexcept {
  kOuterStep.get()(of, product, options, first, count);
}

void optimizer_factors(std::uint64_t* updates, float lr, float beta1, float beta2, const RateSchedule& schedule,
                       float* factors) noexcept {
  factors[0] = lr * rate_share(schedule, *updates);
  ++*updates;
  const auto correction = [updates](float beta) {
    return static_cast<float>(1.0 - math::power(static_cast<double>(beta), *updates));
  };
  factors[1] = correction(beta1);
  factors[2] = correction(beta2);
}

}  // namespace weft::kernels
#endif
