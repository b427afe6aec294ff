// SPDX-License-Identifier: Apache-2.0

#include "learning/layer_monitor.hpp"

#include "learning/internal/layer_statistics.hpp"
#include "learning/internal/learner_parts.hpp"
#include "learning/learner.hpp"

#include "mesh/mesh_access.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace weft::learning {
namespace {

double sum_of_squares(const kernels::ConstMatrixView& rows) noexcept {
  double sum = 0;
  for (std::size_t b = 0; b < rows.rows; ++b)
    for (std::size_t j = 0; j < rows.cols; ++j) sum += double{rows.row(b)[j]} * double{rows.row(b)[j]};
  return sum;
}

double root_mean(double sum, double count) noexcept { return count > 0 ? std::sqrt(sum / count) : 0.0; }

}  // namespace

LayerStatistics::LayerStatistics(const mesh::Graph& graph, const mesh::WeightStore& weights)
    : layers_(graph.nodes().size()) {
  for (mesh::NodeId node = 0; node < layers_.size(); ++node) {
    layers_[node].found.at = graph.nodes()[node].at;
    if (graph.nodes()[node].is_port()) continue;
    std::size_t size = 0;
    for (const auto& parameter : weights.of(node)) size += parameter.spec->stored_size();
    layers_[node].before.resize(size);
  }
}

void LayerStatistics::note_error(mesh::NodeId node, const kernels::ConstMatrixView& error, std::uint64_t age) noexcept {
  Layer& layer = layers_[node];
  layer.is_reached = true;
  layer.found.error =
      static_cast<float>(root_mean(sum_of_squares(error), static_cast<double>(error.rows * error.cols)));
  layer.found.error_age = age;
  // Until the layer moves by it.
  layer.found.update = layer.found.relative_update = 0.0f;
}

void LayerStatistics::note_target(mesh::NodeId node, const kernels::ConstMatrixView& y,
                                  const kernels::ConstMatrixView& target) noexcept {
  double budgets = 0;
  for (std::size_t b = 0; b < y.rows; ++b) {
    double dot = 0, own = 0, wanted = 0;
    for (std::size_t j = 0; j < y.cols; ++j) {
      const double a = y.row(b)[j], t = target.row(b)[j];
      dot += a * t, own += a * a, wanted += t * t;
    }
    const double norms = std::sqrt(own) * std::sqrt(wanted);
    budgets += ((norms > 0 ? dot / norms : 0.0) + 1) / 2;
  }
  layers_[node].found.budget = static_cast<float>(budgets / static_cast<double>(std::max<std::size_t>(y.rows, 1)));
}

void LayerStatistics::begin_move(const mesh::WeightStore& weights, mesh::NodeId node) noexcept {
  float* to = layers_[node].before.data();
  for (const auto& parameter : weights.of(node)) {
    if (parameter.data) std::copy_n(parameter.data, parameter.spec->stored_size(), to);
    to += parameter.spec->stored_size();
  }
}

void LayerStatistics::end_move(const mesh::WeightStore& weights, mesh::NodeId node) noexcept {
  const float* before = layers_[node].before.data();
  double moved = 0, all = 0, count = 0;
  for (const auto& parameter : weights.of(node)) {
    const std::size_t size = parameter.spec->stored_size();
    // Lanes that pad a panel hold 0 and stay so.
    for (std::size_t i = 0; parameter.data && i < size; ++i) {
      const double now = parameter.data[i], change = now - double{before[i]};
      moved += change * change, all += now * now;
    }
    count +=
        static_cast<double>(parameter.spec->out) * static_cast<double>(std::max<std::size_t>(parameter.spec->in, 1));
    before += size;
  }
  LayerDiagnostics& found = layers_[node].found;
  found.update = static_cast<float>(root_mean(moved, count));
  found.weight = static_cast<float>(root_mean(all, count));
  found.relative_update = all > 0 ? static_cast<float>(std::sqrt(moved / all)) : 0.0f;
}

std::vector<LayerDiagnostics> LayerStatistics::read() const {
  std::vector<LayerDiagnostics> reached;
  for (const Layer& layer : layers_)
    if (layer.is_reached) reached.push_back(layer.found);
  return reached;
}

LayerMonitor::LayerMonitor(Learner& learner)
    : learner_(learner),
      statistics_(std::make_unique<LayerStatistics>(learner.mesh().graph(),
                                                    mesh::MeshAccess::weights(std::as_const(learner).mesh()))) {}

LayerMonitor::~LayerMonitor() { measure(false); }

void LayerMonitor::measure(bool is_on) noexcept {
  LayerStatistics* const statistics = is_on ? statistics_.get() : nullptr;
  learner_.parts_->backward.measure(statistics);
  learner_.parts_->updates.measure(statistics);
}

std::vector<LayerDiagnostics> LayerMonitor::read() const { return statistics_->read(); }

}  // namespace weft::learning
