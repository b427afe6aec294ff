// SPDX-License-Identifier: Apache-2.0

#include "formats/joined_tensor_file.hpp"

#include "core/printable.hpp"

#include <utility>

namespace weft::formats {

Result<JoinedTensorFile> JoinedTensorFile::join(std::vector<std::shared_ptr<const TensorFile>> files) {
  JoinedTensorFile joined;
  joined.files_ = std::move(files);
  for (const auto& file : joined.files_)
    for (const Tensor& tensor : file->tensors()) {
      if (!joined.index_.emplace(tensor.name, file.get()).second)
        return fail(Errc::duplicate_name, "tensor '" + printable(tensor.name) + "' is in two files");
      joined.tensors_.push_back(tensor);
    }
  return joined;
}

Result<const TensorFile*> JoinedTensorFile::holder(std::string_view name) const {
  if (const auto found = index_.find(name); found != index_.end()) return found->second;
  return fail(Errc::not_found, "tensor '" + printable(name) + "' is in none of the files");
}

Result<Tensor> JoinedTensorFile::describe(std::string_view name) const {
  WEFT_TRY(const TensorFile* const file, holder(name));
  return file->describe(name);
}
Result<Tensor> JoinedTensorFile::find(std::string_view name) const {
  WEFT_TRY(const TensorFile* const file, holder(name));
  return file->find(name);
}
Status JoinedTensorFile::read(std::string_view name, std::size_t unit, const ByteSource::Sink& sink) const {
  WEFT_TRY(const TensorFile* const file, holder(name));
  return file->read(name, unit, sink);
}
void JoinedTensorFile::forget(std::string_view name) const noexcept {
  if (const auto found = index_.find(name); found != index_.end()) found->second->forget(name);
}
Status JoinedTensorFile::intact() const {
  for (const auto& file : files_) WEFT_CHECK(file->intact());
  return {};
}

}  // namespace weft::formats
