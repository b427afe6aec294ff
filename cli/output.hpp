// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/result.hpp"

#include <CLI/CLI.hpp>

#include <string>

namespace weft::cli {

/// Whether a file can stand at `path`: before hours of work, not after. `flag` is what named it.
/// @error not_found: no such directory; storage: a directory, a device or a pipe stands there, which a rename over it
///        would remove
Status check_output(const std::string& flag, const std::string& path);
/// The same for what must not be the file that is read. @error as above; invalid_argument: it is
Status check_output(const std::string& flag, const std::string& path, const std::string& input);

/// Refuses an empty name: what was to be kept would be lost in silence.
CLI::Option* names_a_file(CLI::Option* option);

}  // namespace weft::cli
