// SPDX-License-Identifier: Apache-2.0

#include "mesh/network/network.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace weft::mesh {
namespace {
constexpr std::array<std::string_view, 5> kCombineNames{"concat", "add", "avg", "max", "gate"};

constexpr std::array<std::string_view, 3> kNeighbourhoodNames{"none", "von_neumann", "moore"};

constexpr std::array<std::string_view, 2> kPlacementNames{"cpu", "vulkan"};

template <class Enum, std::size_t N>
std::optional<Enum> parse(const std::array<std::string_view, N>& names, std::string_view text) noexcept {
  for (std::size_t i = 0; i < N; ++i)
    if (names[i] == text) return static_cast<Enum>(i);
  return std::nullopt;
}
}  // namespace

std::string_view name(Combine combine) noexcept { return kCombineNames[static_cast<std::size_t>(combine)]; }
std::optional<Combine> parse_combine(std::string_view text) noexcept { return parse<Combine>(kCombineNames, text); }

std::string_view name(Neighbourhood n) noexcept { return kNeighbourhoodNames[static_cast<std::size_t>(n)]; }
std::optional<Neighbourhood> parse_neighbourhood(std::string_view text) noexcept {
  return parse<Neighbourhood>(kNeighbourhoodNames, text);
}

std::string_view name(Placement placement) noexcept { return kPlacementNames[static_cast<std::size_t>(placement)]; }
std::optional<Placement> parse_placement(std::string_view text) noexcept {
  return parse<Placement>(kPlacementNames, text);
}

bool is_device_name(std::string_view text) noexcept {
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
  return text == "cpu" || text == "vulkan" ||
         (text.starts_with("vulkan:") && text.size() > 7 && std::none_of(text.begin(), text.end(), is_control));
}

std::string to_string(const Source& source) {
  return source.is_port() ? "\"" + source.port + "\"" : to_string(source.at);
}

NetworkBuilder::NetworkBuilder(std::string name, GridShape grid) {
  spec_.name = std::move(name);
  spec_.grid = grid;
}
NetworkBuilder& NetworkBuilder::input(std::string port, Shape shape) {
  spec_.inputs.push_back({std::move(port), std::move(shape)});
  return *this;
}
NetworkBuilder& NetworkBuilder::layer(Coord at, std::string type, std::size_t out) {
  LayerSpec layer;
  layer.at = at;
  layer.type = std::move(type);
  layer.out = out;
  spec_.layers.push_back(std::move(layer));
  return *this;
}
NetworkBuilder& NetworkBuilder::dense(Coord at, std::size_t out, kernels::Activation activation) {
  return layer(at, "dense", out).option("activation", std::string(kernels::name(activation)));
}
NetworkBuilder& NetworkBuilder::from(std::vector<Source> sources, Combine combine) {
  spec_.layers.back().from = std::move(sources);
  spec_.layers.back().combine = combine;
  return *this;
}
NetworkBuilder& NetworkBuilder::neighbours(Neighbourhood neighbourhood) {
  spec_.layers.back().neighbours = neighbourhood;
  return *this;
}
NetworkBuilder& NetworkBuilder::option(std::string key, OptionValue value) {
  spec_.layers.back().options.insert_or_assign(std::move(key), std::move(value));
  return *this;
}
NetworkBuilder& NetworkBuilder::view(Shape shape) {
  spec_.layers.back().view = std::move(shape);
  return *this;
}
NetworkBuilder& NetworkBuilder::shape(Shape shape) {
  spec_.layers.back().shape = std::move(shape);
  return *this;
}
NetworkBuilder& NetworkBuilder::dtype(Dtype dtype, std::optional<Granularity> granularity) {
  spec_.layers.back().dtype = dtype;
  spec_.layers.back().granularity = granularity;
  return *this;
}
NetworkBuilder& NetworkBuilder::activations(Activations activations) {
  spec_.layers.back().activations = activations;
  return *this;
}
NetworkBuilder& NetworkBuilder::activation_dtype(Dtype dtype) {
  spec_.layers.back().activation_dtype = dtype;
  return *this;
}
NetworkBuilder& NetworkBuilder::gradient_dtype(Dtype dtype) {
  spec_.layers.back().gradient_dtype = dtype;
  return *this;
}
NetworkBuilder& NetworkBuilder::rate_scale(float scale) {
  spec_.layers.back().rate_scale = scale;
  return *this;
}

NetworkBuilder& NetworkBuilder::freeze(bool on) {
  spec_.layers.back().is_frozen = on;
  return *this;
}

NetworkBuilder& NetworkBuilder::quantization_aware(bool on) {
  spec_.layers.back().quantization_aware = on;
  return *this;
}
NetworkBuilder& NetworkBuilder::policy(actors::Policy policy) {
  spec_.layers.back().policy = policy;
  return *this;
}
NetworkBuilder& NetworkBuilder::placement(Placement placement) {
  spec_.layers.back().device = placement;
  return *this;
}
NetworkBuilder& NetworkBuilder::inside(std::vector<LayerSpec> layers) {
  spec_.layers.back().layers = std::move(layers);
  return *this;
}
NetworkBuilder& NetworkBuilder::output(std::string name, Coord at) {
  spec_.outputs.push_back({std::move(name), at});
  return *this;
}
NetworkBuilder& NetworkBuilder::seed(std::uint64_t seed) {
  spec_.seed = seed;
  return *this;
}
NetworkBuilder& NetworkBuilder::device(std::string device) {
  spec_.device = std::move(device);
  return *this;
}

}  // namespace weft::mesh
