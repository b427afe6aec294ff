// SPDX-License-Identifier: Apache-2.0

#include "bridge/internal/plan_writer.hpp"

#include <algorithm>

namespace weft::bridge::internal {
namespace {

std::size_t values_of(const Shape& shape) {
  std::size_t count = 1;
  for (const std::size_t extent : shape) count = extent > SIZE_MAX / count ? SIZE_MAX : count * extent;
  return count;
}

}  // namespace

PlanWriter::PlanWriter(Bedrock bedrock, const std::string& name, std::size_t layers, bool reshapes)
    : builder_(name, GridShape{.z = 1, .y = 1, .x = static_cast<std::uint32_t>(layers)}),
      reshapes_(reshapes),
      source_(Coord{}) {
  plan.bedrock = bedrock;
}

void PlanWriter::note_shape(const Shape& shape) { plan.widest = std::max(plan.widest, values_of(shape)); }

void PlanWriter::add_port(const std::string& name, Shape shape) {
  note_shape(shape);
  builder_.input(name, shape);
  ports_.push_back({name, std::move(shape)});
}

void PlanWriter::read_port(std::size_t port) {
  present_ = ports_[port].shape;
  source_ = mesh::Source(ports_[port].name);
  before_ = "the payload says";
}

Status PlanWriter::place(const Fields& fields, PlannedLayer layer) {
  const bool fits = reshapes_ ? values_of(present_) == values_of(layer.reads) : present_ == layer.reads;
  if (!fits)
    return fields.failure(Errc::shape_mismatch,
                          "input " + spelled(layer.reads) + ", but " + before_ + " " + spelled(present_));
  const Coord at{0, 0, static_cast<std::uint32_t>(placed_), 0};
  builder_.layer(at, layer.type, layer.out).from({source_});
  for (auto& [key, value] : layer.options) builder_.option(key, std::move(value));
  if (present_ != layer.reads) builder_.view(layer.reads);
  note_shape(layer.gives);
  present_ = std::move(layer.gives);
  source_ = mesh::Source(at);
  before_ = "layer " + std::to_string(placed_) + " gives";
  ++placed_;
  return {};
}

Status PlanWriter::place_sum(const Fields& fields, mesh::Source a, mesh::Source b, Shape shape) {
  if (present_ != shape)
    return fields.failure(Errc::shape_mismatch,
                          "input " + spelled(shape) + ", but " + before_ + " " + spelled(present_));
  const Coord at{0, 0, static_cast<std::uint32_t>(placed_), 0};
  builder_.layer(at, "residual").from({std::move(a), std::move(b)}, mesh::Combine::add);
  source_ = mesh::Source(at);
  before_ = "layer " + std::to_string(placed_) + " gives";
  ++placed_;
  return {};
}

void PlanWriter::add_parameter(const std::string& name, std::vector<float> values, bool counted) {
  if (counted) plan.weight_bytes += values.size() * sizeof(float);
  plan.parameters.push_back({last(), name, std::move(values)});
}

NetworkPlan PlanWriter::finish(std::size_t output_dim) && {
  builder_.output("out", last());
  plan.spec = std::move(builder_).spec();
  plan.row = values_of(present_);
  plan.output_dim = output_dim == 0 ? plan.row : std::min(output_dim, plan.row);
  return std::move(plan);
}

}  // namespace weft::bridge::internal
