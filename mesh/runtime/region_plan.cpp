// SPDX-License-Identifier: Apache-2.0

#include "mesh/runtime/region_plan.hpp"

#include <algorithm>
#include <set>

namespace weft::mesh {

RegionPlan::RegionPlan(const Graph& graph, const topology::Plan& plan, std::vector<std::uint32_t> node_region,
                       Links extra_links, Links mail_links)
    : regions_(plan.regions.size()), node_region_(std::move(node_region)), learns_late_(graph.nodes().size()) {
  link(graph, extra_links, mail_links);
  for (std::size_t r = 0; r < regions_.size(); ++r) regions_[r].core = plan.regions[r].assignment.core;
  for (NodeId id = 0; id < graph.nodes().size(); ++id)
    for (const NodeId owner : graph.nodes()[id].owners) learns_late_[id] = learns_late_[owner] = 1;
  for (NodeId id = 0; id < graph.nodes().size(); ++id)
    if (learns_late_[id]) regions_[node_region_[id]].late.push_back(id);

  // A learning rule may read across links that the network does not have, so its cells all wait for the neighbours.
  const bool may_run_early = extra_links.empty();
  std::set<NodeId> mailing;  // across regions
  for (const auto& [a, b] : mail_links)
    if (node_region_[a] != node_region_[b]) mailing.insert({a, b});
  const auto has_mail_elsewhere = [&](const RegionPart& part) {
    const auto first = mailing.lower_bound(part.first);
    return first != mailing.end() && *first < part.first + part.layers;
  };
  for (NodeId port = 0; port < graph.port_count(); ++port) add(graph, {UINT32_MAX, port, 0}, may_run_early);
  node_cell_.assign(graph.port_count(), UINT32_MAX);
  std::uint32_t next_cell = 0;
  for (NodeId id = static_cast<NodeId>(graph.port_count()); id < graph.nodes().size();) {
    RegionPart part{next_cell++, id, 0};
    const std::size_t cell = graph.nodes()[id].cell;
    for (; id < graph.nodes().size() && graph.nodes()[id].cell == cell; ++id) ++part.layers;
    node_cell_.resize(id, part.cell);
    cell_region_.push_back(node_region_[part.first]);
    add(graph, part, may_run_early && !has_mail_elsewhere(part));
  }
}

void RegionPlan::add(const Graph& graph, const RegionPart& part, bool may_run_early) {
  bool is_interior = may_run_early;
  for (NodeId id = part.first; id < part.first + std::max(part.layers, 1u); ++id) {
    const auto is_elsewhere = [&](NodeId other) { return node_region_[other] != node_region_[id]; };
    for (const std::uint32_t e : graph.nodes()[id].sources) is_interior &= !is_elsewhere(graph.edges()[e].from);
    for (const std::uint32_t e : graph.nodes()[id].readers) is_interior &= !is_elsewhere(graph.edges()[e].to);
  }
  Region& region = regions_[node_region_[part.first]];
  (is_interior ? region.interior : region.boundary).push_back(part);
}

void RegionPlan::link(const Graph& graph, Links extra_links, Links mail_links) {
  std::vector<std::set<std::uint32_t>> sets(regions_.size());
  const auto join = [&](NodeId a, NodeId b) {
    const std::uint32_t from = node_region_[a], to = node_region_[b];
    if (from == to) return;
    sets[from].insert(to);
    sets[to].insert(from);
  };
  for (const Edge& edge : graph.edges()) join(edge.from, edge.to);
  for (const auto& [a, b] : extra_links) join(a, b);
  for (const auto& [a, b] : mail_links) join(a, b);
  for (std::size_t r = 0; r < regions_.size(); ++r) regions_[r].neighbours.assign(sets[r].begin(), sets[r].end());
}

}  // namespace weft::mesh
