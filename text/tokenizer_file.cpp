// SPDX-License-Identifier: Apache-2.0

#include "text/tokenizer_file.hpp"

#include "formats/gguf/gguf.hpp"
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
    WEFT_TRY(const formats::GgufFile model, formats::decode_gguf(std::move(file), name));
    return Tokenizer::from_gguf(model.metadata(), name);
  }
  auto made = Tokenizer::from_json(as_text(file.bytes()), name);
  WEFT_CHECK(file.intact());
  return made;
}

}  // namespace weft::text
