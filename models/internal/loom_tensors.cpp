// SPDX-License-Identifier: Apache-2.0

#include "models/internal/loom_tensors.hpp"

#include "models/carriers.hpp"

#include "formats/loom/loom_blocks.hpp"

#include "core/dtype.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace weft::models::internal {
namespace {

using formats::LoomBlob;
using formats::Tensor;

std::size_t count_of(const Shape& shape) {
  std::size_t count = 1;
  for (const std::size_t extent : shape) count *= extent;
  return count;
}

bool is_plain(Dtype dtype) {
  return dtype == Dtype::float64 || dtype == Dtype::float32 || dtype == Dtype::float16 || dtype == Dtype::bfloat16;
}

std::span<float> as_floats(std::span<std::byte> bytes) {
  return {reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float)};
}

}  // namespace

void LoomTensors::add(std::string name, std::string type, Shape shape, std::size_t bytes, Fill fill) {
  fills_.insert_or_assign(name, Made{tensors_.size(), bytes, std::move(fill)});
  tensors_.push_back({std::move(name), std::move(type), std::move(shape), {}});
}

Status LoomTensors::add_numbers(std::string name, Shape shape, const LoomBlob& blob, std::size_t count,
                                std::size_t first) {
  WEFT_CHECK(formats::decode_weights_v1(blob, count, 0, {}));
  const Dtype dtype = blob.is_native ? blob.dtype : Dtype::float32;
  const std::size_t own = count_of(shape);
  if (is_plain(dtype)) {
    const std::size_t each = static_cast<std::size_t>(bits(dtype)) / 8;
    const ByteSpan bytes = blob.bytes.subspan(first * each, own * each);
    add(std::move(name), std::string(weft::name(dtype)), std::move(shape), bytes.size(),
        [bytes](std::span<std::byte> to) -> Status {
          std::copy(bytes.begin(), bytes.end(), to.begin());
          return {};
        });
    return {};
  }
  add(std::move(name), "float32", std::move(shape), own * sizeof(float), [blob, count, first](std::span<std::byte> to) {
    return formats::decode_weights_v1(blob, count, first, as_floats(to));
  });
  return {};
}

Status LoomTensors::add_blocks(std::string name, Shape shape, const LoomBlob& blob) {
  constexpr std::size_t kWeights = formats::LoomBlocks::kWeights, kCodes = formats::LoomBlocks::kCodeBytes;
  const std::size_t count = count_of(shape);
  WEFT_TRY(const formats::LoomBlocks blocks, formats::loom_blocks(blob, count));
  if (shape.back() % kWeights != 0) {
    add(std::move(name), "float32", std::move(shape), count * sizeof(float),
        [blocks](std::span<std::byte> to) -> Status {
          const std::span<float> values = as_floats(to);
          for (std::size_t i = 0; i < values.size(); ++i)
            values[i] = static_cast<float>(blocks.number(i)) * blocks.scale(i / kWeights);
          return {};
        });
    return {};
  }
  constexpr std::size_t kBytes = sizeof(float) + kCodes;
  add(std::move(name), std::string(kLoomBlocks), std::move(shape), count / kWeights * kBytes,
      [blocks](std::span<std::byte> to) -> Status {
        for (std::size_t b = 0; b < to.size() / kBytes; ++b) {
          std::memcpy(to.data() + b * kBytes, blocks.scales.data() + b * sizeof(float), sizeof(float));
          std::memcpy(to.data() + b * kBytes + sizeof(float), blocks.codes.data() + b * kCodes, kCodes);
        }
        return {};
      });
  return {};
}

Status LoomTensors::add_ternary(const std::string& name, const Shape& shape, const LoomBlob& blob) {
  WEFT_TRY(const formats::LoomTernary matrix, formats::loom_ternary(blob));
  if (Shape{matrix.rows, matrix.cols} != shape)
    return fail(Errc::shape_mismatch, "blob '" + blob.path + "': a matrix " +
                                          to_string(Shape{matrix.rows, matrix.cols}) + ", expected " +
                                          to_string(shape));
  if (matrix.rows % 4 != 0)
    return fail(Errc::unsupported,
                "blob '" + blob.path + "': " + std::to_string(matrix.rows) + " rows, no multiple of 4");
  const std::size_t rows = matrix.rows / 4;
  add(name, "uint8", Shape{rows, matrix.cols}, rows * matrix.cols, [matrix, rows](std::span<std::byte> to) -> Status {
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t k = 0; k < matrix.cols; ++k) {
        unsigned byte = 0;
        for (std::size_t lane = 0; lane < 4; ++lane) byte |= matrix.code(lane * rows + r, k) << 2 * lane;
        to[r * matrix.cols + k] = std::byte(byte);
      }
    return {};
  });
  add(name + "_scale", "float32", Shape{1}, sizeof(float), [scale = matrix.scale](std::span<std::byte> to) -> Status {
    as_floats(to)[0] = scale;
    return {};
  });
  return {};
}

void LoomTensors::add_ones(std::string name, std::size_t count) {
  add(std::move(name), "float32", Shape{count}, count * sizeof(float), [](std::span<std::byte> to) -> Status {
    std::fill_n(as_floats(to).begin(), to.size() / sizeof(float), 1.0f);
    return {};
  });
}

Result<Tensor> LoomTensors::describe(std::string_view name) const {
  const auto found = fills_.find(name);
  if (found == fills_.end()) return fail(Errc::not_found, "tensor '" + std::string(name) + "' is not in the file");
  return tensors_[found->second.index];
}

Result<Tensor> LoomTensors::find(std::string_view name) const {
  WEFT_TRY(Tensor tensor, describe(name));
  const Made& made = fills_.find(name)->second;
  const std::lock_guard lock(mutex_);
  auto held = held_.find(name);
  if (held == held_.end()) {
    AlignedBuffer<std::byte> bytes(made.bytes);
    WEFT_CHECK(made.fill({bytes.data(), bytes.size()}));
    WEFT_CHECK(file_.intact());
    held = held_.emplace(std::string(name), std::move(bytes)).first;
  }
  tensor.bytes = ByteSpan(held->second.data(), held->second.size());
  return tensor;
}

Status LoomTensors::read(std::string_view name, std::size_t unit, const ByteSource::Sink& sink) const {
  WEFT_TRY(const Tensor tensor, find(name));
  WEFT_CHECK(formats::each_part(tensor.bytes, unit, sink));
  forget(name);
  return {};
}

void LoomTensors::forget(std::string_view name) const noexcept {
  const std::lock_guard lock(mutex_);
  if (const auto held = held_.find(name); held != held_.end()) held_.erase(held);
}

}  // namespace weft::models::internal
