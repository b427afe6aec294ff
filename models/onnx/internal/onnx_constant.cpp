// SPDX-License-Identifier: Apache-2.0

#include "models/onnx/internal/onnx_constant.hpp"

#include "core/numeric.hpp"
#include "core/printable.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

namespace weft::models::onnx {
namespace {

using formats::OnnxNode;

std::size_t bytes_of(std::string_view type) noexcept {
  const formats::OnnxType* const known = formats::find_onnx_type(type);
  return known && known->bits % 8 == 0 ? known->bits / 8 : 0;
}

template <class Number, class Value>
void store(std::span<const Value> values, std::byte* to) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto number = static_cast<Number>(values[i]);
    std::memcpy(to + i * sizeof number, &number, sizeof number);
  }
}
template <class Number, class Value>
void load(ByteSpan bytes, std::vector<Value>& to) {
  for (std::size_t i = 0; i < to.size(); ++i) {
    Number number;
    std::memcpy(&number, bytes.data() + i * sizeof number, sizeof number);
    to[i] = static_cast<Value>(number);
  }
}

Constant owning(std::string type, Shape shape, ByteBuffer bytes) {
  auto owned = std::make_shared<const ByteBuffer>(std::move(bytes));
  return {std::move(type), std::move(shape), *owned, owned};
}

Failure wrong_kind(const OnnxNode&, std::string_view key, std::string_view expected) {
  return fail(Errc::corrupt, "attribute '" + std::string(key) + "' is no " + std::string(expected));
}

}  // namespace

std::size_t Constant::count() const noexcept {
  std::size_t count = 1;
  for (const std::size_t extent : shape) count *= extent;
  return count;
}

bool is_integer_type(std::string_view type) noexcept {
  return type == "BOOL" || type == "int8" || type == "uint8" || type == "int16" || type == "uint16" ||
         type == "int32" || type == "uint32" || type == "int64" || type == "uint64";
}
bool is_real_type(std::string_view type) noexcept {
  return type == "float32" || type == "float64" || type == "float16" || type == "bfloat16";
}

Result<std::vector<std::int64_t>> integers_of(const Constant& constant) {
  std::vector<std::int64_t> values(constant.count());
  const std::string_view type = constant.type;
  if (type == "int64" || type == "uint64")
    load<std::int64_t>(constant.bytes, values);
  else if (type == "int32")
    load<std::int32_t>(constant.bytes, values);
  else if (type == "uint32")
    load<std::uint32_t>(constant.bytes, values);
  else if (type == "int16")
    load<std::int16_t>(constant.bytes, values);
  else if (type == "uint16")
    load<std::uint16_t>(constant.bytes, values);
  else if (type == "int8")
    load<std::int8_t>(constant.bytes, values);
  else if (type == "uint8" || type == "BOOL")
    load<std::uint8_t>(constant.bytes, values);
  else if (type == "int4" || type == "uint4")
    for (std::size_t i = 0; i < values.size(); ++i) {  // two to a byte, the first in the low bits
      const auto code = std::to_integer<std::int64_t>(constant.bytes[i / 2]) >> (i % 2 * 4) & 15;
      values[i] = type == "int4" && code >= 8 ? code - 16 : code;
    }
  else
    return fail(Errc::unsupported, std::string(type) + " where whole numbers are expected");
  return values;
}

Result<std::vector<double>> reals_of(const Constant& constant) {
  std::vector<double> values(constant.count());
  const auto decode = [&](auto of_code) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      std::uint16_t code;
      std::memcpy(&code, constant.bytes.data() + 2 * i, sizeof code);
      values[i] = static_cast<double>(of_code(code));
    }
  };
  if (constant.type == "float32")
    load<float>(constant.bytes, values);
  else if (constant.type == "float64")
    load<double>(constant.bytes, values);
  else if (constant.type == "float16")
    decode([](std::uint16_t code) { return numeric::Float16::decode(code); });
  else if (constant.type == "bfloat16")
    decode([](std::uint16_t code) { return numeric::Bfloat16::decode(code); });
  else
    return fail(Errc::unsupported, constant.type + " where floats are expected");
  return values;
}

Constant integers(std::string type, Shape shape, std::span<const std::int64_t> values) {
  ByteBuffer bytes(values.size() * bytes_of(type));
  if (type == "int64" || type == "uint64")
    store<std::int64_t>(values, bytes.data());
  else if (type == "int32" || type == "uint32")
    store<std::uint32_t>(values, bytes.data());
  else if (type == "int16" || type == "uint16")
    store<std::uint16_t>(values, bytes.data());
  else
    store<std::uint8_t>(values, bytes.data());
  return owning(std::move(type), std::move(shape), std::move(bytes));
}

Constant reals(std::string type, Shape shape, std::span<const double> values) {
  if (type == "float64") {
    ByteBuffer bytes(values.size() * sizeof(double));
    store<double>(values, bytes.data());
    return owning(std::move(type), std::move(shape), std::move(bytes));
  }
  // The narrow types hold what they are computed to in float32, as their operators do here.
  ByteBuffer bytes(values.size() * sizeof(float));
  store<float>(values, bytes.data());
  return owning("float32", std::move(shape), std::move(bytes));
}

Result<std::int64_t> integer_of(const OnnxNode& node, std::string_view key, std::int64_t otherwise) {
  const formats::OnnxValue* const value = node.find(key);
  if (!value) return otherwise;
  if (const auto* number = std::get_if<std::int64_t>(value)) return *number;
  return wrong_kind(node, key, "whole number");
}
Result<double> real_of(const OnnxNode& node, std::string_view key, double otherwise) {
  const formats::OnnxValue* const value = node.find(key);
  if (!value) return otherwise;
  const auto* const number = std::get_if<float>(value);
  if (!number) return wrong_kind(node, key, "number");
  if (!std::isfinite(*number))
    return fail(Errc::corrupt,
                "attribute '" + std::string(key) + "' is " + std::to_string(*number) + ", expected a finite number");
  return static_cast<double>(*number);
}
Result<std::string> text_of(const OnnxNode& node, std::string_view key, std::string otherwise) {
  const formats::OnnxValue* const value = node.find(key);
  if (!value) return otherwise;
  if (const auto* text = std::get_if<std::string>(value)) return *text;
  return wrong_kind(node, key, "text");
}
Result<std::optional<std::vector<std::int64_t>>> integers_of(const OnnxNode& node, std::string_view key) {
  const formats::OnnxValue* const value = node.find(key);
  if (!value) return std::optional<std::vector<std::int64_t>>();
  if (const auto* list = std::get_if<std::vector<std::int64_t>>(value)) return std::optional(*list);
  return wrong_kind(node, key, "list of whole numbers");
}

Result<std::size_t> axis_of(std::int64_t axis, std::size_t rank) {
  const auto axes = static_cast<std::int64_t>(rank);
  if (axis < -axes || axis >= axes)
    return fail(Errc::corrupt, "axis " + std::to_string(axis) + " of a value with " + std::to_string(rank));
  return static_cast<std::size_t>(axis < 0 ? axis + axes : axis);
}

Constant moved(const Moved& move, std::span<const Operand> operands, std::size_t count) {
  const Constant& first = *operands[0].constant;
  if (move.is_same_order) return {first.type, move.shape, first.bytes, first.owned};
  const std::size_t size = bytes_of(first.type);
  std::vector<std::int64_t> begins{0};
  for (std::size_t i = 0; i < count; ++i)
    begins.push_back(begins.back() + static_cast<std::int64_t>(operands[i].constant->count()));
  ByteBuffer bytes(move.places.size() * size);
  for (std::size_t i = 0; i < move.places.size(); ++i) {
    const std::int64_t place = move.places[i];
    if (place < 0) {
      std::memset(bytes.data() + i * size, 0, size);
      continue;
    }
    const auto of =
        static_cast<std::size_t>(std::upper_bound(begins.begin(), begins.end(), place) - begins.begin()) - 1;
    std::memcpy(bytes.data() + i * size,
                operands[of].constant->bytes.data() + static_cast<std::size_t>(place - begins[of]) * size, size);
  }
  return owning(first.type, move.shape, std::move(bytes));
}

}  // namespace weft::models::onnx
