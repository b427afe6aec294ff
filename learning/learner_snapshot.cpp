// SPDX-License-Identifier: Apache-2.0

#include "learning/learner_snapshot.hpp"

#include "learning/internal/learner_parts.hpp"
#include "learning/internal/packed_words.hpp"
#include "learning/internal/word_archives.hpp"
#include "learning/rules/rule.hpp"

#include "mesh/memory/byte_archive.hpp"
#include "mesh/mesh_access.hpp"
#include "mesh/runtime/step_rule.hpp"
#include "mesh/weights/weight_store.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <tuple>
#include <utility>

namespace weft::learning {
namespace {

using formats::Tensor;

constexpr Scopes kBeside{Scope::optimizer}, kUnderWay{Scope::messages};
constexpr const char* kFlight = "learning/in_flight";

std::string name_of(const Field& field) {
  std::string name = "learning/" + std::string(field.name);
  for (const std::uint32_t place : {field.first, field.second})
    if (place != Field::kOnly) name += "/" + std::to_string(place);
  return name;
}

Tensor tensor_of(const Field& field, Element element, ByteSpan bytes) {
  static constexpr std::pair<const char*, std::size_t> kTypes[] = {
      {"bytes", 1}, {"u32", 4}, {"u64", 8}, {"float32", 4}};
  const auto& [type, size] = kTypes[static_cast<std::size_t>(element)];
  return {name_of(field), type, Shape{bytes.size() / size}, bytes};
}

/// A tensor for each field.
class TensorArchive final : public OutArchive {
 public:
  TensorArchive() : OutArchive(kBeside) {}
  std::vector<Tensor> tensors;

 protected:
  void put(const Field& field, Element element, ByteSpan bytes) override {
    tensors.push_back(tensor_of(field, element, bytes));
  }
};

/// Fields of a layer's hash beside the optimizer's fields.
class OpenArchive final : public OutArchive {
 public:
  explicit OpenArchive(std::vector<std::byte>& to) : OutArchive(Scopes{Scope::control}), to_(to) {}

 protected:
  void put(const Field&, Element, ByteSpan bytes) override { to_.insert(to_.end(), bytes.begin(), bytes.end()); }

 private:
  std::vector<std::byte>& to_;
};

/// Fields out of tensors.
class FileArchive final : public InArchive {
 public:
  /// Takes a field, or leaves it as it is.
  using Takes = std::function<bool(const Field& field)>;
  explicit FileArchive(const formats::TensorFile& file, Takes takes = {})
      : InArchive(kBeside), file_(file), takes_(std::move(takes)) {}
  Status take_status() { return std::move(status_); }
  /// Arrays to be taken that the file does not have, or not of that size.
  std::size_t missing() const noexcept { return missing_; }

 protected:
  bool get(const Field& field, Element element, std::span<std::byte> to) override {
    if (takes_ && !takes_(field)) return false;
    if (takes_ && !fits(field, element, to)) {
      missing_ += !to.empty();
      return false;
    }
    status_ = read(field, element, to);
    if (!status_) fail();
    return true;
  }
  std::uint64_t left() const noexcept override { return UINT64_MAX; }

 private:
  bool fits(const Field& field, Element element, ByteSpan to) const {
    const Tensor wanted = tensor_of(field, element, to);
    return bool(file_.check(wanted.name, wanted.type, wanted.shape));
  }
  Status read(const Field& field, Element element, std::span<std::byte> to) {
    const Tensor wanted = tensor_of(field, element, to);
    WEFT_CHECK(file_.check(wanted.name, wanted.type, wanted.shape));
    std::size_t at = 0;
    return file_.read(wanted.name, sizeof(std::uint64_t), [&](ByteSpan part) -> Status {
      if (element == Element::float32) {
        const std::span values(reinterpret_cast<const float*>(part.data()), part.size() / sizeof(float));
        if (!std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); }))
          return weft::fail(Errc::corrupt, wanted.name + ": holds a value that is not finite");
      }
      std::memcpy(to.data() + at, part.data(), part.size());
      at += part.size();
      return {};
    });
  }

  const formats::TensorFile& file_;
  Takes takes_;
  std::size_t missing_ = 0;
  Status status_;
};

/// Lists have any length; where there are none, the number of words is known to who reads them.
void pack_messages(const mesh::RuleState& rule, std::span<const std::uint32_t> words,
                   std::vector<std::uint64_t>& packed) {
  constexpr std::size_t kFewWords = 1 << 16;
  packed.clear();
  if (words.size() < kFewWords) return;
  mesh::SizeArchive sizes(kUnderWay);
  rule.visit(sizes);
  if (sizes.size_with_lists() == sizes.size()) pack_words(words, packed);
}

Tensor flight_tensor(std::span<const std::uint32_t> words, std::span<const std::uint64_t> packed) {
  return packed.empty() ? formats::make_tensor(kFlight, words) : formats::make_tensor(kFlight, packed);
}

bool is_packed(const formats::TensorFile& file) {
  const auto found = file.describe(kFlight);
  return found && found->type == "u64";
}

}  // namespace

/// Copies fields to where a layout put them.
class LearnerSnapshot::Copier final : public OutArchive {
 public:
  explicit Copier(LearnerSnapshot& to) : OutArchive(kBeside), to_(to) {}
  /// True when there was a place for each field, and no more places.
  bool fits() const noexcept { return fits_ && next_ + 1 == to_.tensors_.size(); }

 protected:
  void put(const Field&, Element, ByteSpan bytes) override {
    fits_ = fits_ && next_ + 1 < to_.tensors_.size() && to_.tensors_[next_].bytes.size() == bytes.size();
    if (fits_) {
      const std::size_t at = static_cast<std::size_t>(to_.tensors_[next_].bytes.data() - to_.bytes_.data());
      to_.copies_.add(to_.bytes_.data() + at, bytes.data(), bytes.size());
    }
    ++next_;
  }

 private:
  LearnerSnapshot& to_;
  std::size_t next_ = 0;
  bool fits_ = true;
};

void LearnerSnapshot::take(Learner& learner) {
  const mesh::RuleState& rule = *learner.saved();
  kept_ticks_ = learning::kept_ticks(learner);
  mesh::MeshAccess::sync(learner.mesh(), false);
  messages_.clear();
  WordArchive words(messages_, kUnderWay);
  rule.visit(words);
  for (bool is_new = false;; is_new = true) {
    copies_.clear();
    Copier copier(*this);
    rule.visit(copier);
    if (copier.fits()) break;
    WEFT_ASSERT(!is_new, "a rule's fields differ from one visit to the next");
    TensorArchive all;
    rule.visit(all);
    tensors_ = std::move(all.tensors);
    const auto lines = [](std::size_t size) { return (size + 63) / 64 * 64; };
    std::size_t size = 0;
    for (const Tensor& tensor : tensors_) size += lines(tensor.bytes.size());
    bytes_ = AlignedBuffer<std::byte>(size);
    std::size_t at = 0;
    for (Tensor& tensor : tensors_) {
      const std::size_t own = tensor.bytes.size();
      tensor.bytes = ByteSpan(bytes_.data() + at, own);
      at += lines(own);
    }
    tensors_.emplace_back();
    const mesh::WeightStore& weights = mesh::MeshAccess::weights(std::as_const(learner.mesh()));
    inverses_ = inverse_nodes(learner);
    first_.clear();
    for (mesh::NodeId node = 0; node < weights.node_count(); ++node) first_.push_back(weights.first(node));
    first_.push_back(weights.parameters().size());
  }
  pack_messages(rule, messages_, packed_);
  const ByteSpan flight = packed_.empty() ? std::as_bytes(std::span(messages_)) : std::as_bytes(std::span(packed_));
  if (tensors_.back().bytes.data() != flight.data() || tensors_.back().bytes.size() != flight.size())
    tensors_.back() = flight_tensor(messages_, packed_);
  copies_.make(mesh::MeshAccess::executor(learner.mesh()));
  open_.clear();
  OpenArchive open(open_);
  rule.visit_layer(static_cast<mesh::NodeId>(first_.size() - 2), open);
}

void LearnerSnapshot::hash_layer(mesh::NodeId node, StateHasher& hasher) const {
  // Counts of updates by node, then arrays by slot and parameter (Optimizer::visit).
  hasher.add(tensors_.front().bytes.subspan(node * sizeof(std::uint64_t), sizeof(std::uint64_t)));
  const std::size_t parameters = first_.back(), arrays = tensors_.size() - 2 - inverses_.size(),
                    slots = arrays / std::max<std::size_t>(parameters, 1);
  for (std::size_t s = 0; s < slots; ++s)
    for (std::size_t i = first_[node]; i < first_[node + 1]; ++i) hasher.add(tensors_[1 + s * parameters + i].bytes);
  // Behind them the learned inverses (LearnedInverses::visit).
  for (std::size_t i = 0; i < inverses_.size(); ++i)
    if (inverses_[i] == node) hasher.add(tensors_[1 + arrays + i].bytes);
  if (node + 2 == first_.size() && !open_.empty()) hasher.add(ByteSpan(open_));
}

std::vector<Tensor> rule_tensors(const mesh::RuleState& rule) {
  TensorArchive archive;
  rule.visit(archive);
  auto words = std::make_shared<std::vector<std::uint32_t>>();
  WordArchive messages(*words, kUnderWay);
  rule.visit(messages);
  auto packed = std::make_shared<std::vector<std::uint64_t>>();
  pack_messages(rule, *words, *packed);
  if (!packed->empty()) *words = {};
  Tensor under_way = flight_tensor(*words, *packed);
  const ByteSpan bytes = std::exchange(under_way.bytes, {});
  under_way.produce = [words, packed, bytes](const ByteSource::Sink& sink) { return sink(bytes); };
  archive.tensors.push_back(std::move(under_way));
  return std::move(archive.tensors);
}

std::vector<Tensor> learner_tensors(Learner& learner) {
  mesh::MeshAccess::sync(learner.mesh(), false);
  return rule_tensors(*learner.saved());
}

Status restore_rule(mesh::RuleState& rule, const formats::TensorFile& file) {
  FileArchive archive(file);
  rule.visit(archive);
  WEFT_CHECK(archive.take_status());
  mesh::SizeArchive wanted(kUnderWay);
  std::as_const(rule).visit(wanted);
  std::vector<std::uint32_t> unpacked;
  std::span<const std::uint32_t> words;
  if (is_packed(file)) {
    WEFT_TRY(const auto packed, file.values<std::uint64_t>(kFlight));
    const std::size_t total = wanted.size() / sizeof(std::uint32_t);
    WEFT_TRY(unpacked, unpack_words(packed, total, total));
    words = unpacked;
  } else {
    WEFT_TRY(words, file.values<std::uint32_t>(kFlight));
  }
  // Lists come last, with their lengths.
  const bool has_lists = wanted.size_with_lists() > wanted.size();
  const std::size_t least = wanted.size() + (has_lists ? sizeof(std::uint64_t) : 0);
  if (has_lists ? words.size_bytes() < least : words.size_bytes() != least)
    return fail(Errc::shape_mismatch, "learner state: " + std::to_string(words.size()) + " words where " +
                                          std::to_string(wanted.size() / sizeof(std::uint32_t)) +
                                          " are expected; network or learning options differ");
  mesh::ReadArchive messages(std::as_bytes(words), kUnderWay);
  rule.visit(messages);
  if (messages.has_failed()) return fail(Errc::corrupt, "learner state: counters contradict each other");
  return file.intact();
}

Status restore_learner(Learner& learner, const formats::EntityFile& file) {
  mesh::MeshAccess::sync(learner.mesh(), true);
  WEFT_CHECK(restore_rule(*learner.saved(), file));
  WEFT_CHECK(learner.finish_restore());
  // The optimiser's state is part of what a cell's restart goes back to.
  mesh::MeshAccess::take_cell_snapshots(learner.mesh());
  return {};
}

namespace {

/// The arrays beside the weights are the same ones, in the same order.
bool keeps_arrays(const LearningOptions& was, const LearningOptions& now) {
  const auto has = [](const LearningOptions& options) {
    return std::tuple(options.optimizer.kind, kernels::arrays_of(options.optimizer), options.optimizer.centered,
                      options.traces, options.perturb.is_on(), options.consolidation.method, options.lora.rank,
                      options.lora.alpha, options.lora.matrices);
  };
  return has(was) == has(now);
}

/// Options that decide what is kept of earlier weights.
std::tuple<Swap, std::uint32_t, std::uint32_t> swap_of(const LearningOptions& options) {
  const DriftOptions& d = options.drift;
  if (!d.swaps()) return {};
  if (d.swap != Swap::best) return {d.swap, 0, 0};
  return {d.swap, d.swap_weights, d.swap_samples};
}

bool has_inverses(const LearningOptions& options) { return rule_of(options).feedback == FeedbackMatrices::learned; }

/// Samples that a learner had taken when it was saved.
Result<std::uint64_t> samples_in(const formats::EntityFile& file) {
  std::uint64_t samples = 0;  // the first of its fields
  std::vector<std::uint32_t> unpacked;
  std::span<const std::uint32_t> words;
  if (is_packed(file)) {
    WEFT_TRY(const auto packed, file.values<std::uint64_t>(kFlight));
    WEFT_TRY(unpacked, unpack_words(packed, 2, packed.empty() ? 0 : packed[0]));
    words = unpacked;
  } else {
    WEFT_TRY(words, file.values<std::uint32_t>(kFlight));
  }
  if (words.size_bytes() < sizeof(samples)) return fail(Errc::corrupt, "learner state: too short");
  std::memcpy(&samples, words.data(), sizeof(samples));
  return samples;
}

}  // namespace

bool keeps_meaning(const LearningOptions& was, const LearningOptions& now) {
  const auto means = [](const LearningOptions& options) {
    return std::tuple(options.rule, options.schedule, options.loss, options.horizon, options.hold, options.late,
                      options.patience, options.learners, options.drift.detector.kind, options.anomaly.is_on(),
                      options.replay.method, options.replay.samples, options.replay.capacity, options.weights,
                      options.renew.method, UnitRenewal::is_on(options), swap_of(options));
  };
  return means(was) == means(now) && keeps_arrays(was, now);
}

Result<std::vector<std::string>> take_over(Learner& learner, const LearnerBefore& before,
                                           const formats::EntityFile& file) {
  const LearningOptions &was = before.options, &now = learner.options();
  WEFT_TRY(const std::uint64_t samples, samples_in(file));
  const bool takes_arrays = keeps_arrays(was, now), takes_inverses = has_inverses(was) && has_inverses(now);
  FileArchive archive(file,
                      [&](const Field& field) { return field.name == "inverse" ? takes_inverses : takes_arrays; });
  mesh::MeshAccess::sync(learner.mesh(), true);
  learner.saved()->visit(archive);
  WEFT_CHECK(archive.take_status());
  if (was.late != Late::none && now.late != Late::none) number_from(learner, before.next_ticket);
  WEFT_CHECK(learner.finish_restore());
  mesh::MeshAccess::take_cell_snapshots(learner.mesh());
  std::vector<std::string> anew;
  if (samples == 0) return anew;
  const std::string optimizer(name(now.optimizer.kind));
  if (!takes_arrays) anew.push_back("state of the optimizer '" + optimizer + "' and counts of updates");
  if (has_inverses(now) && !takes_inverses) anew.push_back("learned inverses");
  if (const std::size_t n = archive.missing(); n > 0)
    anew.push_back(std::to_string(n) + (n == 1 ? " array" : " arrays") +
                   " beside weights, which the checkpoint does not have");
  const auto& nodes = learner.mesh().graph().nodes();
  const bool has_state = std::any_of(nodes.begin(), nodes.end(), [](const mesh::Node& node) {
    return !node.is_port() && node.layer->state_size() > 0;
  });
  if (has_state || was.schedule == Schedule::pipelined) anew.push_back("activations of earlier ticks");
  if (was.schedule == Schedule::pipelined) anew.push_back("errors on their way");
  if (before.open > 0) anew.push_back(std::to_string(before.open) + " open samples, which have expired");
  if (now.drift.is_on()) anew.push_back("the detector of drift");
  if (now.anomaly.is_on()) anew.push_back("mean and deviation of losses");
  if (now.replay.is_on()) anew.push_back("stored samples");
  if (UnitRenewal::is_on(now)) anew.push_back("utilities and ages of units");
  if (now.drift.swaps() && now.drift.swap == Swap::best) anew.push_back("earlier weights");
  return anew;
}

}  // namespace weft::learning
