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

class Words {
 public:
  std::vector<std::uint32_t> all;
  void number(std::uint64_t value) {
    all.push_back(static_cast<std::uint32_t>(value));
    all.push_back(static_cast<std::uint32_t>(value >> 32));
  }
  template <class T>
  void list(const std::vector<T>& values) {
    number(values.size());
    for (const T value : values) all.push_back(std::bit_cast<std::uint32_t>(value));
  }
};

class WordReader {
 public:
  explicit WordReader(std::span<const std::uint32_t> words) : left_(words) {}
  std::uint64_t number() {
    if (left_.size() < 2) return fail();
    const std::uint64_t value = left_[0] | std::uint64_t{left_[1]} << 32;
    left_ = left_.subspan(2);
    return value;
  }
  /// A list of as many values as it must have, or none.
  template <class T>
  void list(std::vector<T>& values, std::uint64_t wanted, bool may_be_none = false) {
    const std::uint64_t size = number();
    if (size > left_.size() || (size != wanted && !(may_be_none && size == 0))) {
      fail();
      return;
    }
    values.resize(size);
    for (std::uint64_t i = 0; i < size; ++i) {
      values[i] = std::bit_cast<T>(left_[i]);
      if constexpr (std::is_same_v<T, float>)
        if (!std::isfinite(values[i])) fail();
    }
    left_ = left_.subspan(size);
  }
  bool is_good() const noexcept { return is_good_; }
  bool is_done() const noexcept { return is_good_ && left_.empty(); }
  std::uint64_t fail() noexcept {
    is_good_ = false;
    left_ = {};
    return 0;
  }

 private:
  std::span<const std::uint32_t> left_;
  bool is_good_ = true;
};

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
  samples_.resize(std::bit_ceil(std::uint64_t{options.patience} + latency_ + 3));
  mask_ = samples_.size() - 1;
  kinds_.assign(plan.ring, kShownAgain);
  ring_mask_ = plan.ring - 1;
  if (has_entries()) entries_.ring.resize(plan.ring);
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
  entries_.next.reset();
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
  sample.y.resize(widths_.outputs * sessions_.now);
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

std::vector<std::uint32_t> LateSamples::encode(bool whole, const SampleClock& clock) const {
  Words words;
  if (!whole && open_.empty()) return {};
  if (whole) {
    words.number(sessions_.now);
    for (const std::uint64_t value : {sessions_.created, entered_, counts_.observed, counts_.taught, counts_.forgone,
                                      counts_.expired, entries_.first_position, entries_.planned})
      words.number(value);
    for (std::uint64_t i = 0; i <= mask_; ++i) {
      words.number(samples_[i].ticket);
      words.number(static_cast<std::uint64_t>(samples_[i].fate));
    }
    for (std::uint64_t p = clock.now.scored; p < clock.now.samples; ++p) words.number(kinds_[p & ring_mask_]);
    const auto entry = [&](const Entry& each) {
      words.number(each.is_one);
      words.number(each.position);
      words.number(each.end_tick);
    };
    entry(entries_.next.value_or(Entry{}));
    for (std::uint64_t i = 0; i < deepest_ + entries_.planned && has_entries(); ++i)
      entry(this->entry(clock.now.steps - deepest_ + i));
  }
  words.number(open_.size());
  for (const Ticket ticket : open_) {
    const LateSample& sample = samples_[ticket & mask_];
    words.number(ticket);
    words.number(sample.position);
    words.number(sample.end_tick);
    words.number(sample.has_answer);
    words.number(sample.has_target);
    if (whole) {
      words.list(sample.x);
      words.list(sample.has_answer ? sample.y : std::vector<float>());
    } else {
      // Rows of learners alone: a state's hash does not know how many sessions are aboard.
      words.list(learner_rows(sample.x, widths_.ports));
      words.list(sample.has_answer ? learner_rows(sample.y, widths_.values, options_.learners) : std::vector<float>());
    }
    for (std::size_t o = 0; o < widths_.labels.size() && sample.has_target; ++o) {
      words.list(sample.target[o].labels);
      words.list(sample.target[o].values);
      words.list(sample.target[o].weights);
    }
  }
  return std::move(words.all);
}

bool LateSamples::decode(std::span<const std::uint32_t> from, const SampleClock& clock) {
  WordReader words(from);
  sessions_.now = words.number();
  for (std::uint64_t* const value : {&sessions_.created, &entered_, &counts_.observed, &counts_.taught,
                                     &counts_.forgone, &counts_.expired, &entries_.first_position, &entries_.planned})
    *value = words.number();
  if (entries_.planned > entries_.ring.size()) words.fail();
  for (LateSample& sample : samples_) {
    sample.ticket = words.number();
    const std::uint64_t fate = words.number();
    if (fate > static_cast<std::uint64_t>(Fate::expired)) words.fail();
    sample.fate = static_cast<Fate>(fate);
    if (sample.fate == Fate::open) sample.fate = Fate::none;  // until it is read below
  }
  if (clock.now.samples - clock.now.scored > kinds_.size()) words.fail();
  for (std::uint64_t p = clock.now.scored; p < clock.now.samples && words.is_good(); ++p)
    kinds_[p & ring_mask_] = words.number();
  const auto entry = [&] {
    Entry each;
    const std::uint64_t is_one = words.number();
    each.is_one = is_one == 1;
    each.position = words.number();
    each.end_tick = words.number();
    if (is_one > 1 || (each.is_one && each.position >= clock.now.samples)) words.fail();
    return each;
  };
  entries_.next = entry();
  if (!entries_.next->is_one) entries_.next.reset();
  for (Entry& each : entries_.ring) each = {};
  for (std::uint64_t i = 0; i < deepest_ + entries_.planned && has_entries() && words.is_good(); ++i)
    this->entry(clock.now.steps - deepest_ + i) = entry();
  open_.clear();
  expired_.clear();
  const std::uint64_t count = words.number();
  for (std::uint64_t i = 0; i < count && words.is_good(); ++i) {
    const Ticket ticket = words.number();
    if (ticket >= entered_ || entered_ - ticket > samples_.size() || (!open_.empty() && ticket <= open_.back())) {
      words.fail();
      break;
    }
    LateSample& sample = at(ticket);
    sample.ticket = ticket;
    sample.fate = Fate::open;
    sample.position = words.number();
    sample.end_tick = words.number();
    sample.has_answer = words.number() != 0;
    sample.has_target = words.number() != 0;
    if (sample.position >= clock.now.samples || sessions_.now > from.size()) words.fail();
    words.list(sample.x, options_.late == Late::again ? widths_.inputs * sessions_.now : 0);
    words.list(sample.y, widths_.outputs * sessions_.now, !sample.has_answer);
    sample.y.resize(widths_.outputs * sessions_.now);
    sample.target.resize(widths_.labels.size());
    for (std::size_t o = 0; o < widths_.labels.size() && sample.has_target; ++o) {
      words.list(sample.target[o].labels, widths_.labels[o]);
      words.list(sample.target[o].values, widths_.values[o], true);
      words.list(sample.target[o].weights, options_.learners);
    }
    open_.push_back(ticket);
  }
  return words.is_done();
}

bool LateSamples::fits(std::span<const OutputRing> outputs) const {
  const auto fits_output = [&](const TargetRow& row, const OutputRing& output) {
    bool has_target = false, has_gradient = false;
    for (std::size_t i = 0; i < row.labels.size(); ++i) {
      const std::size_t part = i % output.tokens, classes = output.starts[part + 1] - output.starts[part];
      const std::uint32_t label = row.labels[i];
      has_target = has_target || label != kNoLabel;
      has_gradient = has_gradient || label == kGradient;
      if (label != kNoLabel && label != kGradient && label >= classes) return false;
    }
    const bool takes_values = has_gradient || (has_target && targets_of(options_.loss) == LossTargets::values);
    return row.values.empty() != takes_values &&
           std::all_of(row.weights.begin(), row.weights.end(), [](float weight) { return weight >= 0.0f; });
  };
  return std::all_of(open_.begin(), open_.end(), [&](Ticket ticket) {
    const LateSample& sample = samples_[ticket & mask_];
    for (std::size_t o = 0; o < outputs.size() && sample.has_target; ++o)
      if (!fits_output(sample.target[o], outputs[o])) return false;
    return true;
  });
}

}  // namespace weft::learning
