// SPDX-License-Identifier: Apache-2.0

// A learner's part of a state in memory (Mesh::save_state).

#include "learning/learner.hpp"

#include <string>

namespace weft::learning {

namespace {
/// What arrays of one size may still mean differently.
std::uint64_t kind_of(const LearningOptions& options) noexcept {
  return static_cast<std::uint64_t>(options.rule) | static_cast<std::uint64_t>(options.schedule) << 8 |
         static_cast<std::uint64_t>(options.loss) << 16 | static_cast<std::uint64_t>(options.optimizer.kind) << 24;
}
constexpr std::size_t kCounters = 8;  // u64 words before the arrays
}  // namespace

template <class Visit>
void Learner::each_array(bool with_weights, Visit&& visit) {
  visit(std::span<float>(boxes_));
  visit(std::span<std::array<float, 2>>(gradient_sizes_));
  for (OutputPlan& output : outputs_) {
    visit(std::span<std::uint32_t>(output.labels));
    visit(std::span<std::uint32_t>(output.classes));
    visit(std::span<std::uint32_t>(output.predictions));
    visit(std::span<float>(output.losses));
    visit(std::span<float>(output.values));
  }
  if (!with_weights) return;
  visit(optimizer_.updates());
  const auto parameters = mesh_.weights().parameters();
  for (std::size_t s = 0; s < optimizer_.slots(); ++s)
    for (std::size_t i = 0; i < parameters.size(); ++i)
      visit(std::span<float>(optimizer_.slot(s, i), parameters[i].spec->stored_size()));
}

void Learner::save_state(mesh::ByteArchive& to, bool with_weights) const {
  std::size_t size = kCounters * sizeof(std::uint64_t);
  auto& self = const_cast<Learner&>(*this);  // the arrays are read only
  self.each_array(with_weights, [&](auto values) { size += values.size_bytes(); });
  to.reserve(size + pending_scores_.capacity() * sizeof(Score));
  to.put(std::uint64_t{size});
  to.put(kind_of(options_));
  for (const std::uint64_t counter :
       {samples_, scored_, steps_, birth_tick_, block_first_, std::uint64_t{pending_scores_.size()}})
    to.put(counter);
  self.each_array(with_weights,
                  [&](auto values) { to.put(std::span<const typename decltype(values)::element_type>(values)); });
  to.put(std::span<const Score>(pending_scores_));
}

Status Learner::load_state(const mesh::ByteArchive& from, bool with_weights) {
  std::size_t wanted = kCounters * sizeof(std::uint64_t);
  each_array(with_weights, [&](auto values) { wanted += values.size_bytes(); });
  mesh::ByteArchive::Reader reader(from);
  const bool has_head = from.size() >= kCounters * sizeof(std::uint64_t);
  const std::uint64_t size = has_head ? reader.get<std::uint64_t>() : 0;
  if (size != wanted || reader.get<std::uint64_t>() != kind_of(options_))
    return fail(
        Errc::shape_mismatch,
        "learner state: " + std::to_string(size) + " bytes where " + std::to_string(wanted) +
            " are expected, or of another rule, schedule, loss or optimizer; build the learner with the same options");
  for (std::uint64_t* const counter : {&samples_, &scored_, &steps_, &birth_tick_, &block_first_})
    *counter = reader.get<std::uint64_t>();
  pending_scores_.resize(reader.get<std::uint64_t>());
  each_array(with_weights, [&](auto values) { reader.get(values); });
  reader.get(std::span<Score>(pending_scores_));
  return {};
}

}  // namespace weft::learning
