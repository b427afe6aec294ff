// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <filesystem>
#include <string>
#include <system_error>

namespace weft::cli {

/// True where `directory` is the data directory of an agent that has begun (docs/formats/agent.md); false for "".
inline bool has_journal(const std::string& directory) {
  std::error_code none;
  return !directory.empty() && std::filesystem::is_directory(directory + "/journal", none);
}

}  // namespace weft::cli
