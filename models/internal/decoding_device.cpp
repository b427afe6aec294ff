// SPDX-License-Identifier: Apache-2.0

#include "models/internal/decoding_device.hpp"

#include "mesh/mesh_access.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace weft::models::internal {
namespace {

using Layers = DecodingPass::Layers;

mesh::DeviceRegion region(std::span<const float> memory, mesh::RegionUse use) {
  return {memory.data(), memory.size() * sizeof(float), use};
}

/// Of a command graph.
std::uint64_t key_of(Layers layers, std::size_t pass, std::size_t first, std::size_t rows, std::size_t row) {
  return static_cast<std::uint64_t>(layers) | pass << 2 | std::uint64_t{first} << 10 | std::uint64_t{rows} << 28 |
         std::uint64_t{row} << 46;
}

}  // namespace

Result<std::optional<DecodingDevice>> DecodingDevice::make(const mesh::Mesh& mesh, std::span<DecodingPass> passes,
                                                           SequenceStates& states, std::size_t sequences) {
  const bool splits = std::all_of(passes.begin(), passes.end(), [](const auto& pass) { return pass.splits_head(); });
  if (!mesh::MeshAccess::copies_on_device(mesh) || !states.are_tokenwise() || !splits)
    return std::optional<DecodingDevice>();
  std::vector<mesh::DeviceRegion> regions;
  std::vector<std::span<const float>> unread;
  const mesh::WeightStore& weights = mesh::MeshAccess::weights(mesh);
  for (std::size_t i = 0; i < weights.parameters().size(); ++i)
    weights.visit_memory(i, [&](const Field&, std::span<const std::byte> memory) {
      regions.push_back({memory.data(), memory.size(), mesh::RegionUse::constant});
    });
  for (const DecodingPass& pass : passes)
    pass.each_memory([&](std::span<const float> memory, bool is_result) {
      regions.push_back(region(memory, mesh::RegionUse::own));
      if (!is_result) unread.push_back(memory);
    });
  states.each_memory([&](std::span<const float> memory) { regions.push_back(region(memory, mesh::RegionUse::own)); });
  WEFT_TRY(mesh::DeviceProgram program, mesh::DeviceProgram::make(mesh::MeshAccess::device(mesh), std::move(regions)));
  program.leave_out_unread(std::move(unread));
  DecodingDevice made(mesh, passes, states, std::move(program));
  for (std::size_t sequence = 0; sequence < sequences; ++sequence) WEFT_CHECK(made.cut(sequence, 0));
  return std::optional<DecodingDevice>(std::move(made));
}

Status DecodingDevice::run(std::size_t pass, const DecodingPass::Memory& memory, Layers layers) {
  DecodingPass& of = passes_[pass];
  // Rows stand behind one another.
  const std::span<const float> first = of.ids(memory.row), last = of.ids(memory.row + memory.rows - 1);
  WEFT_CHECK(program_.upload(first.data(),
                             static_cast<std::size_t>(last.data() - first.data()) * sizeof(float) + last.size_bytes()));
  return program_.run(key_of(layers, pass, memory.first, memory.rows, memory.row), [&](kernels::OpStream& stream) {
    of.run(stream, mesh::MeshAccess::weights(*mesh_), memory, layers);
  });
}

Status DecodingDevice::run_head(std::size_t pass, std::size_t from, std::size_t token) {
  DecodingPass &of = passes_[pass], &source = passes_[from];
  return program_.run(key_of(Layers::head, pass, token, 1, from), [&](kernels::OpStream& stream) {
    const std::span<float> to = of.head_input();
    const std::size_t width = to.size();
    stream.copy({{source.features(0).data() + token * width, 1, width, width}, {to.data(), 1, width, width}});
    of.run(stream, mesh::MeshAccess::weights(*mesh_), {*states_, 0, 0, 1, 0}, Layers::head);
  });
}

Status DecodingDevice::download_logits(std::size_t pass, std::size_t row, std::size_t rows) {
  DecodingPass& of = passes_[pass];
  float* const first = of.logits(row).data();
  const std::span<float> last = of.logits(row + rows - 1);
  return program_.download(first, static_cast<std::size_t>(last.data() - first) * sizeof(float) + last.size_bytes());
}

Status DecodingDevice::download_features(std::size_t pass, std::size_t token) {
  const std::span<float> all = passes_[pass].features(0);
  const std::size_t width = all.size() / passes_[pass].tokens();
  return program_.download(all.data() + token * width, width * sizeof(float));
}

Status DecodingDevice::cut(std::size_t sequence, std::size_t tokens) {
  states_->cut(sequence, tokens);
  return upload(sequence, 0, 0);
}

Status DecodingDevice::download(std::size_t sequence, std::size_t first, std::size_t tokens) {
  return program_.download(states_->places(sequence, first, tokens));
}

Status DecodingDevice::upload(std::size_t sequence, std::size_t first, std::size_t tokens) {
  for (const std::span<float> each : states_->places(sequence, first, tokens))
    WEFT_CHECK(program_.upload(each.data(), each.size_bytes()));
  return {};
}

}  // namespace weft::models::internal
