// SPDX-License-Identifier: Apache-2.0

// Finds the layers on loops, and the topological order of the others.

#include "mesh/network/graph.hpp"

#include <algorithm>
#include <deque>
#include <set>

namespace weft::mesh {

// Tarjan 1972, "Depth-first search and linear graph algorithms", section 4; with an explicit stack, since a mesh may be
// a chain of millions of layers.
void Graph::find_components() {
  const std::size_t n = nodes_.size();
  constexpr std::uint32_t kUnseen = UINT32_MAX;
  std::vector<std::uint32_t> index(n, kUnseen), low(n, 0), next_edge(n, 0);
  std::vector<bool> on_stack(n, false);
  std::vector<NodeId> stack, path;
  component_.assign(n, 0);
  in_loop_.assign(n, false);
  std::uint32_t counter = 0, components = 0;
  for (NodeId root = 0; root < n; ++root) {
    if (index[root] != kUnseen) continue;
    path.push_back(root);
    while (!path.empty()) {
      const NodeId v = path.back();
      if (index[v] == kUnseen) {
        index[v] = low[v] = counter++;
        stack.push_back(v);
        on_stack[v] = true;
      }
      if (next_edge[v] < nodes_[v].readers.size()) {
        const NodeId w = edges_[nodes_[v].readers[next_edge[v]++]].to;
        if (index[w] == kUnseen)
          path.push_back(w);
        else if (on_stack[w])
          low[v] = std::min(low[v], index[w]);
        if (w == v) in_loop_[v] = true;
        continue;
      }
      path.pop_back();
      if (!path.empty()) low[path.back()] = std::min(low[path.back()], low[v]);
      if (low[v] != index[v]) continue;
      const bool is_loop = stack.back() != v;
      for (NodeId w = kUnseen; w != v;) {
        w = stack.back();
        stack.pop_back();
        on_stack[w] = false;
        component_[w] = components;
        if (is_loop) in_loop_[w] = true;
      }
      ++components;
    }
  }
  for (Edge& edge : edges_) edge.is_feedback = component_[edge.from] == component_[edge.to] && edge.from >= edge.to;
}

void Graph::find_order() {
  // Kahn's algorithm without the feedback links; ties by node index, so that the order is a function of the network.
  std::vector<std::uint32_t> waiting(nodes_.size(), 0), depth(nodes_.size(), 0);
  for (const Edge& edge : edges_)
    if (!edge.is_feedback) ++waiting[edge.to];
  std::set<NodeId> ready;
  for (NodeId id = 0; id < nodes_.size(); ++id)
    if (waiting[id] == 0) ready.insert(id);
  while (!ready.empty()) {
    const NodeId id = *ready.begin();
    ready.erase(ready.begin());
    order_.push_back(id);
    settle_ticks_ = std::max(settle_ticks_, depth[id]);
    for (std::uint32_t e : nodes_[id].readers) {
      if (edges_[e].is_feedback) continue;
      depth[edges_[e].to] = std::max(depth[edges_[e].to], depth[id] + 1);
      if (--waiting[edges_[e].to] == 0) ready.insert(edges_[e].to);
    }
  }
  WEFT_ASSERT(order_.size() == nodes_.size(), "a loop is left once feedback links are taken out");
}

std::vector<std::vector<NodeId>> Graph::loops() const {
  std::vector<std::vector<NodeId>> by_component(nodes_.size());
  for (NodeId id = 0; id < nodes_.size(); ++id)
    if (in_loop_[id]) by_component[component_[id]].push_back(id);
  std::erase_if(by_component, [](const auto& loop) { return loop.empty(); });
  std::sort(by_component.begin(), by_component.end());
  return by_component;
}

std::vector<std::optional<std::uint32_t>> Graph::latencies_to(NodeId output) const {
  // Backwards from the output: one walk for all ports.
  std::vector<std::uint32_t> distance(nodes_.size(), UINT32_MAX);
  std::deque<NodeId> queue{output};
  distance[output] = 0;
  while (!queue.empty()) {
    const NodeId id = queue.front();
    queue.pop_front();
    for (const std::uint32_t e : nodes_[id].sources) {
      const NodeId source = edges_[e].from;
      if (distance[source] != UINT32_MAX) continue;
      distance[source] = distance[id] + 1;
      queue.push_back(source);
    }
  }
  std::vector<std::optional<std::uint32_t>> ticks(port_count());
  for (NodeId port = 0; port < port_count(); ++port)
    if (distance[port] != UINT32_MAX) ticks[port] = distance[port];
  return ticks;
}

std::optional<std::uint32_t> Graph::latency(NodeId port, NodeId output) const { return latencies_to(output)[port]; }

}  // namespace weft::mesh
