// SPDX-License-Identifier: Apache-2.0

#include "mesh/persistence/entity_model.hpp"

#include "mesh/mesh_access.hpp"
#include "mesh/network/network_json.hpp"
#include "mesh/persistence/internal/entity_blobs.hpp"
#include "mesh/runtime/cell.hpp"
#include "mesh/runtime/cell_record.hpp"
#include "mesh/runtime/command.hpp"
#include "mesh/runtime/engine.hpp"
#include "mesh/runtime/state.hpp"
#include "mesh/weights/weight_store.hpp"

#include "scheduler/shared_tasks.hpp"

#include "kernels/linear.hpp"

#include "core/json_reader.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <optional>

namespace weft::mesh {
namespace {

using formats::Tensor;
using namespace internal;

Failure bad_cells(const std::string& what) { return fail(Errc::corrupt, "state/cells: " + what); }

Status restore_cells(Mesh& mesh, std::span<const std::uint64_t> words) {
  WordReader reader(words);
  for (const auto& cell : MeshAccess::cells(mesh)) {
    CellRecord record;
    record.prepare(cell->observer_sizes(), cell->mail() != nullptr);
    CellRecord::visit(record, reader);
    if (reader.is_short()) return bad_cells("too short for the network's cells");
    const bool is_known = std::all_of(record.commands.begin(), record.commands.end(), [&](const auto& command) {
      return !command || command->sender <= mesh.graph().nodes().size();
    });
    if (reader.has_failed() || !is_known)
      return bad_cells("cell " + to_string(cell->at()) + " holds values out of range: " +
                       (is_known ? std::string(reader.failed_field()) : "a command's sender"));
    const bool is_mail = std::all_of(record.mail.begin(), record.mail.end(), [&](const MailPointer& mail) {
      return mail && way_of(mail->type) == MessageWay::mailed && mail->type != MessageType::command &&
             mail->level < cell->layers() && mail->sender <= mesh.graph().nodes().size() &&
             (mail->sender == 0 || mail->sender > mesh.graph().port_count()) &&
             cell->handles(cell->first() + mail->level, mail->type) &&
             (mail->kind == Mail::Kind::reply ? mail->sender != 0 : mail->failure == 0);
    });
    if (!is_mail) return bad_cells("cell " + to_string(cell->at()) + " holds mail of nobody, or for nobody");
    if (auto restored = MeshAccess::restore_cell(mesh, *cell, record); !restored)
      return bad_cells(restored.error().text());
  }
  if (reader.words_left() != 0) return bad_cells("longer than the network's cells");
  return {};
}

/// An archive over the rows of a session, one after the other.
class RowsArchive {
 public:
  explicit RowsArchive(std::span<const float> rows) : left_(rows) {}
  void operator()(const Field&, std::span<float> row) {
    std::copy_n(left_.data(), row.size(), row.data());
    skip(row.size());
  }
  void skip(std::size_t floats) { left_ = left_.subspan(floats); }

 private:
  std::span<const float> left_;
};

Status restore_session(Mesh& mesh, std::size_t session, const LiveHistory& history, const formats::EntityFile& file) {
  WEFT_TRY(const auto values, file.values<float>(session_name(session)));
  State& state = MeshAccess::state(mesh);
  const std::size_t wanted = history.kept ? state.session_bytes_of({}, history.kept)
                                          : state.session_bytes_of(history.node_depths, history.depth);
  if (values.size_bytes() != wanted)
    return fail(Errc::shape_mismatch, "session state: " + std::to_string(values.size()) + " values where " +
                                          std::to_string(wanted / sizeof(float)) +
                                          " are expected; network or history depth differ");
  RowsArchive archive(values);
  if (history.kept) state.reset_session(session, mesh.ticks());  // what no step to come reads
  if (history.node_depths.empty() || history.kept)
    state.visit_session_of(history.kept ? history.kept : history.depth, session, mesh.ticks(), archive);
  else
    state.visit_session(session, mesh.ticks(), archive);
  if (const auto bad = state.first_not_finite(session, mesh.ticks()))
    // A file that keeps more of the past than the mesh has its values elsewhere.
    return fail(Errc::corrupt,
                "session state: value " + std::to_string(*bad) +
                    (wanted == state.session_bytes() ? " is " + std::to_string(values[*bad]) : " is not finite"));
  file.forget(session_name(session));
  return {};
}

Result<Halt> read_halt(const Mesh& mesh, const JsonValue& value) {
  WEFT_TRY(JsonReader reader, value.object());
  Halt halt;
  WEFT_TRY(halt.tick, reader.u64("tick", 0, UINT64_MAX - 1));
  WEFT_TRY(halt.cell, reader.u32("cell", 0, static_cast<std::uint32_t>(MeshAccess::cells(mesh).size() - 1)));
  WEFT_TRY(const std::uint32_t kind, reader.u32("kind", 0, static_cast<std::uint32_t>(actors::FaultKind::reported)));
  halt.kind = static_cast<actors::FaultKind>(kind);
  WEFT_TRY(const std::string reason, reader.string("reason", halt.reason.size() - 1));
  std::copy(reason.begin(), reason.end(), halt.reason.begin());
  WEFT_CHECK(reader.finish());
  return halt;
}

Result<ByteSpan> bytes_of(const formats::EntityFile& file, const std::string& name, std::string_view type,
                          const Shape& shape) {
  WEFT_TRY(const formats::Tensor blob, file.find(name));
  if (blob.type != type || blob.shape != shape)
    return fail(Errc::shape_mismatch, name + ": " + blob.type + " " + weft::to_string(blob.shape) + " in the file, " +
                                          std::string(type) + " " + weft::to_string(shape) + " in the network");
  return blob.bytes;
}

/// Encoding of a matrix in the file; `wanted` when its shapes fit that too. @error not_found, shape_mismatch,
/// unsupported
Result<Encoding> encoding_in(const formats::EntityFile& file, const std::string& base, const ParameterSpec& spec,
                             const Encoding& wanted) {
  WEFT_TRY(const formats::Tensor codes, file.find(base));
  const auto dtype = parse_dtype(codes.type);
  if (!dtype) return fail(Errc::shape_mismatch, base + ": holds " + codes.type + ", which is no type of weights");
  if (!has_scale(*dtype)) return Encoding(*dtype);
  WEFT_TRY(const formats::Tensor scales, file.find(base + ".scales"));
  if (wanted.dtype == *dtype && scales.shape == scale_shape(wanted, spec) && scales.type == scale_type(wanted))
    return wanted;
  const bool in_half = scales.type == scale_type(Encoding(*dtype, Granularity::block32_f16)) &&
                       scales.type != scale_type(Encoding(*dtype, Granularity::block32));
  return Encoding(*dtype, scales.shape.size() == 2   ? in_half ? Granularity::block32_f16 : Granularity::block32
                          : scales.shape == Shape{1} ? Granularity::tensor
                                                     : Granularity::channel);
}

Status restore_stored(QuantizedWeight& stored, const ParameterSpec& spec, const std::string& base,
                      const formats::EntityFile& file) {
  const Encoding encoding = stored.encoding();
  std::array<ByteSpan, kStoredArrays.size()> arrays;
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    const StoredArray& row = kStoredArrays[i];
    if (!row.is_in(encoding.dtype)) continue;
    WEFT_TRY(arrays[i], bytes_of(file, base + std::string(row.suffix), row.type(encoding), row.shape(encoding, spec)));
  }
  if (auto restored = stored.restore(arrays[0], arrays[1], arrays[2]); !restored)
    return fail(std::move(restored).error().within(base));
  if (const auto bad = stored.first_not_finite())
    return fail(Errc::corrupt, base + ": weight " + std::to_string(*bad) +
                                   " dequantizes to an infinity or NaN; weights must be finite");
  return {};
}

/// Reports a value that is not finite as an error of the file.
Status of_file(Status status) {
  if (!status && status.error().code() == Errc::not_finite) return fail(Errc::corrupt, status.error().text());
  return status;
}

/// The values of a matrix that the file holds in another type than the mesh.
Result<std::vector<float>> dequantized_values(const WeightStore& weights, std::size_t i, const Encoding& encoding,
                                              const std::string& base, const formats::EntityFile& file) {
  const ParameterSpec& spec = *weights.parameters()[i].spec;
  WEFT_TRY(QuantizedWeight stored, weights.make_stored(i, encoding));
  WEFT_CHECK(restore_stored(stored, spec, base, file));
  AlignedBuffer<float> panels(spec.stored_size());
  stored.dequantize({panels.data(), spec.out, spec.in});
  std::vector<float> values(spec.out * spec.in);
  kernels::unpack_panels({panels.data(), spec.out, spec.in}, {values.data(), spec.out, spec.in, spec.in});
  return values;
}

/// Row-major float32 values into a parameter, some rows at a time where there is a master that takes them.
Status restore_values(WeightStore& weights, WeightStore::Parameter& parameter, const std::string& name,
                      const formats::EntityFile& file) {
  const ParameterSpec& spec = *parameter.spec;
  if (!spec.is_matrix() || !parameter.data) {
    WEFT_TRY(const auto values, file.values<float>(name, weight_shape(spec)));
    return of_file(weights.write(parameter, values, "values"));
  }
  WEFT_CHECK(file.check(name, "float32", weight_shape(spec)));
  std::size_t row = 0;
  const std::size_t unit = kernels::kPanelWidth * spec.in * sizeof(float);
  const auto take = [&](ByteSpan part) -> Status {
    const std::span rows(reinterpret_cast<const float*>(part.data()), part.size() / sizeof(float));
    WEFT_CHECK(of_file(weights.write_rows(parameter, row, rows, "values")));
    row += rows.size() / spec.in;
    return {};
  };
  WEFT_CHECK(file.read(name, unit, take));
  weights.end_rows(parameter);
  return {};
}

Status restore_weight(Mesh& mesh, WeightStore::Parameter& parameter, const std::string& base,
                      const formats::EntityFile& file) {
  WeightStore& weights = MeshAccess::weights(mesh);
  const std::size_t i = weights.first(parameter.node) + parameter.index;
  Encoding encoding;
  if (parameter.spec->is_matrix()) {
    WEFT_TRY(encoding, encoding_in(file, base, *parameter.spec, weights.encoding_of(i)));
  }
  QuantizedWeight* const stored = weights.stored(i);
  const bool is_same = stored && stored->encoding() == encoding;
  const bool has_master = file.contains(base + ".master");
  if (has_master || encoding.dtype == Dtype::float32) {
    WEFT_CHECK(restore_values(weights, parameter, has_master ? base + ".master" : base, file));
  } else if (!is_same) {
    WEFT_TRY(const auto values, dequantized_values(weights, i, encoding, base, file));
    WEFT_CHECK(of_file(weights.write(parameter, values, "values")));
  }
  if (!is_same) return {};
  // The codes come last: what is in the file computes, not what its master would be quantized to.
  WEFT_CHECK(restore_stored(*stored, *parameter.spec, base, file));
  if (!has_master) weights.dequantize_master(i);
  return {};
}

}  // namespace

Result<NetworkSpec> network_of(const formats::EntityFile& file) {
  WEFT_TRY(const std::string text, write_json(file.network()));
  return read_network(text, "network");
}

bool holds_live_state(const formats::EntityFile& file) {
  return file.meta().is_object() && file.meta().contains("live");
}

std::string extras_of(const formats::EntityFile& file) {
  const Json& meta = file.meta();
  if (!meta.is_object() || !meta.contains("extras")) return "{}";
  return meta["extras"].dump();
}

std::size_t sessions_of(const formats::EntityFile& file) {
  if (!holds_live_state(file)) return 1;
  const Json& live = file.meta()["live"];
  if (!live.is_object() || !live.contains("sessions") || !live["sessions"].is_natural()) return 1;
  return live["sessions"].get<std::size_t>();
}

Status restore_weights(Mesh& mesh, const formats::EntityFile& file) {
  WeightStore& weights = MeshAccess::weights(mesh);
  // Layer by layer, which share nothing but the file.
  std::vector<Status> restored(weights.node_count());
  scheduler::run_tasks(MeshAccess::executor(mesh), restored.size(), [&](std::size_t id) {
    for (auto& parameter : weights.of(static_cast<NodeId>(id))) {
      const std::string base = weight_name(mesh.graph().nodes()[id], *parameter.spec);
      restored[id] = restore_weight(mesh, parameter, base, file);
      if (!restored[id]) return;
      // The mesh has its own copy: a mapped file's pages need not stay beside it.
      file.forget(base);
      file.forget(base + ".master");
    }
  });
  WEFT_CHECK(file.intact());  // says more than what zeros were taken for
  for (std::size_t id = 0; id < restored.size(); ++id)
    if (!restored[id]) return fail(std::move(restored[id]).error().within(mesh.graph().nodes()[id].object));
  MeshAccess::take_cell_snapshots(mesh);
  return {};
}

namespace {

Result<LiveHistory> read_history(JsonReader& live) {
  constexpr std::uint64_t kDeepest = std::uint64_t{1} << 32;
  LiveHistory history;
  WEFT_TRY(history.depth, live.u64("depth", 2, kDeepest));
  const auto check = [](std::uint64_t depth, const std::string& path) -> Status {
    if (std::has_single_bit(depth)) return {};
    return fail(Errc::corrupt, path + ": " + std::to_string(depth) + " ticks of history, not a power of two");
  };
  WEFT_CHECK(check(history.depth, live.path_of("depth")));
  WEFT_TRY(history.keeps_history, live.boolean("keeps_history"));
  if (live.find("kept")) {
    WEFT_TRY(history.kept, live.u64("kept", 1, history.depth));
  }
  const auto found = live.find("node_depths");
  if (!found) return history;
  WEFT_TRY(const auto depths, found->array());
  for (const JsonValue& value : depths) {
    WEFT_TRY(history.node_depths.emplace_back(), value.u32(2, static_cast<std::uint32_t>(history.depth)));
    WEFT_CHECK(check(history.node_depths.back(), value.path()));
  }
  return history;
}

/// History that `to` keeps can be taken from a file: it has the same, or at least as many ticks of every node.
bool can_take(const State::Options& to, const LiveHistory& history) {
  if (history.kept) return history.kept <= 2;  // every state has so many
  return history.node_depths.empty() ? history.depth >= to.depth
                                     : history.depth == to.depth && history.node_depths == to.node_depths;
}

}  // namespace

Result<LiveHistory> history_of(const formats::EntityFile& file) {
  WEFT_TRY(JsonReader live, JsonReader::open(file.meta()["live"], "meta.live"));
  return read_history(live);
}

Status restore_live(Mesh& mesh, const formats::EntityFile& file) {
  if (!holds_live_state(file))
    return fail(Errc::not_found, "the file holds a network and weights, but no live state to go on from");
  WEFT_TRY(JsonReader live, JsonReader::open(file.meta()["live"], "meta.live"));
  WEFT_TRY(const std::uint64_t ticks, live.u64("ticks"));
  WEFT_TRY(const std::uint64_t sessions, live.u64("sessions"));
  // Files from before it was counted have no such number.
  WEFT_TRY(const std::uint64_t created, live.u64("sessions_created", sessions));
  WEFT_TRY(const LiveHistory history, read_history(live));
  std::optional<Halt> halt;
  if (const auto found = live.find("halt")) {
    WEFT_TRY(halt, read_halt(mesh, *found));
  }
  WEFT_CHECK(live.finish());
  const auto& options = MeshAccess::state(mesh).options();
  if (sessions != options.sessions || !can_take(options, history) || history.keeps_history != options.keeps_history)
    return fail(Errc::shape_mismatch, "live state: " + std::to_string(sessions) + " sessions with " +
                                          std::to_string(history.depth) + " ticks of history in the file, " +
                                          std::to_string(options.sessions) + " with " + std::to_string(options.depth) +
                                          " in the mesh; use the file's learning options and sessions");
  if (created < sessions || created >> 48 != 0)
    return fail(Errc::corrupt, "meta.live.sessions_created: " + std::to_string(created) + " where " +
                                   std::to_string(sessions) + " sessions live");
  MeshAccess::set_ticks(mesh, ticks);
  MeshAccess::set_sessions_created(mesh, created);
  for (std::size_t s = 0; s < sessions; ++s)
    if (auto loaded = restore_session(mesh, s, history, file); !loaded)
      return fail(std::move(loaded).error().within(session_name(s)));
  WEFT_TRY(const auto cells, file.values<std::uint64_t>("state/cells"));
  MeshAccess::engine(mesh).commands().forget_mail();
  WEFT_CHECK(restore_cells(mesh, cells));
  WEFT_CHECK(file.intact());
  MeshAccess::engine(mesh).clear_halt();
  MeshAccess::engine(mesh).commands().expect_deferred();
  if (halt) MeshAccess::engine(mesh).note_halt(*halt);
  MeshAccess::take_cell_snapshots(mesh);
  return {};
}

}  // namespace weft::mesh
