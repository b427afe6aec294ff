// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/mesh.hpp"
#include "mesh/network/network.hpp"

#include "core/bytes.hpp"
#include "core/result.hpp"

#include <string>
#include <string_view>

namespace weft::mesh {

/// As Mesh::load, of a file's bytes, which are copied; `name` stands for its path in messages.
Result<Mesh> load_mesh(ByteSpan file, std::string_view name, MeshOptions options = {});

/// The network that Mesh::load would build.
Result<NetworkSpec> load_network(const std::string& path);

}  // namespace weft::mesh
