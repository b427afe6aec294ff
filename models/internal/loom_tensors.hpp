// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "formats/loom/loom_entity.hpp"
#include "formats/tensor_file.hpp"

#include "core/aligned_buffer.hpp"
#include "core/result.hpp"
#include "core/shape.hpp"

#include <cstddef>
#include <functional>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weft::models::internal {

/// Tensors that are parts of blobs of a file of Loom, made when they are asked for. What `find` made is kept until
/// `forget`.
/// @thread any, once all are added
class LoomTensors final : public formats::TensorFile {
 public:
  explicit LoomTensors(formats::LoomEntityFile file) : file_(std::move(file)) {}

  /// Weights from `first` on of a blob that holds `count`: in their type where it is a plain float, else as float32.
  /// @error as decode_weights_v1 of none of them
  Status add_numbers(std::string name, Shape shape, const formats::LoomBlob& blob, std::size_t count,
                     std::size_t first);
  /// A matrix in blocks, of the type kLoomBlocks (models/carriers.hpp) where its rows are whole blocks, else float32.
  /// @error as loom_blocks
  Status add_blocks(std::string name, Shape shape, const formats::LoomBlob& blob);
  /// A ternary matrix, four codes a byte as kPackedTernary says (models/weight_plan.hpp), and its scale in
  /// `name`_scale. @error as loom_ternary; shape_mismatch; unsupported: rows that are no multiple of 4
  Status add_ternary(const std::string& name, const Shape& shape, const formats::LoomBlob& blob);
  /// A vector of ones.
  void add_ones(std::string name, std::size_t count);

  const std::vector<formats::Tensor>& tensors() const noexcept override { return tensors_; }
  bool contains(std::string_view name) const noexcept override { return fills_.find(name) != fills_.end(); }
  Result<formats::Tensor> describe(std::string_view name) const override;
  Result<formats::Tensor> find(std::string_view name) const override;
  Status read(std::string_view name, std::size_t unit, const ByteSource::Sink& sink) const override;
  void forget(std::string_view name) const noexcept override;
  Status intact() const override { return file_.intact(); }

 private:
  using Fill = std::function<Status(std::span<std::byte>)>;
  struct Made {
    std::size_t index, bytes;
    Fill fill;
  };
  void add(std::string name, std::string type, Shape shape, std::size_t bytes, Fill fill);

  formats::LoomEntityFile file_;
  std::vector<formats::Tensor> tensors_;  // without bytes
  std::map<std::string, Made, std::less<>> fills_;
  mutable std::mutex mutex_;
  mutable std::map<std::string, AlignedBuffer<std::byte>, std::less<>> held_;
};

}  // namespace weft::models::internal
