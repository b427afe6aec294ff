// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "storage/checkpoint.hpp"

#include "core/result.hpp"
#include "core/state_hash.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace weft::storage {

inline constexpr std::size_t kMaxManifestBytes = std::size_t{16} << 20;

struct ManifestFile {
  std::string name;
  std::uint64_t size = 0;
  Hash128 hash;
};

struct Manifest {
  CheckpointKey key;
  std::shared_ptr<const Json> info;
  std::vector<ManifestFile> files;
};

/// True for a name that a manifest may contain: nothing that leaves the directory or hides in it.
bool is_file_name(std::string_view name) noexcept;

/// The text of `manifest.json`; it carries its own digest (docs/formats/checkpoint.md).
Result<std::string> encode_manifest(CheckpointKey key, const std::vector<ManifestFile>& files, const Json& info);
/// @error corrupt when the text differs in any byte from what was encoded
Result<Manifest> decode_manifest(std::string_view text, std::string_view source_name);

}  // namespace weft::storage
