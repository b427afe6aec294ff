// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "models/state_dict/state_dict_import.hpp"

#include "mesh/network/network.hpp"

namespace weft::models {

/// A safetensors file of weights alone as those of a network that is there. Modules of the file, as import_state_dict
/// has them, are assigned to layers with weights, all or none:
///   by name      where the layers have all the names that the modules have (those of layers inside a container)
///   as told      by `options.order`: modules in the order of the network's layers
///   by shape     each layer the one module with its parameters. Several that have the same shapes go in the order of
///                the numbers in their names, or in the file's, where that is not the one of the names.
/// Types are those of the network's layers, or `options.encoding` of those that have no own; `options.input`,
/// `activation` and `heads` are not read.
/// @error as formats::load_safetensors, Graph::build; unsupported: all tensors that fit no layer, and all layers
/// without
///        tensors, at once; invalid_argument: several orders. Producing: not_finite: a weight; storage
Result<ImportedStateDict> import_network_weights(storage::FileSystem& files, const std::string& path,
                                                 mesh::NetworkSpec network, const StateDictOptions& options = {});
/// The same of a file that is open.
Result<ImportedStateDict> import_network_weights(const formats::SafetensorsFile& file, mesh::NetworkSpec network,
                                                 const StateDictOptions& options = {});

}  // namespace weft::models
