// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "storage/file_system.hpp"

#include "core/bytes.hpp"

#include <zstd.h>

#include <string>

namespace weft::text {

/// The contents of a file, unpacked where it ends with ".zst"; empty where it cannot be read.
inline std::string read_golden(const std::string& path) {
  const auto bytes = storage::real_file_system().read(path, std::size_t{1} << 30);
  if (!bytes) return {};
  const ByteSpan stored = *bytes;
  if (!path.ends_with(".zst")) return std::string(as_text(stored));
  std::string text(ZSTD_getFrameContentSize(stored.data(), stored.size()), '\0');
  text.resize(ZSTD_decompress(text.data(), text.size(), stored.data(), stored.size()));
  return text;
}

}  // namespace weft::text
