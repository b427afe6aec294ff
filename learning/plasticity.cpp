// SPDX-License-Identifier: Apache-2.0

#include "learning/plasticity.hpp"

#include "mesh/mesh_access.hpp"
#include "mesh/runtime/inner_outputs.hpp"
#include "mesh/weights/weight_store.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <string>
#include <utility>

namespace weft::learning {
namespace {

constexpr std::uint64_t kMostValues = std::uint64_t{1} << 26;
constexpr int kMostSweeps = 64;  // of Jacobi's method, which takes fewer than ten

/// Eigenvalues of a symmetric matrix [n, n], which is destroyed. Cyclic Jacobi: each rotation makes one pair of
/// elements beside the diagonal 0.
std::vector<double> eigenvalues(std::vector<double>& a, std::size_t n) {
  const auto at = [&](std::size_t i, std::size_t j) -> double& { return a[i * n + j]; };
  double all = 0;
  for (const double value : a) all += value * value;
  for (int sweep = 0; sweep < kMostSweeps; ++sweep) {
    double beside = 0;
    for (std::size_t p = 0; p < n; ++p)
      for (std::size_t q = p + 1; q < n; ++q) beside += 2 * (at(p, q) * at(p, q));
    if (beside <= 1e-28 * all) break;
    for (std::size_t p = 0; p < n; ++p)
      for (std::size_t q = p + 1; q < n; ++q) {
        const double apq = at(p, q);
        if (apq == 0.0) continue;
        const double theta = (at(q, q) - at(p, p)) / (2 * apq);
        const double t = (theta < 0 ? -1.0 : 1.0) / (std::fabs(theta) + std::sqrt(theta * theta + 1));
        const double c = 1 / std::sqrt(t * t + 1), s = t * c;
        at(p, p) -= t * apq;
        at(q, q) += t * apq;
        at(p, q) = at(q, p) = 0.0;
        for (std::size_t k = 0; k < n; ++k) {
          if (k == p || k == q) continue;
          const double akp = at(p, k), akq = at(q, k);
          at(p, k) = at(k, p) = c * akp - s * akq;
          at(q, k) = at(k, q) = s * akp + c * akq;
        }
      }
  }
  std::vector<double> values(n);
  for (std::size_t i = 0; i < n; ++i) values[i] = at(i, i);
  return values;
}

/// `inside`: of the layer there in the container `node`; empty: of all.
double weight_norm(const mesh::WeightStore& weights, mesh::NodeId node, const std::string& inside) {
  double squares = 0;
  for (const auto& parameter : weights.of(node)) {
    if (!inside.empty() && !parameter.spec->name.starts_with(inside + ".")) continue;
    for (const float value : weights.read(parameter)) squares += double{value} * double{value};
  }
  return std::sqrt(squares);
}

}  // namespace

double dormant_share(const kernels::ConstMatrixView& outputs) {
  std::vector<double> sizes(outputs.cols, 0.0);
  for (std::size_t b = 0; b < outputs.rows; ++b)
    for (std::size_t j = 0; j < outputs.cols; ++j) sizes[j] += std::fabs(double{outputs.row(b)[j]});
  const double units = static_cast<double>(sizes.size());
  const double limit = kDormant * (std::accumulate(sizes.begin(), sizes.end(), 0.0) / units);
  const auto dormant = std::count_if(sizes.begin(), sizes.end(), [&](double size) { return size <= limit; });
  return static_cast<double>(dormant) / units;
}

std::uint32_t effective_rank(const kernels::ConstMatrixView& outputs) {
  const bool is_wide = outputs.cols > outputs.rows;
  const std::size_t n = is_wide ? outputs.rows : outputs.cols;
  std::vector<double> products(n * n, 0.0);
  if (is_wide) {
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j <= i; ++j) {
        double sum = 0;
        for (std::size_t k = 0; k < outputs.cols; ++k) sum += double{outputs.row(i)[k]} * double{outputs.row(j)[k]};
        products[i * n + j] = products[j * n + i] = sum;
      }
  } else {
    for (std::size_t b = 0; b < outputs.rows; ++b)
      for (std::size_t i = 0; i < n; ++i)
        for (std::size_t j = 0; j < n; ++j)
          products[i * n + j] += double{outputs.row(b)[i]} * double{outputs.row(b)[j]};
  }
  std::vector<double> sizes = eigenvalues(products, n);
  for (double& value : sizes) value = std::sqrt(std::max(value, 0.0));
  std::sort(sizes.begin(), sizes.end(), std::greater<>());
  const double enough = kRankShare * std::accumulate(sizes.begin(), sizes.end(), 0.0);
  std::uint32_t rank = 0;
  for (double sum = 0; rank < n && sum < enough; ++rank) sum += sizes[rank];
  return rank;
}

Result<std::vector<LayerPlasticity>> measure_plasticity(const Learner& learner, std::span<const mesh::RunInput> inputs,
                                                        std::size_t rows, bool with_ranks) {
  const mesh::Graph& graph = learner.mesh().graph();
  const std::size_t layers = graph.nodes().size() - graph.port_count();
  std::uint64_t values = 0, inner = 0;
  for (const mesh::Node& node : graph.nodes()) {
    values += std::uint64_t{rows} * node.width;
    inner += std::uint64_t{rows} * mesh::inner_width(node);
  }
  if (values + inner > kMostValues)
    return fail(Errc::too_large, "inputs and outputs of " + std::to_string(layers) + " layers for " +
                                     std::to_string(rows) + " samples are " + std::to_string(values + inner) +
                                     " values, more than 67108864");
  std::vector<float> outputs(values);
  std::vector<mesh::OutputSink> sinks;
  std::vector<const float*> of_nodes;
  float* to = outputs.data();
  for (mesh::NodeId node = 0; node < graph.nodes().size(); ++node) {
    sinks.push_back({node, to});
    of_nodes.push_back(to);
    to += rows * graph.nodes()[node].width;
  }
  WEFT_CHECK(mesh::MeshAccess::evaluate_layers(learner.mesh(), 0, inputs, rows, learner.hold(), sinks));
  const mesh::WeightStore& weights = mesh::MeshAccess::weights(learner.mesh());
  std::vector<LayerPlasticity> found;
  const auto measure = [&](mesh::NodeId node, const std::string& inside, const kernels::ConstMatrixView& y) {
    LayerPlasticity layer;
    layer.at = graph.nodes()[node].at;
    layer.inside = inside;
    if (rows > 0) layer.dormant = dormant_share(y);
    layer.weight_norm = weight_norm(weights, node, inside);
    if (with_ranks) layer.effective_rank = effective_rank(y);
    found.push_back(std::move(layer));
  };
  for (auto node = static_cast<mesh::NodeId>(graph.port_count()); node < graph.nodes().size(); ++node) {
    const auto inside = mesh::inner_outputs(graph, weights, node, rows, of_nodes);
    for (const mesh::InnerOutput& layer : inside)
      measure(node, layer.name, {layer.values.data(), rows, layer.width, layer.width});
    const std::size_t width = graph.nodes()[node].width;
    if (inside.empty()) measure(node, {}, {of_nodes[node], rows, width, width});
  }
  return found;
}

}  // namespace weft::learning
