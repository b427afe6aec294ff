// SPDX-License-Identifier: Apache-2.0

#include "learning/learner_snapshot.hpp"

#include "mesh/mesh_access.hpp"
#include "mesh/weights/weight_store.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

namespace weft::learning {
namespace {
std::string slot_name(std::size_t slot, std::size_t parameter) {
  return "learning/optimizer/" + std::to_string(slot) + "/" + std::to_string(parameter);
}
}  // namespace

bool LearnerBlobs::fits(const mesh::WeightStore& weights, const Optimizer& optimizer) const noexcept {
  const auto parameters = weights.parameters();
  if (blobs_.empty() || slots_ != optimizer.slots() || arrays_.size() != slots_ * parameters.size()) return false;
  for (std::size_t a = 0; a < arrays_.size(); ++a)
    if (arrays_[a].size != optimizer.slot_size(a % parameters.size())) return false;
  const auto is_at = [](const formats::Tensor& blob, const auto& values) {
    const auto bytes = std::as_bytes(std::span(values));
    return blob.bytes.data() == bytes.data() && blob.bytes.size() == bytes.size();
  };
  return is_at(blobs_[arrays_.size()], updates_) && is_at(blobs_[arrays_.size() + 1], in_flight_);
}

void LearnerBlobs::capture(Learner& learner) {
  const mesh::WeightStore& weights = mesh::MeshAccess::weights(std::as_const(learner.mesh()));
  const auto parameters = weights.parameters();
  const Optimizer& optimizer = std::as_const(learner).optimizer();
  updates_.assign(optimizer.updates().begin(), optimizer.updates().end());
  learner.save_in_flight(in_flight_);
  if (!fits(weights, optimizer)) {
    blobs_.clear();
    arrays_.clear();
    first_.clear();
    slots_ = optimizer.slots();
    std::size_t floats = 0;
    for (std::size_t s = 0; s < slots_; ++s)
      for (std::size_t i = 0; i < parameters.size(); ++i) {
        arrays_.push_back({floats, optimizer.slot_size(i)});
        floats += optimizer.slot_size(i);
      }
    floats_ = AlignedBuffer<float>(floats);
    for (std::size_t a = 0; a < arrays_.size(); ++a)
      blobs_.push_back(
          formats::make_tensor(slot_name(a / parameters.size(), a % parameters.size()),
                               std::span<const float>(floats_.data() + arrays_[a].offset, arrays_[a].size)));
    for (mesh::NodeId node = 0; node < weights.node_count(); ++node) first_.push_back(weights.first(node));
    first_.push_back(parameters.size());
    blobs_.push_back(formats::make_tensor("learning/updates", std::span<const std::uint64_t>(updates_)));
    blobs_.push_back(formats::make_tensor("learning/in_flight", std::span<const std::uint32_t>(in_flight_)));
  }
  copies_.clear();
  for (std::size_t a = 0; a < arrays_.size(); ++a)
    copies_.add(floats_.data() + arrays_[a].offset, optimizer.slot(a / parameters.size(), a % parameters.size()),
                arrays_[a].size * sizeof(float));
  copies_.make(mesh::MeshAccess::executor(learner.mesh()));
}

void LearnerBlobs::hash_layer(mesh::NodeId node, StateHasher& hasher) const {
  hasher.add(updates_[node]);
  const std::size_t parameters = first_.back();
  for (std::size_t s = 0; s < slots_; ++s)
    for (std::size_t i = first_[node]; i < first_[node + 1]; ++i) {
      const Array& array = arrays_[s * parameters + i];
      hasher.add(std::span<const float>(floats_.data() + array.offset, array.size));
    }
}

std::vector<formats::Tensor> learner_tensors(Learner& learner) {
  const auto parameters = mesh::MeshAccess::weights(std::as_const(learner.mesh())).parameters();
  const Optimizer& optimizer = std::as_const(learner).optimizer();
  std::vector<formats::Tensor> tensors;
  for (std::size_t s = 0; s < optimizer.slots(); ++s)
    for (std::size_t i = 0; i < parameters.size(); ++i)
      tensors.push_back(
          formats::make_tensor(slot_name(s, i), std::span<const float>(optimizer.slot(s, i), optimizer.slot_size(i))));
  tensors.push_back(formats::make_tensor("learning/updates", optimizer.updates()));
  auto flight = std::make_shared<const std::vector<std::uint32_t>>(learner.save_in_flight());
  formats::Tensor under_way{"learning/in_flight", "u32", Shape{flight->size()}, {}};
  under_way.produce = [flight](const ByteSource::Sink& sink) { return sink(std::as_bytes(std::span(*flight))); };
  tensors.push_back(std::move(under_way));
  return tensors;
}

Status restore_learner(Learner& learner, const formats::EntityFile& file) {
  const auto parameters = mesh::MeshAccess::weights(learner.mesh()).parameters();
  Optimizer& optimizer = learner.optimizer();
  for (std::size_t s = 0; s < optimizer.slots(); ++s)
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const std::string name = slot_name(s, i);
      WEFT_TRY(const auto values, file.values<float>(name, {optimizer.slot_size(i)}));
      if (!std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); }))
        return fail(Errc::corrupt, name + ": holds a value that is not finite");
      std::copy(values.begin(), values.end(), optimizer.slot(s, i));
      file.forget(name);
    }
  WEFT_TRY(const auto updates, file.values<std::uint64_t>("learning/updates", {optimizer.updates().size()}));
  std::copy(updates.begin(), updates.end(), optimizer.updates().begin());
  WEFT_TRY(const auto flight, file.values<std::uint32_t>("learning/in_flight"));
  WEFT_CHECK(file.intact());
  WEFT_CHECK(learner.load_in_flight(flight));
  // The optimiser's state is part of what a cell's restart goes back to.
  learner.mesh().mark_checkpoint();
  return {};
}

}  // namespace weft::learning
