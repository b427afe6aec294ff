// SPDX-License-Identifier: Apache-2.0

#include "mesh/layers/init.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

namespace weft::mesh {
namespace {

struct Uniform {
  float bound;
  void operator()(RandomStream& random, std::span<float> values) const {
    for (float& value : values) value = (2.0f * random.next_uniform() - 1.0f) * bound;
  }
};

struct Normal {
  float deviation;
  void operator()(RandomStream& random, std::span<float> values) const {
    for (float& value : values) value = random.next_normal() * deviation;
  }
};

/// Rows of which nine inputs of ten have no weight: the first ones in an order that is drawn anew for each row.
struct Sparse {
  std::size_t in;
  void operator()(RandomStream& random, std::span<float> values) const {
    Uniform{std::sqrt(1.0f / static_cast<float>(in))}(random, values);
    std::vector<std::uint32_t> order(in);
    for (std::size_t row = 0; row + in <= values.size(); row += in) {
      std::iota(order.begin(), order.end(), 0u);
      for (std::size_t i = 0; i < in * 9 / 10; ++i) {
        std::swap(order[i], order[i + random.next_below(static_cast<std::uint32_t>(in - i))]);
        values[row + order[i]] = 0.0f;
      }
    }
  }
};

struct Constant {
  float value;
  void operator()(RandomStream&, std::span<float> values) const { std::fill(values.begin(), values.end(), value); }
};

// Sums over a row in eight strided lanes, folded by halves: one order everywhere, and vectors where there are some.
constexpr std::size_t kWideLanes = 8;

double dot(const double* a, const double* b, std::size_t n) noexcept {
  double lane[kWideLanes] = {};
  std::size_t j = 0;
  for (; j + kWideLanes <= n; j += kWideLanes)
    for (std::size_t i = 0; i < kWideLanes; ++i) lane[i] += a[j + i] * b[j + i];
  for (std::size_t i = 0; j < n; ++i, ++j) lane[i] += a[j] * b[j];
  for (std::size_t half = kWideLanes / 2; half > 0; half /= 2)
    for (std::size_t i = 0; i < half; ++i) lane[i] += lane[i + half];
  return lane[0];
}

/// Makes the rows [count, length], count <= length, orthonormal by modified Gram and Schmidt, each row twice: the
/// second time takes away what rounding left of the first (Giraud et al. 2005, "twice is enough"). Their own directions
/// are kept, so that normal rows become evenly spread ones.
void orthonormalize(double* rows, std::size_t count, std::size_t length) noexcept {
  for (std::size_t i = 0; i < count; ++i) {
    double* row = rows + i * length;
    for (int pass = 0; pass < 2; ++pass)
      for (std::size_t k = 0; k < i; ++k) {
        const double* other = rows + k * length;
        const double share = dot(row, other, length);
        for (std::size_t j = 0; j < length; ++j) row[j] -= share * other[j];
      }
    const double size = std::sqrt(dot(row, row, length));
    for (std::size_t j = 0; j < length; ++j) row[j] /= size;
  }
}

Initializer orthogonal(std::size_t in, std::size_t out) {
  return [in, out](RandomStream& random, std::span<float> values) {
    const std::size_t all = values.size() / in, height = all % out == 0 ? out : all;
    const std::size_t count = std::min(height, in), length = std::max(height, in);
    std::vector<double> rows(count * length);
    for (std::size_t first = 0; first < values.size(); first += height * in) {
      for (double& v : rows) v = static_cast<double>(random.next_normal());
      orthonormalize(rows.data(), count, length);
      for (std::size_t o = 0; o < height; ++o)
        for (std::size_t k = 0; k < in; ++k)
          values[first + o * in + k] = static_cast<float>(height <= in ? rows[o * length + k] : rows[k * length + o]);
    }
  };
}

}  // namespace

Initializer constant(float value) { return Constant{value}; }

bool fills_by_value(const Initializer& fill) noexcept {
  return fill.target<Uniform>() || fill.target<Normal>() || fill.target<Constant>();
}

Result<Initializer> make_initializer(std::string_view kind, std::size_t in, std::size_t out, std::string_view object) {
  const float fan_in = static_cast<float>(in), fan_sum = static_cast<float>(in + out);
  if (kind == "xavier") return Initializer(Uniform{std::sqrt(6.0f / fan_sum)});
  if (kind == "he") return Initializer(Normal{std::sqrt(2.0f / fan_in)});
  if (kind == "normal") return Initializer(Normal{std::sqrt(1.0f / fan_in)});
  if (kind == "uniform") return Initializer(Uniform{std::sqrt(1.0f / fan_in)});
  if (kind == "zero") return constant(0.0f);
  if (kind == "orthogonal") return orthogonal(in, out);
  if (kind == "xavier_normal") return Initializer(Normal{std::sqrt(2.0f / fan_sum)});
  if (kind == "sparse") return Initializer(Sparse{in});
  if (kind == "he_uniform") return Initializer(Uniform{std::sqrt(6.0f / fan_in)});
  return fail(Errc::unknown_name,
              std::string(object) + ".init: no initializer '" + std::string(kind) +
                  "'; known are xavier, he, normal, uniform, zero, orthogonal, xavier_normal, he_uniform, sparse");
}

}  // namespace weft::mesh
