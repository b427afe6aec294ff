// SPDX-License-Identifier: Apache-2.0

#include "learning/internal/unit_renewal.hpp"

#include "learning/options.hpp"

#include "mesh/mesh_access.hpp"
#include "mesh/runtime/state.hpp"
#include "mesh/weights/weight_store.hpp"

#include "kernels/float_environment.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>

namespace weft::learning {
namespace {

using mesh::MeshAccess;
using mesh::NodeId;

const std::vector<std::string_view> kRenewals{"none", "redo", "continual"};

// Of means of |h| where `renew` is of changes alone.
constexpr double kDecay = 0.99;

std::string method_text(const LearningOptions& options) {
  if (!options.renew.is_on()) return "learning.drift.renew: " + number_text(options.drift.renew);
  return "learning.renew.method: '" + std::string(name(options.renew.method)) + "'";
}

/// The activation of a layer that is one dense product, and nothing else.
bool is_dense(const mesh::Node& node) { return node.layer && node.layer->row_product().has_value(); }

/// True where another layer computes with the layer's weights, or it with another's.
bool shares_weights(const mesh::Graph& graph, NodeId id) {
  return !graph.nodes()[id].owners.empty() ||
         std::any_of(graph.nodes().begin(), graph.nodes().end(), [&](const mesh::Node& node) {
           return std::find(node.owners.begin(), node.owners.end(), id) != node.owners.end();
         });
}

/// Reason for which a layer cannot take part; empty: it does.
std::string obstacle(const mesh::Graph& graph, NodeId id) {
  const mesh::Node& node = graph.nodes()[id];
  if (!is_dense(node)) return "it is no dense layer";
  if (*node.layer->row_product() == kernels::Activation::linear) return "it has no activation";
  if (node.is_frozen) return "it is frozen";
  if (shares_weights(graph, id)) return "it shares its weights";
  if (std::find(graph.outputs().begin(), graph.outputs().end(), id) != graph.outputs().end()) return "it is an output";
  if (node.readers.empty()) return "no layer reads it";
  for (const std::uint32_t e : node.readers) {
    const NodeId to = graph.edges()[e].to;
    const mesh::Node& reader = graph.nodes()[to];
    const std::string by = "its reader " + reader.object;
    if (!is_dense(reader)) return by + " is no dense layer";
    if (reader.is_frozen) return by + " is frozen";
    if (shares_weights(graph, to)) return by + " shares its weights";
    if (!reader.reads_directly() && reader.combine != mesh::Combine::concat) return by + " adds its sources up";
  }
  return {};
}

/// by_column[k] = sum of |w[o][first + k]|, o ascending.
void add_columns(const mesh::WeightStore::Parameter& matrix, std::size_t first, std::span<double> by_column) {
  const std::size_t in = matrix.spec->in, out = matrix.spec->out;
  for (std::size_t row = 0; row < out; row += kernels::kPanelWidth) {
    const std::size_t lanes = std::min(kernels::kPanelWidth, out - row);
    const float* panel = matrix.data + kernels::panel_index(in, row, first);
    for (double& sum : by_column) {
      for (std::size_t lane = 0; lane < lanes; ++lane) sum += std::fabs(double{panel[lane]});
      panel += kernels::kPanelWidth;
    }
  }
}

/// Sets one value of a parameter, and the arrays beside it to 0.
void set_value(mesh::WeightStore::Parameter& parameter, std::size_t number, std::size_t at, float value,
               Optimizer& optimizer) {
  parameter.data[at] = value;
  for (std::size_t slot = 0; slot < optimizer.slots(); ++slot) optimizer.slot(slot, number)[at] = 0.0f;
}

}  // namespace

std::string_view name(Renewal method) noexcept { return kRenewals[static_cast<std::size_t>(method)]; }

const OptionTable<RenewalOptions>& renewal_table() {
  using O = RenewalOptions;
  static const OptionTable<RenewalOptions> table({
      option(
          "method", &O::method,
          {.names = kRenewals,
           .meaning = "which units of hidden dense layers begin anew: none, those that hardly answer (`redo`), or at "
                      "a steady rate those of least use (`continual`)"}),
      option("every", &O::every,
             {.low = 1,
              .high = 1u << 30,
              .unit = "samples",
              .meaning = "samples from one look at the units to the next",
              .only_with = "method=redo"}),
      option("threshold", &O::threshold,
             {.low = 0,
              .high = 1,
              .meaning = "share of its layer's mean size of outputs, up to which a unit begins anew",
              .only_with = "method=redo"}),
      option("rate", &O::rate,
             {.low = 0,
              .high = 1,
              .meaning = "share of the mature units that begin anew with each sample",
              .only_with = "method=continual"}),
      option("decay", &O::decay,
             {.low = 0, .high = 1, .meaning = "factor of utilities with each sample", .only_with = "method=continual"}),
      option("maturity", &O::maturity,
             {.low = 0,
              .high = 1u << 30,
              .unit = "samples",
              .meaning = "age up to which a unit stays",
              .only_with = "method=continual"}),
  });
  return table;
}

Status check_renewal(const LearningOptions& options) {
  const RenewalOptions& r = options.renew;
  WEFT_CHECK(renewal_table().check(r, "learning.renew"));
  if (!UnitRenewal::is_on(options)) return {};
  const std::string late = std::string(name(options.late));
  if (options.late == Late::again)
    return fail(Errc::invalid_argument, method_text(options) + " with learning.late '" + late +
                                            "', which shows samples anew; give 'meet' or 'none'");
  if (options.late == Late::meet && options.schedule != Schedule::settle)
    return fail(Errc::invalid_argument, method_text(options) + " with learning.late '" + late +
                                            "' and learning.schedule '" + std::string(name(options.schedule)) +
                                            "', where errors are on their way between samples; give 'settle'");
  if (options.consolidation.is_on())
    return fail(Errc::invalid_argument, method_text(options) + " with learning.consolidation.method '" +
                                            std::string(name(options.consolidation.method)) +
                                            "', which holds weights; give one of the two");
  return {};
}

Status UnitRenewal::check(const mesh::Mesh& mesh, const LearningOptions& options) {
  if (!is_on(options)) return {};
  const mesh::Graph& graph = mesh.graph();
  std::string why;
  for (auto id = static_cast<NodeId>(graph.port_count()); id < graph.nodes().size(); ++id) {
    const std::string reason = obstacle(graph, id);
    if (reason.empty()) return {};
    if (why.empty()) why = graph.nodes()[id].object + ": " + reason;
  }
  return fail(Errc::unsupported, method_text(options) +
                                     ", and no layer can take part: it takes dense layers with an activation that "
                                     "dense layers alone read; " +
                                     why);
}

std::uint64_t UnitRenewal::bytes_for(const mesh::Graph& graph, const LearningOptions& options) {
  if (!is_on(options)) return 0;
  std::uint64_t bytes = 0, widest = 0;
  for (auto id = static_cast<NodeId>(graph.port_count()); id < graph.nodes().size(); ++id) {
    if (!obstacle(graph, id).empty()) continue;
    const mesh::Node& node = graph.nodes()[id];
    bytes += node.width * (sizeof(double) + sizeof(std::uint32_t)) + sizeof(Layer) + sizeof(double) +
             node.readers.size() * sizeof(Reader);
    widest = std::max<std::uint64_t>(widest, node.width);
  }
  return bytes + widest * (2 * sizeof(double) + sizeof(std::size_t));
}

UnitRenewal::UnitRenewal(const mesh::Mesh& mesh, const LearningOptions& options)
    : options_(options.renew), share_(options.drift.is_on() ? options.drift.renew : 0.0f), learners_(options.learners) {
  if (!is_on()) return;
  const mesh::Graph& graph = mesh.graph();
  std::size_t units = 0;
  for (auto id = static_cast<NodeId>(graph.port_count()); id < graph.nodes().size(); ++id) {
    const mesh::Node& node = graph.nodes()[id];
    if (!obstacle(graph, id).empty()) continue;
    layers_.push_back({id, units, node.width, {}});
    units += node.width;
    for (const std::uint32_t e : node.readers)
      layers_.back().readers.push_back({graph.edges()[e].to, graph.edges()[e].offset});
  }
  values_.assign(units, 0.0);
  ages_.assign(units, 0);
  due_.assign(layers_.size(), 0.0);
}

/// Commands may take masters and rates away.
bool UnitRenewal::may_move(const mesh::WeightStore& weights, const Layer& layer) const noexcept {
  const auto moves = [&](NodeId node) { return weights.learns(node) && weights.rates.of(node) != 0.0f; };
  return moves(layer.node) &&
         std::all_of(layer.readers.begin(), layer.readers.end(), [&](const Reader& r) { return moves(r.node); });
}

void UnitRenewal::add_sizes(const mesh::Mesh& mesh, const Layer& layer, std::uint64_t tick) {
  const kernels::MatrixView outputs = MeshAccess::state(mesh).output(layer.node, tick);
  sizes_.assign(layer.width, 0.0);
  for (std::size_t row = 0; row < learners_; ++row)
    for (std::size_t i = 0; i < layer.width; ++i) sizes_[i] += std::fabs(double{outputs.row(row)[i]});
  for (double& size : sizes_) size /= static_cast<double>(learners_);
}

void UnitRenewal::add_uses(const Layer& layer, const mesh::WeightStore& weights) {
  uses_.assign(layer.width, 0.0);
  for (const Reader& reader : layer.readers) add_columns(weights.of(reader.node)[0], reader.first, uses_);
}

void UnitRenewal::choose_dormant(const Layer& layer) {
  const std::span<double> sums(values_.data() + layer.first, layer.width);
  const double mean = std::accumulate(sums.begin(), sums.end(), 0.0) / static_cast<double>(layer.width);
  for (std::size_t i = 0; i < layer.width; ++i)
    if (sums[i] <= double{options_.threshold} * mean) chosen_.push_back(i);
  std::fill(sums.begin(), sums.end(), 0.0);
}

void UnitRenewal::choose_useless(const Layer& layer, std::size_t number, const mesh::WeightStore& weights) {
  const std::span<double> utilities(values_.data() + layer.first, layer.width);
  const std::span<std::uint32_t> ages(ages_.data() + layer.first, layer.width);
  add_uses(layer, weights);
  const double decay = options_.decay;
  std::size_t mature = 0;
  for (std::size_t i = 0; i < layer.width; ++i) {
    utilities[i] = decay * utilities[i] + (1.0 - decay) * (sizes_[i] * uses_[i]);
    if (ages[i] != UINT32_MAX) ++ages[i];
    mature += ages[i] > options_.maturity;
  }
  double& due = due_[number];
  due += static_cast<double>(mature) * double{options_.rate};
  for (; due > 1.0 && mature > 0; due -= 1.0, --mature) {
    std::size_t least = layer.width;
    for (std::size_t i = 0; i < layer.width; ++i)
      if (ages[i] > options_.maturity && (least == layer.width || utilities[i] < utilities[least])) least = i;
    utilities[least] = 0.0;
    ages[least] = 0;
    chosen_.push_back(least);
  }
}

void UnitRenewal::choose_share(const Layer& layer, const mesh::WeightStore& weights) {
  const std::span<double> values(values_.data() + layer.first, layer.width);
  uses_.assign(layer.width, 1.0);
  if (options_.method != Renewal::continual) add_uses(layer, weights);
  for (std::size_t i = 0; i < layer.width; ++i) uses_[i] *= values[i];
  const auto wanted = static_cast<std::size_t>(double{share_} * static_cast<double>(layer.width) + 0.5);
  chosen_.resize(layer.width);
  std::iota(chosen_.begin(), chosen_.end(), std::size_t{0});
  std::stable_sort(chosen_.begin(), chosen_.end(), [&](std::size_t a, std::size_t b) { return uses_[a] < uses_[b]; });
  chosen_.resize(std::clamp<std::size_t>(wanted, 1, layer.width));
  for (const std::size_t unit : chosen_) {
    values[unit] = 0.0;
    ages_[layer.first + unit] = 0;
  }
}

void UnitRenewal::renew_chosen(mesh::Mesh& mesh, Optimizer& optimizer, const Layer& layer) {
  mesh::WeightStore& weights = MeshAccess::weights(mesh);
  const std::uint64_t seed = mesh.spec().seed + counts_.draws++;
  const auto own = weights.of(layer.node);
  for (std::size_t p = 0; p < own.size(); ++p) {
    const std::vector<float> drawn = weights.draw(mesh.graph(), own[p], seed, RandomPurpose::renew_unit);
    const std::size_t in = own[p].spec->in, number = weights.first(layer.node) + p;
    for (const std::size_t unit : chosen_)
      if (own[p].spec->is_matrix())
        for (std::size_t k = 0; k < in; ++k)
          set_value(own[p], number, kernels::panel_index(in, unit, k), drawn[unit * in + k], optimizer);
      else
        set_value(own[p], number, unit, drawn[unit], optimizer);
    ++own[p].version;
  }
  weights.refresh(layer.node);
  for (const Reader& reader : layer.readers) {
    mesh::WeightStore::Parameter& matrix = weights.of(reader.node)[0];
    for (const std::size_t unit : chosen_)
      for (std::size_t o = 0; o < matrix.spec->out; ++o)
        set_value(matrix, weights.first(reader.node), kernels::panel_index(matrix.spec->in, o, reader.first + unit),
                  0.0f, optimizer);
    ++matrix.version;
    weights.refresh(reader.node);
  }
  weights.note_change();
  counts_.renewed += chosen_.size();
}

void UnitRenewal::after(mesh::Mesh& mesh, Optimizer& optimizer, std::uint64_t samples, std::uint64_t tick) {
  const kernels::FlushSubnormals exact;
  const mesh::WeightStore& weights = MeshAccess::weights(std::as_const(mesh));
  for (std::size_t number = 0; number < layers_.size(); ++number) {
    const Layer& layer = layers_[number];
    if (!may_move(weights, layer)) continue;
    chosen_.clear();
    add_sizes(mesh, layer, tick);
    if (options_.method == Renewal::continual) {
      choose_useless(layer, number, weights);
    } else if (options_.method == Renewal::none) {
      for (std::size_t i = 0; i < layer.width; ++i) {
        double& mean = values_[layer.first + i];
        mean = kDecay * mean + (1.0 - kDecay) * sizes_[i];
      }
    } else {
      for (std::size_t i = 0; i < layer.width; ++i) values_[layer.first + i] += sizes_[i];
      if (samples % options_.every == 0) choose_dormant(layer);
    }
    if (!chosen_.empty()) renew_chosen(mesh, optimizer, layer);
  }
}

void UnitRenewal::renew_share(mesh::Mesh& mesh, Optimizer& optimizer) {
  const kernels::FlushSubnormals exact;
  const mesh::WeightStore& weights = MeshAccess::weights(std::as_const(mesh));
  for (const Layer& layer : layers_) {
    if (!may_move(weights, layer)) continue;
    choose_share(layer, weights);
    renew_chosen(mesh, optimizer, layer);
  }
}

void UnitRenewal::visit_hash(OutArchive& archive) const {
  archive(Field{"renew_counts", Scope::control}, counts_);
  archive(Field{"renew_values", Scope::control}, std::span(values_));
  archive(Field{"renew_ages", Scope::control}, std::span(ages_));
  archive(Field{"renew_due", Scope::control}, std::span(due_));
}

bool UnitRenewal::fits() const noexcept {
  const auto is_amount = [](double value) { return std::isfinite(value) && value >= 0.0; };
  return std::all_of(values_.begin(), values_.end(), is_amount) && std::all_of(due_.begin(), due_.end(), is_amount) &&
         counts_.draws <= counts_.renewed;
}

}  // namespace weft::learning
