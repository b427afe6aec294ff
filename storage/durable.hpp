// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "storage/fwd.hpp"

#include "core/bytes.hpp"
#include "core/result.hpp"

#include <string>

namespace weft::storage {

/// Replaces a file so that a crash at any moment leaves either the old content or the new one, never a mix:
/// a new file beside it, fsync, rename over it, fsync of the directory.
/// @error  storage, not_found (the directory): the old file is as it was, save when the last step fails; then the new
///         content is in place and may or may not outlive a power cut
Status write_file_durably(FileSystem& files, const std::string& path, ByteSpan bytes);

}  // namespace weft::storage
