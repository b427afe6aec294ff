// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "models/tensor_layout.hpp"

#include "mesh/fwd.hpp"

#include "formats/tensor_file.hpp"

#include "core/result.hpp"
#include "core/shape.hpp"

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weft::models::internal {

/// A parameter of a mesh and its place in a tensor.
struct Slice {
  std::size_t parameter = 0;  // of the mesh's
  TensorLayout layout;
};

/// A tensor that is written, made of parameters.
struct PlannedTensor {
  std::string name;
  std::string type = "float32";  // as Tensor::type has it
  Shape shape;
  std::vector<Slice> slices;
  enum class Form {
    values,         // numbers, or blocks that are made of them
    blocks,         // the codes that the parameters have
    packed_ternary  // codes four a byte: kPackedTernary
  } form = Form::values;

  bool is_matrix() const noexcept { return shape.size() == 2; }
};

/// The values of all of it. @pre the form is `values`
std::vector<float> values_of(const mesh::Mesh& mesh, const PlannedTensor& tensor);
/// The type of blocks that hold the codes of its parameters and the scales beside them; nothing where one has none.
std::optional<std::string_view> block_type(const mesh::Mesh& mesh, const PlannedTensor& tensor);
/// True where a type of 16 bits holds all values.
bool holds_values(std::string_view type, const std::vector<float>& values);

/// Bytes that writing it takes beside the mesh, at most.
std::uint64_t bytes_to_write(const mesh::Mesh& mesh, const PlannedTensor& tensor);

/// A tensor to be written, which shares the mesh. Producing: @error not_finite: a value that the type does not hold
Result<formats::Tensor> tensor_of(std::shared_ptr<const mesh::Mesh> mesh, const PlannedTensor& planned);

}  // namespace weft::models::internal
