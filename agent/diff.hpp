// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/mesh.hpp"

#include "storage/file_system.hpp"

#include "core/coord.hpp"
#include "core/result.hpp"
#include "core/state_hash.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace weft::agent {

/// The first tick and the cells in which two runs differ.
struct Divergence {
  std::uint64_t tick = 0;
  std::vector<Coord> cells;                     ///< whose states differ then, in coordinate order; the level is 0
  bool external_differs = false;                ///< whether what came from outside had differed by then
  std::optional<std::uint64_t> external_since;  ///< the first tick with other inputs, targets or commands
};

struct Comparison {
  std::uint64_t from = 0;      ///< tick of the first comparison
  std::uint64_t compared = 0;  ///< ticks compared
  std::optional<Divergence> divergence;
  /// Without a divergence: the last tick of both, and the path that goes further ("": both end there).
  std::uint64_t until = 0;
  std::string longer;
};

/// The first tick and coordinates at which two runs differ. Each is an agent's data directory, replayed from a
/// checkpoint, or a file with live state, which is one moment. Both are read only.
/// @error invalid_argument: two networks that differ in their cells, no moment in common
Result<Comparison> diff(storage::FileSystem& files, const std::string& a, const std::string& b,
                        const mesh::MeshOptions& options);

}  // namespace weft::agent
