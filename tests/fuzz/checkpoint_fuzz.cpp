// SPDX-License-Identifier: Apache-2.0

#include "storage/internal/manifest.hpp"

#include "core/assert.hpp"
#include "core/json.hpp"
#include "core/state_hash.hpp"

// A manifest that was read names only files inside its directory. The input is tried as it is, and sealed with a
// digest.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace weft;
  using namespace weft::storage;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto check = [](std::string_view manifest_text) {
    const auto manifest = decode_manifest(manifest_text, "fuzz");
    if (!manifest) return;
    for (const auto& file : manifest->files)
      WEFT_ASSERT(is_file_name(file.name) && file.name.find('/') == file.name.npos, "a name that leaves the directory");
    WEFT_ASSERT(manifest->info != nullptr, "a manifest without info");
  };
  check(text);
  const auto inner = parse_json(text, "fuzz");
  if (!inner) return 0;
  const auto inner_text = write_json(*inner);
  if (!inner_text) return 0;
  const Json sealed{{"digest", weft::to_string(weft::hash_bytes(inner_text->data(), inner_text->size()))},
                    {"manifest", *inner}};
  if (const auto sealed_text = write_json(sealed, 2)) check(*sealed_text + "\n");
  return 0;
}
