// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/network/network.hpp"

#include "formats/entity/entity.hpp"
#include "formats/loom/loom_entity.hpp"

#include "core/result.hpp"

#include <string>
#include <vector>

namespace weft::mesh {

/// A model of Loom, as one of ours.
struct ImportedEntity {
  NetworkSpec spec;
  formats::EntityFile file;        ///< what `weft` would have saved: the network and its weights
  std::vector<std::string> notes;  ///< a line for each thing that is not as it stood there
};

/// Makes a network and weights of a file of Loom (docs/formats/loom_entity.md): its layers in their
/// order, each reading the one before it; the first reads the port "in", the last is the output "out". Weights are
/// dequantized with Loom's tables; a layer keeps its numeric type where ours holds every value exactly, and is
/// float32 otherwise.
/// @error naming the path ("network.layers[3].type"): unknown_name, parse_failed; unsupported: a layer that has no
///        counterpart here; shape_mismatch; corrupt: weights that do not fit; storage
Result<ImportedEntity> import_loom_entity(const formats::LoomEntityFile& file);

/// The network alone: sizes of weights are compared, their values stay where they are.
struct DescribedEntity {
  NetworkSpec spec;  ///< without numeric types, which values decide
  std::vector<std::string> notes;
};
/// @error as import_loom_entity, those of values aside
Result<DescribedEntity> describe_loom_entity(const formats::LoomEntityFile& file);

}  // namespace weft::mesh
