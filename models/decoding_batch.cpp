// SPDX-License-Identifier: Apache-2.0

#include "models/decoding_batch.hpp"

#include "models/internal/decoding_parts.hpp"

#include "mesh/memory/memory_estimate.hpp"

#include "kernels/finite.hpp"
#include "kernels/float_environment.hpp"

#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace weft::models {

using internal::DecodingPass;

namespace {

/// Bytes of a sequence's keys and values, and of all sequences', up to which they lie in huge pages, where the caller
/// lets them have all of that. With small ones each 16 tokens of each head, key and value, are a fault.
constexpr std::uint64_t kMostHugeEach = std::uint64_t{64} << 20, kMostHugeStates = std::uint64_t{256} << 20;

}  // namespace

Status check_logits(std::span<const float> logits, std::size_t position) {
  if (kernels::is_finite({logits.data(), 1, logits.size(), logits.size()})) return {};
  return fail(Errc::not_finite, "a logit after token " + std::to_string(position) + " is not finite");
}

DecodingBatch::DecodingBatch(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
DecodingBatch::DecodingBatch(DecodingBatch&&) noexcept = default;
DecodingBatch& DecodingBatch::operator=(DecodingBatch&&) noexcept = default;
DecodingBatch::~DecodingBatch() = default;

Result<DecodingBatch> DecodingBatch::begin(const mesh::Mesh& mesh, std::size_t sequences, std::size_t context,
                                           std::uint64_t max_memory, std::uint64_t most_states) {
  if (sequences == 0 || context == 0)
    return fail(Errc::invalid_argument, std::to_string(sequences) + " sequences of " + std::to_string(context) +
                                            " tokens: both must be at least 1");
  WEFT_TRY(internal::DecodingPasses passes, internal::DecodingPasses::make(mesh, sequences, context));
  const mesh::Graph& graph = passes.step().graph();
  mesh::MemoryEstimate estimate;
  const std::string of = sequences == 1 ? "" : " of " + std::to_string(sequences) + " sequences each";
  const std::uint64_t states = internal::SequenceStates::bytes(graph, sequences);
  estimate.add("keys and values of " + std::to_string(context) + " tokens" + of,
               most_states == 0 ? states : std::min(states, most_states));
  WEFT_CHECK(mesh::check_memory("the context", estimate, max_memory));
  const bool is_small =
      states <= kMostHugeStates && states / sequences <= kMostHugeEach && (most_states == 0 || states <= most_states);
  auto parts = std::make_unique<Parts>(mesh, std::move(passes), context, sequences,
                                       is_small ? internal::PageSize::huge : internal::PageSize::small);
  WEFT_CHECK(parts->find_device());
  return DecodingBatch(std::move(parts));
}

std::size_t DecodingBatch::context() const noexcept { return parts_->context; }
bool DecodingBatch::is_on_device() const noexcept { return parts_->device.has_value(); }
std::size_t DecodingBatch::widest_pass() const noexcept { return parts_->passes.widest_tokens(); }
std::size_t DecodingBatch::vocabulary() const noexcept { return parts_->vocabulary(); }
std::span<const float> DecodingBatch::features() const noexcept {
  Parts& p = *parts_;
  if (p.device && p.last_pass) p.on_device(p.device->download_features(p.passes.number_of(*p.last_pass), p.last_token));
  const DecodingPass& pass = p.last_pass ? *p.last_pass : p.passes.step();
  const std::span<const float> all = pass.features(0);
  const std::size_t width = all.size() / pass.tokens();
  return all.subspan(p.last_token * width, width);
}
DecodingBatch::DeviceWork DecodingBatch::take_device_work() noexcept {
  if (!parts_->device) return {};
  const mesh::DeviceProgram::Work work = parts_->device->take_work();
  return {work.levels, work.dispatches};
}
std::size_t DecodingBatch::position(std::size_t sequence) const noexcept {
  return parts_->sequences[sequence].position;
}

void DecodingBatch::restart(std::size_t sequence) noexcept {
  parts_->sequences[sequence] = {};
  if (parts_->states.are_tokenwise())
    parts_->states.cut(sequence, 0);
  else
    parts_->states.clear(0, sequence);
  parts_->forget(sequence, 0);
}

Status DecodingBatch::can_roll_back() const {
  if (parts_->states.are_tokenwise()) return {};
  return fail(Errc::unsupported, "network '" + parts_->mesh.spec().name + "': the state of a layer of type '" +
                                     parts_->states.not_tokenwise() +
                                     "' cannot be rolled back to fewer tokens; that of attention can");
}

Status DecodingBatch::roll_back(std::size_t sequence, std::size_t length) {
  WEFT_CHECK(check_sequence(sequence));
  std::size_t& position = parts_->sequences[sequence].position;
  if (length > position)
    return fail(Errc::out_of_range, "sequence " + std::to_string(sequence) + ": cannot be rolled back to " +
                                        std::to_string(length) + " tokens, it has taken " + std::to_string(position));
  WEFT_CHECK(can_roll_back());
  position = length;
  parts_->states.cut(sequence, length);
  parts_->forget(sequence, length);
  return {};
}

void DecodingBatch::release(std::size_t sequence) noexcept {
  parts_->sequences[sequence] = {};
  parts_->states.release(sequence);
  parts_->forget(sequence, 0);
}

std::size_t DecodingBatch::part_size(std::size_t tokens) const noexcept { return parts_->states.saved_size(tokens); }

void DecodingBatch::save_part(std::size_t sequence, std::size_t first, std::size_t tokens, float* to) noexcept {
  if (parts_->device) parts_->on_device(parts_->device->download(sequence, first, tokens));
  parts_->states.save(sequence, first, tokens, to);
}

void DecodingBatch::load_part(const float* from, std::size_t sequence, std::span<const text::TokenId> ids,
                              std::size_t first) noexcept {
  Parts& p = *parts_;
  const std::size_t tokens = ids.size();
  if (p.device) {  // if it fails, what was taken before is computed again, and the part loaded behind it
    p.taken[sequence].resize(first);
    p.states.load(from, sequence, first, tokens);
    p.states.cut(sequence, first + tokens);
    if (p.on_device(p.device->upload(sequence, first, tokens)))
      p.taken[sequence].insert(p.taken[sequence].end(), ids.begin(), ids.end());
  }
  p.states.load(from, sequence, first, tokens);
  p.sequences[sequence].position = first + tokens;
  p.states.cut(sequence, first + tokens);
}

Hash128 DecodingBatch::state_hash(std::size_t sequence) const {
  const Parts::Sequence& of = parts_->sequences[sequence];
  if (parts_->device) parts_->on_device(parts_->device->download(sequence, 0, of.position));
  return parts_->states.hash(of.side, sequence, of.position);
}

Status DecodingBatch::check_sequence(std::size_t sequence) const {
  if (sequence < parts_->sequences.size()) return {};
  return fail(Errc::out_of_range, "sequence " + std::to_string(sequence) + ", the batch has " +
                                      std::to_string(parts_->sequences.size()) + ", counted from 0");
}

Status DecodingBatch::check(std::size_t sequence, std::span<const text::TokenId> ids) const {
  WEFT_CHECK(check_sequence(sequence));
  const Parts& p = *parts_;
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

Status DecodingBatch::take(std::size_t sequence, std::span<const text::TokenId> ids) {
  WEFT_CHECK(check(sequence, ids));
  const kernels::FlushSubnormals exact;
  return parts_->take(sequence, ids);
}

Result<std::span<const float>> DecodingBatch::accept(std::size_t sequence, std::span<const text::TokenId> ids) {
  WEFT_CHECK(check(sequence, ids));
  const kernels::FlushSubnormals exact;
  Parts& p = *parts_;
  // One token's logits come with its other layers: a command graph less to wait for.
  const float* const together = p.device && ids.size() == 1 ? p.each_on_device(sequence, ids) : nullptr;
  if (!together) WEFT_CHECK(p.take(sequence, ids));
  const std::span<const float> logits =
      together ? std::span<const float>(together, p.vocabulary()) : p.last_logits(sequence);
  WEFT_CHECK(check_logits(logits, position(sequence) - 1));
  return logits;
}

Status DecodingBatch::prepare(std::size_t tokens) {
  if (tokens > kMostEach)
    return fail(Errc::invalid_argument,
                std::to_string(tokens) + " tokens at once are more than " + std::to_string(kMostEach));
  if (!parts_->device) WEFT_CHECK(parts_->passes.exactly(tokens));
  return {};
}

Result<std::span<const float>> DecodingBatch::accept_each(std::size_t sequence, std::span<const text::TokenId> ids) {
  WEFT_CHECK(check(sequence, ids));
  WEFT_CHECK(prepare(ids.size()));
  Parts& p = *parts_;
  if (p.device) {
    const kernels::FlushSubnormals exact;
    if (const float* const logits = p.each_on_device(sequence, ids))
      return std::span<const float>(logits, ids.size() * p.vocabulary());
    if (p.device) return p.each_alone(sequence, ids);  // no room for a pass that holds them
  }
  WEFT_TRY(DecodingPass* const pass, p.passes.exactly(ids.size()));
  const kernels::FlushSubnormals exact;
  std::copy(ids.begin(), ids.end(), pass->ids(0).begin());
  p.last_pass = pass, p.last_sequence = sequence, p.last_token = ids.size() - 1;
  p.run(*pass, sequence, 1, 0);
  return std::span<const float>(pass->logits(0));
}

Status DecodingBatch::check_ascending(std::size_t sequence, std::size_t before) const {
  if (sequence > before) return {};
  return fail(Errc::invalid_argument, "sequence " + std::to_string(sequence) + " after sequence " +
                                          std::to_string(before) + ": a step takes each once, in ascending order");
}

Status DecodingBatch::prepare_together() {
  WEFT_CHECK(can_roll_back());
  if (!parts_->device) WEFT_CHECK(parts_->passes.together());
  return {};
}

Status DecodingBatch::accept_together(std::span<Run> runs) {
  std::vector<internal::SequenceRun> rows;
  std::size_t tokens = 0;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    WEFT_CHECK(check(runs[i].sequence, runs[i].ids));
    if (i > 0) WEFT_CHECK(check_ascending(runs[i].sequence, runs[i - 1].sequence));
    rows.push_back({runs[i].sequence, position(runs[i].sequence), tokens, runs[i].ids.size()});
    tokens += runs[i].ids.size();
  }
  if (tokens > kMostTogether)
    return fail(Errc::invalid_argument,
                std::to_string(tokens) + " tokens at once are more than " + std::to_string(kMostTogether));
  if (runs.empty()) return {};
  Parts& p = *parts_;
  WEFT_CHECK(prepare_together());
  const kernels::FlushSubnormals exact;
  if (p.device) return accept_on_device(runs);
  WEFT_TRY(DecodingPass* const pass, p.passes.together());
  for (std::size_t i = 0; i < runs.size(); ++i)
    for (std::size_t t = 0; t < rows[i].tokens; ++t) pass->ids(rows[i].row + t)[0] = static_cast<float>(runs[i].ids[t]);
  p.run(*pass, rows, tokens);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    runs[i].logits.clear();
    for (std::size_t t = 0; t < rows[i].tokens; ++t) runs[i].logits.push_back(pass->logits(rows[i].row + t));
  }
  return {};
}

/// Runs one sequence after the other, as a device has passes of a few lengths, and keeps what each gave.
Status DecodingBatch::accept_on_device(std::span<Run> runs) {
  Parts& p = *parts_;
  std::vector<float> all;
  for (Run& each : runs) {
    WEFT_TRY(const auto logits, accept_each(each.sequence, each.ids));
    all.insert(all.end(), logits.begin(), logits.end());
  }
  p.each_logits = std::move(all);
  const float* from = p.each_logits.data();
  for (Run& each : runs) {
    each.logits.clear();
    for (std::size_t t = 0; t < each.ids.size(); ++t, from += p.vocabulary())
      each.logits.push_back({from, p.vocabulary()});
  }
  return {};
}

Status DecodingBatch::step(std::span<Step> steps) {
  for (std::size_t i = 0; i < steps.size(); ++i) {
    WEFT_CHECK(check(steps[i].sequence, {&steps[i].id, 1}));
    if (i > 0) WEFT_CHECK(check_ascending(steps[i].sequence, steps[i - 1].sequence));
  }
  if (steps.empty()) return {};
  Parts& p = *parts_;
  const kernels::FlushSubnormals exact;
  const bool was_on_device = p.device.has_value();
  const bool is_gapless = steps.back().sequence - steps.front().sequence + 1 == steps.size();
  if (!is_gapless && !was_on_device && p.states.are_tokenwise())
    p.run_with_gaps(steps);
  else
    p.run_side_by_side(steps);
  if (was_on_device) p.download_step(steps);
  for (Step& each : steps) {
    each.outcome = check_logits(each.logits, position(each.sequence) - 1);
    if (!each.outcome) each.logits = {};
  }
  return {};
}

}  // namespace weft::models
