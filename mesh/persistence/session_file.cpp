// SPDX-License-Identifier: Apache-2.0

#include "mesh/persistence/session_file.hpp"

#include "mesh/memory/byte_archive.hpp"
#include "mesh/mesh_access.hpp"
#include "mesh/network/graph.hpp"
#include "mesh/runtime/state.hpp"
#include "mesh/weights/weight_store.hpp"

#include "core/json_reader.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

namespace weft::mesh {
namespace {

constexpr const char* kBlob = "session/state";

/// State of a session that the next tick reads: for each node, in index order, its output, then its hidden state.
template <class Archive>
void visit_committed(const Mesh& mesh, std::size_t session, Archive& archive) {
  for (NodeId id = 0; id < mesh.graph().nodes().size(); ++id)
    MeshAccess::state(mesh).visit_layer(id, session, mesh.ticks(), archive);
}

Result<Hash128> read_digest(JsonReader& reader, const std::string& key) {
  WEFT_TRY(const std::string text, reader.string(key));
  const auto digest = parse_hash128(text);
  if (!digest) return fail(Errc::corrupt, "meta.session." + key + ": '" + text + "' is no digest of 32 hex digits");
  return *digest;
}

}  // namespace

Hash128 weights_digest(const Mesh& mesh) {
  const WeightStore& weights = MeshAccess::weights(mesh);
  StateHasher hasher;
  HashArchive archive(hasher);
  for (std::size_t i = 0; i < weights.parameters().size(); ++i) {
    const auto& parameter = weights.parameters()[i];
    const QuantizedWeight* const stored = weights.stored(i);
    WeightStore::visit_parameter(*parameter.spec, stored ? stored->view() : kernels::ConstWeight(),
                                 stored ? nullptr : parameter.data, archive);
  }
  return hasher.digest();
}

Result<ByteBuffer> detach_session(const Mesh& mesh, std::size_t session, std::optional<std::size_t> under_way) {
  const std::string object = "session " + std::to_string(session);
  if (session >= mesh.sessions())
    return fail(Errc::out_of_range, object + " of " + std::to_string(mesh.sessions()) + ": no such session");
  if (MeshAccess::state(mesh).options().keeps_history && !under_way)
    return fail(Errc::invalid_argument, object +
                                            ": a learning rule is attached; say of how many sessions errors are "
                                            "under way, or take it off");
  if (session < under_way.value_or(0))
    return fail(Errc::unsupported, object + " is one of the " + std::to_string(*under_way) +
                                       " that a learning rule trains, and errors of it are under way through the "
                                       "mesh; let the run end (drain) first, or detach one from " +
                                       std::to_string(*under_way) + " on");
  ByteArchive values;
  WriteArchive archive(values, scopes::kSession);
  visit_committed(mesh, session, archive);
  const Json meta{{"session",
                   {{"network", to_string(mesh.network_digest())},
                    {"weights", to_string(weights_digest(mesh))},
                    {"ticks", mesh.ticks()}}}};
  return formats::encode_entity(Json(), meta, {{kBlob, "float32", {values.size() / sizeof(float)}, values.bytes()}});
}

bool holds_session(const formats::EntityFile& file) {
  return file.meta().is_object() && file.meta().contains("session");
}

Result<std::size_t> attach_session(Mesh& mesh, const formats::EntityFile& file, bool allow_other_weights) {
  if (!holds_session(file))
    return fail(Errc::not_found, "the file holds no session alone; weft session detach makes one");
  WEFT_TRY(JsonReader meta, JsonReader::open(file.meta()["session"], "meta.session"));
  WEFT_TRY(const Hash128 network, read_digest(meta, "network"));
  WEFT_TRY(const Hash128 weights, read_digest(meta, "weights"));
  WEFT_CHECK(meta.u64("ticks"));
  WEFT_CHECK(meta.finish());
  if (network != mesh.network_digest())
    return fail(Errc::shape_mismatch, "the session is of network " + to_string(network) + ", the mesh of network " +
                                          to_string(mesh.network_digest()) + "; attach it to its own network");
  if (const Hash128 own = weights_digest(mesh); own != weights && !allow_other_weights)
    return fail(Errc::invalid_argument, "the session was run with the weights " + to_string(weights) +
                                            ", the mesh has the weights " + to_string(own) +
                                            "; it would go on otherwise: allow other weights if that is wanted");
  WEFT_TRY(const auto values, file.values<float>(kBlob));
  SizeArchive wanted(scopes::kSession);
  visit_committed(mesh, 0, wanted);
  if (values.size_bytes() != wanted.size())
    return fail(Errc::corrupt, std::string(kBlob) + ": " + std::to_string(values.size()) + " values where " +
                                   std::to_string(wanted.size() / sizeof(float)) + " are expected");
  const auto bad = std::find_if(values.begin(), values.end(), [](float v) { return !std::isfinite(v); });
  if (bad != values.end())
    return fail(Errc::corrupt,
                std::string(kBlob) + ": value " + std::to_string(bad - values.begin()) + " is " + std::to_string(*bad));
  WEFT_TRY(const std::size_t session, mesh.add_session());
  ReadArchive archive(std::as_bytes(values), scopes::kSession);
  visit_committed(std::as_const(mesh), session, archive);
  MeshAccess::take_cell_snapshots(mesh);  // a restart goes back to it as it is now
  return session;
}

}  // namespace weft::mesh
