// SPDX-License-Identifier: Apache-2.0
// Passes of a batch on a device. It writes down what sequences have taken; after a failure of the device the CPU
// computes that again, with the same bits.

#include "models/internal/decoding_parts.hpp"

#include "kernels/float_environment.hpp"

#include "core/log.hpp"

#include <algorithm>
#include <utility>

namespace weft::models {

using internal::DecodingDevice;
using internal::DecodingPass;

Status DecodingBatch::Parts::find_device() {
  auto found = DecodingDevice::make(mesh, passes.all(), states, sequences.size());
  if (!found) {  // perhaps there is room for a narrower pass
    WEFT_TRY(const bool is_narrower, passes.narrow());
    if (is_narrower) found = DecodingDevice::make(mesh, passes.all(), states, sequences.size());
  }
  if (!found) log_warn("texts are computed on the CPU: " + found.error().text());
  if (!found || !*found) return {};
  device = std::move(*found);
  taken.resize(sequences.size());
  return {};
}

bool DecodingBatch::Parts::on_device(const Status& done) {
  if (!done) fall_back(done.error());
  return device.has_value();
}

void DecodingBatch::Parts::run_on_device(DecodingPass& pass, const DecodingPass::Memory& memory,
                                         DecodingPass::Layers layers) {
  std::vector<std::vector<float>> inputs;
  for (std::size_t i = 0; i < memory.rows; ++i) {
    const std::span<const float> row = pass.ids(memory.row + i);
    inputs.emplace_back(row.begin(), row.end());
  }
  if (!on_device(device->run(passes.number_of(pass), memory, layers))) {
    for (std::size_t i = 0; i < memory.rows; ++i)
      std::copy(inputs[i].begin(), inputs[i].end(), pass.ids(memory.row + i).begin());
    return run(pass, memory.first, memory.rows, memory.row, layers);
  }
  for (std::size_t i = 0; i < memory.rows; ++i) {
    sequences[memory.first + i].position += pass.tokens();
    for (const float id : inputs[i]) taken[memory.first + i].push_back(static_cast<text::TokenId>(id));
  }
}

const float* DecodingBatch::Parts::each_on_device(std::size_t sequence, std::span<const text::TokenId> ids) {
  DecodingPass* const pass = passes.narrowest_for(ids.size());
  std::size_t& position = sequences[sequence].position;
  if (!pass || position + pass->tokens() > context) return nullptr;
  const std::size_t number = passes.number_of(*pass), after = position + ids.size();
  std::fill(std::copy(ids.begin(), ids.end(), pass->ids(0).begin()), pass->ids(0).end(), 0.0f);
  const DecodingPass::Memory memory{states, 0, sequence, 1, 0};
  if (!on_device(device->run(number, memory, DecodingPass::Layers::all)) ||
      !on_device(device->download_logits(number, 0, 1)) ||
      (pass->tokens() > ids.size() && !on_device(device->cut(sequence, after))))
    return nullptr;
  position = after;
  taken[sequence].insert(taken[sequence].end(), ids.begin(), ids.end());
  last_pass = pass, last_sequence = sequence, last_token = ids.size() - 1;
  return pass->logits(0).data();
}

std::span<const float> DecodingBatch::Parts::each_alone(std::size_t sequence, std::span<const text::TokenId> ids) {
  each_logits.clear();
  for (const text::TokenId id : ids) {
    take(sequence, {&id, 1});
    const auto logits = last_logits(sequence);
    each_logits.insert(each_logits.end(), logits.begin(), logits.end());
  }
  return each_logits;
}

void DecodingBatch::Parts::download_step(std::span<const Step> steps) {
  const std::size_t first = steps.front().sequence, rows = steps.back().sequence - first + 1;
  DecodingPass& pass = passes.step();
  if (device && on_device(device->download_logits(passes.number_of(pass), first, rows))) return;
  for (const Step& each : steps) {  // their tokens were taken, and the logits are still where the device was
    states.cut(each.sequence, --sequences[each.sequence].position);
    pass.ids(each.sequence)[0] = static_cast<float>(each.id);
    run(pass, each.sequence, 1, each.sequence);
  }
}

void DecodingBatch::Parts::forget(std::size_t sequence, std::size_t length) {
  if (!device) return;
  taken[sequence].resize(length);
  on_device(device->cut(sequence, length));
}

/// The device is of no use any more: what sequences have taken is computed again, with the same bits, and last the last
/// token of `last_sequence`.
void DecodingBatch::Parts::fall_back(const Error& error) {
  log_warn("texts go on on the CPU, and nothing is lost: " + error.text());
  device.reset();
  const kernels::FlushSubnormals exact;
  const auto all = std::exchange(taken, {});
  const std::size_t last = last_sequence;
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    sequences[i] = {};
    states.cut(i, 0);
    take(i, all[i]);
  }
  if (all[last].empty()) return;
  states.cut(last, --sequences[last].position);
  take(last, {&all[last].back(), 1});
}

}  // namespace weft::models
