// SPDX-License-Identifier: Apache-2.0

#include "models/internal/low_rank.hpp"

#include "core/philox.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace weft::models::internal {
namespace {

constexpr std::size_t kMore = 8, kRefinements = 2, kSweeps = 30;

using Vectors = std::vector<std::vector<double>>;  // vectors, one after the other

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

/// D times each vector of `in` values.
Vectors times(const std::vector<float>& d, std::size_t out, std::size_t in, const Vectors& vectors) {
  Vectors made(vectors.size(), std::vector<double>(out));
  for (std::size_t o = 0; o < out; ++o)
    for (std::size_t v = 0; v < vectors.size(); ++v) {
      double sum = 0;
      for (std::size_t k = 0; k < in; ++k) sum += static_cast<double>(d[o * in + k]) * vectors[v][k];
      made[v][o] = sum;
    }
  return made;
}
/// D transposed times each vector of `out` values.
Vectors transposed_times(const std::vector<float>& d, std::size_t out, std::size_t in, const Vectors& vectors) {
  Vectors made(vectors.size(), std::vector<double>(in));
  for (std::size_t o = 0; o < out; ++o)
    for (std::size_t v = 0; v < vectors.size(); ++v) {
      const double factor = vectors[v][o];
      for (std::size_t k = 0; k < in; ++k) made[v][k] += static_cast<double>(d[o * in + k]) * factor;
    }
  return made;
}

/// Vectors of length 1 at right angles to each other; those that the others hold already become 0.
void make_orthonormal(Vectors& vectors) {
  for (std::size_t v = 0; v < vectors.size(); ++v) {
    const double before = std::sqrt(dot(vectors[v], vectors[v]));
    for (int pass = 0; pass < 2; ++pass)
      for (std::size_t u = 0; u < v; ++u) {
        const double share = dot(vectors[u], vectors[v]);
        for (std::size_t i = 0; i < vectors[v].size(); ++i) vectors[v][i] -= share * vectors[u][i];
      }
    const double length = std::sqrt(dot(vectors[v], vectors[v]));
    const double factor = length > 1e-12 * before && length > 0 ? 1 / length : 0;
    for (double& value : vectors[v]) value *= factor;
  }
}

/// Eigenvectors of a symmetric matrix as rows, of the largest eigenvalue first (Jacobi's rotations).
Vectors eigenvectors(Vectors matrix) {
  const std::size_t n = matrix.size();
  Vectors vectors(n, std::vector<double>(n));
  for (std::size_t i = 0; i < n; ++i) vectors[i][i] = 1;
  for (std::size_t sweep = 0; sweep < kSweeps; ++sweep)
    for (std::size_t p = 0; p < n; ++p)
      for (std::size_t q = p + 1; q < n; ++q) {
        if (matrix[p][q] == 0) continue;
        const double theta = (matrix[q][q] - matrix[p][p]) / (2 * matrix[p][q]);
        const double t = (theta < 0 ? -1 : 1) / (std::abs(theta) + std::sqrt(theta * theta + 1));
        const double c = 1 / std::sqrt(t * t + 1), s = t * c;
        for (std::size_t i = 0; i < n; ++i) {
          const double a = matrix[i][p], b = matrix[i][q];
          matrix[i][p] = c * a - s * b, matrix[i][q] = s * a + c * b;
        }
        for (std::size_t i = 0; i < n; ++i) {
          const double a = matrix[p][i], b = matrix[q][i];
          matrix[p][i] = c * a - s * b, matrix[q][i] = s * a + c * b;
          const double x = vectors[p][i], y = vectors[q][i];
          vectors[p][i] = c * x - s * y, vectors[q][i] = s * x + c * y;
        }
      }
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return matrix[a][a] > matrix[b][b]; });
  Vectors sorted;
  for (const std::size_t i : order) sorted.push_back(vectors[i]);
  return sorted;
}

/// Vectors put together as each row of `by` says.
Vectors mixed(const Vectors& by, const Vectors& vectors, std::size_t count) {
  Vectors made(count, std::vector<double>(vectors[0].size()));
  for (std::size_t i = 0; i < count; ++i)
    for (std::size_t v = 0; v < vectors.size(); ++v)
      for (std::size_t k = 0; k < vectors[v].size(); ++k) made[i][k] += by[i][v] * vectors[v][k];
  return made;
}

}  // namespace

LowRank low_rank(const std::vector<float>& d, std::size_t out, std::size_t in, std::size_t rank) {
  LowRank made{std::vector<float>(rank * in), std::vector<float>(out * rank)};
  double all = 0;
  for (const float value : d) all += static_cast<double>(value) * value;
  if (all == 0) return made;
  const std::size_t count = std::min({rank + kMore, out, in});
  Vectors search(count, std::vector<double>(in));
  RandomStream random(1, 0, RandomPurpose::adapter);
  for (std::vector<double>& vector : search)
    for (double& value : vector) value = random.next_normal();
  Vectors range = times(d, out, in, search);
  make_orthonormal(range);
  for (std::size_t i = 0; i < kRefinements; ++i) {
    Vectors back = transposed_times(d, out, in, range);
    make_orthonormal(back);
    range = times(d, out, in, back);
    make_orthonormal(range);
  }
  const Vectors inside = transposed_times(d, out, in, range);
  Vectors products(count, std::vector<double>(count));
  for (std::size_t i = 0; i < count; ++i)
    for (std::size_t j = 0; j < count; ++j) products[i][j] = dot(inside[i], inside[j]);
  const Vectors turns = eigenvectors(std::move(products));
  const std::size_t kept = std::min(rank, count);
  const Vectors rows = mixed(turns, inside, kept), columns = mixed(turns, range, kept);
  // Both take the root of a singular value, so that neither is much larger than the other.
  for (std::size_t r = 0; r < kept; ++r) {
    const double root = std::sqrt(std::sqrt(dot(rows[r], rows[r])));
    for (std::size_t k = 0; k < in && root > 0; ++k) made.a[r * in + k] = static_cast<float>(rows[r][k] / root);
    for (std::size_t o = 0; o < out; ++o) made.b[o * rank + r] = static_cast<float>(columns[r][o] * root);
  }
  double left = 0;
  for (std::size_t o = 0; o < out; ++o)
    for (std::size_t k = 0; k < in; ++k) {
      double sum = 0;
      for (std::size_t r = 0; r < kept; ++r) sum += static_cast<double>(made.b[o * rank + r]) * made.a[r * in + k];
      const double difference = static_cast<double>(d[o * in + k]) - sum;
      left += difference * difference;
    }
  made.left = std::sqrt(left / all);
  return made;
}

}  // namespace weft::models::internal
