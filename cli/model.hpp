// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/network.hpp"

#include "formats/entity.hpp"

#include <optional>
#include <string>

namespace weft::cli {

/// A file given to a verb: a network, and weights with it when it is an .entity file.
struct Model {
  std::string path, folder;  // folder: what paths inside the file are relative to
  mesh::NetworkSpec spec;
  std::optional<formats::EntityFile> entity;
  std::size_t file_bytes = 0;
};

/// Reads a network file or an .entity file; which one, its first bytes say.
/// @error not_found, storage; whatever its reader refuses, with the file's name in front
Result<Model> read_model(const std::string& path);

/// `folder`/`path`, or `path` when it is absolute.
std::string path_within(const std::string& folder, const std::string& path);

}  // namespace weft::cli
