// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "learning/learner.hpp"

#include "core/result.hpp"

#include <cstdint>
#include <string>

namespace weft::agent {

/// Refuses stored samples (learning.replay) of which a disk cannot hold two checkpoints: one is written before the one
/// before it goes. @error too_large: naming both sizes
Status check_disk_room(std::uint64_t stored, std::uint64_t free, const std::string& directory);
/// The same of a learner and the disk that a directory is on; nothing where that is not known.
Status check_disk_room(const learning::Learner& learner, const std::string& directory);

}  // namespace weft::agent
