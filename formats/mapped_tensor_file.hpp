// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "formats/tensor_file.hpp"
#include "storage/fwd.hpp"
#include "storage/mapped_file.hpp"

#include "core/bytes.hpp"
#include "core/result.hpp"

#include <cstddef>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

namespace weft::formats {

/// Tensors that lie in a mapped file as they are: what formats without checksums or packing share. Cheap to copy:
/// copies share the bytes. Memory: pages that are being read, and a copy of each tensor that `find` was asked for and
/// that does not begin on a multiple of 64.
/// @thread any
class MappedTensorFile : public TensorFile {
 public:
  const std::vector<Tensor>& tensors() const noexcept override;
  bool contains(std::string_view name) const noexcept override;
  Result<Tensor> describe(std::string_view name) const override;
  Result<Tensor> find(std::string_view name) const override;
  /// @error also storage: a page that could not be read, such as one of a file that was cut short meanwhile
  Status read(std::string_view name, std::size_t unit, const ByteSource::Sink& sink) const override;
  void forget(std::string_view name) const noexcept override;
  Status intact() const override;
  /// Bytes of the file.
  std::size_t size() const noexcept;

 protected:
  /// @pre names differ; bytes of `tensors` lie in `file`
  MappedTensorFile(storage::MappedFile file, std::vector<Tensor> tensors);
  /// Result of `decode` for the bytes of a file. @error that of `decode`, behind the source's name; storage
  template <class Decode>
  static auto decoded(const storage::MappedFile& file, std::string_view source_name, Decode&& decode)
      -> decltype(decode(ByteSpan())) {
    auto parts = decode(file.bytes());
    // A page that could not be read is no fault of what it held.
    WEFT_CHECK(file.intact());
    if (!parts) return fail(std::move(parts).error().within(source_name));
    return parts;
  }

 private:
  struct Content;
  std::shared_ptr<Content> content_;
};

}  // namespace weft::formats
