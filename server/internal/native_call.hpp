// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "server/native_api.hpp"

#include "core/json.hpp"
#include "core/json_reader.hpp"
#include "core/result.hpp"

#include <functional>
#include <memory>
#include <string>
#include <utility>

namespace weft::server::internal {

using MeshPointer = std::shared_ptr<ServedMesh>;

/// The answer to a request of a mesh: JSON, with the tick and the version of weights that it stands at.
HttpResponse answer_of(Json body, std::uint64_t tick, std::uint64_t weight_version, int status = 200);
/// As above, of the mesh as it is now, to be formatted on the connection's thread.
ServedMesh::Answer answer_of(const LiveMesh& mesh, Json body, bool waits = false, int status = 200);

/// The mesh that the first parameter names, or an answered exchange and null.
MeshPointer find_mesh(NativeContext& context, const Call& call);
/// The body of a request as an object; an empty body is an empty one. @error parse_failed
Result<Json> read_body(const HttpRequest& request);
/// "applied" (the default): the answer comes when it was done; "durable": when it is on the device.
/// @error unknown_name
Result<bool> read_wait(JsonReader& reader);

/// Reads a request on the connection's thread, and queues what comes of it for the mesh's.
using Prepare = std::function<Result<ServedMesh::Act>(const Call& call, const ServedMesh& mesh)>;
std::function<void(Call)> on_mesh(NativeContext& context, Prepare prepare);

}  // namespace weft::server::internal
