// SPDX-License-Identifier: Apache-2.0
// Runs of a mesh: their inputs and outputs checked, their steps counted.

#include "mesh/internal/mesh_parts.hpp"

#include "core/size_limit.hpp"

#include <algorithm>
#include <string>

namespace weft::mesh {

Status Mesh::Parts::halted_error() const {
  const std::optional<Halt> halt = mailing.arrivals->halt().get();
  if (!halt) return {};
  const std::string_view reason = halt->reason.data();
  return fail(Errc::halted, "cell " + to_string(cells[halt->cell]->at()) + " failed at tick " +
                                std::to_string(halt->tick) + " (" + std::string(name(halt->kind)) +
                                (reason.empty() ? "" : ": ") + std::string(reason) + "); the mesh stopped at tick " +
                                std::to_string(ticks) +
                                " and the cell kept its last output. Remove the cause and resume, or choose the policy "
                                "hold, restart or isolate");
}

Status Mesh::Parts::run_steps(std::uint64_t steps, std::uint64_t& done) {
  done = 0;
  WEFT_CHECK(halted_error());
  engine->choose_kept_values();
  done = device.run ? device.run->run(*executor, ticks, steps) : engine->run(*executor, ticks, steps);
  if (device.missing) device.missing->host_steps += done;
  ticks += engine->ticks_in(done);
  WEFT_CHECK(halted_error());
  if (done < steps)
    return fail(Errc::interrupted, "stopped at tick " + std::to_string(ticks) + ", in step " + std::to_string(done) +
                                       " of " + std::to_string(steps));
  return {};
}

Result<std::vector<std::pair<NodeId, const float*>>> Mesh::Parts::check_inputs(std::span<const RunInput> inputs,
                                                                               std::uint64_t rows) const {
  std::vector<std::pair<NodeId, const float*>> found;
  for (const RunInput& input : inputs) {
    const auto node = graph.find_port(input.port);
    if (!node) return fail(Errc::unknown_name, "no input is named '" + std::string(input.port) + "'");
    const std::string object = "input '" + std::string(input.port) + "': ";
    for (const auto& [other, values] : found)
      if (other == *node) return fail(Errc::duplicate_name, object + "given twice");
    const std::uint64_t wanted = product_or_most(rows, graph.nodes()[*node].width);
    if (input.values.size() != wanted)
      return fail(Errc::shape_mismatch, object + std::to_string(input.values.size()) + " values where " +
                                            std::to_string(wanted) + " are expected");
    WEFT_CHECK(check_values(graph.nodes()[*node], input.values));
    found.emplace_back(*node, input.values.data());
  }
  return found;
}

Result<std::vector<OutputSink>> Mesh::Parts::check_outputs(std::span<const RunOutput> outputs,
                                                           std::uint64_t rows) const {
  std::vector<OutputSink> sinks;
  for (const RunOutput& output : outputs) {
    const auto node = graph.find_output(output.output);
    if (!node) return fail(Errc::unknown_name, "no output is named '" + std::string(output.output) + "'");
    const std::uint64_t wanted = product_or_most(rows, graph.nodes()[*node].width);
    if (output.values.size() != wanted)
      return fail(Errc::shape_mismatch, "output '" + std::string(output.output) + "': a buffer for " +
                                            std::to_string(output.values.size()) + " values where " +
                                            std::to_string(wanted) + " are expected");
    sinks.push_back({*node, output.values.data()});
  }
  return sinks;
}

}  // namespace weft::mesh
