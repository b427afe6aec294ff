// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "storage/mapped_file.hpp"

#include "core/result.hpp"

#include <cstddef>
#include <string>

namespace weft::storage {

/// Maps a file that another file names, and that must lie in `directory` or below: what a stranger wrote leads nowhere
/// else. `location` is a relative path with '/'.
/// @error corrupt: an absolute path, a drive, '\', an empty component, "." or "..", a symbolic link on the way,
///        anything but a regular file with one name; not_found; too_large; storage
Result<MappedFile> map_contained(const std::string& directory, const std::string& location, std::size_t max_bytes);
/// Checks a place of `map_contained` as far as its text tells. @error corrupt
Status check_location(const std::string& location);

}  // namespace weft::storage
