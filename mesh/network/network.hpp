// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/network/layer_options.hpp"

#include "actors/supervisor.hpp"

#include "kernels/activation.hpp"

#include "core/coord.hpp"
#include "core/encoding.hpp"
#include "core/result.hpp"
#include "core/shape.hpp"

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weft::mesh {

/// Combination of several sources into one input: concat along the last axis; add, avg, max elementwise over equal
/// widths; gate = first * sigmoid(second), two sources of equal width (Dauphin et al. 2017, arXiv:1612.08083, eq. 1).
enum class Combine : int { concat, add, avg, max, gate };
std::string_view name(Combine combine) noexcept;
std::optional<Combine> parse_combine(std::string_view text) noexcept;

/// Cells whose layers at the same level are sources too, in index order, where they exist: von_neumann the up to 6 that
/// share a face, moore the up to 26 that share a face, an edge or a corner.
enum class Neighbourhood : int { none, von_neumann, moore };
std::string_view name(Neighbourhood neighbourhood) noexcept;
std::optional<Neighbourhood> parse_neighbourhood(std::string_view text) noexcept;

/// Placement of a cell in a mesh that has a device: vulkan on it, cpu on the host.
enum class Placement : int { cpu, vulkan };
std::string_view name(Placement placement) noexcept;
std::optional<Placement> parse_placement(std::string_view text) noexcept;

/// Source of a layer: an input port by name, or any layer of the grid, earlier or later (a remote link).
struct Source {
  std::string port;  // empty: `at` counts
  Coord at;
  Source(Coord coord) : at(coord) {}
  /// A place, so that {0, 0, 1, 0} is one.
  Source(std::uint32_t z, std::uint32_t y, std::uint32_t x, std::uint32_t layer) : at{z, y, x, layer} {}
  /// A port. An empty name, and a pointer to none, is nowhere: outside every grid, so that the network is refused.
  template <class Text>
  requires std::convertible_to<const Text&, std::string_view> &&
      (!std::same_as<Text, std::nullptr_t>)Source(const Text& port_name)
      : Source(text_of(port_name), Named()) {}
  Source(std::nullptr_t) = delete;
  bool is_port() const noexcept { return !port.empty(); }
  bool operator==(const Source&) const = default;

 private:
  struct Named {};
  Source(std::string_view name, Named) : port(name) {
    if (port.empty()) at = {UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX};
  }
  static std::string_view text_of(const char* text) { return text ? std::string_view(text) : std::string_view(); }
  static std::string_view text_of(std::string_view text) { return text; }
};
std::string to_string(const Source& source);

/// Value of a key of a layer, and whether the description gives it: a layer inside a container that does not say has
/// what its container says, and not the default.
template <class T, T kDefault>
class Stated {
 public:
  constexpr Stated() = default;
  constexpr Stated(T value) noexcept : value_(value), is_stated_(true) {}
  constexpr operator T() const noexcept { return value_; }
  constexpr bool is_stated() const noexcept { return is_stated_; }

 private:
  T value_ = kDefault;
  bool is_stated_ = false;
};

/// One layer as described, before shapes are inferred.
struct LayerSpec {
  Coord at;
  std::string type;                                // a row of mesh/layers/layers.def or a registered name
  std::size_t out = 0;                             // features of the output; 0: as many as the input has
  Shape view;                                      // its combined sources read as this shape; empty: as they are
  Shape shape;                                     // the output's, where a loop needs it told; checked. empty: inferred
  std::vector<Source> from;                        // empty, without neighbours: the previous place in index order
  Neighbourhood neighbours = Neighbourhood::none;  // follow the sources of `from`
  Combine combine = Combine::concat;
  Stated<Dtype, Dtype::float32> dtype;                 // of its weight matrices, as stored and computed with
  std::optional<Granularity> granularity;              // of scales; none: the type's default
  Stated<Activations, Activations::int8> activations;  // what integer types of 8 bits and fewer do to their inputs
  Dtype activation_dtype = Dtype::float32;             // what its outputs are rounded to, and its past is kept in
  Dtype gradient_dtype = Dtype::float32;               // what errors that reach it are rounded to
  Stated<bool, false> quantization_aware;              // "qat": errors travel back through the stored weights
  float rate_scale = 1.0f;                             // of the learning rate; inside a container times the container's
  bool is_frozen = false;                              // "freeze": learning never moves it; errors pass through
  std::optional<actors::Policy> policy;                // of the whole cell; none: the network's
  std::optional<Placement> device;                     // of the whole cell; none: where the mesh is. inside: cpu alone
  Options options;                                     // what the layer type reads for itself
  // Of the layers inside a container, which have no place of their own:
  std::string name;               // siblings after it may name it as a source
  std::vector<LayerSpec> layers;  // what a container holds
};

struct PortSpec {
  std::string name;
  Shape shape;
};

struct OutputSpec {
  std::string name;
  Coord at;
};

/// True when `text` may name a device: cpu, vulkan, vulkan:NUMBER or vulkan:PART-OF-A-NAME.
bool is_device_name(std::string_view text) noexcept;

/// A network as described: plain data, equal to its JSON file (docs/formats/network.md). `Graph::build` checks it.
struct NetworkSpec {
  std::string name;
  GridShape grid;
  std::vector<PortSpec> inputs;
  std::vector<LayerSpec> layers;
  std::vector<OutputSpec> outputs;
  actors::SupervisionRule supervision;
  std::uint64_t seed = 0;
  std::string device = "cpu";  // where ticks run, as MeshOptions::device names it; the bits are the same
  std::string learning;        // JSON text of the section, read by learning/; empty: none
  std::string stream;          // JSON text of the section, read by the stream trainer; empty: none
  std::string reinforcement;   // JSON text of the section, read by agent/; empty: none
};

/// Writes a NetworkSpec in C++.
///   auto spec = NetworkBuilder("demo", {.z = 1, .y = 1, .x = 2}).input("in", 8)
///                   .dense({0,0,0,0}, 16, Activation::tanh).from({"in"}).dense({0,0,1,0}, 4).output("out",
///                   {0,0,1,0}).spec();
class NetworkBuilder {
 public:
  NetworkBuilder(std::string name, GridShape grid);

  NetworkBuilder& input(std::string port, std::size_t width) { return input(std::move(port), Shape{width}); }
  NetworkBuilder& input(std::string port, Shape shape);
  NetworkBuilder& layer(Coord at, std::string type, std::size_t out = 0);
  NetworkBuilder& dense(Coord at, std::size_t out, kernels::Activation activation = kernels::Activation::linear);
  /// The following change the layer added last.
  NetworkBuilder& from(std::vector<Source> sources, Combine combine = Combine::concat);
  NetworkBuilder& neighbours(Neighbourhood neighbourhood);
  NetworkBuilder& option(std::string key, OptionValue value);
  /// Its combined sources read as another shape of as many values.
  NetworkBuilder& view(Shape shape);
  /// Promises the shape of its output: needed once in a feedback loop without a layer that states `out`.
  NetworkBuilder& shape(Shape shape);
  NetworkBuilder& dtype(Dtype dtype, std::optional<Granularity> granularity = std::nullopt);
  NetworkBuilder& activations(Activations activations);
  NetworkBuilder& activation_dtype(Dtype dtype);
  NetworkBuilder& gradient_dtype(Dtype dtype);
  /// Quantisation-aware training: errors travel back through the stored weights that computed (straight-through), not
  /// through their masters.
  /// @source Bengio, Leonard and Courville 2013, arXiv:1308.3432, section 3.1 (straight-through estimator)
  NetworkBuilder& quantization_aware(bool on = true);
  /// A learning rate of its own: so many times the network's.
  NetworkBuilder& rate_scale(float scale);
  /// Learning never moves its weights; errors pass through.
  NetworkBuilder& freeze(bool on = true);
  NetworkBuilder& policy(actors::Policy policy);
  /// Placement of its cell in a mesh on a device.
  NetworkBuilder& placement(Placement placement);
  /// The layers inside the container added last: `at` counts for type "shared" only, sources are names of siblings, or
  /// "input".
  NetworkBuilder& inside(std::vector<LayerSpec> layers);
  NetworkBuilder& output(std::string name, Coord at);
  NetworkBuilder& seed(std::uint64_t seed);
  /// Device of the ticks unless MeshOptions::device names another: `cpu`, `vulkan`, `vulkan:N`, `vulkan:name`.
  NetworkBuilder& device(std::string device);
  /// Rule, schedule, loss and optimiser: learning::LearningOptions.
  template <class Section>
  requires requires(const Section& section) { std::string(write_learning(section)); }
  NetworkBuilder& learning(const Section& section) {
    spec_.learning = write_learning(section);
    return *this;
  }
  /// Environment and algorithm of `weft live`: agent::ReinforcementOptions.
  template <class Section>
  requires requires(const Section& section) { std::string(write_reinforcement(section)); }
  NetworkBuilder& reinforcement(const Section& section) {
    spec_.reinforcement = write_reinforcement(section);
    return *this;
  }
  /// Samples that `weft run` feeds it: learning::StreamOptions.
  template <class Section>
  requires requires(const Section& section) { std::string(write_stream(section)); }
  NetworkBuilder& stream(const Section& section) {
    spec_.stream = write_stream(section);
    return *this;
  }

  const NetworkSpec& spec() const& noexcept { return spec_; }
  NetworkSpec spec() && noexcept { return std::move(spec_); }

 private:
  NetworkSpec spec_;
};

}  // namespace weft::mesh
