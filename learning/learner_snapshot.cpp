// SPDX-License-Identifier: Apache-2.0

#include "learning/learner_snapshot.hpp"

#include <algorithm>
#include <cmath>

namespace weft::learning {
namespace {
std::string slot_name(std::size_t slot, std::size_t parameter) {
  return "learning/optimizer/" + std::to_string(slot) + "/" + std::to_string(parameter);
}
}  // namespace

LearnerBlobs::LearnerBlobs(Learner& learner) {
  const auto parameters = learner.mesh().weights().parameters();
  Optimizer& optimizer = learner.optimizer();
  for (std::size_t s = 0; s < optimizer.slots(); ++s)
    for (std::size_t i = 0; i < parameters.size(); ++i)
      blobs_.push_back(formats::make_blob(
          slot_name(s, i), std::span<const float>(optimizer.slot(s, i), parameters[i].spec->stored_size())));
  updates_.assign(optimizer.updates().begin(), optimizer.updates().end());
  flight_ = learner.save_flight();
  blobs_.push_back(formats::make_blob("learning/updates", std::span<const std::uint64_t>(updates_)));
  blobs_.push_back(formats::make_blob("learning/flight", std::span<const std::uint32_t>(flight_)));
}

Status restore_learner(Learner& learner, const formats::EntityFile& file) {
  const auto parameters = learner.mesh().weights().parameters();
  Optimizer& optimizer = learner.optimizer();
  for (std::size_t s = 0; s < optimizer.slots(); ++s)
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const std::string name = slot_name(s, i);
      WEFT_TRY(const auto values, file.values<float>(name, {parameters[i].spec->stored_size()}));
      if (!std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); }))
        return fail(Errc::corrupt, name + ": holds a value that is not finite");
      std::copy(values.begin(), values.end(), optimizer.slot(s, i));
      file.forget(name);
    }
  WEFT_TRY(const auto updates, file.values<std::uint64_t>("learning/updates", {optimizer.updates().size()}));
  std::copy(updates.begin(), updates.end(), optimizer.updates().begin());
  WEFT_TRY(const auto flight, file.values<std::uint32_t>("learning/flight"));
  WEFT_CHECK(file.intact());
  WEFT_CHECK(learner.load_flight(flight));
  // The optimiser's state is part of what a cell's restart goes back to.
  learner.mesh().mark_checkpoint();
  return {};
}

}  // namespace weft::learning
