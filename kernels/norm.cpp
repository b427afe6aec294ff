// SPDX-License-Identifier: Apache-2.0

#undef WEFT_THIS_FILE
#define WEFT_THIS_FILE "kernels/norm.cpp"
#include "kernels/norm.hpp"

#include "kernels/foreach_isa.hpp"
#include "kernels/lanes-inl.hpp"
#include "kernels/math.hpp"

#include <cmath>

WEFT_ISA_BEGIN();
namespace weft::kernels::WEFT_ISA {
namespace {

#if WEFT_ISA_IS_SCALAR

void rms_norm(const ConstMatrixView& x, const float* gain, float epsilon, const MatrixView& y,
              float* inverse_rms) noexcept {
  WEFT_ISA_RAN();
  const std::size_t n = x.cols;
  for (std::size_t b = 0; b < x.rows; ++b) {
    const float* in = x.row(b);
    float* out = y.row(b);
    const float squares = lane_sum(n, [&](float sum, std::size_t j) { return std::fma(in[j], in[j], sum); });
    const float scale = math::inverse_sqrt(squares / static_cast<float>(n) + epsilon);
    for (std::size_t j = 0; j < n; ++j) out[j] = gain ? in[j] * scale * gain[j] : in[j] * scale;
    inverse_rms[b] = scale;
  }
}

void rms_norm_backward(const ConstMatrixView& x, const float* gain, const float* inverse_rms, const ConstMatrixView& dy,
                       const MatrixView& dx, float* dgain) noexcept {
  WEFT_ISA_RAN();
  const std::size_t n = x.cols;
  for (std::size_t b = 0; b < x.rows; ++b) {
    const float *in = x.row(b), *up = dy.row(b), scale = inverse_rms[b];
    float* down = dx.row(b);
    const auto g = [&](std::size_t j) { return gain ? up[j] * gain[j] : up[j]; };
    const float projection = lane_sum(n, [&](float sum, std::size_t j) { return std::fma(g(j), in[j] * scale, sum); }) /
                             static_cast<float>(n);
    for (std::size_t j = 0; j < n; ++j) {
      const float normal = in[j] * scale;
      if (dgain) dgain[j] = std::fma(up[j], normal, dgain[j]);
      down[j] = std::fma(-normal, projection, g(j)) * scale;
    }
  }
}

void layer_norm(const ConstMatrixView& x, const float* gain, const float* bias, float epsilon, const MatrixView& y,
                float* mean, float* inverse_deviation) noexcept {
  WEFT_ISA_RAN();
  const std::size_t n = x.cols;
  for (std::size_t b = 0; b < x.rows; ++b) {
    const float* in = x.row(b);
    float* out = y.row(b);
    const float centre = lane_sum(n, [&](float sum, std::size_t j) { return sum + in[j]; }) / static_cast<float>(n);
    const float squares = lane_sum(n, [&](float sum, std::size_t j) {
      const float d = in[j] - centre;
      return std::fma(d, d, sum);
    });
    const float scale = math::inverse_sqrt(squares / static_cast<float>(n) + epsilon);
    for (std::size_t j = 0; j < n; ++j) {
      const float normal = (in[j] - centre) * scale;
      out[j] = gain && bias ? std::fma(normal, gain[j], bias[j])
               : gain       ? normal * gain[j]
               : bias       ? normal + bias[j]
                            : normal;
    }
    mean[b] = centre;
    inverse_deviation[b] = scale;
  }
}

void layer_norm_backward(const ConstMatrixView& x, const float* gain, const float* mean, const float* inverse_deviation,
                         const ConstMatrixView& dy, const MatrixView& dx, float* dgain, float* dbias) noexcept {
  WEFT_ISA_RAN();
  const std::size_t n = x.cols;
  for (std::size_t b = 0; b < x.rows; ++b) {
    const float *in = x.row(b), *up = dy.row(b), centre = mean[b], scale = inverse_deviation[b];
    float* down = dx.row(b);
    const auto g = [&](std::size_t j) { return gain ? up[j] * gain[j] : up[j]; };
    const auto normal = [&](std::size_t j) { return (in[j] - centre) * scale; };
    const float shift = lane_sum(n, [&](float sum, std::size_t j) { return sum + g(j); }) / static_cast<float>(n);
    const float projection =
        lane_sum(n, [&](float sum, std::size_t j) { return std::fma(g(j), normal(j), sum); }) / static_cast<float>(n);
    for (std::size_t j = 0; j < n; ++j) {
      if (dgain) dgain[j] = std::fma(up[j], normal(j), dgain[j]);
      if (dbias) dbias[j] += up[j];
      down[j] = std::fma(-normal(j), projection, g(j) - shift) * scale;
    }
  }
}

#else

void rms_norm(const ConstMatrixView& x, const float* gain, float epsilon, const MatrixView& y,
              float* inverse_rms) noexcept {
  WEFT_ISA_RAN();
  const FloatTag d;
  const auto n = static_cast<float>(x.cols);
  for (std::size_t b = 0; b < x.rows; ++b) {
    const float* in = x.row(b);
    float* out = y.row(b);
    const float squares = LaneSum(x.cols, [&](FloatVec sum, auto load) HWY_ATTR {
      const FloatVec v = load(in);
      return hn::MulAdd(v, v, sum);
    });
    inverse_rms[b] = math::inverse_sqrt(squares / n + epsilon);
    const FloatVec scale = hn::Set(d, inverse_rms[b]);
    ForEachVector(x.cols, [&](auto load, auto store) HWY_ATTR {
      const FloatVec normal = hn::Mul(load(in), scale);
      store(gain ? hn::Mul(normal, load(gain)) : normal, out);
    });
  }
}

void rms_norm_backward(const ConstMatrixView& x, const float* gain, const float* inverse_rms, const ConstMatrixView& dy,
                       const MatrixView& dx, float* dgain) noexcept {
  WEFT_ISA_RAN();
  const FloatTag d;
  for (std::size_t b = 0; b < x.rows; ++b) {
    const float *in = x.row(b), *up = dy.row(b);
    float* down = dx.row(b);
    const FloatVec scale = hn::Set(d, inverse_rms[b]);
    const auto g = [&](auto load) HWY_ATTR { return gain ? hn::Mul(load(up), load(gain)) : load(up); };
    const float sum_gn = LaneSum(
        x.cols, [&](FloatVec sum, auto load) HWY_ATTR { return hn::MulAdd(g(load), hn::Mul(load(in), scale), sum); });
    const FloatVec projection = hn::Set(d, sum_gn / static_cast<float>(x.cols));
    ForEachVector(x.cols, [&](auto load, auto store) HWY_ATTR {
      const FloatVec normal = hn::Mul(load(in), scale), gradient = g(load);
      if (dgain) store(hn::MulAdd(load(up), normal, load(dgain)), dgain);
      store(hn::Mul(hn::NegMulAdd(normal, projection, gradient), scale), down);
    });
  }
}

void layer_norm(const ConstMatrixView& x, const float* gain, const float* bias, float epsilon, const MatrixView& y,
                float* mean, float* inverse_deviation) noexcept {
  WEFT_ISA_RAN();
  const FloatTag d;
  const auto n = static_cast<float>(x.cols);
  for (std::size_t b = 0; b < x.rows; ++b) {
    const float* in = x.row(b);
    float* out = y.row(b);
    mean[b] = LaneSum(x.cols, [&](FloatVec sum, auto load) HWY_ATTR { return hn::Add(sum, load(in)); }) / n;
    const FloatVec centre = hn::Set(d, mean[b]);
    const float squares = LaneSum(x.cols, [&](FloatVec sum, auto load) HWY_ATTR {
      const FloatVec v = hn::Sub(load(in), centre);
      return hn::MulAdd(v, v, sum);
    });
    inverse_deviation[b] = math::inverse_sqrt(squares / n + epsilon);
    const FloatVec scale = hn::Set(d, inverse_deviation[b]);
    ForEachVector(x.cols, [&](auto load, auto store) HWY_ATTR {
      const FloatVec normal = hn::Mul(hn::Sub(load(in), centre), scale);
      store(gain && bias ? hn::MulAdd(normal, load(gain), load(bias))
            : gain       ? hn::Mul(normal, load(gain))
            : bias       ? hn::Add(normal, load(bias))
                         : normal,
            out);
    });
  }
}

void layer_norm_backward(const ConstMatrixView& x, const float* gain, const float* mean, const float* inverse_deviation,
                         const ConstMatrixView& dy, const MatrixView& dx, float* dgain, float* dbias) noexcept {
  WEFT_ISA_RAN();
  const FloatTag d;
  const auto n = static_cast<float>(x.cols);
  for (std::size_t b = 0; b < x.rows; ++b) {
    const float *in = x.row(b), *up = dy.row(b);
    float* down = dx.row(b);
    const FloatVec centre = hn::Set(d, mean[b]), scale = hn::Set(d, inverse_deviation[b]);
    const auto g = [&](auto load) HWY_ATTR { return gain ? hn::Mul(load(up), load(gain)) : load(up); };
    const auto normal = [&](auto load) HWY_ATTR { return hn::Mul(hn::Sub(load(in), centre), scale); };
    const float sum_g = LaneSum(x.cols, [&](FloatVec sum, auto load) HWY_ATTR { return hn::Add(sum, g(load)); });
    const float sum_gn =
        LaneSum(x.cols, [&](FloatVec sum, auto load) HWY_ATTR { return hn::MulAdd(g(load), normal(load), sum); });
    const FloatVec shift = hn::Set(d, sum_g / n), projection = hn::Set(d, sum_gn / n);
    ForEachVector(x.cols, [&](auto load, auto store) HWY_ATTR {
      const FloatVec gradient = g(load);
      if (dgain) store(hn::MulAdd(load(up), normal(load), load(dgain)), dgain);
      if (dbias) store(hn::Add(load(dbias), load(up)), dbias);
      store(hn::Mul(hn::NegMulAdd(normal(load), projection, hn::Sub(gradient, shift)), scale), down);
    });
  }
}

#endif

}  // namespace
}  // namespace weft::kernels::WEFT_ISA
WEFT_ISA_END();

#if WEFT_ISA_IS_LAST
namespace weft::kernels {
namespace {
constexpr auto kRmsNorm = WEFT_DISPATCH(rms_norm);
constexpr auto kRmsNormBackward = WEFT_DISPATCH(rms_norm_backward);
constexpr auto kLayerNorm = WEFT_DISPATCH(layer_norm);
constexpr auto kLayerNormBackward = WEFT_DISPATCH(layer_norm_backward);
}  // namespace

void rms_norm(const ConstMatrixView& x, const float* gain, float epsilon, const MatrixView& y,
              float* inverse_rms) noexcept {
  kRmsNorm.get()(x, gain, epsilon, y, inverse_rms);
}
void rms_norm_backward(const ConstMatrixView& x, const float* gain, const float* inverse_rms, const ConstMatrixView& dy,
                       const MatrixView& dx, float* dgain) noexcept {
  kRmsNormBackward.get()(x, gain, inverse_rms, dy, dx, dgain);
}
void layer_norm(const ConstMatrixView& x, const float* gain, const float* bias, float epsilon, const MatrixView& y,
                float* mean, float* inverse_deviation) noexcept {
  kLayerNorm.get()(x, gain, bias, epsilon, y, mean, inverse_deviation);
}
void layer_norm_backward(const ConstMatrixView& x, const float* gain, const float* mean, const float* inverse_deviation,
                         const ConstMatrixView& dy, const MatrixView& dx, float* dgain, float* dbias) noexcept {
  kLayerNormBackward.get()(x, gain, mean, inverse_deviation, dy, dx, dgain, dbias);
}

}  // namespace weft::kernels
#endif
