// SPDX-License-Identifier: Apache-2.0

#include "topology/plan.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>

namespace weft::topology {
namespace {

using Links = std::vector<std::pair<std::uint32_t, std::uint32_t>>;

// Distance a boundary may move from its ideal place to cut fewer links, as a share of one region's cost.
constexpr double kSlack = 0.1;

// prefix[i]: cost of vertices [0, i), as the mean of their shares of all bytes and of all work.
std::vector<double> cost_prefix(const std::vector<Workload::Vertex>& vertices) {
  double bytes = 0, work = 0;
  for (const Workload::Vertex& vertex : vertices) {
    bytes += static_cast<double>(vertex.bytes);
    work += vertex.work;
  }
  std::vector<double> prefix(vertices.size() + 1, 0.0);
  for (std::size_t i = 0; i < vertices.size(); ++i) {
    double cost = 0;
    if (bytes > 0) cost += static_cast<double>(vertices[i].bytes) / bytes;
    if (work > 0) cost += vertices[i].work / work;
    prefix[i + 1] = prefix[i] + (bytes > 0 || work > 0 ? cost : 1.0);
  }
  return prefix;
}

// crossing[b]: links with one end before vertex b and the other at or after it.
std::vector<std::uint64_t> crossing_counts(std::size_t vertices, const Links& links) {
  std::vector<std::int64_t> change(vertices + 2, 0);
  for (const auto& [a, b] : links) {
    ++change[std::min(a, b) + std::size_t{1}];
    --change[std::max(a, b) + std::size_t{1}];
  }
  std::vector<std::uint64_t> crossing(vertices + 1, 0);
  std::int64_t open = 0;
  for (std::size_t b = 0; b <= vertices; ++b) crossing[b] = static_cast<std::uint64_t>(open += change[b]);
  return crossing;
}

// The boundary nearest to `ideal` cost within [low, high], or one nearly as near that cuts fewer links.
std::size_t choose_boundary(const std::vector<double>& prefix, const std::vector<std::uint64_t>& crossing,
                            std::size_t low, std::size_t high, double ideal, double slack) {
  const auto distance = [&](std::size_t b) { return std::abs(prefix[b] - ideal); };
  const auto begin = prefix.begin();
  std::size_t best = static_cast<std::size_t>(std::lower_bound(begin + low, begin + high, ideal) - begin);
  if (best > low && distance(best - 1) <= distance(best)) --best;
  const auto is_better = [&](std::size_t b) {
    if (crossing[b] != crossing[best]) return crossing[b] < crossing[best];
    return distance(b) != distance(best) ? distance(b) < distance(best) : b < best;
  };
  const std::size_t first =
      static_cast<std::size_t>(std::lower_bound(begin + low, begin + high, ideal - slack) - begin);
  for (std::size_t b = first; b <= high && prefix[b] <= ideal + slack; ++b) {
    if (distance(b) <= slack && is_better(b)) best = b;
  }
  return best;
}

std::vector<std::size_t> cut(const Workload& workload, std::size_t regions) {
  const std::size_t n = workload.vertices.size();
  const std::vector<double> prefix = cost_prefix(workload.vertices);
  const std::vector<std::uint64_t> crossing = crossing_counts(n, workload.links);
  const double share = prefix[n] / static_cast<double>(regions);
  std::vector<std::size_t> bounds{0};
  for (std::size_t k = 1; k < regions; ++k) {
    // Each region, past ones and coming ones, keeps at least one vertex.
    bounds.push_back(choose_boundary(prefix, crossing, bounds.back() + 1, n - (regions - k),
                                     share * static_cast<double>(k), kSlack * share));
  }
  bounds.push_back(n);
  return bounds;
}

std::size_t region_count(const Workload& workload, std::size_t threads) {
  std::size_t count = std::min(threads, workload.vertices.size());
  if (workload.threads == 0 && workload.grain_bytes > 0) {
    std::uint64_t bytes = 0;
    for (const Workload::Vertex& vertex : workload.vertices)
      bytes += std::min(vertex.bytes, (std::uint64_t{1} << 62) - bytes);
    count = static_cast<std::size_t>(std::min<std::uint64_t>(count, bytes / workload.grain_bytes));
  }
  return std::max<std::size_t>(1, count);
}

void add_neighbours(Plan& plan, const Links& links) {
  for (const auto& [a, b] : links) {
    const std::uint32_t from = plan.region_of(a), to = plan.region_of(b);
    if (from == to) continue;
    ++plan.cut_links;
    plan.regions[from].neighbours.push_back(to);
    plan.regions[to].neighbours.push_back(from);
  }
  for (Plan::Region& region : plan.regions) {
    auto& list = region.neighbours;
    std::sort(list.begin(), list.end());
    list.erase(std::unique(list.begin(), list.end()), list.end());
  }
}

Status check(const Workload& workload) {
  if (workload.vertices.size() > std::numeric_limits<std::uint32_t>::max()) {
    return fail(Errc::too_large, "plan: " + std::to_string(workload.vertices.size()) + " vertices");
  }
  for (std::size_t i = 0; i < workload.vertices.size(); ++i) {
    if (!(workload.vertices[i].work >= 0 && std::isfinite(workload.vertices[i].work))) {
      return fail(Errc::invalid_argument, "plan: work of vertex " + std::to_string(i) + " is negative or not finite");
    }
  }
  for (const auto& [a, b] : workload.links) {
    if (std::max(a, b) >= workload.vertices.size()) {
      return fail(Errc::out_of_range, "plan: link " + std::to_string(a) + " - " + std::to_string(b) + " among " +
                                          std::to_string(workload.vertices.size()) + " vertices");
    }
  }
  return {};
}

}  // namespace

std::uint32_t Plan::region_of(std::uint32_t vertex) const noexcept {
  const auto after = std::upper_bound(regions.begin(), regions.end(), vertex,
                                      [](std::uint32_t u, const Region& region) { return u < region.begin; });
  return static_cast<std::uint32_t>(after - regions.begin()) - 1;
}

Result<Plan> place(const Machine& machine, const Workload& workload) {
  WEFT_CHECK(check(workload));
  Plan plan;
  plan.threads = core_assignments(machine, workload.threads).size();
  if (workload.vertices.empty()) return plan;
  const std::size_t count = region_count(workload, plan.threads);
  const std::size_t regions =
      std::min(count * std::max<std::size_t>(1, workload.regions_each), workload.vertices.size());
  const std::vector<std::size_t> bounds = cut(workload, regions);
  const std::vector<CoreAssignment> places = core_assignments(machine, count);
  for (std::size_t r = 0; r < regions; ++r) {
    Plan::Region region;
    region.begin = static_cast<std::uint32_t>(bounds[r]);
    region.end = static_cast<std::uint32_t>(bounds[r + 1]);
    region.assignment = places[r * count / regions];
    for (std::uint32_t u = region.begin; u < region.end; ++u) {
      region.bytes += workload.vertices[u].bytes;
      region.work += workload.vertices[u].work;
    }
    plan.regions.push_back(std::move(region));
  }
  add_neighbours(plan, workload.links);
  return plan;
}

std::string Plan::describe() const {
  std::ostringstream out;
  out << "plan: " << regions.size() << " region(s) for " << threads << " thread(s), " << cut_links << " link(s) cut\n";
  for (std::size_t r = 0; r < regions.size(); ++r) {
    const Region& region = regions[r];
    out << "  region " << r << ": cells " << region.begin << ".." << region.end - 1 << ", " << region.bytes
        << " bytes, work " << region.work << ", core " << region.assignment.core << " on node "
        << region.assignment.node << ", neighbours";
    for (const std::uint32_t neighbour : region.neighbours) out << ' ' << neighbour;
    out << (region.neighbours.empty() ? " none\n" : "\n");
  }
  return out.str();
}

}  // namespace weft::topology
