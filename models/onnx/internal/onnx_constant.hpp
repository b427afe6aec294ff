// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "formats/onnx/onnx_model.hpp"

#include "core/bytes.hpp"
#include "core/encoding.hpp"
#include "core/result.hpp"
#include "core/shape.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weft::models::onnx {

/// Values that a shape has. @pre they are few enough to count
inline std::size_t elements_of(const Shape& shape) noexcept {
  std::size_t count = 1;
  for (const std::size_t extent : shape) count *= extent;
  return count;
}

/// A matrix as codes, scales and zero points, as DequantizeLinear has it. Scales are one for all, one for each place of
/// an axis, or one for each block of that.
struct QuantizedMatrix {
  std::string type;  // of the codes: int8, uint8, int4, uint4; of products with inputs as int8 also ternary, binary
  std::vector<std::int16_t> codes, zero_points;
  std::vector<float> scales;
  std::size_t axis = 0, block = 0;            // block 0: each place
  Activations inputs = Activations::float32;  // what its products take
};

/// Values that are known before a network runs: of a file, or computed from such ones.
struct Constant {
  std::string type;  // as formats::OnnxType::name
  Shape shape;
  ByteSpan bytes;
  std::shared_ptr<const ByteBuffer> owned = nullptr;           // where the bytes are no file's
  std::shared_ptr<const QuantizedMatrix> quantized = nullptr;  // what they were made of

  std::size_t count() const noexcept;
};

/// Most values that are moved at once, and that a constant is computed to have.
inline constexpr std::size_t kMostMoved = std::size_t{1} << 26, kMostFolded = std::size_t{1} << 24;

bool is_integer_type(std::string_view type) noexcept;  // and BOOL
bool is_real_type(std::string_view type) noexcept;

/// @error unsupported: a type that is no whole number, or not of whole bytes
Result<std::vector<std::int64_t>> integers_of(const Constant& constant);
/// @error unsupported: a type that is no float
Result<std::vector<double>> reals_of(const Constant& constant);
/// In `type`, of integers or of reals: each number as the type has it.
Constant integers(std::string type, Shape shape, std::span<const std::int64_t> values);
Constant reals(std::string type, Shape shape, std::span<const double> values);

// Attributes. @error corrupt: a value of another kind
Result<std::int64_t> integer_of(const formats::OnnxNode& node, std::string_view key, std::int64_t otherwise);
Result<double> real_of(const formats::OnnxNode& node, std::string_view key, double otherwise);
Result<std::string> text_of(const formats::OnnxNode& node, std::string_view key, std::string otherwise);
/// None: not given.
Result<std::optional<std::vector<std::int64_t>>> integers_of(const formats::OnnxNode& node, std::string_view key);
/// An axis counted from the end where it is below 0. @error corrupt: outside the rank
Result<std::size_t> axis_of(std::int64_t axis, std::size_t rank);

/// Input of a node. Null: not given.
struct Operand {
  const Shape* shape = nullptr;
  const Constant* constant = nullptr;  // null: known only when the network runs
};

/// Values of the operands, one after the other, in another order: what a node does that computes nothing.
struct Moved {
  Shape shape;
  bool is_same_order = false;          // `places` is not filled
  std::vector<std::int64_t> places{};  // -1: a zero
};
/// True for operators that compute nothing.
bool is_move(std::string_view type) noexcept;
/// Number of operands that are moved: the others say how.
std::size_t moved_operands(const formats::OnnxNode& node) noexcept;
/// One for each output of the node.
/// @error unsupported: what is not known says how, or a kind that is not done; corrupt; too_large
Result<std::vector<Moved>> moves_of(const formats::OnnxNode& node, std::span<const Operand> operands,
                                    std::int64_t opset);
/// The same of constants. @pre all moved operands are
Constant moved(const Moved& move, std::span<const Operand> operands, std::size_t count);

/// True for an operator that values which are known before the network runs may go through, beside sums and the like.
bool is_computed(std::string_view type) noexcept;
/// Result of a node whose operands are all constants. @error unsupported: it cannot be computed so; corrupt; too_large
Result<Constant> computed(const formats::OnnxNode& node, std::span<const Operand> operands, std::int64_t opset);

}  // namespace weft::models::onnx
