// SPDX-License-Identifier: Apache-2.0

#undef WEFT_THIS_FILE
#define WEFT_THIS_FILE "kernels/optimizer.cpp"
#include "kernels/optimizer.hpp"

#include "kernels/foreach_isa.hpp"
#include "kernels/math.hpp"
#include "kernels/rows-inl.hpp"

#include <cmath>

// AdamW's numbers that are the same for all elements.
#ifndef WEFT_KERNELS_ADAMW_FACTORS
#define WEFT_KERNELS_ADAMW_FACTORS
namespace weft::kernels {
namespace {
struct AdamwFactors {
  float lr, beta1, rest1, beta2, rest2, epsilon, decay, correction1, correction2;
};
}  // namespace
}  // namespace weft::kernels
#endif

WEFT_ISA_BEGIN();
namespace weft::kernels::WEFT_ISA {
namespace {

#if WEFT_ISA_IS_SCALAR

void sgd(std::size_t n, float* w, const float* g, float lr, float weight_decay) noexcept {
  WEFT_ISA_RAN();
  for (std::size_t i = 0; i < n; ++i) w[i] = std::fma(-lr, std::fma(weight_decay, w[i], g[i]), w[i]);
}

void momentum(std::size_t n, float* w, float* v, const float* g, float lr, float mu, float dampening, bool nesterov,
              float weight_decay) noexcept {
  WEFT_ISA_RAN();
  for (std::size_t i = 0; i < n; ++i) {
    const float t = std::fma(weight_decay, w[i], g[i]);
    v[i] = std::fma(mu, v[i], (1.0f - dampening) * t);
    w[i] = std::fma(-lr, nesterov ? std::fma(mu, v[i], t) : v[i], w[i]);
  }
}

void adamw(std::size_t n, float* w, float* m, float* v, const float* g, const AdamwFactors& f) noexcept {
  WEFT_ISA_RAN();
  for (std::size_t i = 0; i < n; ++i) {
    m[i] = std::fma(f.beta1, m[i], f.rest1 * g[i]);
    v[i] = std::fma(f.beta2, v[i], f.rest2 * (g[i] * g[i]));
    const float direction = m[i] / f.correction1 / (std::sqrt(v[i] / f.correction2) + f.epsilon);
    w[i] = std::fma(-f.lr, direction, std::fma(f.decay, w[i], w[i]));
  }
}

#else

void sgd(std::size_t n, float* w, const float* g, float lr, float weight_decay) noexcept {
  WEFT_ISA_RAN();
  const FloatTag d;
  const FloatVec rate = hn::Set(d, -lr), decay = hn::Set(d, weight_decay);
  ForEachVector(n, [&](auto load, auto store) HWY_ATTR {
    const FloatVec weight = load(w);
    store(hn::MulAdd(rate, hn::MulAdd(decay, weight, load(g)), weight), w);
  });
}

void momentum(std::size_t n, float* w, float* v, const float* g, float lr, float mu, float dampening, bool nesterov,
              float weight_decay) noexcept {
  WEFT_ISA_RAN();
  const FloatTag d;
  const FloatVec rate = hn::Set(d, -lr), decay = hn::Set(d, weight_decay), keep = hn::Set(d, mu),
                 rest = hn::Set(d, 1.0f - dampening);
  ForEachVector(n, [&](auto load, auto store) HWY_ATTR {
    const FloatVec weight = load(w);
    const FloatVec t = hn::MulAdd(decay, weight, load(g));
    const FloatVec velocity = hn::MulAdd(keep, load(v), hn::Mul(rest, t));
    store(velocity, v);
    store(hn::MulAdd(rate, nesterov ? hn::MulAdd(keep, velocity, t) : velocity, weight), w);
  });
}

void adamw(std::size_t n, float* w, float* m, float* v, const float* g, const AdamwFactors& f) noexcept {
  WEFT_ISA_RAN();
  const FloatTag d;
  const FloatVec rate = hn::Set(d, -f.lr), beta1 = hn::Set(d, f.beta1), rest1 = hn::Set(d, f.rest1),
                 beta2 = hn::Set(d, f.beta2), rest2 = hn::Set(d, f.rest2), epsilon = hn::Set(d, f.epsilon),
                 decay = hn::Set(d, f.decay), correction1 = hn::Set(d, f.correction1),
                 correction2 = hn::Set(d, f.correction2);
  ForEachVector(n, [&](auto load, auto store) HWY_ATTR {
    const FloatVec weight = load(w), gradient = load(g);
    const FloatVec first = hn::MulAdd(beta1, load(m), hn::Mul(rest1, gradient));
    const FloatVec second = hn::MulAdd(beta2, load(v), hn::Mul(rest2, hn::Mul(gradient, gradient)));
    store(first, m);
    store(second, v);
    const FloatVec direction =
        hn::Div(hn::Div(first, correction1), hn::Add(hn::Sqrt(hn::Div(second, correction2)), epsilon));
    store(hn::MulAdd(rate, direction, hn::MulAdd(decay, weight, weight)), w);
  });
}

#endif

}  // namespace
}  // namespace weft::kernels::WEFT_ISA
WEFT_ISA_END();

#if WEFT_ISA_IS_LAST
namespace weft::kernels {
namespace {
constexpr auto kSgd = WEFT_DISPATCH(sgd);
constexpr auto kMomentum = WEFT_DISPATCH(momentum);
constexpr auto kAdamw = WEFT_DISPATCH(adamw);
}  // namespace

void sgd(std::size_t n, float* w, const float* g, float lr, float weight_decay) noexcept {
  kSgd.get()(n, w, g, lr, weight_decay);
}

void momentum(std::size_t n, float* w, float* v, const float* g, float lr, float momentum, float dampening,
              bool nesterov, float weight_decay) noexcept {
  kMomentum.get()(n, w, v, g, lr, momentum, dampening, nesterov, weight_decay);
}

void adamw_step(std::uint64_t* step, float beta1, float beta2, float* corrections) noexcept {
  ++*step;
  const auto correction = [step](float beta) {
    return static_cast<float>(1.0 - math::power(static_cast<double>(beta), *step));
  };
  corrections[0] = correction(beta1);
  corrections[1] = correction(beta2);
}

void adamw(std::size_t n, float* w, float* m, float* v, const float* g, float lr, float beta1, float beta2,
           float epsilon, float weight_decay, const float* corrections) noexcept {
  kAdamw.get()(
      n, w, m, v, g,
      {lr, beta1, 1.0f - beta1, beta2, 1.0f - beta2, epsilon, -(lr * weight_decay), corrections[0], corrections[1]});
}

}  // namespace weft::kernels
#endif
