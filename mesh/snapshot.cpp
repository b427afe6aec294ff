// SPDX-License-Identifier: Apache-2.0

#include "mesh/snapshot.hpp"

#include "mesh/network_json.hpp"

#include "formats/json.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <bit>
#include <deque>
#include <optional>

namespace weft::mesh {
namespace {

using formats::Blob;
using nlohmann::json;

constexpr std::size_t kCellWords = 10, kOrderWords = 7;

std::string weight_name(const Node& node, const ParameterSpec& parameter) {
  const Coord at = node.at;
  return "weights/" + std::to_string(at.z) + "," + std::to_string(at.y) + "," + std::to_string(at.x) + "," +
         std::to_string(at.l) + "/" + parameter.name;
}

std::string session_name(std::size_t session) { return "state/session/" + std::to_string(session); }

Shape weight_shape(const ParameterSpec& parameter) {
  return parameter.is_matrix() ? Shape{parameter.out, parameter.in} : Shape{parameter.out};
}

std::vector<std::uint64_t> cell_words(Mesh& mesh) {
  std::vector<std::uint64_t> words;
  for (const auto& cell : mesh.cells()) {
    const actors::ActorView view = mesh.registry().view(cell->id());
    const std::vector<std::uint64_t> restarts = mesh.supervisor().restart_ticks(cell->id());
    words.insert(words.end(),
                 {std::uint64_t{cell->is_enabled()}, cell->period(), static_cast<std::uint64_t>(view.status),
                  view.messages, view.faults, view.restarts, view.last_fault_tick, restarts.size(),
                  std::uint64_t{cell->is_reset_ordered()}, cell->deferred().size()});
    words.insert(words.end(), restarts.begin(), restarts.end());
    for (const ControlMessage& order : cell->deferred()) {
      words.insert(words.end(), {static_cast<std::uint64_t>(order->kind), order->level, order->parameter, order->number,
                                 static_cast<std::uint64_t>(order->dtype), order->not_before, order->values.size()});
      for (const float value : order->values) words.push_back(std::bit_cast<std::uint32_t>(value));
    }
  }
  return words;
}

Failure bad_cells(const std::string& what) { return fail(Errc::corrupt, "state/cells: " + what); }

/// The orders that begin at words[next], which moves past them; nothing when they are no orders.
std::optional<std::vector<ControlMessage>> restore_orders(std::span<const std::uint64_t> words, std::size_t& next,
                                                          std::uint64_t count) {
  std::vector<ControlMessage> orders;
  for (std::uint64_t i = 0; i < count; ++i) {
    if (words.size() - next < kOrderWords) return std::nullopt;
    const std::uint64_t* w = words.data() + next;
    next += kOrderWords;
    if (w[0] > static_cast<std::uint64_t>(ControlKind::morph) || w[1] > UINT32_MAX || w[2] > UINT32_MAX ||
        w[4] >= kDtypeCount || w[6] > words.size() - next)
      return std::nullopt;
    auto& order = *orders.emplace_back(std::make_shared<Control>());
    order.kind = static_cast<ControlKind>(w[0]);
    order.level = static_cast<std::uint32_t>(w[1]);
    order.parameter = static_cast<std::uint32_t>(w[2]);
    order.number = w[3];
    order.dtype = static_cast<Dtype>(w[4]);
    order.not_before = w[5];
    for (const std::uint64_t word : words.subspan(next, w[6]))
      order.values.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(word)));
    next += w[6];
  }
  return orders;
}

Status restore_cells(Mesh& mesh, std::span<const std::uint64_t> words) {
  std::size_t next = 0;
  for (const auto& cell : mesh.cells()) {
    if (words.size() - next < kCellWords) return bad_cells("too short for the network's cells");
    const std::uint64_t* w = words.data() + next;
    next += kCellWords;
    if (w[0] > 1 || w[1] == 0 || w[2] >= actors::kActorStatusCount || w[7] > words.size() - next || w[8] > 1)
      return bad_cells("cell " + to_string(cell->at()) + " holds values out of range");
    cell->set_enabled(w[0] == 1);
    cell->set_period(w[1]);
    mesh.restore_supervision(cell->id(), {static_cast<actors::ActorStatus>(w[2]), w[3], w[4], w[5], w[6]});
    const auto restarts = words.subspan(next, w[7]);
    next += w[7];
    WEFT_CHECK(mesh.restore_restarts(cell->id(), {restarts.begin(), restarts.end()}));
    cell->set_marked(!mesh.registry().is_active(cell->id()));
    cell->set_reset_ordered(w[8] == 1);
    auto orders = restore_orders(words, next, w[9]);
    if (!orders) return bad_cells("cell " + to_string(cell->at()) + " holds orders out of range");
    cell->restore_deferred(*std::move(orders));
  }
  if (next != words.size()) return bad_cells("longer than the network's cells");
  return {};
}

Result<Engine::Halt> read_halt(const Mesh& mesh, const formats::JsonValue& value) {
  WEFT_TRY(formats::JsonReader reader, value.object());
  Engine::Halt halt;
  WEFT_TRY(halt.tick, reader.u64("tick", 0, UINT64_MAX - 1));
  WEFT_TRY(halt.cell, reader.u32("cell", 0, static_cast<std::uint32_t>(mesh.cells().size() - 1)));
  WEFT_TRY(const std::uint32_t kind, reader.u32("kind", 0, static_cast<std::uint32_t>(actors::FaultKind::reported)));
  halt.kind = static_cast<actors::FaultKind>(kind);
  WEFT_TRY(const std::string reason, reader.string("reason", halt.reason.size() - 1));
  std::copy(reason.begin(), reason.end(), halt.reason.begin());
  WEFT_CHECK(reader.finish());
  return halt;
}

}  // namespace

Result<formats::ByteBuffer> encode_mesh(Mesh& mesh, bool live, const SnapshotExtras& extras) {
  WEFT_TRY(const std::string network_text, write_network(mesh.spec(), -1));
  WEFT_TRY(const json network, formats::parse_json(network_text, "network"));
  WEFT_TRY(const json extra_meta, formats::parse_json(extras.meta_json, "extras"));
  json meta{{"extras", extra_meta}};
  // Deques: blobs point into their elements, which must not move.
  std::deque<std::vector<float>> floats;
  std::vector<std::uint64_t> cells;
  std::vector<Blob> blobs;
  for (const auto& parameter : mesh.weights().parameters()) {
    const auto& values = floats.emplace_back(mesh.weights().read(parameter));
    blobs.push_back(formats::make_blob(weight_name(mesh.graph().nodes()[parameter.node], *parameter.spec),
                                       weight_shape(*parameter.spec), std::span<const float>(values)));
  }
  if (live) {
    mesh.engine().deliver_all(mesh.ticks());
    meta["live"] = {{"ticks", mesh.ticks()},
                    {"sessions", mesh.sessions()},
                    {"depth", mesh.state().depth()},
                    {"keeps_history", mesh.state().options().keeps_history}};
    if (const Engine::Halt* halt = mesh.engine().halt())
      meta["live"]["halt"] = {{"tick", halt->tick},
                              {"cell", halt->cell},
                              {"kind", static_cast<std::uint32_t>(halt->kind)},
                              {"reason", halt->reason.data()}};
    for (std::size_t s = 0; s < mesh.sessions(); ++s) {
      WEFT_TRY(auto session, mesh.save_session(s));
      blobs.push_back(
          formats::make_blob(session_name(s), std::span<const float>(floats.emplace_back(std::move(session)))));
    }
    cells = cell_words(mesh);
    blobs.push_back(formats::make_blob("state/cells", std::span<const std::uint64_t>(cells)));
    // What a restart goes back to is the last checkpoint, and this is one.
    mesh.mark_checkpoint();
  }
  blobs.insert(blobs.end(), extras.blobs.begin(), extras.blobs.end());
  return formats::encode_entity(network, meta, blobs);
}

Result<NetworkSpec> network_of(const formats::EntityFile& file) {
  WEFT_TRY(const std::string text, formats::write_json(file.network()));
  return read_network(text, "network");
}

bool holds_live_state(const formats::EntityFile& file) {
  return file.meta().is_object() && file.meta().contains("live");
}

std::string extras_of(const formats::EntityFile& file) {
  const json& meta = file.meta();
  if (!meta.is_object() || !meta.contains("extras")) return "{}";
  return meta["extras"].dump();
}

std::size_t sessions_of(const formats::EntityFile& file) {
  if (!holds_live_state(file)) return 1;
  const json& live = file.meta()["live"];
  if (!live.is_object() || !live.contains("sessions") || !live["sessions"].is_number_unsigned()) return 1;
  return live["sessions"].get<std::size_t>();
}

Status restore_weights(Mesh& mesh, const formats::EntityFile& file) {
  for (auto& parameter : mesh.weights().parameters()) {
    const Node& node = mesh.graph().nodes()[parameter.node];
    WEFT_TRY(const auto values, file.values<float>(weight_name(node, *parameter.spec), weight_shape(*parameter.spec)));
    WEFT_CHECK(mesh.weights().write(parameter, values, node.object));
  }
  mesh.mark_checkpoint();
  return {};
}

Status restore_live(Mesh& mesh, const formats::EntityFile& file) {
  if (!holds_live_state(file))
    return fail(Errc::not_found, "the file holds a network and weights, but no live state to go on from");
  WEFT_TRY(formats::JsonReader live, formats::JsonReader::open(file.meta()["live"], "meta.live"));
  WEFT_TRY(const std::uint64_t ticks, live.u64("ticks"));
  WEFT_TRY(const std::uint64_t sessions, live.u64("sessions"));
  WEFT_TRY(const std::uint64_t depth, live.u64("depth"));
  WEFT_TRY(const bool keeps_history, live.boolean("keeps_history"));
  std::optional<Engine::Halt> halt;
  if (const auto found = live.find("halt")) {
    WEFT_TRY(halt, read_halt(mesh, *found));
  }
  WEFT_CHECK(live.finish());
  const auto& options = mesh.state().options();
  if (sessions != options.sessions || depth != options.depth || keeps_history != options.keeps_history)
    return fail(Errc::shape_mismatch, "live state: " + std::to_string(sessions) + " sessions with " +
                                          std::to_string(depth) + " ticks of history in the file, " +
                                          std::to_string(options.sessions) + " with " + std::to_string(options.depth) +
                                          " in the mesh; use the file's learning options and sessions");
  mesh.set_ticks(ticks);
  for (std::size_t s = 0; s < sessions; ++s) {
    WEFT_TRY(const auto values, file.values<float>(session_name(s)));
    if (auto loaded = mesh.load_session(s, values); !loaded)
      return fail(std::move(loaded).error().within(session_name(s)));
  }
  WEFT_TRY(const auto cells, file.values<std::uint64_t>("state/cells"));
  WEFT_CHECK(restore_cells(mesh, cells));
  mesh.engine().clear_halt();
  mesh.engine().look_for_orders();
  if (halt) mesh.engine().note_halt(*halt);
  mesh.mark_checkpoint();
  return {};
}

}  // namespace weft::mesh
