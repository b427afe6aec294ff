// SPDX-License-Identifier: Apache-2.0

#include "mesh/runtime/internal/combinational.hpp"

#include "mesh/runtime/internal/team_work.hpp"
#include "mesh/runtime/internal/time_series.hpp"

#include "kernels/float_environment.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <optional>
#include <utility>

namespace weft::mesh::internal {
namespace {

/// A product of so many rows runs at full speed, and its activations stay in cache.
constexpr std::size_t kMostRows = 64, kFewestRows = 8;

/// A pass: its parts are taken one by one by whoever is free.
class Pass {
 public:
  Pass(const Graph& graph, const WeightStore& weights, std::size_t rows,
       const std::vector<std::pair<NodeId, const float*>>& inputs, const std::vector<OutputSink>& sinks,
       const PassPlace& place, std::size_t part_rows)
      : graph_(graph),
        weights_(weights),
        rows_(rows),
        part_rows_(part_rows),
        inputs_(inputs),
        sinks_(sinks),
        place_(place) {}

  std::size_t parts() const noexcept { return (rows_ + part_rows_ - 1) / part_rows_; }

  /// Parts until none is left.
  void work(std::size_t worker) noexcept {
    const kernels::FlushSubnormals exact;
    try {
      std::optional<Visits> visits;
      std::uint64_t serial = place_.visits;
      if (worker < place_.activity.size())
        visits.emplace(place_.activity, graph_, place_.cells, serial, place_.tick, worker);
      kernels::CpuStream stream;
      // The second half of the rows stays zero, for feedback links and for the hidden state that layers start from.
      TimeSeries series(graph_, 2 * part_rows_, part_rows_);
      for (std::size_t part = next_++; part < parts(); part = next_++)
        run_part(stream, series, part * part_rows_, visits ? &*visits : nullptr);
    } catch (...) {
      const std::lock_guard lock(mutex_);
      thrown_ = std::current_exception();
    }
  }

  Status end() {
    if (thrown_) std::rethrow_exception(thrown_);
    return first_failure_ ? Status(std::move(first_failure_->second)) : Status();
  }

 private:
  void run_part(kernels::CpuStream& stream, TimeSeries& series, std::size_t first, Visits* visits) {
    const std::size_t rows = std::min(part_rows_, rows_ - first);
    for (const auto& [node, values] : inputs_) {
      const kernels::MatrixView y = series.output(node, 0, rows);
      for (std::size_t b = 0; b < rows; ++b) std::copy_n(values + (first + b) * y.cols, y.cols, y.row(b));
    }
    for (std::size_t at = 0; at < graph_.order().size(); ++at) {
      const NodeId id = graph_.order()[at];
      if (graph_.nodes()[id].is_port()) continue;
      if (visits) visits->enter(id);
      number_noise(series, id, first, rows);
      try {
        series.fire(stream, weights_, id, 0, rows, part_rows_, [&](const Edge& edge) {
          return kernels::ConstMatrixView(series.output(edge.from, edge.is_feedback ? part_rows_ : 0, rows));
        });
      } catch (const std::exception& error) {
        return note(at, fail(Errc::internal, graph_.nodes()[id].object + " threw: " + error.what()));
      }
      if (!stream.is_finite({series.output(id, 0, rows)}))
        return note(at, fail(Errc::not_finite, graph_.nodes()[id].object + ": its output is not finite"));
    }
    for (const OutputSink& sink : sinks_) {
      const kernels::MatrixView y = series.output(sink.node, 0, rows);
      for (std::size_t b = 0; b < rows; ++b) std::copy_n(y.row(b), y.cols, sink.base + (first + b) * y.cols);
    }
  }

  // A row without a stream of noise takes that of its place among the rows of an operation: here those of all parts.
  void number_noise(const TimeSeries& series, NodeId id, std::size_t first, std::size_t rows) const {
    for (const std::size_t at : graph_.nodes()[id].layer->noise_states())
      for (std::size_t b = 0; b < rows; ++b)
        State::number_stream(series.hidden(id, part_rows_ + b, 1).row(0) + at, first + b + 1);
  }

  void note(std::size_t at, Failure failure) {
    const std::lock_guard lock(mutex_);
    if (!first_failure_ || at < first_failure_->first) first_failure_.emplace(at, std::move(failure));
  }

  const Graph& graph_;
  const WeightStore& weights_;
  std::size_t rows_, part_rows_;
  const std::vector<std::pair<NodeId, const float*>>& inputs_;
  const std::vector<OutputSink>& sinks_;
  const PassPlace& place_;
  std::atomic<std::size_t> next_{0};
  std::mutex mutex_;  // of what follows; the team's end makes it visible
  std::exception_ptr thrown_;
  std::optional<std::pair<std::size_t, Failure>> first_failure_;  // by place in the order
};

}  // namespace

std::size_t pass_rows(const Graph& graph, std::size_t rows, std::size_t threads) noexcept {
  const std::uint64_t row = std::max<std::uint64_t>(TimeSeries::bytes_for(graph, 2, 1), 1);
  const std::size_t even = std::clamp((rows + threads - 1) / threads, kFewestRows, kMostRows);
  return std::clamp<std::uint64_t>(std::min<std::uint64_t>(kPassBytes / threads / row, even), 1, rows);
}

Status run_combinational(const Graph& graph, const WeightStore& weights, std::size_t rows,
                         const std::vector<std::pair<NodeId, const float*>>& inputs,
                         const std::vector<OutputSink>& sinks, const PassPlace& place) {
  const std::size_t threads = place.executor.concurrency();
  Pass pass(graph, weights, rows, inputs, sinks, place, pass_rows(graph, rows, threads));
  const auto work = [&](scheduler::Team* team) {
    if (!team) return pass.work(0);
    (*team)(
        std::min(team->size(), pass.parts()),
        [](void* context, std::size_t worker) { static_cast<Pass*>(context)->work(worker); }, &pass);
  };
  pass.parts() == 1 ? work(nullptr) : with_team(place.executor, work);
  place.visits += pass.parts() * graph.nodes().size();
  return pass.end();
}

}  // namespace weft::mesh::internal
