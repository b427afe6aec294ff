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

}  // namespace

Result<std::optional<DecodingDevice>> DecodingDevice::make(const mesh::Mesh& mesh, std::span<DecodingPass> passes,
                                                           SequenceStates& states, std::size_t sequences) {
  const bool splits = std::all_of(passes.begin(), passes.end(), [](const auto& pass) { return pass.splits_head(); });
  if (!mesh::MeshAccess::copies_on_device(mesh) || !states.are_tokenwise() || !splits)
    return std::optional<DecodingDevice>();
  std::vector<mesh::DeviceRegion> regions;
  const mesh::WeightStore& weights = mesh::MeshAccess::weights(mesh);
  for (std::size_t i = 0; i < weights.parameters().size(); ++i)
    weights.visit_memory(i, [&](const Field&, std::span<const std::byte> memory) {
      regions.push_back({memory.data(), memory.size(), mesh::RegionUse::constant});
    });
  for (const DecodingPass& pass : passes)
    pass.each_memory([&](std::span<const float> memory) { regions.push_back(region(memory, mesh::RegionUse::own)); });
  states.each_memory([&](std::span<const float> memory) { regions.push_back(region(memory, mesh::RegionUse::own)); });
  WEFT_TRY(mesh::DeviceProgram program, mesh::DeviceProgram::make(mesh::MeshAccess::device(mesh), std::move(regions)));
  std::optional<DecodingDevice> made = DecodingDevice(mesh, passes, states, std::move(program));
  for (std::size_t sequence = 0; sequence < sequences; ++sequence) WEFT_CHECK(made->cut(sequence, 0));
  return made;
}

Status DecodingDevice::run(std::size_t pass, const DecodingPass::Memory& memory, Layers layers) {
  DecodingPass& of = passes_[pass];
  if (layers == Layers::head) {
    const std::span<float> input = of.head_input();
    WEFT_CHECK(program_.upload(input.data(), input.size_bytes()));
  } else {
    for (std::size_t row = memory.row; row < memory.row + memory.rows; ++row)
      WEFT_CHECK(program_.upload(of.ids(row).data(), of.ids(row).size_bytes()));
  }
  const std::uint64_t key = static_cast<std::uint64_t>(layers) | pass << 2 | std::uint64_t{memory.first} << 10 |
                            std::uint64_t{memory.rows} << 28 | std::uint64_t{memory.row} << 46;
  WEFT_CHECK(program_.run(
      key, [&](kernels::OpStream& stream) { of.run(stream, mesh::MeshAccess::weights(*mesh_), memory, layers); }));
  const auto download_row = [&](std::span<const float> row) {
    return program_.download(const_cast<float*>(row.data()), row.size_bytes());
  };
  for (std::size_t row = memory.row; row < memory.row + memory.rows; ++row) {
    // Of a body alone the last token's features are asked for, from which the logits are made.
    const bool has_logits = layers != Layers::body || !of.splits_head();
    if (has_logits) WEFT_CHECK(download_row(of.logits(row)));
    if (layers == Layers::head) continue;
    const std::span<const float> features = of.features(row);
    WEFT_CHECK(download_row(features.last(features.size() / of.tokens())));
  }
  return {};
}

Status DecodingDevice::cut(std::size_t sequence, std::size_t tokens) {
  return program_.run_once([&](kernels::OpStream& stream) { states_->cut(stream, sequence, tokens); });
}

Status DecodingDevice::download(std::size_t sequence) {
  Status done;
  states_->each_row(sequence, [&](std::span<float> row) {
    if (done) done = program_.download(row.data(), row.size_bytes());
  });
  return done;
}

Status DecodingDevice::upload(std::size_t sequence) {
  Status done;
  states_->each_row(sequence, [&](std::span<float> row) {
    if (done) done = program_.upload(row.data(), row.size_bytes());
  });
  return done;
}

}  // namespace weft::models::internal
