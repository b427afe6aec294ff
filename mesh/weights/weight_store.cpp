// SPDX-License-Identifier: Apache-2.0

#include "mesh/weights/weight_store.hpp"

#include "mesh/layers/init.hpp"

#include "kernels/finite.hpp"
#include "kernels/linear.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>

namespace weft::mesh {
namespace {
constexpr std::size_t kFilledAtOnce = std::size_t{1} << 18;  // floats

/// `first`: index of the first of `values` in the parameter.
Status check_finite(const ParameterSpec& spec, std::size_t first, std::span<const float> values,
                    std::string_view object) {
  if (kernels::is_finite({values.data(), 1, values.size(), values.size()})) return {};
  for (std::size_t i = 0; i < values.size(); ++i)
    if (!std::isfinite(values[i]))
      return fail(Errc::not_finite, std::string(object) + " '" + spec.name + "': value " + std::to_string(first + i) +
                                        " is " + std::to_string(values[i]) + "; weights must be finite");
  return {};
}

/// One stream a parameter: adding a bias to a layer leaves its weights as they were. Sixteen a place; what a large
/// container has more of lies beyond every place.
std::uint64_t place_of(const Graph& graph, const WeightStore::Parameter& parameter) {
  return graph.spec().grid.index(graph.nodes()[parameter.node].at) * 16 + parameter.index % 16 +
         (std::uint64_t{parameter.index / 16} << 44);
}

}  // namespace

Result<WeightStore> WeightStore::build(const Graph& graph, const std::vector<std::uint32_t>& node_region,
                                       const topology::Plan& plan, topology::NodeMemory& memory, bool keeps_masters) {
  static std::atomic<std::uint64_t> last{0};
  WeightStore store;
  store.number_ = last.fetch_add(1, std::memory_order_relaxed) + 1;
  store.memory_ = ParameterMemory(plan, memory);
  store.rates = LayerRates(graph);
  std::vector<bool> has_master;
  std::vector<Encoding> encodings;
  for (NodeId id = 0; id < graph.nodes().size(); ++id) {
    const Node& node = graph.nodes()[id];
    store.first_.push_back(static_cast<std::uint32_t>(store.parameters_.size()));
    store.layers_.push_back({node.encoding, true, 0});
    if (node.is_port()) continue;
    for (std::uint32_t i = 0; i < node.layer->parameters().size(); ++i) {
      const ParameterSpec& spec = node.layer->parameters()[i];
      store.parameters_.push_back({id, i, &spec, nullptr, 0});
      store.memory_.add(spec.stored_size(), node_region[id]);
      const Encoding encoding = node.encoding_of(spec);
      has_master.push_back(keeps_masters || node.trains_stored(spec) || encoding.dtype == Dtype::float32);
      encodings.push_back(encoding);
      store.storage_.emplace_back().trains_stored = node.trains_stored(spec);
      kernels::ConstWeight view;
      view.out = spec.out;
      view.in = spec.in;
      view.activations = spec.own.activations.value_or(node.activations);
      store.views_.push_back(view);
    }
  }
  store.first_.push_back(static_cast<std::uint32_t>(store.parameters_.size()));
  store.backward_views_ = store.views_;
  store.tied_ = TiedWeights(graph, store.first_);
  WEFT_CHECK(store.make_arena(has_master));
  std::vector<std::size_t> bytes(store.parameters_.size());
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const ParameterSpec& spec = *store.parameters_[i].spec;
    if (encodings[i].dtype != Dtype::float32) bytes[i] = QuantizedWeight::block_size(encodings[i], spec.out, spec.in);
  }
  WEFT_TRY(auto arenas, store.memory_.make_arenas(bytes));
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] == 0) continue;
    WEFT_TRY(auto made, store.make_stored(i, encodings[i], arenas));
    store.storage_[i].active = std::make_unique<QuantizedWeight>(std::move(made));
  }
  for (NodeId node = 0; node < store.node_count(); ++node) store.set_views(node);
  return store;
}

// Masters of `is_inside` side by side, region by region; those that have one keep their values.
Status WeightStore::make_arena(const std::vector<bool>& is_inside) {
  WEFT_TRY(ParameterBuffer arena, memory_.make_buffer(is_inside));
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    float* const place = arena.data(i);
    if (!place) continue;
    if (parameters_[i].data)
      std::memcpy(place, parameters_[i].data, parameters_[i].spec->stored_size() * sizeof(float));
    parameters_[i].data = place;
  }
  arena_ = std::move(arena);
  return {};
}

void WeightStore::set_views(NodeId node) noexcept {
  const auto parameters = of(node);
  layers_[node].has_masters =
      std::all_of(parameters.begin(), parameters.end(), [](const Parameter& p) { return p.data != nullptr; });
  ++layers_[node].changes;
  note_change();
  for (std::size_t i = first_[node]; i < first_[node + 1]; ++i) {
    kernels::ConstWeight view;
    if (const QuantizedWeight* const stored = storage_[i].active.get()) {
      view = stored->view();
    } else {
      view.codes = parameters_[i].data;
      view.out = parameters_[i].spec->out;
      view.in = parameters_[i].spec->in;
    }
    view.activations = views_[i].activations;
    views_[i] = view;
    kernels::ConstWeight& backward = backward_views_[i];
    backward = view;
    if (!storage_[i].trains_stored && layers_[node].has_masters) {
      backward = kernels::ConstWeight({parameters_[i].data, view.out, view.in});
      backward.activations = view.activations;
    }
    tied_.set(i, views_[i], backward);
  }
}

void WeightStore::set_version(std::size_t parameter, std::uint64_t version) noexcept {
  // Going back, it may come to versions that there were, with other values.
  if (version < parameters_[parameter].version) ++layers_[parameters_[parameter].node].changes;
  parameters_[parameter].version = version;
  if (QuantizedWeight* const stored = storage_[parameter].active.get()) stored->version = version;
}

/// Some rows at a time, so that a large matrix takes no second of its size.
void WeightStore::fill_rows(Parameter& parameter, RandomStream& random) {
  const ParameterSpec& spec = *parameter.spec;
  const std::size_t panel = kernels::kPanelWidth * spec.in;
  const std::size_t at_once = std::max<std::size_t>(kFilledAtOnce / panel, 1) * kernels::kPanelWidth;
  std::vector<float> values;
  for (std::size_t first = 0; first < spec.out; first += at_once) {
    values.resize(std::min(at_once, spec.out - first) * spec.in);
    spec.init(random, values);
    const Status written = write_rows(parameter, first, values, spec.name);
    WEFT_ASSERT(written, "an initializer made values that cannot be stored: " + written.error().text());
  }
  end_rows(parameter);
}

std::vector<float> WeightStore::draw(const Graph& graph, const Parameter& parameter, std::uint64_t seed,
                                     RandomPurpose purpose) const {
  const ParameterSpec& spec = *parameter.spec;
  RandomStream random(seed, place_of(graph, parameter), purpose);
  std::vector<float> values(spec.out * std::max<std::size_t>(spec.in, 1));
  if (!spec.is_matrix() || !parameter.data || !fills_by_value(spec.init)) {
    spec.init(random, values);
    return values;
  }
  // As `fill_rows`.
  const std::size_t panel = kernels::kPanelWidth * spec.in;
  const std::size_t at_once = std::max<std::size_t>(kFilledAtOnce / panel, 1) * kernels::kPanelWidth;
  for (std::size_t first = 0; first < spec.out; first += at_once)
    spec.init(random, std::span(values).subspan(first * spec.in, std::min(at_once, spec.out - first) * spec.in));
  return values;
}

void WeightStore::initialize(const Graph& graph, std::uint64_t seed) {
  std::vector<float> values;
  for (Parameter& parameter : parameters_) {
    const ParameterSpec& spec = *parameter.spec;
    RandomStream random(seed, place_of(graph, parameter), RandomPurpose::init);
    if (spec.is_matrix() && parameter.data && fills_by_value(spec.init)) {
      fill_rows(parameter, random);
      continue;
    }
    values.assign(spec.out * std::max<std::size_t>(spec.in, 1), 0.0f);
    spec.init(random, values);
    const Status written = write(parameter, values, spec.name);
    WEFT_ASSERT(written, "an initializer made values that cannot be stored: " + written.error().text());
  }
}

std::span<WeightStore::Parameter> WeightStore::of(NodeId node) noexcept {
  return std::span(parameters_).subspan(first_[node], first_[node + 1] - first_[node]);
}
std::span<const WeightStore::Parameter> WeightStore::of(NodeId node) const noexcept {
  return std::span(parameters_).subspan(first_[node], first_[node + 1] - first_[node]);
}

kernels::ConstPanels WeightStore::panels(std::size_t i, AlignedBuffer<float>& dequantized) const {
  const ParameterSpec& spec = *parameters_[i].spec;
  if (parameters_[i].data) return {parameters_[i].data, spec.out, spec.in};
  dequantized = AlignedBuffer<float>(spec.stored_size());
  storage_[i].active->dequantize({dequantized.data(), spec.out, spec.in});
  return {dequantized.data(), spec.out, spec.in};
}

std::vector<float> WeightStore::read(const Parameter& parameter) const {
  const ParameterSpec& spec = *parameter.spec;
  if (!spec.is_matrix()) return {parameter.data, parameter.data + spec.out};
  AlignedBuffer<float> buffer;
  std::vector<float> values(spec.out * spec.in);
  kernels::unpack_panels(panels(first_[parameter.node] + parameter.index, buffer),
                         {values.data(), spec.out, spec.in, spec.in});
  return values;
}

Status WeightStore::write_rows(Parameter& parameter, std::size_t first, std::span<const float> rows,
                               std::string_view object) {
  const ParameterSpec& spec = *parameter.spec;
  WEFT_ASSERT(parameter.data && first % kernels::kPanelWidth == 0, "rows are written to a master, panel by panel");
  WEFT_CHECK(check_finite(spec, first * spec.in, rows, object));
  const std::size_t count = rows.size() / spec.in;
  kernels::pack_panels({rows.data(), count, spec.in, spec.in},
                       {parameter.data + kernels::panels_size(first, spec.in), count, spec.in});
  return {};
}

void WeightStore::end_rows(Parameter& parameter) {
  ++parameter.version;
  note_change();
  refresh(parameter.node);
}

Status WeightStore::write(Parameter& parameter, std::span<const float> values, std::string_view object) {
  const ParameterSpec& spec = *parameter.spec;
  const std::size_t wanted = spec.out * std::max<std::size_t>(spec.in, 1);
  if (values.size() != wanted)
    return fail(Errc::shape_mismatch, std::string(object) + " '" + spec.name + "': " + std::to_string(values.size()) +
                                          " values where " + std::to_string(wanted) + " are expected");
  WEFT_CHECK(check_finite(spec, 0, values, object));
  ++parameter.version;
  note_change();
  if (!spec.is_matrix()) {
    std::memcpy(parameter.data, values.data(), values.size_bytes());
    return {};
  }
  AlignedBuffer<float> buffer(parameter.data ? 0 : spec.stored_size());
  const kernels::Panels panels{parameter.data ? parameter.data : buffer.data(), spec.out, spec.in};
  kernels::pack_panels({values.data(), spec.out, spec.in, spec.in}, panels);
  if (QuantizedWeight* stored = storage_[first_[parameter.node] + parameter.index].active.get()) {
    stored->quantize(panels);
    stored->version = parameter.version;
  }
  return {};
}

std::uint64_t WeightStore::bytes(NodeId node) const noexcept {
  std::uint64_t total = 0;
  for (std::size_t i = first_[node]; i < first_[node + 1]; ++i) {
    const ParameterSpec& spec = *parameters_[i].spec;
    total += storage_[i].active ? kernels::weight_bytes(storage_[i].active->encoding(), spec.out, spec.in).total()
                                : spec.stored_size() * sizeof(float);
  }
  return total;
}

std::uint64_t WeightStore::bytes() const noexcept {
  std::uint64_t total = 0;
  for (NodeId node = 0; node < node_count(); ++node) total += bytes(node);
  return total;
}

std::uint64_t WeightStore::allocated_bytes() const noexcept {
  std::uint64_t total = arena_.bytes();
  for (const Storage& storage : storage_)
    total += storage.master.bytes() + (storage.active ? storage.active->bytes() : 0);
  return total;
}

std::uint64_t WeightStore::count() const noexcept {
  std::uint64_t total = 0;
  for (const Parameter& parameter : parameters_)
    total += parameter.spec->out * std::max<std::size_t>(parameter.spec->in, 1);
  return total;
}

}  // namespace weft::mesh
