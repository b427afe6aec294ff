// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "formats/tensor_file.hpp"

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace weft::formats {

/// Tensors of several files as those of one, in the files' order.
/// @thread as the files
class JoinedTensorFile final : public TensorFile {
 public:
  /// @error duplicate_name: a tensor that is in two files
  static Result<JoinedTensorFile> join(std::vector<std::shared_ptr<const TensorFile>> files);

  const std::vector<Tensor>& tensors() const noexcept override { return tensors_; }
  bool contains(std::string_view name) const noexcept override { return index_.contains(name); }
  Result<Tensor> describe(std::string_view name) const override;
  Result<Tensor> find(std::string_view name) const override;
  Status read(std::string_view name, std::size_t unit, const ByteSource::Sink& sink) const override;
  void forget(std::string_view name) const noexcept override;
  Status intact() const override;

 private:
  JoinedTensorFile() = default;
  Result<const TensorFile*> holder(std::string_view name) const;

  std::vector<std::shared_ptr<const TensorFile>> files_;
  std::vector<Tensor> tensors_;
  std::unordered_map<std::string_view, const TensorFile*> index_;  // names of the files' own tensors
};

}  // namespace weft::formats
