// SPDX-License-Identifier: Apache-2.0

#include "models/replaced_model.hpp"

#include "formats/entity/entity.hpp"
#include "formats/gguf/gguf.hpp"
#include "formats/onnx/onnx.hpp"
#include "storage/file_system.hpp"

#include <filesystem>
#include <system_error>

namespace weft::models {

Status check_replaced_file(storage::FileSystem& files, const std::string& path, bool is_forced,
                           std::vector<std::string>& notes) {
  std::error_code unknown;
  if (!std::filesystem::is_regular_file(path, unknown)) return {};
  std::string kind = "empty file";
  if (std::filesystem::file_size(path, unknown) != 0) {
    auto file = files.map(path, std::size_t{1} << 44);
    if (!file && !is_forced) return fail(std::move(file).error());
    const ByteSpan bytes = file ? file->bytes() : ByteSpan();
    kind = formats::is_entity(bytes) ? ".entity file"
           : formats::is_gguf(bytes) ? "GGUF file"
           : formats::is_onnx(bytes) ? "ONNX file"
                                     : "";
    if (kind.empty() && !is_forced)
      return fail(Errc::storage, path +
                                     ": is there, and is none of a model (.entity, GGUF, ONNX), so it is not replaced; "
                                     "give another name, or --force replaces it");
  }
  notes.push_back(path + " replaces the " + (kind.empty() ? "file" : kind) + " that was there");
  return {};
}

}  // namespace weft::models
