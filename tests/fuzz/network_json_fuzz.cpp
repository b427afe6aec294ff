// SPDX-License-Identifier: Apache-2.0

#include "mesh/network/graph.hpp"
#include "mesh/network/network_json.hpp"

#include "core/assert.hpp"
#include "core/json.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace {

// Big networks are no error, but a fuzzer's time is better spent on many small ones.
bool is_small(const weft::mesh::NetworkSpec& spec) {
  std::size_t links = spec.layers.size() * (spec.layers.size() < 64 ? 1 : 26);
  for (const auto& layer : spec.layers) links += layer.from.size();
  return spec.layers.size() <= 512 && links <= 4096;
}

void check_error(const weft::Error& error) {
  WEFT_ASSERT(!error.text().empty() && error.text().size() < 65536, "an error text that grows with the input");
  WEFT_ASSERT(weft::write_json(error.text()).has_value(), "an error text that is not UTF-8");
}

}  // namespace

// A network that is read is written and read again the same; a graph that is built holds together.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace weft::mesh;
  const auto spec = read_network({reinterpret_cast<const char*>(data), size}, "fuzz");
  if (!spec) {
    check_error(spec.error());
    return 0;
  }
  const auto text = write_network(*spec);
  WEFT_ASSERT(text.has_value(), "what was read cannot be written: " + text.error().text());
  const auto again = read_network(*text, "again");
  WEFT_ASSERT(again.has_value(), "what was written cannot be read: " + again.error().text());
  WEFT_ASSERT(*write_network(*again) == *text, "a network changed by writing and reading");
  if (!is_small(*spec)) return 0;

  const auto graph = Graph::build(*spec);
  if (!graph) {
    check_error(graph.error());
    return 0;
  }
  WEFT_ASSERT(graph->order().size() == graph->nodes().size(), "an order that leaves nodes out");
  for (const Edge& edge : graph->edges()) {
    const Node &from = graph->nodes()[edge.from], &to = graph->nodes()[edge.to];
    WEFT_ASSERT(edge.width == from.width && edge.offset + edge.width <= to.in, "a link outside its reader's input");
    WEFT_ASSERT(!edge.is_feedback || graph->is_in_loop(edge.to), "feedback without a loop");
  }
  for (const Node& node : graph->nodes()) {
    WEFT_ASSERT(node.is_port() || (node.layer && node.layer->in() == node.in && node.layer->out() == node.width),
                "a layer of other widths than its node");
  }
  (void)graph->loops();
  for (const NodeId output : graph->outputs())
    for (NodeId port = 0; port < graph->port_count(); ++port) (void)graph->latency(port, output);
  return 0;
}
