// SPDX-License-Identifier: Apache-2.0

#include "mesh/persistence/mesh_view.hpp"

#include "mesh/mesh_access.hpp"
#include "mesh/network/network_json.hpp"
#include "mesh/persistence/internal/entity_blobs.hpp"
#include "mesh/runtime/cell.hpp"
#include "mesh/runtime/cell_hash.hpp"
#include "mesh/runtime/cell_record.hpp"
#include "mesh/runtime/command.hpp"
#include "mesh/runtime/halt.hpp"
#include "mesh/weights/weight_store.hpp"

#include "kernels/linear.hpp"
#include "kernels/weight_layout.hpp"

#include "core/json.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

namespace weft::mesh {
namespace {

using namespace internal;
using formats::Tensor;

constexpr std::size_t kPartBytes = std::size_t{1} << 20;  // of a matrix, about, that is brought into file order at once

/// Hands a matrix to `part` in ranges of whole panels, about kPartBytes each.
Status each_range(std::size_t out, std::size_t panel_bytes,
                  const std::function<Status(std::size_t first, std::size_t panels)>& part) {
  const std::size_t all = kernels::panel_count(out);
  const std::size_t at_once = std::max<std::size_t>(kPartBytes / std::max<std::size_t>(panel_bytes, 1), 1);
  for (std::size_t first = 0; first < all; first += at_once) WEFT_CHECK(part(first, std::min(at_once, all - first)));
  return {};
}

/// Row-major values of a float32 matrix or vector.
Tensor master_tensor(std::string name, const ParameterSpec& spec, const float* master) {
  Tensor tensor{std::move(name), "float32", weight_shape(spec), {}};
  if (!spec.is_matrix()) {
    tensor.bytes = std::as_bytes(std::span(master, spec.out));
    return tensor;
  }
  tensor.produce = [out = spec.out, in = spec.in, master](const ByteSource::Sink& sink) {
    const std::size_t panel = kernels::panels_size(kernels::kPanelWidth, in);
    AlignedBuffer<float> rows;
    return each_range(out, panel * sizeof(float), [&](std::size_t first, std::size_t panels) {
      const std::size_t count = std::min(out - first * kernels::kPanelWidth, panels * kernels::kPanelWidth);
      if (rows.size() < count * in) rows = AlignedBuffer<float>(count * in);
      kernels::unpack_panels({master + first * panel, count, in}, {rows.data(), count, in, in});
      return sink(std::as_bytes(std::span(rows.data(), count * in)));
    });
  };
  return tensor;
}

/// One array of a weight that is stored in another type than float32, in file order.
Tensor stored_tensor(std::string name, std::string_view type, Shape shape, const kernels::ConstWeight& stored,
                     std::span<std::byte> kernels::OrderedWeight::*array, std::size_t kernels::WeightBytes::*size) {
  Tensor tensor{std::move(name), std::string(type), std::move(shape), {}};
  tensor.produce = [stored, array, size](const ByteSource::Sink& sink) {
    AlignedBuffer<std::byte> bytes;
    const auto give = [&](const kernels::ConstWeight& part) {
      const std::size_t wanted = kernels::ordered_bytes(part.encoding(), part.out, part.in).*size;
      if (bytes.size() < wanted) bytes = AlignedBuffer<std::byte>(wanted);
      kernels::OrderedWeight to;
      to.*array = std::span(bytes.data(), wanted);
      kernels::export_weight(part, to);
      return sink(ByteSpan(bytes.data(), wanted));
    };
    // One scale for all of a weight: no range has it.
    if (size != &kernels::WeightBytes::codes && stored.granularity == Granularity::tensor) return give(stored);
    const std::size_t panel = kernels::weight_bytes(stored.encoding(), kernels::kPanelWidth, stored.in).codes;
    return each_range(stored.out, panel, [&](std::size_t first, std::size_t panels) {
      return give(kernels::panel_range(stored, first, panels));
    });
  };
  return tensor;
}

/// A parameter's tensors: a matrix in its type at its true size, with scales and zero points beside it; float32 as
/// values. A live state also has the master of a matrix in another type, since learning or a later morph goes on from
/// it.
void add_weight(const ParameterSpec& spec, const std::string& base, const MeshView::Weight& weight,
                std::vector<Tensor>& tensors) {
  if (weight.stored.codes) {
    const Encoding encoding = weight.stored.encoding();
    for (const StoredArray& row : kStoredArrays)
      if (row.is_in(encoding.dtype))
        tensors.push_back(stored_tensor(base + std::string(row.suffix), row.type(encoding), row.shape(encoding, spec),
                                        weight.stored, row.array, row.size));
    if (!weight.master) return;
  }
  tensors.push_back(master_tensor(weight.stored.codes ? base + ".master" : base, spec, weight.master));
}

/// Rows of a session, gathered into parts.
class SessionArchive {
 public:
  explicit SessionArchive(const ByteSource::Sink& sink) : sink_(sink), held_(kCapacity) {}

  void operator()(const Field&, std::span<const float> values) {
    if (!status_) return;
    while (!values.empty()) {
      const std::size_t count = std::min(values.size(), kCapacity - size_);
      std::copy_n(values.data(), count, held_.data() + size_);
      size_ += count;
      values = values.subspan(count);
      if (size_ == kCapacity) flush();
    }
  }
  /// Ticks that a node does not keep: none where fewer are written than all keep.
  void skip(std::size_t) noexcept {}
  Status finish() {
    flush();
    return std::move(status_);
  }

 private:
  static constexpr std::size_t kCapacity = std::size_t{1} << 16;  // floats
  void flush() {
    if (const std::size_t size = std::exchange(size_, 0); size && status_)
      status_ = sink_(std::as_bytes(std::span(held_.data(), size)));
  }
  const ByteSource::Sink& sink_;
  AlignedBuffer<float> held_;
  std::size_t size_ = 0;
  Status status_;
};

/// `kept`: ticks of each node; 0: all.
Tensor session_tensor(const State& state, std::size_t session, std::uint64_t tick, std::size_t kept) {
  const std::size_t bytes = kept ? state.session_bytes_of({}, kept) : state.session_bytes();
  Tensor tensor{session_name(session), "float32", Shape{bytes / sizeof(float)}, {}};
  tensor.produce = [&state, session, tick, kept](const ByteSource::Sink& sink) {
    SessionArchive archive(sink);
    if (kept)
      state.visit_session_of(kept, session, tick, archive);
    else
      state.visit_session(session, tick, archive);
    return archive.finish();
  };
  return tensor;
}

Json live_meta(const MeshView& view, std::size_t kept) {
  const State::Options& options = view.state->options();
  Json live{{"ticks", view.ticks},
            {"sessions", options.sessions},
            {"sessions_created", view.sessions_created},
            {"depth", options.depth},
            {"keeps_history", options.keeps_history}};
  if (!options.node_depths.empty()) live["node_depths"] = options.node_depths;
  if (kept) live["kept"] = kept;
  if (view.halt)
    live["halt"] = {{"tick", view.halt->tick},
                    {"cell", view.halt->cell},
                    {"kind", static_cast<std::uint32_t>(view.halt->kind)},
                    {"reason", view.halt->reason.data()}};
  return live;
}

}  // namespace

MeshPlan::MeshPlan(const Mesh& mesh) : spec(mesh.spec()) {
  const Graph& graph = mesh.graph();
  for (const LayerSpec& layer : spec.layers) layers.push_back(*graph.find_layer(layer.at));
  for (NodeId id = 0; id < graph.nodes().size(); ++id) first.push_back(MeshAccess::weights(mesh).first(id));
  first.push_back(MeshAccess::weights(mesh).parameters().size());
  for (const WeightStore::Parameter& parameter : MeshAccess::weights(mesh).parameters()) {
    const Node& node = graph.nodes()[parameter.node];
    parameters.push_back({*parameter.spec, weight_name(node, *parameter.spec), node.object});
  }
  for (const auto& cell : MeshAccess::cells(mesh)) {
    cells.push_back({cell->first(), cell->layers(), cell->observer_sizes(), cell->mail() != nullptr});
    has_observers = has_observers || !cell->observers().empty();
  }
}

void add_cell_words(const Mesh& mesh, std::vector<std::uint64_t>& words) {
  CellRecord record;
  add_cell_words(mesh, words, record);
}

void add_cell_words(const Mesh& mesh, std::vector<std::uint64_t>& words, CellRecord& record) {
  WordWriter archive(words);
  for (const auto& cell : MeshAccess::cells(mesh)) {
    cell->record(mesh.supervisor(), record);
    CellRecord::visit(std::as_const(record), archive);
  }
  record.commands.clear();
}

MeshView view_of(const Mesh& mesh, bool live) {
  MeshView view;
  view.plan = std::make_shared<const MeshPlan>(mesh);
  view.ticks = mesh.ticks();
  const WeightStore& weights = MeshAccess::weights(mesh);
  for (NodeId node = 0; node < weights.node_count(); ++node) view.encodings.push_back(weights.encoding(node));
  for (std::size_t i = 0; i < weights.parameters().size(); ++i) {
    const QuantizedWeight* const stored = weights.stored(i);
    view.weights.push_back(
        {stored ? stored->view() : kernels::ConstWeight(), live || !stored ? weights.parameters()[i].data : nullptr});
  }
  if (!live) return view;
  view.state = &MeshAccess::state(mesh);
  view.sessions_created = MeshAccess::sessions_created(mesh);
  auto cells = std::make_shared<std::vector<std::uint64_t>>();
  add_cell_words(mesh, *cells);
  view.cells = std::move(cells);
  if (const auto halt = MeshAccess::halt(mesh)) view.halt = *halt;
  return view;
}

NetworkSpec current_spec(const MeshView& view) {
  NetworkSpec now = view.plan->spec;
  for (std::size_t i = 0; i < now.layers.size(); ++i) set_encoding(now.layers[i], view.encodings[view.plan->layers[i]]);
  return now;
}

Hash128 state_hash(const MeshView& view, std::size_t session, const LayerHash& rule) {
  WEFT_ASSERT(view.state && session < view.state->sessions(), "session " + std::to_string(session) + " is not in it");
  const MeshPlan& plan = *view.plan;
  StateHasher hasher;
  hasher.add(view.ticks);
  WordReader words(*view.cells);
  CellRecord record;
  for (const MeshPlan::CellPlan& cell : plan.cells) {
    record.prepare(cell.observers, cell.takes_mail);
    CellRecord::visit(record, words);
    hasher.add(hash_cell(
        record, {cell.first, cell.layers}, *view.state, session, view.ticks,
        [&](NodeId id, HashArchive& archive) {
          for (std::size_t i = plan.first[id]; i < plan.first[id + 1]; ++i)
            WeightStore::visit_parameter(plan.parameters[i].spec, view.weights[i].stored, view.weights[i].master,
                                         archive);
        },
        rule));
  }
  return hasher.digest();
}

Result<ByteSource> entity_of(const MeshView& view, const CheckpointExtras& extras) {
  const MeshPlan& plan = *view.plan;
  NetworkSpec spec = current_spec(view);
  if (extras.stream) spec.stream = *extras.stream;
  if (extras.learning) spec.learning = *extras.learning;
  WEFT_TRY(const std::string network_text, write_network(spec, -1));
  WEFT_TRY(const Json network, parse_json(network_text, "network"));
  WEFT_TRY(const Json extra_meta, parse_json(extras.meta_json, "extras"));
  Json meta{{"extras", extra_meta}};
  std::vector<Tensor> tensors;
  for (std::size_t i = 0; i < plan.parameters.size(); ++i) {
    const auto& [parameter, name, object] = plan.parameters[i];
    if (view.weights[i].stored.codes)
      if (const auto bad = QuantizedWeight::first_not_finite(view.weights[i].stored))
        return fail(Errc::not_finite,
                    object + ": weight " + std::to_string(*bad) + " is not finite and would not be read back");
    add_weight(parameter, name, view.weights[i], tensors);
  }
  if (view.state) {
    // A halt leaves steps half done.
    const std::size_t kept = view.halt ? 0 : extras.kept_ticks;
    meta["live"] = live_meta(view, kept);
    for (std::size_t s = 0; s < view.state->sessions(); ++s)
      tensors.push_back(session_tensor(*view.state, s, view.ticks, kept));
    Tensor cells{"state/cells", "u64", Shape{view.cells->size()}, {}};
    cells.produce = [words = view.cells](const ByteSource::Sink& sink) {
      return words->empty() ? Status() : sink(std::as_bytes(std::span(*words)));
    };
    tensors.push_back(std::move(cells));
  }
  tensors.insert(tensors.end(), extras.tensors.begin(), extras.tensors.end());
  return formats::entity_source(network, meta, std::move(tensors));
}

Result<ByteSource> entity_of(Mesh& mesh, bool live, const CheckpointExtras& extras) {
  // First: commands that are due change weights and types.
  if (live) MeshAccess::deliver_commands(mesh);
  WEFT_TRY(ByteSource source, entity_of(view_of(mesh, live), extras));
  if (live) MeshAccess::take_cell_snapshots(mesh);
  return source;
}

Result<ByteBuffer> encode_mesh(Mesh& mesh, bool live, const CheckpointExtras& extras) {
  WEFT_TRY(const ByteSource source, entity_of(mesh, live, extras));
  return collect(source);
}

}  // namespace weft::mesh
