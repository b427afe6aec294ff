// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/runtime/cell_actor.hpp"

#include "core/result.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace weft::mesh {

/// Appends what `fields` of an actor names, and a digest of those names: words of another class do not fit.
/// @throws whatever `fields` throws
void save_fields(const CellActor& actor, std::vector<std::uint64_t>& to);

/// Reads all of `words` back. What `fields` throws is an error here.
/// @error corrupt: other fields than those that were written, by number, name or order, or a value that is none of its
///        field's; internal: `fields` threw. The actor may have changed then
Status restore_fields(CellActor& actor, std::span<const std::uint64_t> words);

/// A copy by `clone`. @error invalid_argument: none; internal: it threw. Texts begin with `object`
Result<std::unique_ptr<CellActor>> copy_of(const CellActor& actor, const std::string& object);

/// The same, whose `fields` were seen to give back what they take, so that no restart finds out later.
/// @error as copy_of; invalid_argument: fields that read something else than they write; internal: they threw
Result<std::unique_ptr<CellActor>> checked_copy(const CellActor& actor, const std::string& object);

}  // namespace weft::mesh
