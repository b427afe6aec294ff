// SPDX-License-Identifier: Apache-2.0

#include "text/tokenizer_file.hpp"

#include "formats/gguf/gguf_parts.hpp"
#include "storage/file_system.hpp"

#include <filesystem>
#include <system_error>
#include <utility>

namespace weft::text {

Result<Tokenizer> load_tokenizer(storage::FileSystem& files, const std::string& path) {
  std::error_code unknown;
  const std::string name = std::filesystem::is_directory(path, unknown) ? path + "/tokenizer.json" : path;
  WEFT_TRY(storage::MappedFile file, files.map(name, std::size_t{1} << 44));
  if (formats::is_gguf(file.bytes())) {
    WEFT_TRY(formats::GgufFile model, formats::decode_gguf(std::move(file), name));
    // Of a file that was split the first part has the metadata.
    const auto part = formats::gguf_part_name(name);
    if (!part || part->number == 1 || !model.metadata().contains("split.count"))
      return Tokenizer::from_gguf(model.metadata(), name);
    WEFT_TRY(model, formats::load_gguf(files, part->path(1)));
    return Tokenizer::from_gguf(model.metadata(), part->path(1));
  }
  auto made = Tokenizer::from_json(as_text(file.bytes()), name);
  WEFT_CHECK(file.intact());
  return made;
}

}  // namespace weft::text
