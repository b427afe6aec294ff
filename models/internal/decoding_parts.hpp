// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "models/decoding_batch.hpp"
#include "models/internal/decoding_device.hpp"
#include "models/internal/decoding_pass.hpp"
#include "models/internal/decoding_passes.hpp"

#include "mesh/mesh.hpp"

#include <cstddef>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace weft::models {

/// Passes of a batch, states of all sequences, and the device that has them, if there is one.
struct DecodingBatch::Parts {
  Parts(const mesh::Mesh& of, internal::DecodingPasses made, std::size_t tokens, std::size_t count,
        internal::PageSize pages)
      : mesh(of),
        context(tokens),
        passes(std::move(made)),
        sequences(count),
        states(passes.step().graph(), count, pages) {}

  /// A sequence's tokens so far, and which of the two states is the one after them.
  struct Sequence {
    std::size_t position = 0, side = 0;
  };

  std::size_t vocabulary() const noexcept { return passes.step().logits(0).size(); }

  /// Runs sequences that have the same side, from `first` on, in rows from `row` on.
  void run(internal::DecodingPass& pass, std::size_t first, std::size_t rows, std::size_t row,
           internal::DecodingPass::Layers layers = internal::DecodingPass::Layers::all);
  /// Runs rows of any sequences, on the CPU.
  void run(internal::DecodingPass& pass, std::span<const internal::SequenceRun> runs, std::size_t rows);
  /// Tokens of one sequence, by the widest passes that they fill. @error as DecodingPass::make, after those before
  Status take(std::size_t sequence, std::span<const text::TokenId> ids);
  /// Those of one token, the last taken, whatever came in the same pass: the head is the largest matrix of small
  /// models.
  std::span<const float> last_logits(std::size_t sequence);
  /// A token of each, in as many passes as there are groups of sequences without gaps.
  void run_side_by_side(std::span<Step> steps);
  /// A token of each in one pass. @pre states are tokenwise, and there is no device
  void run_with_gaps(std::span<Step> steps);

  // On a device; where it fails, texts go on on the CPU.

  /// Looks for a device of the mesh, on which passes then run. @error as DecodingPass::make
  Status find_device();
  /// Of a device that is there. @return true when it went well
  bool on_device(const Status& done);
  void run_on_device(internal::DecodingPass& pass, const internal::DecodingPass::Memory& memory,
                     internal::DecodingPass::Layers layers);
  /// Tokens of one sequence in one pass of the device, the narrowest that holds them: what is too much is rolled back.
  /// Gives the logits after each; null: no pass fits, or the device failed.
  const float* each_on_device(std::size_t sequence, std::span<const text::TokenId> ids);
  /// The same one by one, for where no pass fits.
  std::span<const float> each_alone(std::size_t sequence, std::span<const text::TokenId> ids);
  /// Brings the logits of a step to the host; where the device fails the CPU takes these tokens again.
  void download_step(std::span<const Step> steps);
  /// Cuts a sequence to `length` tokens there, and what would be computed again.
  void forget(std::size_t sequence, std::size_t length);

  const mesh::Mesh& mesh;
  std::size_t context;
  internal::DecodingPasses passes;
  std::vector<Sequence> sequences;
  internal::SequenceStates states;
  std::optional<internal::DecodingDevice> device{};
  std::vector<std::vector<text::TokenId>> taken{};  // by sequence, while there is a device: what to compute again
  std::vector<float> each_logits{};                 // of each_alone, and of runs one after the other
  internal::DecodingPass* last_pass = nullptr;      // of `accept` and `accept_each`; null: none ran
  std::size_t last_sequence = 0, last_token = 0;    // that it had, and its last token's place in it

 private:
  void fall_back(const Error& error);
  /// Copies the state of a sequence to the other side, where it does not stand on this one.
  void move_to(std::size_t side, std::size_t sequence) noexcept;
};

}  // namespace weft::models
