// SPDX-License-Identifier: Apache-2.0

#include "formats/mapped_tensor_file.hpp"

#include "core/printable.hpp"

#include <cstdint>
#include <cstring>
#include <mutex>
#include <unordered_map>
#include <utility>

namespace weft::formats {

struct MappedTensorFile::Content {
  Content(storage::MappedFile mapped, std::vector<Tensor> all) : file(std::move(mapped)), tensors(std::move(all)) {
    index.reserve(tensors.size());
    for (std::size_t i = 0; i < tensors.size(); ++i) index.emplace(tensors[i].name, i);
    WEFT_ASSERT(index.size() == tensors.size(), "a tensor file with two tensors of one name");
  }
  Result<const Tensor*> find(std::string_view name) const {
    if (const auto found = index.find(name); found != index.end()) return &tensors[found->second];
    return fail(Errc::not_found, "tensor '" + printable(name) + "' is not in the file");
  }

  const storage::MappedFile file;
  const std::vector<Tensor> tensors;
  std::unordered_map<std::string_view, std::size_t> index;
  std::mutex mutex;  // of what follows
  std::unordered_map<const Tensor*, ByteBuffer> copies;
};

MappedTensorFile::MappedTensorFile(storage::MappedFile file, std::vector<Tensor> tensors)
    : content_(std::make_shared<Content>(std::move(file), std::move(tensors))) {}

const std::vector<Tensor>& MappedTensorFile::tensors() const noexcept { return content_->tensors; }
bool MappedTensorFile::contains(std::string_view name) const noexcept { return content_->index.contains(name); }
Status MappedTensorFile::intact() const { return content_->file.intact(); }
std::size_t MappedTensorFile::size() const noexcept { return content_->file.size(); }

void MappedTensorFile::forget(std::string_view name) const noexcept {
  if (const auto found = content_->index.find(name); found != content_->index.end())
    content_->file.forget(content_->tensors[found->second].bytes);
}

Result<Tensor> MappedTensorFile::describe(std::string_view name) const {
  WEFT_TRY(const Tensor* const found, content_->find(name));
  return *found;
}

Result<Tensor> MappedTensorFile::find(std::string_view name) const {
  WEFT_TRY(const Tensor* const found, content_->find(name));
  Tensor tensor = *found;
  if (reinterpret_cast<std::uintptr_t>(tensor.bytes.data()) % ByteBuffer::kAlignment == 0 || tensor.bytes.empty())
    return tensor;
  const std::lock_guard lock(content_->mutex);
  auto at = content_->copies.find(found);
  if (at == content_->copies.end()) {
    // Whole before it is kept: memory may end here.
    ByteBuffer copy(tensor.bytes.size());
    std::memcpy(copy.data(), tensor.bytes.data(), tensor.bytes.size());
    content_->file.forget(tensor.bytes);
    WEFT_CHECK(content_->file.intact());
    at = content_->copies.emplace(found, std::move(copy)).first;
  }
  tensor.bytes = at->second;
  return tensor;
}

Status MappedTensorFile::read(std::string_view name, std::size_t unit, const ByteSource::Sink& sink) const {
  WEFT_TRY(const Tensor* const found, content_->find(name));
  return each_part(found->bytes, unit, [&](ByteSpan part) -> Status {
    WEFT_CHECK(sink(part));
    content_->file.forget(part);
    return content_->file.intact();
  });
}

}  // namespace weft::formats
