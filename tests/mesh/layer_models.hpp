// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/activation.hpp"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

/// Layers in float64, one row at a time, written from their equations and not from the code.
namespace weft::mesh::models {

using kernels::Activation;
using Vector = std::vector<double>;

inline double activate(Activation activation, double x) {
  const auto sigmoid = [](double v) { return 1.0 / (1.0 + std::exp(-v)); };
  switch (activation) {
    case Activation::linear:
      return x;
    case Activation::relu:
      return std::max(x, 0.0);
    case Activation::leaky_relu:
      return x > 0 ? x : 0.01 * x;
    case Activation::relu2:
      return x > 0 ? x * x : 0.0;
    case Activation::silu:
      return x * sigmoid(x);
    case Activation::gelu:
      return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
    case Activation::gelu_tanh:
      return 0.5 * x * (1.0 + std::tanh(std::sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x)));
    case Activation::tanh:
      return std::tanh(x);
    case Activation::sigmoid:
      return sigmoid(x);
    case Activation::softplus:
      return std::log1p(std::exp(x));
    case Activation::elu:
      return x > 0 ? x : std::expm1(x);
    case Activation::mish:
      return x * std::tanh(std::log1p(std::exp(x)));
  }
  return NAN;
}

/// Result of one row: y, then the next hidden state.
struct Outcome {
  Vector y, next;
};
using Model = std::function<Outcome(const std::vector<Vector>& parameters, const Vector& x, const Vector& state)>;

inline double sigmoid(double v) { return 1.0 / (1.0 + std::exp(-v)); }

/// W x + b, W row-major; `bias` null: none.
inline Vector affine(const Vector& w, const Vector* bias, const Vector& x) {
  Vector out(w.size() / x.size());
  for (std::size_t o = 0; o < out.size(); ++o) {
    out[o] = bias ? (*bias)[o] : 0.0;
    for (std::size_t k = 0; k < x.size(); ++k) out[o] += w[o * x.size() + k] * x[k];
  }
  return out;
}

/// Parameters: weight, and bias where there is one.
inline Model dense(Activation activation) {
  return [=](const std::vector<Vector>& p, const Vector& x, const Vector&) {
    Outcome outcome{affine(p[0], p.size() > 1 ? &p[1] : nullptr, x), {}};
    for (double& v : outcome.y) v = activate(activation, v);
    return outcome;
  };
}

inline Model rms_norm(double epsilon) {
  return [=](const std::vector<Vector>& p, const Vector& x, const Vector&) {
    double squares = 0;
    for (const double v : x) squares += v * v;
    Outcome outcome;
    for (std::size_t j = 0; j < x.size(); ++j)
      outcome.y.push_back(x[j] / std::sqrt(squares / static_cast<double>(x.size()) + epsilon) * p[0][j]);
    return outcome;
  };
}

/// Parameters as the layer keeps them: the means, and the reciprocals of the deviations.
inline Model standardize() {
  return [](const std::vector<Vector>& p, const Vector& x, const Vector&) {
    Outcome outcome;
    for (std::size_t i = 0; i < x.size(); ++i) outcome.y.push_back((x[i] - p[0][i]) * p[1][i]);
    return outcome;
  };
}

inline Model layer_norm(double epsilon) {
  return [=](const std::vector<Vector>& p, const Vector& x, const Vector&) {
    const double n = static_cast<double>(x.size());
    double mean = 0, variance = 0;
    for (const double v : x) mean += v / n;
    for (const double v : x) variance += (v - mean) * (v - mean) / n;
    Outcome outcome;
    for (std::size_t j = 0; j < x.size(); ++j)
      outcome.y.push_back((x[j] - mean) / std::sqrt(variance + epsilon) * p[0][j] + p[1][j]);
    return outcome;
  };
}

inline Model softmax(double temperature) {
  return [=](const std::vector<Vector>&, const Vector& x, const Vector&) {
    double sum = 0;
    Outcome outcome;
    for (const double v : x) sum += std::exp(v / temperature);
    for (const double v : x) outcome.y.push_back(std::exp(v / temperature) / sum);
    return outcome;
  };
}

/// alpha-entmax by halving an interval for the threshold -exp((alpha - 1) log_top).
inline Model entmax(double alpha, double temperature) {
  return [=](const std::vector<Vector>&, const Vector& x, const Vector&) {
    const double top = *std::max_element(x.begin(), x.end());
    const auto p = [&](double v, double log_top) {
      const double u = (alpha - 1) * (v - top) / temperature + std::exp((alpha - 1) * log_top);
      return u > 0 ? std::pow(u, 1 / (alpha - 1)) : 0.0;
    };
    double low = -std::log(static_cast<double>(x.size())) - 1e-9, high = 0;
    for (int step = 0; step < 100; ++step) {
      double sum = 0;
      for (const double v : x) sum += p(v, (low + high) / 2);
      (sum < 1 ? low : high) = (low + high) / 2;
    }
    Outcome outcome;
    for (const double v : x) outcome.y.push_back(p(v, high));
    return outcome;
  };
}

inline Model in_groups(const Model& model, std::size_t groups) {
  return [=](const std::vector<Vector>& p, const Vector& x, const Vector&) {
    Outcome all;
    const auto width = static_cast<std::ptrdiff_t>(x.size() / groups);
    for (auto from = x.begin(); from != x.end(); from += width) {
      const Outcome part = model(p, Vector(from, from + width), {});
      all.y.insert(all.y.end(), part.y.begin(), part.y.end());
    }
    return all;
  };
}

/// The two halves of a recurrent layer's pre-activation. Parameters: weight_ih, weight_hh, bias_ih, bias_hh.
inline std::pair<Vector, Vector> halves(const std::vector<Vector>& p, bool has_bias, const Vector& x, const Vector& h) {
  return {affine(p[0], has_bias ? &p[2] : nullptr, x), affine(p[1], has_bias ? &p[3] : nullptr, h)};
}

inline Model rnn(std::size_t n, bool has_bias, Activation activation) {
  return [=](const std::vector<Vector>& p, const Vector& x, const Vector& h) {
    const auto [a, b] = halves(p, has_bias, x, h);
    Outcome outcome;
    for (std::size_t j = 0; j < n; ++j) outcome.y.push_back(activate(activation, a[j] + b[j]));
    outcome.next = outcome.y;
    return outcome;
  };
}

/// state: h, then c.
inline Model lstm(std::size_t n, bool has_bias) {
  return [=](const std::vector<Vector>& p, const Vector& x, const Vector& state) {
    const auto [a, b] = halves(p, has_bias, x, Vector(state.begin(), state.begin() + static_cast<std::ptrdiff_t>(n)));
    Outcome outcome;
    Vector cells;
    for (std::size_t j = 0; j < n; ++j) {
      const auto z = [&, &a = a, &b = b](std::size_t gate) { return a[gate * n + j] + b[gate * n + j]; };
      cells.push_back(sigmoid(z(1)) * state[n + j] + sigmoid(z(0)) * std::tanh(z(2)));
      outcome.y.push_back(sigmoid(z(3)) * std::tanh(cells.back()));
    }
    outcome.next = outcome.y;
    outcome.next.insert(outcome.next.end(), cells.begin(), cells.end());
    return outcome;
  };
}

inline Model gru(std::size_t n, bool has_bias) {
  return [=](const std::vector<Vector>& p, const Vector& x, const Vector& h) {
    const auto [a, b] = halves(p, has_bias, x, h);
    Outcome outcome;
    for (std::size_t j = 0; j < n; ++j) {
      const double r = sigmoid(a[j] + b[j]), z = sigmoid(a[n + j] + b[n + j]);
      const double fresh = std::tanh(a[2 * n + j] + r * b[2 * n + j]);
      outcome.y.push_back((1 - z) * fresh + z * h[j]);
    }
    outcome.next = outcome.y;
    return outcome;
  };
}

/// Parameters: gate, up, down and their biases; with an epsilon the gains of a norm of the product.
inline Model swiglu(std::size_t hidden, bool has_bias, Activation gate, double norm_epsilon = 0) {
  return [=](const std::vector<Vector>& p, const Vector& x, const Vector& state) {
    const auto bias = [&](std::size_t i) { return has_bias ? &p[3 + i] : nullptr; };
    Vector product = affine(p[0], bias(0), x);
    const Vector up = affine(p[1], bias(1), x);
    for (std::size_t j = 0; j < hidden; ++j) product[j] = activate(gate, product[j]) * up[j];
    if (norm_epsilon > 0) product = rms_norm(norm_epsilon)({p.back()}, product, state).y;
    return Outcome{affine(p[2], bias(2), product), {}};
  };
}

/// Of one token alone, which sees but itself: W_o norm(W_v x + b_v) + b_o, the norm with an epsilon only. Several
/// tokens: attention_test.cpp.
inline Model lone_attention(double norm_epsilon) {
  return [=](const std::vector<Vector>& p, const Vector& x, const Vector& state) {
    Vector values = affine(p[2], &p[6], x);
    values = rms_norm(norm_epsilon)({p.back()}, values, state).y;
    return Outcome{affine(p[3], &p[7], values), {}};
  };
}

/// Parameters nu, theta, B's real and its imaginary part.
inline Model diagonal(Activation activation, bool bends_state = false) {
  return [=](const std::vector<Vector>& p, const Vector& x, const Vector& state) {
    const std::size_t n = p[0].size();
    Outcome outcome{Vector(2 * n), Vector(2 * n)};
    for (std::size_t k = 0; k < n; ++k) {
      const std::complex<double> l = std::exp(std::complex<double>(-std::exp(p[0][k]), std::exp(p[1][k])));
      std::complex<double> u = 0;
      for (std::size_t i = 0; i < x.size(); ++i)
        u += x[i] * std::complex<double>(p[2][k * x.size() + i], p[3][k * x.size() + i]);
      const std::complex<double> h = l * std::complex<double>(state[k], state[n + k]) + std::sqrt(1 - std::norm(l)) * u;
      outcome.next[k] = h.real(), outcome.next[n + k] = h.imag();
    }
    for (std::size_t j = 0; j < 2 * n; ++j) outcome.y[j] = activate(activation, outcome.next[j]);
    if (bends_state) outcome.next = outcome.y;
    return outcome;
  };
}

inline Model soft_cap(double cap) {
  return [=](const std::vector<Vector>&, const Vector& x, const Vector&) {
    Outcome outcome;
    for (const double v : x) outcome.y.push_back(cap * std::tanh(v / cap));
    return outcome;
  };
}

/// Of each token, or of a whole row of channels: both sides.
inline Model crelu(std::size_t tokens) {
  return [=](const std::vector<Vector>&, const Vector& x, const Vector&) {
    const std::size_t width = x.size() / tokens;
    Outcome outcome;
    for (std::size_t t = 0; t < tokens; ++t)
      for (const double side : {1.0, -1.0})
        for (std::size_t i = 0; i < width; ++i) outcome.y.push_back(std::max(side * x[t * width + i], 0.0));
    return outcome;
  };
}

inline Model magnitude() {
  return [](const std::vector<Vector>&, const Vector& x, const Vector&) {
    Outcome outcome;
    const std::size_t half = x.size() / 2;
    for (std::size_t i = 0; i < half; ++i) outcome.y.push_back(std::hypot(x[i], x[half + i]));
    return outcome;
  };
}

/// Values at places; a place beyond the last one is a 0.
inline Model select(std::vector<std::size_t> places) {
  return [=](const std::vector<Vector>&, const Vector& x, const Vector&) {
    Outcome outcome;
    for (const std::size_t place : places) outcome.y.push_back(place < x.size() ? x[place] : 0.0);
    return outcome;
  };
}

inline Model sign(double zone) {
  return [=](const std::vector<Vector>&, const Vector& x, const Vector&) {
    Outcome outcome;
    for (const double v : x) outcome.y.push_back(v > zone ? 1.0 : v < -zone ? -1.0 : 0.0);
    return outcome;
  };
}

inline Model argmax(std::size_t tokens) {
  return [=](const std::vector<Vector>&, const Vector& x, const Vector&) {
    const std::size_t width = x.size() / tokens;
    Outcome outcome{Vector(x.size(), 0.0), {}};
    for (auto from = x.begin(); from != x.end(); from += static_cast<long>(width))
      outcome.y[static_cast<std::size_t>(std::max_element(from, from + static_cast<long>(width)) - x.begin())] = 1.0;
    return outcome;
  };
}

/// The table is [features, positions].
inline Model position_embedding(std::size_t tokens, std::size_t positions) {
  return [=](const std::vector<Vector>& p, const Vector& x, const Vector& state) {
    const std::size_t features = x.size() / tokens;
    const double last = static_cast<double>(positions - 1);
    Outcome outcome{x, state};
    for (std::size_t t = 0; t < tokens; ++t) {
      const double at = static_cast<double>(t) + (state.empty() ? 0.0 : state[0]);
      const auto k = static_cast<std::size_t>(std::clamp(std::floor(at), 0.0, last));
      for (std::size_t i = 0; i < features; ++i) outcome.y[t * features + i] += p[0][i * positions + k];
    }
    for (double& v : outcome.next) v = state[0] + static_cast<double>(tokens);
    return outcome;
  };
}

/// Indices that are no whole numbers, or none of the table, name the nearest entry below, or the nearest. The table is
/// [features, vocabulary].
inline Model embedding(std::size_t vocabulary, double scale) {
  return [=](const std::vector<Vector>& p, const Vector& x, const Vector&) {
    Outcome outcome;
    for (const double v : x) {
      const auto k = static_cast<std::size_t>(std::clamp(std::floor(v), 0.0, static_cast<double>(vocabulary - 1)));
      for (std::size_t i = k; i < p[0].size(); i += vocabulary) outcome.y.push_back(p[0][i] * scale);
    }
    return outcome;
  };
}

/// Mean, deviation, share of |x| above `active_above` and rms of each of `sources` equal parts.
inline Model statistics(std::size_t sources, double active_above) {
  return [=](const std::vector<Vector>&, const Vector& x, const Vector&) {
    Outcome outcome;
    const std::size_t n = x.size() / sources;
    for (std::size_t first = 0; first < x.size(); first += n) {
      double sum = 0, squares = 0, active = 0;
      for (std::size_t j = first; j < first + n; ++j) {
        sum += x[j], squares += x[j] * x[j];
        active += std::fabs(x[j]) > active_above;
      }
      const double size = static_cast<double>(n), mean = sum / size;
      for (const double v : {mean, std::sqrt(squares / size - mean * mean), active / size, std::sqrt(squares / size)})
        outcome.y.push_back(v);
    }
    return outcome;
  };
}

}  // namespace weft::mesh::models
