// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/result.hpp"

#include <span>
#include <string>
#include <vector>

namespace weft::cli {

/// A file that a command line names, and what names it: "--save", "NETWORK", "the data".
struct NamedFile {
  std::string role, path;
};

/// Proves, before hours of work rather than after, that a file can be put in the place of `output`: its directory
/// takes a new file (one is made and removed), and nothing that has to stay is there.
/// @error invalid_argument: it is one of `inputs`, by whatever name (same inode); storage: no such directory, it takes
///        no files, or a directory, device, pipe, symbolic link or write-protected file has the name
Status check_output(const NamedFile& output, std::span<const NamedFile> inputs = {});
inline Status check_output(const std::string& flag, const std::string& path) { return check_output({flag, path}); }
/// The same for what must not be the file that is read. @error as above
Status check_output(const std::string& flag, const std::string& path, const std::string& input);

/// A file that is written to where it is, at its end: a log. Devices and pipes may be, and links to them.
/// @error invalid_argument: one of `inputs`; storage: a directory, a socket, a disk, or a file that holds something
///        else than a log of Weft's
Status check_log(const NamedFile& log, std::span<const NamedFile> inputs);

/// @error storage: something else than a socket has the name of --socket
Status check_socket(const std::string& path);

/// Two of `outputs` that are one file, or one of them that is an input. Looks only.
/// @error invalid_argument: naming both
Status check_distinct(std::span<const NamedFile> outputs, std::span<const NamedFile> inputs);

}  // namespace weft::cli
