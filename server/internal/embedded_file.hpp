// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace weft::server::internal {

/// A file that the build put into the program (tools/embed_files.py).
struct EmbeddedFile {
  std::string_view name;                  ///< without folders
  std::string_view tag;                   ///< digest of its content, hexadecimal
  std::size_t size = 0;                   ///< unpacked, bytes
  std::span<const unsigned char> packed;  ///< gzip
};

/// The files of server/page, by name.
std::span<const EmbeddedFile> page_files() noexcept;

}  // namespace weft::server::internal
