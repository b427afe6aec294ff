// SPDX-License-Identifier: Apache-2.0

#include "models/internal/decoding_parts.hpp"

#include "mesh/mesh_access.hpp"

#include "scheduler/executor.hpp"

#include "kernels/float_environment.hpp"

#include <algorithm>
#include <utility>

namespace weft::models {
namespace {

using internal::DecodingPass;

/// A pass as a program of one region, whose operations the threads of the mesh's executor share.
class SharedPass final : public scheduler::TickProgram {
 public:
  SharedPass(DecodingPass& pass, const mesh::Mesh& mesh, const DecodingPass::Memory& memory,
             DecodingPass::Layers layers) noexcept
      : pass_(pass), mesh_(mesh), memory_(memory), layers_(layers) {}

  std::size_t region_count() const noexcept override { return 1; }
  std::span<const std::uint32_t> neighbours(std::size_t) const noexcept override { return {}; }
  bool wants_team() const noexcept override { return true; }
  void use_team(scheduler::Team* team) noexcept override { team_ = team; }
  void run_interior(std::size_t, std::uint64_t) noexcept override {}
  void run_boundary(std::size_t, std::uint64_t) noexcept override {
    pass_.run(team_, mesh::MeshAccess::weights(mesh_), memory_, layers_);
  }

 private:
  DecodingPass& pass_;
  const mesh::Mesh& mesh_;
  const DecodingPass::Memory& memory_;
  const DecodingPass::Layers layers_;
  scheduler::Team* team_ = nullptr;
};

void run_shared(DecodingPass& pass, const mesh::Mesh& mesh, const DecodingPass::Memory& memory,
                DecodingPass::Layers layers = DecodingPass::Layers::all) {
  SharedPass program(pass, mesh, memory, layers);
  mesh::MeshAccess::executor(mesh).run(program, 1);
}

}  // namespace

void DecodingBatch::Parts::run(DecodingPass& pass, std::size_t first, std::size_t rows, std::size_t row,
                               DecodingPass::Layers layers) {
  const std::size_t side = sequences[first].side;
  const DecodingPass::Memory memory{states, side, first, rows, row};
  if (device) return run_on_device(pass, memory, layers);
  run_shared(pass, mesh, memory, layers);
  if (layers == DecodingPass::Layers::head) return;
  for (std::size_t i = first; i < first + rows; ++i) {
    sequences[i].side = 1 - side;
    sequences[i].position += pass.tokens();
  }
}

void DecodingBatch::Parts::run(DecodingPass& pass, std::span<const internal::SequenceRun> runs, std::size_t rows) {
  run_shared(pass, mesh, {states, 0, 0, rows, 0, runs});
  for (const internal::SequenceRun& each : runs) sequences[each.sequence].position += each.tokens;
}

Status DecodingBatch::Parts::take(std::size_t sequence, std::span<const text::TokenId> ids) {
  while (!ids.empty()) {
    WEFT_TRY(DecodingPass* const widest, passes.widest_within(ids.size()));
    DecodingPass& pass = *widest;
    const auto now = ids.first(pass.tokens());
    std::copy(now.begin(), now.end(), pass.ids(0).begin());
    run(pass, sequence, 1, 0, DecodingPass::Layers::body);
    last_pass = &pass, last_sequence = sequence, last_token = pass.tokens() - 1;
    ids = ids.subspan(pass.tokens());
  }
  return {};
}

std::span<const float> DecodingBatch::Parts::last_logits(std::size_t sequence) {
  const kernels::FlushSubnormals exact;
  const std::size_t step = passes.number_of(passes.step());
  if (device && on_device(device->run_head(step, passes.number_of(*last_pass), last_token)) &&
      on_device(device->download_logits(step, 0, 1)))
    return passes.step().logits(0);
  DecodingPass& head = last_pass->splits_head() ? passes.step() : *last_pass;
  if (&head != last_pass) head.take_features(*last_pass);
  if (head.splits_head()) run(head, sequence, 1, 0, DecodingPass::Layers::head);
  return head.logits(0).last(vocabulary());
}

void DecodingBatch::Parts::run_side_by_side(std::span<Step> steps) {
  DecodingPass& pass = passes.step();
  const std::size_t side = sequences[steps[0].sequence].side;
  for (const Step& each : steps) move_to(side, each.sequence);
  for (std::size_t i = 0; i < steps.size();) {
    const std::size_t first = steps[i].sequence;
    std::size_t rows = 0;
    for (; i + rows < steps.size() && steps[i + rows].sequence == first + rows; ++rows)
      pass.ids(first + rows)[0] = static_cast<float>(steps[i + rows].id);
    run(pass, first, rows, first);
    i += rows;
  }
  for (Step& each : steps) each.logits = pass.logits(each.sequence);
}

void DecodingBatch::Parts::run_with_gaps(std::span<Step> steps) {
  DecodingPass& pass = passes.step();
  std::vector<internal::SequenceRun> rows;
  for (const Step& each : steps) {
    pass.ids(rows.size())[0] = static_cast<float>(each.id);
    rows.push_back({each.sequence, sequences[each.sequence].position, rows.size(), 1});
  }
  run(pass, rows, rows.size());
  for (std::size_t i = 0; i < steps.size(); ++i) steps[i].logits = pass.logits(i);
}

void DecodingBatch::Parts::move_to(std::size_t side, std::size_t sequence) noexcept {
  if (std::exchange(sequences[sequence].side, side) != side) states.copy(1 - side, side, sequence);
}

}  // namespace weft::models
