// SPDX-License-Identifier: Apache-2.0

#include "models/decoding_batch.hpp"

#include "models/internal/decoding_pass.hpp"

#include "mesh/memory/memory_estimate.hpp"
#include "mesh/mesh_access.hpp"

#include "scheduler/executor.hpp"

#include "kernels/float_environment.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

namespace weft::models {
namespace {

using internal::DecodingPass;

/// Tokens of a prompt that pass the layers at once, and of what is left of it: each pass reads all weights.
constexpr std::size_t kBlock = 32, kSmallBlock = 8;

Status check_finite(std::span<const float> logits, std::size_t position) {
  if (std::all_of(logits.begin(), logits.end(), [](float value) { return std::isfinite(value); })) return {};
  return fail(Errc::not_finite, "a logit after token " + std::to_string(position - 1) + " is not finite");
}

}  // namespace

/// A pass as a program of one region, whose operations the threads of the mesh's executor share.
class SharedPass final : public scheduler::TickProgram {
 public:
  SharedPass(DecodingPass& pass, const mesh::Mesh& mesh, const DecodingPass::Memory& memory) noexcept
      : pass_(pass), mesh_(mesh), memory_(memory) {}

  std::size_t region_count() const noexcept override { return 1; }
  std::span<const std::uint32_t> neighbours(std::size_t) const noexcept override { return {}; }
  bool wants_team() const noexcept override { return true; }
  void use_team(scheduler::Team* team) noexcept override { team_ = team; }
  void run_interior(std::size_t, std::uint64_t) noexcept override {}
  void run_boundary(std::size_t, std::uint64_t) noexcept override {
    pass_.run(team_, mesh::MeshAccess::weights(mesh_), memory_);
  }

 private:
  DecodingPass& pass_;
  const mesh::Mesh& mesh_;
  const DecodingPass::Memory& memory_;
  scheduler::Team* team_ = nullptr;
};

struct DecodingBatch::Parts {
  explicit Parts(const mesh::Mesh& of) : mesh(of) {}

  /// A sequence's tokens so far, and which of the two states is the one after them.
  struct Sequence {
    std::size_t position = 0, side = 0;
  };

  const mesh::Mesh& mesh;
  std::size_t context = 0;
  std::vector<DecodingPass> passes{};  // blocks of one sequence; a token of each of several; small blocks of one
  std::vector<Sequence> sequences{};
  internal::SequenceStates states{};
  std::size_t last_pass = 0;  // of `accept`

  std::size_t vocabulary() const noexcept { return passes[1].logits(0).size(); }

  /// Runs sequences that have the same side, from `first` on, in rows from `row` on.
  void run(DecodingPass& pass, std::size_t first, std::size_t rows, std::size_t row) {
    const std::size_t side = sequences[first].side;
    const DecodingPass::Memory memory{states, side, first, rows, row};
    SharedPass program(pass, mesh, memory);
    mesh::MeshAccess::executor(mesh).run(program, 1);
    for (std::size_t i = first; i < first + rows; ++i) {
      sequences[i].side = 1 - side;
      sequences[i].position += pass.tokens();
    }
  }

  /// Copies the state of a sequence to the other side, where it does not stand on this one.
  void move_to(std::size_t side, std::size_t sequence) noexcept {
    if (std::exchange(sequences[sequence].side, side) != side) states.copy(1 - side, side, sequence);
  }
};

DecodingBatch::DecodingBatch(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
DecodingBatch::DecodingBatch(DecodingBatch&&) noexcept = default;
DecodingBatch& DecodingBatch::operator=(DecodingBatch&&) noexcept = default;
DecodingBatch::~DecodingBatch() = default;

Result<DecodingBatch> DecodingBatch::begin(const mesh::Mesh& mesh, std::size_t sequences, std::size_t context,
                                           std::uint64_t max_memory) {
  if (sequences == 0 || context == 0)
    return fail(Errc::invalid_argument, std::to_string(sequences) + " sequences of " + std::to_string(context) +
                                            " tokens: both must be at least 1");
  auto parts = std::make_unique<Parts>(mesh);
  parts->context = context;
  parts->sequences.resize(sequences);
  const std::size_t block = std::min(kBlock, context);
  const DecodingPass::Sharing sharing{mesh::MeshAccess::executor(mesh).concurrency(), mesh.options().wide_from};
  const std::size_t small = std::min(kSmallBlock, context);
  for (const auto& [tokens, rows] :
       {std::pair(block, std::size_t{1}), std::pair(std::size_t{1}, sequences), std::pair(small, std::size_t{1})}) {
    WEFT_TRY(DecodingPass pass, DecodingPass::make(mesh.spec(), tokens, context, rows, sharing));
    parts->passes.push_back(std::move(pass));
  }
  const mesh::Graph& graph = parts->passes.back().graph();
  mesh::MemoryEstimate estimate;
  const std::string of = sequences == 1 ? "" : " of " + std::to_string(sequences) + " sequences each";
  estimate.add("keys and values of " + std::to_string(context) + " tokens" + of,
               internal::SequenceStates::bytes(graph, sequences));
  WEFT_CHECK(mesh::check_memory("the context", estimate, max_memory));
  parts->states = internal::SequenceStates(graph, sequences);
  return DecodingBatch(std::move(parts));
}

std::size_t DecodingBatch::context() const noexcept { return parts_->context; }
std::size_t DecodingBatch::vocabulary() const noexcept { return parts_->vocabulary(); }
std::span<const float> DecodingBatch::features() const noexcept {
  const DecodingPass& pass = parts_->passes[parts_->last_pass];
  const std::span<const float> all = pass.features(0);
  return all.last(all.size() / pass.tokens());
}
std::size_t DecodingBatch::position(std::size_t sequence) const noexcept {
  return parts_->sequences[sequence].position;
}

void DecodingBatch::restart(std::size_t sequence) noexcept {
  parts_->sequences[sequence] = {};
  parts_->states.clear(0, sequence);
}

Status DecodingBatch::check(std::size_t sequence, std::span<const text::TokenId> ids) const {
  const Parts& p = *parts_;
  if (sequence >= p.sequences.size())
    return fail(Errc::out_of_range, "sequence " + std::to_string(sequence) + ", the batch has " +
                                        std::to_string(p.sequences.size()) + ", counted from 0");
  const std::size_t position = p.sequences[sequence].position;
  if (ids.empty()) return fail(Errc::invalid_argument, "no tokens to go on from");
  if (ids.size() > p.context - position)
    return fail(Errc::full, std::to_string(position) + " tokens and " + std::to_string(ids.size()) +
                                " more are above the context of " + std::to_string(p.context));
  for (const text::TokenId id : ids)
    if (id >= p.vocabulary())
      return fail(Errc::out_of_range,
                  "token " + std::to_string(id) + ", the model has " + std::to_string(p.vocabulary()));
  return {};
}

Result<std::span<const float>> DecodingBatch::accept(std::size_t sequence, std::span<const text::TokenId> ids) {
  WEFT_CHECK(check(sequence, ids));
  Parts& p = *parts_;
  const kernels::FlushSubnormals exact;
  std::span<const float> logits;
  while (!ids.empty()) {
    p.last_pass = ids.size() >= p.passes[0].tokens() ? 0 : ids.size() >= p.passes[2].tokens() ? 2 : 1;
    DecodingPass& pass = p.passes[p.last_pass];
    const auto now = ids.first(pass.tokens());
    std::copy(now.begin(), now.end(), pass.ids(0).begin());
    p.run(pass, sequence, 1, 0);
    ids = ids.subspan(pass.tokens());
    logits = pass.logits(0).last(p.vocabulary());
  }
  WEFT_CHECK(check_finite(logits, position(sequence)));
  return logits;
}

Status DecodingBatch::step(std::span<Step> steps) {
  for (std::size_t i = 0; i < steps.size(); ++i) {
    WEFT_CHECK(check(steps[i].sequence, {&steps[i].id, 1}));
    if (i > 0 && steps[i].sequence <= steps[i - 1].sequence)
      return fail(Errc::invalid_argument, "sequence " + std::to_string(steps[i].sequence) + " after sequence " +
                                              std::to_string(steps[i - 1].sequence) +
                                              ": a step takes each once, in ascending order");
  }
  if (steps.empty()) return {};
  Parts& p = *parts_;
  DecodingPass& pass = p.passes[1];
  const kernels::FlushSubnormals exact;
  const std::size_t side = p.sequences[steps[0].sequence].side;
  for (const Step& each : steps) p.move_to(side, each.sequence);
  for (std::size_t i = 0; i < steps.size();) {
    const std::size_t first = steps[i].sequence;
    std::size_t rows = 0;
    for (; i + rows < steps.size() && steps[i + rows].sequence == first + rows; ++rows)
      pass.ids(first + rows)[0] = static_cast<float>(steps[i + rows].id);
    p.run(pass, first, rows, first);
    i += rows;
  }
  for (Step& each : steps) {
    each.outcome = check_finite(pass.logits(each.sequence), position(each.sequence));
    each.logits = each.outcome ? pass.logits(each.sequence) : std::span<const float>();
  }
  return {};
}

}  // namespace weft::models
