// SPDX-License-Identifier: Apache-2.0

#include "learning/adapters.hpp"

#include "kernels/cpu_stream.hpp"
#include "kernels/float_environment.hpp"

#include "core/aligned_buffer.hpp"
#include "core/philox.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>
#include <string>
#include <string_view>

namespace weft::learning {
namespace {

using mesh::ParameterMemory;
using mesh::ParameterSpec;

/// "query" of "layers[1].query".
std::string_view last_part(std::string_view name) { return name.substr(name.rfind('.') + 1); }

bool is_chosen(const LoraOptions& options, const ParameterSpec& spec) {
  return spec.is_matrix() && (options.matrices.empty() || std::find(options.matrices.begin(), options.matrices.end(),
                                                                    last_part(spec.name)) != options.matrices.end());
}

std::size_t floats_for(const LoraOptions& options, const ParameterSpec& spec) {
  return options.rank * (ParameterMemory::padded(spec.in) + ParameterMemory::padded(spec.out));
}

}  // namespace

Result<Adapters> Adapters::build(const mesh::WeightStore& weights, const LoraOptions& options,
                                 const std::vector<bool>& learns, std::size_t arrays) {
  Adapters made;
  made.options_ = options;
  made.arrays_ = arrays;
  if (!options.is_on()) return made;
  std::set<std::string> names;
  bool has_any = false;
  for (std::size_t i = 0; i < learns.size(); ++i) {
    const ParameterSpec& spec = *weights.parameters()[i].spec;
    const bool is_adapted = learns[i] && is_chosen(options, spec);
    has_any |= is_adapted;
    if (learns[i] && spec.is_matrix()) names.emplace(last_part(spec.name));
    made.shapes_.push_back(
        {spec.out, spec.in, is_adapted ? floats_for(options, spec) : 0, is_adapted ? spec.stored_size() : 0});
  }
  if (!has_any) {
    std::string there;
    for (const std::string& name : names) there += (there.empty() ? "'" : ", '") + name + "'";
    return fail(Errc::invalid_argument, "learning.lora.matrices: no layer that learns has one of them" +
                                            (there.empty() ? ", nor any matrix" : "; there are " + there));
  }
  WEFT_TRY(made.gradients_, made.make_buffer(weights));
  WEFT_TRY(made.scaled_, made.make_buffer(weights));
  return made;
}

std::uint64_t Adapters::floats_of(const mesh::Graph& graph, const LoraOptions& options, std::size_t arrays) {
  std::uint64_t floats = 0;
  for (const mesh::Node& node : graph.nodes()) {
    if (!options.is_on() || node.is_port()) continue;
    for (const ParameterSpec& spec : node.layer->parameters())
      if (!node.freezes(spec) && is_chosen(options, spec))
        floats += (3 + arrays) * floats_for(options, spec) + spec.stored_size();
  }
  return floats;
}

Result<mesh::ParameterBuffer> Adapters::make_buffer(const mesh::WeightStore& weights) const {
  std::vector<std::size_t> floats;
  std::vector<bool> is_inside;
  for (const Shape& shape : shapes_) {
    floats.push_back(shape.floats);
    is_inside.push_back(shape.floats != 0);
  }
  return weights.memory().with_sizes(std::move(floats)).make_buffer(is_inside);
}

Result<std::vector<mesh::ParameterBuffer>> Adapters::make_slots(const mesh::WeightStore& weights,
                                                                std::uint64_t seed) const {
  std::vector<mesh::ParameterBuffer> slots;
  for (std::size_t slot = 0; slot <= values_slot(); ++slot) {
    WEFT_TRY(auto buffer, make_buffer(weights));
    slots.push_back(std::move(buffer));
  }
  std::vector<bool> is_adapted;
  for (const Shape& shape : shapes_) is_adapted.push_back(shape.floats != 0);
  WEFT_TRY(auto base, weights.memory().make_buffer(is_adapted));
  slots.push_back(std::move(base));
  for (std::size_t i = 0; i < shapes_.size(); ++i) {
    if (!has(i)) continue;
    draw(seed, i, slots[values_slot()].data(i));
    if (const float* const w = weights.parameters()[i].data)
      std::copy_n(w, shapes_[i].stored, slots[base_slot()].data(i));
  }
  return slots;
}

kernels::MatrixView Adapters::a(std::size_t parameter, float* values) const noexcept {
  const Shape& shape = shapes_[parameter];
  return {values, options_.rank, shape.in, ParameterMemory::padded(shape.in)};
}

kernels::MatrixView Adapters::b(std::size_t parameter, float* values) const noexcept {
  const Shape& shape = shapes_[parameter];
  return {values + options_.rank * ParameterMemory::padded(shape.in), options_.rank, shape.out,
          ParameterMemory::padded(shape.out)};
}

void Adapters::draw(std::uint64_t seed, std::size_t parameter, float* values) const {
  const kernels::MatrixView rows = a(parameter, values);
  RandomStream random(seed, parameter, RandomPurpose::adapter);
  const auto bound = static_cast<float>(1.0 / std::sqrt(static_cast<double>(rows.cols)));
  for (std::size_t r = 0; r < rows.rows; ++r)
    for (std::size_t k = 0; k < rows.cols; ++k) rows.row(r)[k] = (2.0f * random.next_uniform() - 1.0f) * bound;
}

// A product with panels takes rows: of A it gives dB transposed, of B transposed dA.
void Adapters::take_gradient(kernels::OpStream& stream, std::size_t parameter, const float* values,
                             const float* gradient) const {
  const Shape& shape = shapes_[parameter];
  const kernels::ConstMatrixView all{values, 1, shape.floats, shape.floats};
  float* const scaled = scaled_.data(parameter);
  stream.scale({options_.scale(), all, {scaled, 1, shape.floats, shape.floats}});
  const kernels::ConstPanels dw{gradient, shape.out, shape.in};
  float* const to = gradients_.data(parameter);
  // Padding of rows is moved too, by 0.
  stream.fill({0.0f, {to, 1, shape.floats, shape.floats}});
  stream.linear({dw, nullptr, a(parameter, scaled), kernels::Activation::linear, {}, b(parameter, to)});
  stream.linear_transposed({dw, b(parameter, scaled), a(parameter, to)});
}

void Adapters::compose(kernels::OpStream& stream, std::size_t parameter, const float* values, const float* base,
                       float* weights) const {
  const Shape& shape = shapes_[parameter];
  // Views that nothing is written through.
  float* const own = const_cast<float*>(values);
  const kernels::MatrixView scaled = b(parameter, scaled_.data(parameter));
  stream.scale({options_.scale(), b(parameter, own), scaled});
  stream.copy({{base, 1, shape.stored, shape.stored}, {weights, 1, shape.stored, shape.stored}});
  stream.outer_accumulate({scaled, a(parameter, own), {weights, shape.out, shape.in}});
}

void Adapters::follow(std::size_t parameter, float* values, float* base, const float* weights) const {
  const Shape& shape = shapes_[parameter];
  const kernels::FlushSubnormals exact;
  AlignedBuffer<float> composed(shape.stored);
  kernels::CpuStream stream;
  compose(stream, parameter, values, base, composed.data());
  if (std::memcmp(composed.data(), weights, shape.stored * sizeof(float)) == 0) return;
  std::copy_n(weights, shape.stored, base);
  const kernels::MatrixView rows = b(parameter, values);
  std::fill_n(rows.data, rows.rows * rows.stride, 0.0f);
}

}  // namespace weft::learning
