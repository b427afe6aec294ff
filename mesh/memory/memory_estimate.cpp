// SPDX-License-Identifier: Apache-2.0

#include "mesh/memory/memory_estimate.hpp"

#include "kernels/weight.hpp"

#include "topology/memory_limits.hpp"

#include "core/byte_size.hpp"
#include "core/cache_line.hpp"

#include <algorithm>
#include <optional>

namespace weft::mesh {
namespace {

// Of a layer that stands alone in its cell, and of a link: description, graph, layer, cell, mailbox, rings, units.
// Measured on a million cells of Dense 1x5 (resident memory less weights and states).
constexpr std::uint64_t kLayerBytes = 3072, kLinkBytes = 96;
/// Asking for the limits costs some 0.1 ms; small meshes are built by the thousand.
constexpr std::uint64_t kWorthAsking = std::uint64_t{16} << 20;

std::uint64_t saturated_sum(std::uint64_t a, std::uint64_t b) noexcept {
  return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

template <class Visit>
void each_parameter(const Graph& graph, Visit&& visit) {
  for (const Node& node : graph.nodes())
    if (node.layer)
      for (const ParameterSpec& spec : node.layer->parameters()) visit(node, spec);
}

std::uint64_t stored_bytes(const Node& node, const ParameterSpec& spec) noexcept {
  const Encoding encoding = node.encoding_of(spec);
  if (encoding.dtype == Dtype::float32) return std::uint64_t{spec.stored_size()} * sizeof(float);
  return kernels::weight_bytes(encoding, spec.out, spec.in).total();
}

}  // namespace

void MemoryEstimate::add(std::string name, std::uint64_t bytes) {
  if (bytes) parts.emplace_back(std::move(name), bytes);
}

std::uint64_t MemoryEstimate::total() const noexcept {
  std::uint64_t sum = 0;
  for (const auto& [name, bytes] : parts) sum = saturated_sum(sum, bytes);
  return sum;
}

std::string MemoryEstimate::text() const {
  std::string out;
  for (const auto& [name, bytes] : parts) out += (out.empty() ? "" : ", ") + name + " " + byte_size(bytes);
  return out;
}

std::uint64_t weight_bytes(const Node& layer) noexcept {
  std::uint64_t total = 0;
  for (const ParameterSpec& spec : layer.layer->parameters()) total += stored_bytes(layer, spec);
  return total;
}

std::uint64_t parameter_buffer_bytes(const Graph& graph) noexcept {
  std::uint64_t total = 0;
  each_parameter(graph, [&](const Node&, const ParameterSpec& spec) {
    total = saturated_sum(total, std::uint64_t{padded(spec.stored_size())} * sizeof(float));
  });
  return total;
}

MemoryEstimate estimate_memory(const Graph& graph, const MemoryQuestion& question) {
  std::uint64_t weights = 0, largest = 0;
  each_parameter(graph, [&](const Node& node, const ParameterSpec& spec) {
    const std::uint64_t master = std::uint64_t{padded(spec.stored_size())} * sizeof(float);
    const bool is_stored = node.encoding_of(spec).dtype != Dtype::float32;
    if (!is_stored || question.keeps_masters || node.trains_stored(spec)) weights = saturated_sum(weights, master);
    if (is_stored) weights = saturated_sum(weights, stored_bytes(node, spec));
    largest = std::max<std::uint64_t>(largest, master);  // its first values, while they are drawn
  });
  MemoryEstimate estimate;
  estimate.add("weights", weights);
  estimate.add("states", State::bytes_for(graph, {question.sessions, 2, false}));
  estimate.add("workspaces", std::uint64_t{graph.workspace_size()} * sizeof(float) * question.threads + largest);
  estimate.add("network", (graph.nodes().size() * kLayerBytes + graph.edges().size() * kLinkBytes));
  return estimate;
}

std::uint64_t free_memory(std::uint64_t max_memory) {
  const topology::MemoryLimits limits = topology::read_memory_limits();
  const topology::MemoryLimit* const tightest = limits.tightest();
  return std::min(max_memory ? max_memory : UINT64_MAX, tightest ? tightest->free : UINT64_MAX);
}

Status check_memory(std::string_view object, const MemoryEstimate& estimate, std::uint64_t max_memory) {
  const std::uint64_t wanted = estimate.total();
  const auto refused = [&](const std::string& bound) {
    return fail(Errc::too_large,
                std::string(object) + " needs " + byte_size(wanted) + " of memory (" + estimate.text() + "), " + bound +
                    "; make it smaller, give it a smaller numeric type or fewer sessions, or raise the limit");
  };
  if (max_memory && wanted > max_memory) return refused(byte_size(max_memory) + " are allowed (max_memory)");
  if (wanted < kWorthAsking) return {};
  const topology::MemoryLimits limits = topology::read_memory_limits();
  const topology::MemoryLimit* const tightest = limits.tightest();
  if (!tightest || wanted <= tightest->free) return {};
  return refused(byte_size(tightest->free) + " of " + byte_size(tightest->bytes) + " are free (" + tightest->source +
                 ")");
}

Status check_layers_fit(std::string_view object, std::uint64_t layers, std::uint64_t max_memory) {
  MemoryEstimate estimate;
  estimate.add(std::to_string(layers) + " layers", layers * kLayerBytes);
  return check_memory(object, estimate, max_memory);
}

}  // namespace weft::mesh
