// SPDX-License-Identifier: Apache-2.0

#include "learning/internal/late_samples.hpp"

#include "mesh/mesh_access.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>
#include <utility>

namespace weft::learning {

using Fate = LateSample::Fate;

namespace {

bool are_finite(const std::vector<float>& values) noexcept {
  return std::all_of(values.begin(), values.end(), [](float value) { return std::isfinite(value); });
}

/// True for values that are so many rows of a width.
bool are_rows(const std::vector<float>& values, std::size_t width, std::uint64_t rows) noexcept {
  if (width == 0 || rows == 0) return values.empty();
  return values.size() % width == 0 && values.size() / width == rows && are_finite(values);
}

/// Samples that are told apart, a power of two.
std::uint64_t sample_count(const LearningOptions& options, std::uint32_t latency) noexcept {
  return std::bit_ceil(std::uint64_t{options.patience} + latency + 3);
}

std::string_view text_of(Fate fate) noexcept {
  switch (fate) {
    case Fate::learned:
      return "was learned from as it entered";
    case Fate::taught:
      return "has been taught already";
    case Fate::forgone:
      return "has been forgone";
    default:
      return "";
  }
}

}  // namespace

LateSamples::LateSamples(const mesh::Graph& graph, const LearningPlan& plan, const LearningOptions& options)
    : options_(options),
      latency_(plan.latency),
      deepest_(plan.deepest),
      ticks_per_sample_(options.schedule == Schedule::settle ? plan.hold : 1) {
  if (!is_on()) return;
  for (mesh::NodeId port = 0; port < graph.port_count(); ++port) {
    widths_.ports.push_back(graph.nodes()[port].width);
    widths_.inputs += graph.nodes()[port].width;
  }
  for (const mesh::NodeId output : graph.outputs()) {
    const std::size_t parts = parts_of(graph.nodes()[output], options).size() - 1;
    widths_.outputs += graph.nodes()[output].width;
    widths_.labels.push_back(parts * options.learners);
    widths_.values.push_back(graph.nodes()[output].width * options.learners);
  }
  samples_.resize(sample_count(options, latency_));
  mask_ = samples_.size() - 1;
  kinds_.assign(plan.ring, kShownAgain);
  ring_mask_ = plan.ring - 1;
  if (has_entries()) entries_.ring.resize(plan.ring);
}

// Places of samples are used again with the memory of those that were there: in time each has had one.
std::uint64_t LateSamples::bytes_for(const mesh::Graph& graph, const LearningOptions& options, std::size_t sessions,
                                     std::uint32_t latency, std::uint64_t ring) {
  if (options.late == Late::none) return 0;
  std::uint64_t inputs = 0, outputs = 0, words = 0;
  for (mesh::NodeId port = 0; port < graph.port_count(); ++port) inputs += graph.nodes()[port].width;
  for (const mesh::NodeId output : graph.outputs()) {
    const mesh::Node& node = graph.nodes()[output];
    outputs += node.width;
    words += options.learners * (parts_of(node, options).size() - 1 + node.width + 1);
  }
  words += sessions * (outputs + (options.late == Late::again ? inputs : 0));
  const std::uint64_t each = sizeof(LateSample) + graph.outputs().size() * sizeof(TargetRow) + words * sizeof(float);
  const bool has_entries = options.late == Late::meet && options.schedule == Schedule::pipelined;
  const std::uint64_t step = sizeof(std::uint64_t) + (has_entries ? sizeof(Entry) : 0);
  return sample_count(options, latency) * (each + sizeof(Ticket)) + ring * step;
}

std::uint64_t LateSamples::patience() const noexcept {
  // The answer of a pipelined sample leaves as the last of so many samples enters.
  return options_.patience + std::uint64_t{options_.schedule == Schedule::pipelined ? latency_ - 1 : 0};
}

void LateSamples::follow(const mesh::Mesh& mesh) {
  const Sessions now{mesh.sessions(), mesh::MeshAccess::sessions_created(mesh)};
  if (sessions_ == now) return;
  sessions_ = now;
  while (!open_.empty()) close(at(open_.front()), Fate::expired);
  forget_errors();
}

void LateSamples::forget_errors() noexcept {
  entries_.next = {};
  for (Entry& each : entries_.ring) each = {};
}

Status LateSamples::check_sessions(const mesh::Mesh& mesh) const {
  if (sessions_ == Sessions{mesh.sessions(), mesh::MeshAccess::sessions_created(mesh)}) return {};
  return weft::fail(Errc::timed_out, "all open samples have expired: sessions were added or removed since");
}

LateSample& LateSamples::slot(Ticket ticket, std::uint64_t position, Fate fate) {
  LateSample& sample = at(ticket);
  if (sample.fate == Fate::open) close(sample, Fate::expired);
  sample.ticket = ticket;
  sample.position = position;
  sample.fate = fate;
  sample.has_answer = sample.has_target = false;
  return sample;
}

void LateSamples::enter_learned(std::uint64_t position, std::uint64_t count) {
  for (std::uint64_t i = 0; i < count; ++i) {
    kinds_[(position + i) & ring_mask_] = entered_;
    slot(entered_++, position + i, Fate::learned);
  }
}

std::uint64_t LateSamples::free_slots() const noexcept {
  return open_.empty() ? UINT64_MAX : std::max<std::uint64_t>(samples_.size() - (entered_ - open_.front()), 1);
}

void LateSamples::end_run(std::uint64_t tick, std::uint64_t missing) {
  take_back(missing);
  expire(tick);
}

void LateSamples::take_back(std::uint64_t count) {
  for (; count > 0; --count) {
    LateSample& sample = at(--entered_);
    if (sample.fate == Fate::open) {
      std::erase(open_, sample.ticket);
      --counts_.observed;
    }
    sample.fate = Fate::none;
  }
}

LateSample& LateSamples::enter(std::uint64_t position, std::uint64_t end_tick) {
  LateSample& sample = slot(entered_, position, Fate::open);
  kinds_[position & ring_mask_] = kObserved;
  sample.end_tick = end_tick;
  sample.y.clear();
  sample.y.reserve(widths_.outputs * sessions_.now);
  if (options_.late == Late::again) sample.x.resize(widths_.inputs * sessions_.now);
  open_.push_back(entered_++);
  ++counts_.observed;
  return sample;
}

std::optional<Ticket> LateSamples::ticket_of(std::uint64_t position) const noexcept {
  const std::uint64_t kind = kinds_[position & ring_mask_];
  return kind == kObserved || kind == kShownAgain ? std::nullopt : std::optional<Ticket>(kind);
}

Status LateSamples::check_on() const {
  if (is_on()) return {};
  return weft::fail(Errc::unsupported, "learning.late is 'none'; with 'meet' or 'again' samples may be taught later");
}

Result<const LateSample*> LateSamples::find(Ticket ticket, bool or_taught) const {
  WEFT_CHECK(check_on());
  const std::string object = "sample " + std::to_string(ticket) + ": ";
  if (ticket >= entered_)
    return weft::fail(Errc::out_of_range,
                      object + "unknown; " + std::to_string(entered_) + " samples have entered, numbered from 0");
  const LateSample& sample = samples_[ticket & mask_];
  if (sample.ticket == ticket && sample.fate == Fate::open && (or_taught || !sample.has_target)) return &sample;
  if (sample.ticket != ticket || sample.fate == Fate::expired || sample.fate == Fate::none)
    return weft::fail(Errc::timed_out, object + "expired; learning.patience keeps a sample until " +
                                           std::to_string(options_.patience) + " others have entered after its answer");
  return weft::fail(
      Errc::invalid_argument,
      object + std::string(text_of(sample.has_target && sample.fate == Fate::open ? Fate::taught : sample.fate)));
}

void LateSamples::close(LateSample& sample, Fate fate) {
  std::erase(open_, sample.ticket);
  sample.fate = fate;
  if (fate == Fate::taught) ++counts_.taught;
  if (fate == Fate::forgone) ++counts_.forgone;
  if (fate != Fate::expired) return;
  ++counts_.expired;
  expired_.push_back(sample.ticket);
}

void LateSamples::expire(std::uint64_t tick) {
  const std::uint64_t kept = options_.patience * ticks_per_sample_;
  while (!open_.empty()) {
    LateSample& sample = at(open_.front());
    const bool is_over =
        options_.late == Late::meet ? tick > sample.end_tick + kept : entered_ - sample.ticket - 1 > patience();
    if (!is_over) return;
    close(sample, Fate::expired);
  }
}

bool LateSamples::awaits_answers() const noexcept {
  return !open_.empty() && !samples_[open_.back() & mask_].has_answer;
}

LateSample* LateSamples::answered_at(std::uint64_t tick) noexcept {
  for (const Ticket ticket : open_)
    if (LateSample& sample = at(ticket); !sample.has_answer && sample.end_tick == tick) return &sample;
  return nullptr;
}

/// The learners' rows of arrays [sessions][width], one after another; widths in `each` floats.
std::vector<float> LateSamples::learner_rows(const std::vector<float>& all, const std::vector<std::size_t>& widths,
                                             std::size_t each) const {
  std::vector<float> rows;
  std::size_t at = 0;
  for (const std::size_t floats : widths) {
    const std::size_t width = floats / each;
    if (at + width * options_.learners > all.size()) break;
    rows.insert(rows.end(), all.begin() + static_cast<std::ptrdiff_t>(at),
                all.begin() + static_cast<std::ptrdiff_t>(at + width * options_.learners));
    at += width * sessions_.now;
  }
  return rows;
}

bool LateSamples::fits(std::span<const OutputRing> outputs, const SampleClock& clock) const {
  const auto fits_entry = [&](const Entry& each) { return !each.is_one || each.position < clock.now.samples; };
  if (clock.now.samples - clock.now.scored > kinds_.size() || sessions_.now > sessions_.created ||
      !fits_entry(entries_.next) || !std::all_of(entries_.ring.begin(), entries_.ring.end(), fits_entry))
    return false;
  const auto open = std::count_if(samples_.begin(), samples_.end(),
                                  [](const LateSample& sample) { return sample.fate == Fate::open; });
  if (open != static_cast<std::ptrdiff_t>(open_.size())) return false;
  for (std::size_t i = 0; i < open_.size(); ++i) {
    const Ticket ticket = open_[i];
    const LateSample& sample = samples_[ticket & mask_];
    if (ticket >= entered_ || entered_ - ticket > samples_.size() || (i > 0 && ticket <= open_[i - 1]) ||
        sample.ticket != ticket || sample.fate != Fate::open || !fits_open(sample, outputs, clock))
      return false;
  }
  return true;
}

bool LateSamples::fits_open(const LateSample& sample, std::span<const OutputRing> outputs,
                            const SampleClock& clock) const {
  // A sample with both is closed.
  if (sample.position >= clock.now.samples || (sample.has_answer && sample.has_target)) return false;
  if (!are_rows(sample.x, options_.late == Late::again ? widths_.inputs : 0, sessions_.now) ||
      !are_rows(sample.y, sample.has_answer ? widths_.outputs : 0, sessions_.now))
    return false;
  for (std::size_t o = 0; o < outputs.size() && sample.has_target; ++o)
    if (!fits_target(sample.target[o], outputs[o], widths_.labels[o], widths_.values[o])) return false;
  return true;
}

bool LateSamples::fits_target(const TargetRow& row, const OutputRing& output, std::size_t labels,
                              std::size_t values) const {
  if (row.labels.size() != labels || row.weights.size() != options_.learners) return false;
  bool has_target = false, has_gradient = false;
  for (std::size_t i = 0; i < labels; ++i) {
    const std::size_t part = i % output.tokens, classes = output.starts[part + 1] - output.starts[part];
    const std::uint32_t label = row.labels[i];
    has_target = has_target || label != kNoLabel;
    has_gradient = has_gradient || label == kGradient;
    if (label < kGradient && label >= classes) return false;
  }
  const bool takes_values = has_gradient || (has_target && targets_of(options_.loss) == LossTargets::values);
  return are_rows(row.values, takes_values ? values : 0, 1) && are_finite(row.weights) &&
         std::all_of(row.weights.begin(), row.weights.end(), [](float weight) { return weight >= 0.0f; });
}

}  // namespace weft::learning
