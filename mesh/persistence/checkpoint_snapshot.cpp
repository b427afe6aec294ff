// SPDX-License-Identifier: Apache-2.0

#include "mesh/persistence/checkpoint_snapshot.hpp"

#include "mesh/network/network_json.hpp"
#include "mesh/persistence/internal/entity_blobs.hpp"

#include "kernels/linear.hpp"

#include "core/json.hpp"

#include <nlohmann/json.hpp>

#include <bit>
#include <deque>
#include <utility>

namespace weft::mesh {
namespace {

using namespace internal;
using formats::Blob;
using nlohmann::json;

void add_cell(std::vector<std::uint64_t>& words, const Mesh& mesh, Cell& cell) {
  const actors::ActorView view = mesh.registry().view(cell.id());
  const auto restarts = mesh.supervisor().restarts(cell.id());
  words.insert(words.end(), {std::uint64_t{cell.is_enabled()}, cell.period(), static_cast<std::uint64_t>(view.status),
                             view.messages, view.faults, view.restarts, view.last_fault_tick, restarts.size(),
                             std::uint64_t{cell.is_reset_ordered()}, cell.deferred().size()});
  words.insert(words.end(), restarts.begin(), restarts.end());
  for (const CommandMessage& order : cell.deferred()) {
    words.insert(words.end(), {static_cast<std::uint64_t>(order->kind),
                               order->level | std::uint64_t{order->sender} << 32, order->parameter, order->number,
                               encoding_word(order->encoding), order->not_before, order->values.size()});
    for (const float value : order->values) words.push_back(std::bit_cast<std::uint32_t>(value));
  }
  for (const Watcher& watcher : cell.watchers()) {
    const auto memory = watcher.words();
    words.insert(words.end(), memory.begin(), memory.end());
  }
}

/// Words of a cell's part of `state/cells` before its watchers' memory.
std::size_t words_before_watchers(std::span<const std::uint64_t> words) {
  std::size_t next = kCellWords + words[7];
  for (std::uint64_t order = 0; order < words[9]; ++order) next += kOrderWords + words[next + 6];
  return next;
}

std::vector<float> row_major(const ParameterSpec& spec, const float* master) {
  if (!spec.is_matrix()) return {master, master + spec.out};
  std::vector<float> values(spec.out * spec.in);
  kernels::unpack_panels({master, spec.out, spec.in}, {values.data(), spec.out, spec.in, spec.in});
  return values;
}

/// A parameter's blobs: a matrix in its type at its true size, with scales and zero points beside it; float32 as
/// values. A live state also has the master of a matrix in another type, since learning or a later morph goes on from
/// it.
void add_weight(const ParameterSpec& spec, const std::string& base, const kernels::ConstWeight& stored,
                const float* master, std::deque<std::vector<float>>& floats,
                std::deque<QuantizedWeight::Ordered>& codes, std::vector<Blob>& blobs) {
  if (stored.codes) {
    const Encoding encoding = stored.encoding();
    const QuantizedWeight::Ordered& arrays = codes.emplace_back(QuantizedWeight::ordered(stored));
    blobs.push_back({base, std::string(name(encoding.dtype)), weight_shape(spec), arrays.codes});
    if (has_scale(encoding.dtype))
      blobs.push_back(
          {base + ".scales", std::string(scale_type(encoding.dtype)), scale_shape(encoding, spec), arrays.scales});
    if (has_zero_point(encoding.dtype))
      blobs.push_back(
          {base + ".zeros", std::string(zero_type(encoding.dtype)), scale_shape(encoding, spec), arrays.zeros});
    if (!master) return;
  }
  const auto& values = floats.emplace_back(row_major(spec, master));
  blobs.push_back(
      formats::make_blob(stored.codes ? base + ".master" : base, weight_shape(spec), std::span<const float>(values)));
}

}  // namespace

void CheckpointSnapshot::make_plan(const Mesh& mesh) {
  auto plan = std::make_shared<Plan>();
  plan->spec = mesh.spec();
  const Graph& graph = mesh.graph();
  for (const LayerSpec& layer : plan->spec.layers) plan->layers.push_back(*graph.find_layer(layer.at));
  for (NodeId id = 0; id < graph.nodes().size(); ++id) plan->first.push_back(mesh.weights().first(id));
  plan->first.push_back(mesh.weights().parameters().size());
  for (const WeightStore::Parameter& parameter : mesh.weights().parameters()) {
    const Node& node = graph.nodes()[parameter.node];
    plan->parameters.push_back({*parameter.spec, weight_name(node, *parameter.spec), node.object});
  }
  for (const auto& cell : mesh.cells()) {
    plan->cells.push_back({cell->first(), cell->layers(), cell->watchers().size()});
    plan->has_watchers = plan->has_watchers || !cell->watchers().empty();
  }
  plan_ = std::move(plan);
}

void CheckpointSnapshot::copy_cells(Mesh& mesh) {
  cells_.clear();
  for (const auto& cell : mesh.cells()) add_cell(cells_, mesh, *cell);
  changes_ = mesh.registry().changes();
}

/// The network with the types that its layers had.
NetworkSpec CheckpointSnapshot::spec() const {
  NetworkSpec now = plan_->spec;
  for (std::size_t i = 0; i < now.layers.size(); ++i) {
    LayerSpec& layer = now.layers[i];
    const Encoding& encoding = weights_.layers()[plan_->layers[i]];
    if (encoding == Encoding(layer.dtype, layer.granularity)) continue;
    layer.dtype = encoding.dtype;
    layer.granularity.reset();
    if (encoding != Encoding(encoding.dtype)) layer.granularity = encoding.granularity;
  }
  return now;
}

Hash128 CheckpointSnapshot::state_hash(std::size_t session, const LayerHash& rule) const {
  WEFT_ASSERT(is_live_ && session < state_->sessions(), "session " + std::to_string(session) + " was not captured");
  StateHasher cell_hasher, hasher;
  hasher.add(ticks_);
  std::span<const std::uint64_t> words(cells_);
  for (const Plan::CellPlan& cell : plan_->cells) {
    cell_hasher.reset();
    cell_hasher.add(words[0]);
    cell_hasher.add(words[1]);
    const std::size_t before = words_before_watchers(words), watchers = cell.watchers * Watcher::kWords;
    for (const std::uint64_t word : words.subspan(before, watchers)) cell_hasher.add(word);
    words = words.subspan(before + watchers);
    for (NodeId id = cell.first; id < cell.first + cell.layers; ++id) {
      for (const kernels::Rows rows : {state_->output(id, ticks_), state_->hidden(id, ticks_)})
        if (rows.data) cell_hasher.add(std::span<const float>(rows.row(session), rows.cols));
      for (std::size_t i = plan_->first[id]; i < plan_->first[id + 1]; ++i)
        WeightStore::hash_parameter(plan_->parameters[i].spec, weights_.stored(i, plan_->parameters[i].spec),
                                    weights_.master(i), cell_hasher);
      if (rule) rule(id, cell_hasher);
    }
    hasher.add(cell_hasher.digest());
  }
  return hasher.digest();
}

Status capture_without_mark(Mesh& mesh, bool live, CheckpointSnapshot& to) {
  // First of all: orders that are due change weights and types.
  if (live) mesh.deliver_orders();
  const bool is_known = to.mesh_ == mesh.number();
  if (!is_known) {
    to.make_plan(mesh);
    to.mesh_ = mesh.number();
    to.cells_.clear();
  }
  to.is_live_ = live;
  to.ticks_ = mesh.ticks();
  if (live && (!to.state_ || to.state_id_ != std::as_const(mesh).state().id())) {
    WEFT_TRY(to.state_, std::as_const(mesh).state().make_twin());
    to.state_id_ = std::as_const(mesh).state().id();
  }
  // Nothing fails between noting the copies and making them: what is noted counts as copied.
  to.copies_.clear();
  to.copies_.reserve(mesh.plan().regions.size() + 2 * std::as_const(mesh).weights().parameters().size());
  std::as_const(mesh).weights().copy_to(to.weights_, live, to.copies_);
  if (!live) {
    to.copies_.make(mesh.executor());
    return {};
  }
  to.state_->copy_from(std::as_const(mesh).state(), to.copies_);
  to.copies_.make(mesh.executor());
  to.sessions_born_ = mesh.sessions_born();
  if (to.cells_.empty() || to.plan_->has_watchers || to.changes_ != mesh.registry().changes()) to.copy_cells(mesh);
  to.halt_.reset();
  if (const Engine::Halt* halt = mesh.engine().halt()) to.halt_ = *halt;
  return {};
}

Status capture_mesh(Mesh& mesh, bool live, CheckpointSnapshot& to) {
  WEFT_CHECK(capture_without_mark(mesh, live, to));
  // What a restart goes back to is the last checkpoint, and this is one.
  if (live) mesh.mark_checkpoint();
  return {};
}

Result<ByteBuffer> encode_capture(const CheckpointSnapshot& capture, const SnapshotExtras& extras) {
  if (capture.empty()) return fail(Errc::invalid_argument, "capture: nothing was captured in it yet");
  const CheckpointSnapshot::Plan& plan = *capture.plan_;
  WEFT_TRY(const std::string network_text, write_network(capture.spec(), -1));
  WEFT_TRY(const json network, parse_json(network_text, "network"));
  WEFT_TRY(const json extra_meta, parse_json(extras.meta_json, "extras"));
  json meta{{"extras", extra_meta}};
  // Deques: blobs point into their elements, which must not move.
  std::deque<std::vector<float>> floats;
  std::vector<Blob> blobs;
  std::deque<QuantizedWeight::Ordered> codes;
  for (std::size_t i = 0; i < plan.parameters.size(); ++i) {
    const auto& [spec, blob, object] = plan.parameters[i];
    const kernels::ConstWeight stored = capture.weights_.stored(i, spec);
    if (stored.codes)
      if (const auto bad = QuantizedWeight::first_not_finite(stored))
        return fail(Errc::not_finite,
                    object + ": weight " + std::to_string(*bad) + " is not finite and would not be read back");
    add_weight(spec, blob, stored, capture.weights_.master(i), floats, codes, blobs);
  }
  if (capture.is_live_) {
    const State& state = *capture.state_;
    meta["live"] = {{"ticks", capture.ticks_},
                    {"sessions", state.sessions()},
                    {"sessions_born", capture.sessions_born_},
                    {"depth", state.depth()},
                    {"keeps_history", state.options().keeps_history}};
    if (capture.halt_)
      meta["live"]["halt"] = {{"tick", capture.halt_->tick},
                              {"cell", capture.halt_->cell},
                              {"kind", static_cast<std::uint32_t>(capture.halt_->kind)},
                              {"reason", capture.halt_->reason.data()}};
    for (std::size_t s = 0; s < state.sessions(); ++s) {
      auto& session = floats.emplace_back(state.session_size());
      state.save_session(s, capture.ticks_, session);
      blobs.push_back(formats::make_blob(session_name(s), std::span<const float>(session)));
    }
    blobs.push_back(formats::make_blob("state/cells", std::span<const std::uint64_t>(capture.cells_)));
  }
  blobs.insert(blobs.end(), extras.blobs.begin(), extras.blobs.end());
  return formats::encode_entity(network, meta, blobs);
}

Result<ByteBuffer> encode_mesh(Mesh& mesh, bool live, const SnapshotExtras& extras) {
  CheckpointSnapshot capture;
  WEFT_CHECK(capture_without_mark(mesh, live, capture));
  WEFT_TRY(auto bytes, encode_capture(capture, extras));
  if (live) mesh.mark_checkpoint();
  return bytes;
}

}  // namespace weft::mesh
