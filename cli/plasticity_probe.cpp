// SPDX-License-Identifier: Apache-2.0

#include "cli/plasticity_probe.hpp"

#include "mesh/mesh_access.hpp"
#include "mesh/runtime/state.hpp"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

namespace weft::cli {

NetworkPlasticity network_plasticity(const std::vector<learning::LayerPlasticity>& layers) {
  NetworkPlasticity all;
  double squares = 0;
  for (const learning::LayerPlasticity& layer : layers) {
    const auto count = static_cast<double>(layers.size());
    all.dormant += layer.dormant / count;
    all.effective_rank += static_cast<double>(layer.effective_rank.value_or(0)) / count;
    squares += layer.weight_norm * layer.weight_norm;
  }
  all.weight_norm = std::sqrt(squares);
  return all;
}

const std::vector<learning::LayerPlasticity>& PlasticityProbe::look(const Measure& measure) {
  constexpr int kShare = 20;
  const auto begin = std::chrono::steady_clock::now();
  if (begin < next_) return last_;
  // A failure is told at the end, where it ends the run.
  if (auto found = measure()) last_ = *std::move(found);
  const auto end = std::chrono::steady_clock::now();
  next_ = end + kShare * (end - begin);
  return last_;
}

void SeenInputs::take(mesh::Mesh& mesh) {
  mesh::MeshAccess::sync(mesh, false);
  const auto port = mesh.graph().find_port(port_);
  if (!port) return;
  const kernels::ConstMatrixView now = mesh::MeshAccess::state(std::as_const(mesh)).output(*port, mesh.ticks());
  width_ = now.cols;
  rows_.resize(most_ * width_);
  for (std::size_t session = 0; session < mesh.sessions(); ++session) {
    std::copy_n(now.row(session), width_, rows_.begin() + static_cast<std::ptrdiff_t>(next_ * width_));
    next_ = (next_ + 1) % most_;
    count_ = std::min(count_ + 1, most_);
  }
}

Result<std::vector<learning::LayerPlasticity>> SeenInputs::measure(const learning::Learner& learner) const {
  if (count_ == 0) return std::vector<learning::LayerPlasticity>();
  const mesh::RunInput input{port_, std::span(rows_).first(count_ * width_)};
  return learning::measure_plasticity(learner, {&input, 1}, count_, true);
}

}  // namespace weft::cli
