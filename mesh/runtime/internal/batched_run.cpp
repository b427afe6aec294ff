// SPDX-License-Identifier: Apache-2.0

#include "mesh/runtime/internal/batched_run.hpp"

#include "mesh/runtime/internal/team_work.hpp"
#include "mesh/runtime/internal/time_series.hpp"

#include "kernels/float_environment.hpp"

#include <algorithm>
#include <set>

namespace weft::mesh::internal {
namespace {

constexpr std::uint64_t kFewestTicks = 8;
/// Rows of a block: a GEMM of 64 rows runs at full speed, and its activations stay in cache.
constexpr std::uint64_t kBlockRows = 64;

using kernels::ConstMatrixView;
using kernels::MatrixView;

/// One run of ticks over the time series of a block. Rows are [t][session]; row block 0 is what was committed before.
class BatchedRun {
 public:
  BatchedRun(const Graph& graph, const WeightStore& weights, const State& state, std::uint64_t tick, Visits& visits,
             scheduler::Team* team)
      : graph_(graph),
        weights_(weights),
        visits_(visits),
        tick_(tick),
        sessions_(state.sessions()),
        block_(std::max<std::uint64_t>(1, kBlockRows / sessions_)),
        series_(graph, (block_ + 1) * sessions_, block_ * sessions_, team ? team->size() : 1) {
    if (team) {
      const kernels::ParallelOptions parallel{kernels::ParallelFor(*team), team->size(), series_.workspace_stride()};
      stream_.set_parallel(&parallel);
    }
    for (NodeId id = 0; id < graph.nodes().size(); ++id) {
      copy(state.output(id, tick), series_.output(id, 0, sessions_));
      if (!graph.nodes()[id].is_port()) copy(state.hidden(id, tick), series_.hidden(id, 0, sessions_));
    }
    group_components();
  }

  std::uint64_t block() const noexcept { return block_; }

  /// Ticks [done, done + ticks) of the run.
  bool run_block(std::uint64_t done, std::uint64_t ticks, const std::vector<std::pair<NodeId, const float*>>& feeds,
                 const std::vector<OutputSink>& sinks) {
    feed_ports(done, ticks, feeds);
    done_ = done;
    for (const std::vector<NodeId>& group : groups_) {
      if (!graph_.is_in_loop(group.front()) && graph_.nodes()[group.front()].layer->state_size() == 0) {
        fire(group.front(), 0, ticks);
      } else {
        for (std::uint64_t t = 0; t < ticks; ++t)
          for (NodeId id : group) fire(id, t, 1);
      }
      for (NodeId id : group) {
        if (!stream_.is_finite({series_.output(id, sessions_, ticks * sessions_)})) return false;
        const MatrixView hidden = series_.hidden(id, sessions_, ticks * sessions_);
        if (hidden.data && !stream_.is_finite({hidden})) return false;
      }
    }
    for (const OutputSink& sink : sinks) {
      const MatrixView y = series_.output(sink.node, sessions_, ticks * sessions_);
      for (std::size_t row = 0; row < y.rows; ++row)
        std::copy_n(y.row(row), y.cols, sink.base + (done * sessions_ + row) * y.cols);
    }
    return true;
  }

  /// The last `ticks` of a block become what the next one starts from.
  void roll(std::uint64_t ticks) {
    for (NodeId id = 0; id < graph_.nodes().size(); ++id) {
      copy(series_.output(id, ticks * sessions_, sessions_), series_.output(id, 0, sessions_));
      if (!graph_.nodes()[id].is_port())
        copy(series_.hidden(id, ticks * sessions_, sessions_), series_.hidden(id, 0, sessions_));
    }
  }

  void commit(State& state, std::uint64_t tick) const {
    for (NodeId id = 0; id < graph_.nodes().size(); ++id) {
      copy(series_.output(id, 0, sessions_), state.output(id, tick));
      if (!graph_.nodes()[id].is_port()) copy(series_.hidden(id, 0, sessions_), state.hidden(id, tick));
    }
  }

 private:
  static void copy(ConstMatrixView from, MatrixView to) {
    for (std::size_t b = 0; b < from.rows && from.data; ++b) std::copy_n(from.row(b), from.cols, to.row(b));
  }

  // Layers of one loop side by side, groups in an order in which each reads only earlier groups (or itself).
  void group_components() {
    std::vector<std::size_t> group_of(graph_.nodes().size(), SIZE_MAX);
    for (NodeId id : graph_.order()) {
      if (graph_.nodes()[id].is_port()) continue;
      std::size_t& group = group_of[graph_.component()[id]];
      if (group == SIZE_MAX) {
        group = groups_.size();
        groups_.emplace_back();
      }
      groups_[group].push_back(id);
    }
    // A loop is complete only once its last member's sources are: order groups by their last member.
    std::vector<std::size_t> last(graph_.nodes().size());
    for (std::size_t i = 0; i < graph_.order().size(); ++i) last[graph_.order()[i]] = i;
    const auto rank = [&](const std::vector<NodeId>& group) {
      std::size_t highest = 0;
      for (NodeId id : group) highest = std::max(highest, last[id]);
      return highest;
    };
    order_groups(rank);
  }

  // Kahn's algorithm over groups; `rank` only breaks ties.
  template <class Rank>
  void order_groups(Rank&& rank) {
    std::vector<std::size_t> group_of(graph_.nodes().size(), SIZE_MAX), waiting(groups_.size(), 0);
    for (std::size_t g = 0; g < groups_.size(); ++g)
      for (NodeId id : groups_[g]) group_of[id] = g;
    const auto each_link = [&](std::size_t g, auto&& visit) {
      for (NodeId id : groups_[g])
        for (std::uint32_t e : graph_.nodes()[id].readers)
          if (group_of[graph_.edges()[e].to] != g) visit(group_of[graph_.edges()[e].to]);
    };
    for (std::size_t g = 0; g < groups_.size(); ++g) each_link(g, [&](std::size_t to) { ++waiting[to]; });
    std::set<std::pair<std::size_t, std::size_t>> ready;
    for (std::size_t g = 0; g < groups_.size(); ++g)
      if (waiting[g] == 0) ready.emplace(rank(groups_[g]), g);
    std::vector<std::vector<NodeId>> ordered;
    while (!ready.empty()) {
      const std::size_t g = ready.begin()->second;
      ready.erase(ready.begin());
      each_link(g, [&](std::size_t to) {
        if (--waiting[to] == 0) ready.emplace(rank(groups_[to]), to);
      });
      ordered.push_back(groups_[g]);
    }
    groups_ = std::move(ordered);
  }

  void feed_ports(std::uint64_t done, std::uint64_t ticks, const std::vector<std::pair<NodeId, const float*>>& feeds) {
    for (NodeId port = 0; port < graph_.port_count(); ++port) {
      const auto feed = std::find_if(feeds.begin(), feeds.end(), [&](const auto& f) { return f.first == port; });
      const MatrixView y = series_.output(port, 0, (ticks + 1) * sessions_);
      for (std::size_t row = 0; row < y.rows; ++row) {
        if (feed == feeds.end()) {
          if (row >= sessions_) std::copy_n(y.row(row % sessions_), y.cols, y.row(row));
        } else if (row < ticks * sessions_) {
          std::copy_n(feed->second + (done * sessions_ + row) * y.cols, y.cols, y.row(row));
        } else {
          std::copy_n(y.row(row - sessions_), y.cols, y.row(row));
        }
      }
    }
  }

  // Ticks [t, t + n) of the block: reads row blocks t.., writes row blocks t + 1...
  void fire(NodeId id, std::uint64_t t, std::uint64_t n) {
    visits_.begin(tick_ + done_ + t);
    visits_.enter(id);
    series_.fire(stream_, weights_, id, (t + 1) * sessions_, n * sessions_, t * sessions_, [&](const Edge& edge) {
      return ConstMatrixView(series_.output(edge.from, t * sessions_, n * sessions_));
    });
  }

  const Graph& graph_;
  const WeightStore& weights_;
  Visits& visits_;
  std::uint64_t tick_, done_ = 0;  // of the run's beginning, and of its ticks those before this block
  std::size_t sessions_;
  std::uint64_t block_;
  TimeSeries series_;
  kernels::CpuStream stream_;
  std::vector<std::vector<NodeId>> groups_;
};

}  // namespace

bool may_batch(const Graph& graph, const std::vector<std::unique_ptr<Cell>>& cells, std::uint64_t ticks) {
  if (ticks < kFewestTicks) return false;
  double all = 0, in_loops = 0;
  for (NodeId id = static_cast<NodeId>(graph.port_count()); id < graph.nodes().size(); ++id) {
    const double work = graph.nodes()[id].layer->multiply_adds();
    all += work;
    if (graph.is_in_loop(id)) in_loops += work;
  }
  if (2 * in_loops > all) return false;
  return std::all_of(cells.begin(), cells.end(), [](const auto& cell) { return cell->is_steady(); });
}

bool run_batched(const Graph& graph, const WeightStore& weights, State& state, std::uint64_t tick, std::uint64_t ticks,
                 const std::vector<std::pair<NodeId, const float*>>& feeds, const std::vector<OutputSink>& sinks,
                 Visits& visits, scheduler::Executor& executor) {
  bool is_done = false;
  with_team(executor, [&](scheduler::Team* team) {
    const kernels::FlushSubnormals exact;
    try {
      BatchedRun run(graph, weights, state, tick, visits, team);
      for (std::uint64_t done = 0; done < ticks;) {
        const std::uint64_t now = std::min(run.block(), ticks - done);
        if (!run.run_block(done, now, feeds, sinks)) return;
        run.roll(now);
        done += now;
      }
      run.commit(state, tick + ticks);
      is_done = true;
    } catch (...) {
      // A layer threw, or there is no memory for a block: ticks need none, and supervision answers.
    }
  });
  return is_done;
}

}  // namespace weft::mesh::internal
