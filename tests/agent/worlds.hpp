// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "agent/environments/environment.hpp"
#include "agent/replay.hpp"

#include "mesh/memory/byte_archive.hpp"

#include "core/archive.hpp"

#include "tests/mesh/testing.hpp"
#include "tests/support/memory_file_system.hpp"
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

/// Worlds as bytes, and replays of agents that acted in them.
namespace weft::agent::test {

inline constexpr Scopes kWorld{Scope::control};

inline std::vector<std::byte> saved(const Environment& environment) {
  mesh::ByteArchive bytes;
  mesh::WriteArchive archive(bytes, kWorld);
  environment.visit(archive);
  return {bytes.bytes().begin(), bytes.bytes().end()};
}

inline bool load(Environment& environment, const std::vector<std::byte>& bytes) {
  mesh::ReadArchive archive(bytes, kWorld);
  return environment.visit(archive);
}

/// A replay of the data directory "agent" from its first tick on, on one thread, held against the hashes in its
/// journal.
inline Replay open_verifying(storage::MemoryFileSystem& files) {
  ReplayOptions options;
  options.mesh.threads = 1;
  options.verifies = true;
  options.from = 0;
  return mesh::testing_support::must(Replay::open(files, "agent", options));
}

/// Replayed from the beginning as if `change`, a "key=value", had been so then.
inline Replay replay_changed(storage::MemoryFileSystem& files, const std::string& change) {
  ReplayOptions options;
  options.mesh.threads = 1;
  options.from = 0;
  options.set = {change};
  Replay replay = mesh::testing_support::must(Replay::open(files, "agent", std::move(options)));
  mesh::testing_support::must(replay.run());
  return replay;
}

}  // namespace weft::agent::test
