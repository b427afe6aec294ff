// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/network/network.hpp"

#include "formats/entity/entity.hpp"

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace weft::cli {

/// The file in a checkpoint of `weft run --checkpoint`.
inline constexpr const char* kRunFile = "run.entity";

/// A file given to a verb: a network, and weights with it when it is an .entity file. One of Loom is
/// turned into one of ours (mesh/loom/loom_network.hpp).
struct Model {
  std::string path, folder;  // folder: what paths inside the file are relative to
  mesh::NetworkSpec spec;
  std::optional<formats::EntityFile> entity;
  std::size_t file_bytes = 0;
  bool is_imported = false;
  std::vector<std::string> notes;  // what an imported file's layers did not keep
};

/// Reads a network file or an .entity file; which one, its first bytes say. Notes go to stderr, a line each.
/// `reads_weights`: false where nothing is computed; of one of Loom then only the network is there.
/// @error not_found, storage; whatever its reader refuses, with the file's name in front
Result<Model> read_model(const std::string& path, bool reads_weights = true);

/// The same, or the newest checkpoint of the run that is kept in the directory `path`, which is only read, so the run
/// may be going on. That it is of an earlier moment is said on stderr.
/// @error not_found: a directory without one
Result<Model> read_kept_model(const std::string& path);

/// An error with the file at fault in front: `path`, unless it names that one, one of `others` or the machine already.
Error blamed(Error error, const std::string& path, std::span<const std::string> others = {});

/// `folder`/`path`, or `path` when it is absolute.
std::string path_within(const std::string& folder, const std::string& path);

/// The way to `found`, a path from here, for a file at `path`; nothing where there is none.
std::optional<std::string> path_from(const std::string& path, const std::string& found);

}  // namespace weft::cli
