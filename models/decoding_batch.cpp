// SPDX-License-Identifier: Apache-2.0

#include "models/decoding_batch.hpp"

#include "models/internal/decoding_device.hpp"
#include "models/internal/decoding_pass.hpp"

#include "mesh/memory/memory_estimate.hpp"
#include "mesh/mesh_access.hpp"

#include "scheduler/executor.hpp"

#include "kernels/finite.hpp"
#include "kernels/float_environment.hpp"

#include "core/log.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace weft::models {
namespace {

using internal::DecodingPass;

/// Tokens of a prompt that pass the layers at once, and of what is left of it: each pass reads all weights. Between 32
/// and 128 prompts take 5 to 30 % less time, with 256 no less than with 128 (two cores of a Xeon, 135 million weights).
constexpr std::size_t kBlock = 32, kSmallBlock = 8, kWideBlock = 128;
/// The same of a device, whose products want many rows, and tokens of its other passes: those of accept_each.
constexpr std::size_t kDeviceBlock = 512;
constexpr std::size_t kFewTokens[] = {2, 4, 16}, kTile = 64;

/// Logits of a token.
std::size_t vocabulary_of(const mesh::Mesh& mesh) {
  const mesh::Graph& graph = mesh.graph();
  if (graph.outputs().empty()) return 1;
  const mesh::Node& logits = graph.nodes()[graph.outputs().front()];
  return logits.layer ? logits.layer->out_shape().back() : logits.width;
}

}  // namespace

Status check_logits(std::span<const float> logits, std::size_t position) {
  if (kernels::is_finite({logits.data(), 1, logits.size(), logits.size()})) return {};
  return fail(Errc::not_finite, "a logit after token " + std::to_string(position) + " is not finite");
}

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

struct DecodingBatch::Parts {
  explicit Parts(const mesh::Mesh& of) : mesh(of) {}

  /// A sequence's tokens so far, and which of the two states is the one after them.
  struct Sequence {
    std::size_t position = 0, side = 0;
  };

  const mesh::Mesh& mesh;
  std::size_t context = 0;
  DecodingPass::Sharing sharing{};
  std::map<std::size_t, DecodingPass> wide{};  // of one sequence, by tokens, for accept_each
  // Blocks of one sequence; a token of each of several; small blocks of one, wide ones; on a device few tokens of one.
  std::vector<DecodingPass> passes{};
  std::vector<Sequence> sequences{};
  internal::SequenceStates states{};
  std::optional<internal::DecodingDevice> device{};
  std::vector<std::vector<text::TokenId>> taken{};  // by sequence, while there is a device: what to compute again
  std::vector<float> each_logits{};                 // of accept_each there, where no pass fits
  std::optional<DecodingPass> together{};           // of one token a row, for accept_together
  DecodingPass* last_pass = nullptr;                // of `accept` and `accept_each`; null: none ran
  std::size_t last_sequence = 0, last_token = 0;    // that it had, and its last token's place in it

  std::size_t vocabulary() const noexcept { return passes[1].logits(0).size(); }

  /// Runs sequences that have the same side, from `first` on, in rows from `row` on.
  void run(DecodingPass& pass, std::size_t first, std::size_t rows, std::size_t row,
           DecodingPass::Layers layers = DecodingPass::Layers::all) {
    const std::size_t side = sequences[first].side;
    const DecodingPass::Memory memory{states, side, first, rows, row};
    if (device) return run_on_device(pass, memory, layers);
    SharedPass program(pass, mesh, memory, layers);
    mesh::MeshAccess::executor(mesh).run(program, 1);
    if (layers == DecodingPass::Layers::head) return;
    for (std::size_t i = first; i < first + rows; ++i) {
      sequences[i].side = 1 - side;
      sequences[i].position += pass.tokens();
    }
  }

  /// Runs rows of any sequences.
  void run(DecodingPass& pass, std::span<const internal::SequenceRun> runs, std::size_t rows) {
    const DecodingPass::Memory memory{states, 0, 0, rows, 0, runs};
    SharedPass program(pass, mesh, memory, DecodingPass::Layers::all);
    mesh::MeshAccess::executor(mesh).run(program, 1);
    for (const internal::SequenceRun& each : runs) sequences[each.sequence].position += each.tokens;
  }
  std::size_t number_of(const DecodingPass& pass) const { return static_cast<std::size_t>(&pass - passes.data()); }

  void run_on_device(DecodingPass& pass, const DecodingPass::Memory& memory, DecodingPass::Layers layers) {
    std::vector<std::vector<float>> inputs;
    for (std::size_t i = 0; i < memory.rows; ++i) {
      const std::span<const float> row = pass.ids(memory.row + i);
      inputs.emplace_back(row.begin(), row.end());
    }
    if (!on_device(device->run(number_of(pass), memory, layers))) {
      for (std::size_t i = 0; i < memory.rows; ++i)
        std::copy(inputs[i].begin(), inputs[i].end(), pass.ids(memory.row + i).begin());
      return run(pass, memory.first, memory.rows, memory.row, layers);
    }
    for (std::size_t i = 0; i < memory.rows; ++i) {
      sequences[memory.first + i].position += pass.tokens();
      for (const float id : inputs[i]) taken[memory.first + i].push_back(static_cast<text::TokenId>(id));
    }
  }
  /// The device is of no use any more: what sequences have taken is computed again, with the same bits, and last the
  /// last token of `last_sequence`.
  void fall_back(const Error& error) {
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
    if (!all[last].empty()) take_last_again(last, all[last].back());
  }
  void take_last_again(std::size_t sequence, text::TokenId id) {
    states.cut(sequence, --sequences[sequence].position);
    take(sequence, {&id, 1});
  }
  /// Of a device that is there. @return true when it went well
  bool on_device(const Status& done) {
    if (!done) fall_back(done.error());
    return device.has_value();
  }
  void forget(std::size_t sequence, std::size_t length) {
    if (!device) return;
    taken[sequence].resize(length);
    on_device(device->cut(sequence, length));
  }
  /// By the widest passes that fit.
  void take(std::size_t sequence, std::span<const text::TokenId> ids) {
    while (!ids.empty()) {
      std::size_t widest = 1;
      for (const std::size_t each : {2, 0, 3})
        if (ids.size() >= passes[each].tokens()) widest = each;
      DecodingPass& pass = passes[widest];
      const auto now = ids.first(pass.tokens());
      std::copy(now.begin(), now.end(), pass.ids(0).begin());
      run(pass, sequence, 1, 0, DecodingPass::Layers::body);
      last_pass = &pass, last_sequence = sequence, last_token = pass.tokens() - 1;
      ids = ids.subspan(pass.tokens());
    }
  }

  /// Those of one token, the last taken, whatever came in the same pass: the head is the largest matrix of small
  /// models.
  std::span<const float> last_logits(std::size_t sequence) {
    const kernels::FlushSubnormals exact;
    if (device && on_device(device->run_head(1, number_of(*last_pass), last_token)) &&
        on_device(device->download_logits(1, 0, 1)))
      return passes[1].logits(0);
    DecodingPass& head = last_pass->splits_head() ? passes[1] : *last_pass;
    if (&head != last_pass) head.take_features(*last_pass);
    if (head.splits_head()) run(head, sequence, 1, 0, DecodingPass::Layers::head);
    return head.logits(0).last(vocabulary());
  }

  /// Tokens of one sequence in one pass of the device, the first that holds them: what is too much is rolled back.
  /// Gives the logits after each; null: no pass fits, or the device failed.
  const float* each_on_device(std::size_t sequence, std::span<const text::TokenId> ids) {
    DecodingPass* pass = nullptr;
    for (const std::size_t i :
         {std::size_t{1}, std::size_t{4}, std::size_t{5}, std::size_t{2}, std::size_t{6}, std::size_t{0}})
      if (!pass && passes[i].tokens() >= ids.size()) pass = &passes[i];
    std::size_t& position = sequences[sequence].position;
    if (!pass || position + pass->tokens() > context) return nullptr;
    const std::size_t number = number_of(*pass), after = position + ids.size();
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

  /// The pass for exactly so many tokens of one sequence.
  Result<DecodingPass*> pass_of(std::size_t tokens) {
    for (const std::size_t known : {std::size_t{1}, std::size_t{2}, std::size_t{0}})
      if (passes[known].tokens() == tokens) return &passes[known];
    const auto found = wide.find(tokens);
    if (found != wide.end()) return &found->second;
    WEFT_TRY(DecodingPass made, DecodingPass::make(mesh.spec(), tokens, context, 1, sharing));
    return &wide.emplace(tokens, std::move(made)).first->second;
  }

  /// A token of each, in as many passes as there are groups of sequences without gaps.
  void run_side_by_side(DecodingPass& pass, std::span<Step> steps) {
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
                                           std::uint64_t max_memory, std::uint64_t most_states) {
  if (sequences == 0 || context == 0)
    return fail(Errc::invalid_argument, std::to_string(sequences) + " sequences of " + std::to_string(context) +
                                            " tokens: both must be at least 1");
  auto parts = std::make_unique<Parts>(mesh);
  parts->context = context;
  parts->sequences.resize(sequences);
  const std::size_t block = std::min(kBlock, context);
  const bool may_have_device = mesh::MeshAccess::copies_on_device(mesh);
  const DecodingPass::Sharing sharing =
      parts->sharing = {mesh::MeshAccess::executor(mesh).concurrency(), mesh.options().wide_from, !may_have_device};
  // The logits of all tokens of a pass are one layer's values.
  const std::size_t fits = std::max<std::size_t>(mesh::kMaxWidth / vocabulary_of(mesh), 1),
                    most = fits < kTile ? fits : fits / kTile * kTile;
  const std::size_t small = std::min(kSmallBlock, context),
                    wide = std::min({may_have_device ? kDeviceBlock : kWideBlock, context, most});
  using Logits = DecodingPass::Logits;
  for (const auto& [tokens, rows, logits] :
       {std::tuple(block, std::size_t{1}, Logits::each), std::tuple(std::size_t{1}, sequences, Logits::each),
        std::tuple(small, std::size_t{1}, Logits::each), std::tuple(wide, std::size_t{1}, Logits::none_apart)}) {
    WEFT_TRY(DecodingPass pass, DecodingPass::make(mesh.spec(), tokens, context, rows, sharing, logits));
    parts->passes.push_back(std::move(pass));
  }
  for (const std::size_t few : kFewTokens) {
    if (!may_have_device) break;
    WEFT_TRY(DecodingPass pass,
             DecodingPass::make(mesh.spec(), std::min(few, context), context, 1, sharing, Logits::each));
    parts->passes.push_back(std::move(pass));
  }
  const mesh::Graph& graph = parts->passes.back().graph();
  mesh::MemoryEstimate estimate;
  const std::string of = sequences == 1 ? "" : " of " + std::to_string(sequences) + " sequences each";
  const std::uint64_t states = internal::SequenceStates::bytes(graph, sequences);
  estimate.add("keys and values of " + std::to_string(context) + " tokens" + of,
               most_states == 0 ? states : std::min(states, most_states));
  WEFT_CHECK(mesh::check_memory("the context", estimate, max_memory));
  parts->states = internal::SequenceStates(graph, sequences);
  auto device = internal::DecodingDevice::make(mesh, parts->passes, parts->states, sequences);
  if (!device && wide > kWideBlock) {  // perhaps there is room for a narrower pass
    WEFT_TRY(parts->passes[3], DecodingPass::make(mesh.spec(), kWideBlock, context, 1, sharing, Logits::none_apart));
    device = internal::DecodingDevice::make(mesh, parts->passes, parts->states, sequences);
  }
  if (!device) log_warn("texts are computed on the CPU: " + device.error().text());
  if (device && *device) {
    parts->device = std::move(*device);
    parts->taken.resize(sequences);
  }
  return DecodingBatch(std::move(parts));
}

std::size_t DecodingBatch::context() const noexcept { return parts_->context; }
bool DecodingBatch::is_on_device() const noexcept { return parts_->device.has_value(); }
std::size_t DecodingBatch::widest_pass() const noexcept { return parts_->passes[3].tokens(); }
std::size_t DecodingBatch::vocabulary() const noexcept { return parts_->vocabulary(); }
std::span<const float> DecodingBatch::features() const noexcept {
  Parts& p = *parts_;
  if (p.device && p.last_pass) p.on_device(p.device->download_features(p.number_of(*p.last_pass), p.last_token));
  const DecodingPass& pass = p.last_pass ? *p.last_pass : p.passes[0];
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
  parts_->take(sequence, ids);
  return {};
}

Result<std::span<const float>> DecodingBatch::accept(std::size_t sequence, std::span<const text::TokenId> ids) {
  WEFT_CHECK(check(sequence, ids));
  const kernels::FlushSubnormals exact;
  Parts& p = *parts_;
  // One token's logits come with its other layers: a command graph less to wait for.
  const float* const together = p.device && ids.size() == 1 ? p.each_on_device(sequence, ids) : nullptr;
  if (!together) p.take(sequence, ids);
  const std::span<const float> logits =
      together ? std::span<const float>(together, p.vocabulary()) : p.last_logits(sequence);
  WEFT_CHECK(check_logits(logits, position(sequence) - 1));
  return logits;
}

Status DecodingBatch::prepare(std::size_t tokens) {
  if (tokens > kMostEach)
    return fail(Errc::invalid_argument,
                std::to_string(tokens) + " tokens at once are more than " + std::to_string(kMostEach));
  if (!parts_->device) WEFT_CHECK(parts_->pass_of(tokens));
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
    if (p.device) {  // no room for a pass that holds them: one by one
      p.each_logits.clear();
      for (const text::TokenId id : ids) {
        p.take(sequence, {&id, 1});
        const auto logits = p.last_logits(sequence);
        p.each_logits.insert(p.each_logits.end(), logits.begin(), logits.end());
      }
      return std::span<const float>(p.each_logits);
    }
  }
  WEFT_TRY(DecodingPass* const pass, p.pass_of(ids.size()));
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
  Parts& p = *parts_;
  if (p.device || p.together) return {};
  WEFT_TRY(p.together, DecodingPass::make(p.mesh.spec(), 1, p.context, kMostTogether, p.sharing));
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
  DecodingPass& pass = *p.together;
  for (std::size_t i = 0; i < runs.size(); ++i)
    for (std::size_t t = 0; t < rows[i].tokens; ++t) pass.ids(rows[i].row + t)[0] = static_cast<float>(runs[i].ids[t]);
  p.run(pass, rows, tokens);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    runs[i].logits.clear();
    for (std::size_t t = 0; t < rows[i].tokens; ++t) runs[i].logits.push_back(pass.logits(rows[i].row + t));
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
  DecodingPass& pass = p.passes[1];
  const kernels::FlushSubnormals exact;
  const bool was_on_device = p.device.has_value();
  const bool is_gapless = steps.back().sequence - steps.front().sequence + 1 == steps.size();
  if (!is_gapless && !was_on_device && p.states.are_tokenwise()) {
    std::vector<internal::SequenceRun> rows;
    for (const Step& each : steps) {
      pass.ids(rows.size())[0] = static_cast<float>(each.id);
      rows.push_back({each.sequence, position(each.sequence), rows.size(), 1});
    }
    p.run(pass, rows, rows.size());
    for (std::size_t i = 0; i < steps.size(); ++i) steps[i].logits = pass.logits(i);
  } else {
    p.run_side_by_side(pass, steps);
  }
  if (was_on_device) {
    const std::size_t first = steps.front().sequence, rows = steps.back().sequence - first + 1;
    if (!p.device || !p.on_device(p.device->download_logits(1, first, rows)))
      for (const Step& each : steps) {  // their tokens were taken, and the logits are still where the device was
        p.states.cut(each.sequence, --p.sequences[each.sequence].position);
        pass.ids(each.sequence)[0] = static_cast<float>(each.id);
        p.run(pass, each.sequence, 1, each.sequence);
      }
  }
  for (Step& each : steps) {
    each.outcome = check_logits(each.logits, position(each.sequence) - 1);
    if (!each.outcome) each.logits = {};
  }
  return {};
}

}  // namespace weft::models
