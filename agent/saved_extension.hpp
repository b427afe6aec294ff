// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "storage/file_system.hpp"

#include "core/result.hpp"

#include <cstdint>
#include <string>

namespace weft::agent {

/// The part of an agent's newest checkpoint that verifies which belongs to the program around it, as it was saved.
struct SavedExtension {
  std::uint64_t tick = 0;
  std::string network;   // the agent was begun with, JSON
  std::string identity;  // Agent::Options::identity
  std::string json;      // StateExtension::save
};

/// Reads it beside a process that may be running the agent; changes nothing.
/// @error not_found: no such directory, or no agent is there; corrupt: no checkpoint verifies
/// @thread any
Result<SavedExtension> read_saved_extension(storage::FileSystem& files, const std::string& directory);

}  // namespace weft::agent
